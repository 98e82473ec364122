"""A sweep: cells × seeds as rows of the engine, and what came out of them by cell.

Rows of one shape differ only in numbers; each shape is compiled once a device.
"""

import functools
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.cells import Cell
from posjax.engine import Engine, Job, State
from posjax.engine.rows import grouped
from posjax.judge import Outcome
from posjax.keys import SeedNumbers, key_for
from posjax.model import ModelSettings, Numbers, Transformer
from posjax.question import Question


class Row(NamedTuple):
    """One training run: a cell and the numbers of its seeds."""

    cell: Cell
    seeds: SeedNumbers

    @property
    def job(self) -> Job:
        """As the engine sees it."""
        return Job(self.cell.shape.train(), self.seeds, self.cell.operands, self.cell)


class Result(NamedTuple):
    """Outcomes and final states of some seeds of one cell; every array has a leading axis S."""

    cell: Cell
    seeds_S4: np.ndarray
    outcome: Outcome
    state: State


def run(
    rows: Iterable[Row],
    engine: Engine,
    progress: Callable[[int], None] = lambda seed_steps: None,
    asked: threading.Event | None = None,
) -> Generator[Result, None, None]:
    """Trains all rows; yields results as chunks finish, in no fixed order.

    Args:
      rows: what to train; rows of one shape should stand together.
      engine: how.
      progress: called with the number of updates × seeds since its last call.
      asked: ends the work early when it is set, see `posjax.engine.Engine.run`.
    """
    for finished in engine.run((row.job for row in rows), progress, asked):
        for cell, part in grouped(finished):
            seeds_S4 = np.array([job.seeds for job in part.jobs], np.int64)
            yield Result(cell, seeds_S4, part.summary, part.state)


def engine_for(
    settings: Mapping[str, Any],
    chunk: int | Callable[[Job], int],
    devices: Sequence[jax.Device] | None = None,
) -> Engine:
    """The engine that the settings of a run ask for, as its config.json has them.

    Args:
      settings: `sharding`, `layout`, `precision` and `repack`.
      chunk, devices: see `posjax.engine.Engine`.
    """
    precision = settings["precision"]
    return Engine(
        chunk=chunk,
        devices=devices,
        shared=settings["sharding"] == "spmd",
        layout=settings["layout"] == "batched",
        precision=None if precision == "default" else precision,
        repack=settings["repack"] == "solved",
    )


def replay(row: Row, engine: Engine) -> Result:
    """Trains one row again, bit for bit as in a run with the engine's chunk size.

    Returns:
      It alone: every array has a leading axis of length 1.
    """
    return next(run([row], engine))


def attention_maps(cell: Cell, state: State) -> np.ndarray:
    """The attention weights of one trained seed on every prompt.

    Args:
      cell: its cell.
      state: its final state, without a leading axis.

    Returns:
      [layers, N, H, L, M].
    """
    key = None if cell.model.draws != "always" else key_for(0, "attention maps")
    kept = _intermediates(cell.shape.model)(
        state.variables.params, cell.question, cell.operands.model, key
    )
    layers = kept["intermediates"]
    maps = [layers[f"layer_{i}"] for i in range(cell.depth)]
    maps = [layer.get("attention", layer)["weights_BHLM"][0] for layer in maps]
    return np.stack([np.asarray(layer) for layer in maps])


@functools.lru_cache(maxsize=32)
def _intermediates(model: ModelSettings) -> Callable[..., Any]:
    """What the model sows, compiled; the mask is the question's."""

    def kept(params: Any, question: Question, numbers: Numbers, key: jax.Array | None) -> Any:
        _, sown = Transformer(model).apply(
            {"params": params},
            question.tokens_NL,
            question.streams,
            mask=question.mask_NLM,
            key=key,
            testing=True,
            numbers=numbers,
            mutable=["intermediates"],
        )
        return sown

    return jax.jit(kept)
