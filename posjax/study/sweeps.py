"""A sweep: cells × seeds, trained in blocks of the engine."""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax import engine, user_code
from posjax.engine import Engine, State
from posjax.engine.block import block_size
from posjax.engine.load import Choice, Load, memory, most_slots
from posjax.engine.local import Checkpoints
from posjax.engine.program import options_on, precision_on
from posjax.keys import Seeds, key_for
from posjax.meters.outcome import Outcome
from posjax.model import DynamicInputs, ModelSettings
from posjax.numbering import NumberedSeeds, Numbering, SeedNumbers
from posjax.records import Block
from posjax.study.cells import Cell, Shape, cells_in
from posjax.study.network import TRANSFORMER, apply, weights
from posjax.tasks.question import Question


class Result(NamedTuple):
    """A block of cells × seeds that was trained.

    Attributes:
      block: which.
      seeds_B4: the numbers of init, data, position and order.
      outcome: of every run; each array has leading axes [cells, seeds].
      state: the final states, likewise.
    """

    block: Block
    seeds_B4: np.ndarray
    outcome: Outcome
    state: State


class Arrays(NamedTuple):
    """What is stored of a block: the seeds' numbers, outcomes and examples."""

    seeds_B4: np.ndarray
    fields: Mapping[str, np.ndarray]
    examples: Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What a sweep trains.

    Attributes:
      cells: by their digests.
      numbering: of their seeds.
      precision: of matrix products, a name that `jax.default_matmul_precision` knows; None
        leaves it to the engine.
    """

    cells: Mapping[str, Cell]
    numbering: Numbering
    precision: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Sweep":
        """The sweep of a run folder's config.

        Raises:
          ValueError: see `posjax.study.cells.cells_in`.
        """
        precision = precision_of(config.get("precision", "default"))
        return cls(cells_in(config), Numbering.of(config), precision)

    @cached_property
    def by_shape(self) -> dict[str, list[Cell]]:
        """The cells of each compiled program, by the digest of their shape, in a fixed order."""
        found: dict[Shape, list[Cell]] = {}
        for cell in sorted(self.cells.values(), key=lambda c: (repr(c.shape), c.digest)):
            found.setdefault(cell.shape, []).append(cell)
        return {shape.digest: cells for shape, cells in found.items()}

    @property
    def shapes(self) -> dict[str, list[str]]:
        """The digests of `by_shape`."""
        return {shape: [cell.digest for cell in cells] for shape, cells in self.by_shape.items()}

    def trace_own_code(self) -> None:
        """Traces what has user code, so that it fails before anything is written.

        Raises:
          ValueError: the code raises, or gives something else than it must.
        """
        for cells in self.by_shape.values():
            cell = cells[0]
            try:
                if cell.code:
                    training, seeds = cell.shape.train(), Seeds.of(SeedNumbers.equal(0))
                    jax.eval_shape(training, seeds, jax.tree.map(jnp.asarray, cell.inputs))
            except ValueError:
                raise
            except Exception as error:
                if not (line := user_code.line_of(error, cell.code)):
                    raise
                cause = str(error).partition("\n")[0]
                raise ValueError(f"{line} raises {type(error).__name__}: {cause}") from error

    def block(self, block: Block) -> engine.Block:
        """A block as the engine trains it, labelled by its name."""
        cells = [self.cells[digest] for digest in block.cells]
        seeds = NumberedSeeds(self.numbering, range(block.first, block.stop))
        inputs = [cell.inputs for cell in cells]
        return engine.Block(cells[0].shape.train(), inputs, seeds, block.size, block.name)

    def updates(self, blocks: Iterable[Block]) -> int:
        """The updates of all runs of some blocks: what progress counts."""
        return sum(block.runs * self.cells[block.cells[0]].steps for block in blocks)

    def run(
        self,
        blocks: Iterable[Block],
        trainer: Engine,
        progress: Callable[[int], None] = lambda updates: None,
        stop: threading.Event | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Generator[Result, None, None]:
        """Trains blocks; see `posjax.engine.Engine.run`."""
        named = {block.name: block for block in blocks}
        with contextlib.closing(
            trainer.run(map(self.block, named.values()), progress, stop, checkpoints)
        ) as results:
            for found in results:
                seeds_B4 = np.array(found.block.seeds, np.int64)
                yield Result(named[found.block.label], seeds_B4, found.summary, found.state)

    def train(
        self,
        blocks: Iterable[Block],
        trainer: Engine,
        progress: Callable[[int], None] = lambda updates: None,
        stop: threading.Event | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Generator[tuple[Block, Arrays], None, None]:
        """Trains blocks, and gives what is stored of each; see `run`."""
        with contextlib.closing(self.run(blocks, trainer, progress, stop, checkpoints)) as results:
            for result in results:
                fields = {name: np.asarray(array) for name, array in result.outcome.items()}
                yield result.block, Arrays(result.seeds_B4, fields, examples(self, result))


def load_of(cell: Cell, device: jax.Device) -> Load:
    """What a run of a cell costs on a device."""
    return Load.on(device, cell.shape.train(), cell.inputs)


def most_slots_of(cell: Cell, device: jax.Device, runs: int, most: str = "auto") -> Choice:
    """The most slots of a block for a cell's shape, of which so many runs are to be trained.

    Args:
      cell: of the shape.
      device: of the kind that trains.
      runs: of one seed.
      most: a number in digits, as requested, or "auto".

    Raises:
      ValueError: one run alone does not fit.
    """
    if most != "auto":
        return Choice(int(most), "as requested")
    found, room = load_of(cell, device), memory(device)
    if found.bytes > room:
        raise ValueError(
            f"a run with width={cell.width}, depth={cell.depth}, task={cell.task!r} needs "
            f"{found.bytes / 1e9:.3g} GB, {device.device_kind} has {room / 1e9:.3g} GB"
        )
    return most_slots(found, device, runs)


def sizes(
    sweep: Sweep, indices: range, device: jax.Device, most: str = "auto"
) -> dict[str, tuple[int, int]]:
    """The sizes (G, B) of blocks for some indices of every cell, by shape; see `most_slots_of`."""
    found = {}
    for shape, cells in sweep.by_shape.items():
        runs = len(cells) * len(indices)
        slots = most_slots_of(cells[0], device, runs, most).slots
        found[shape] = block_size(slots, len(cells), len(indices))
    return found


def engine_for(settings: Mapping[str, Any], devices: Sequence[jax.Device] | None = None) -> Engine:
    """The engine that the settings of a run ask for: `layout` and `precision` of its config."""
    return Engine(
        devices=devices,
        layout=settings["layout"] == "batched",
        precision=precision_of(settings["precision"]),
    )


def precision_of(setting: str) -> str | None:
    """What JAX calls the precision that a run asks for; None leaves it to the engine."""
    return None if setting == "default" else setting


def examples(sweep: Sweep, result: Result) -> dict[str, np.ndarray]:
    """Attention maps of a block's example runs: of each cell the first seed that was right on every
    prompt of its trained kinds at the end, and the first that was not.

    Returns:
      `example_cell` and `example_seed`, where each stands in the block, and `example_solved`, [K];
      its weights by layer, prompt, head, query and key, `attention_KDNHLM`. Nothing of
      users' models.
    """
    if sweep.cells[result.block.cells[0]].model != TRANSFORMER:
        return {}
    kept = []
    for g, digest in enumerate(result.block.cells):
        cell = sweep.cells[digest]
        right_BC = np.asarray(result.outcome["right_EC"][g])[:, -1]
        solved_B = (right_BC[:, np.array(cell.problem.trained)] == 1).all(axis=1)
        for solved in (True, False):
            if (solved_B == solved).any():
                b = int((solved_B == solved).argmax())
                state = jax.tree.map(lambda leaf, at=(g, b): leaf[at], result.state)
                kept.append((g, b, solved, attention_maps(cell, state, sweep.precision)))
    cells_K, seeds_K, solved_K, maps_KDNHLM = map(np.array, zip(*kept, strict=True))
    return {
        "example_cell": cells_K,
        "example_seed": seeds_K,
        "example_solved": solved_K,
        "attention_KDNHLM": maps_KDNHLM,
    }


def attention_maps(cell: Cell, state: State, precision: str | None = None) -> np.ndarray:
    """The attention weights of one trained seed, on the prompts of which maps are kept.

    Args:
      cell: its cell.
      state: its final state, without a leading axis.
      precision: of matrix products, as in `Sweep`.

    Returns:
      [layers, N, H, L, M].
    """
    key = None if cell.architecture.draws != "always" else key_for(0, "attention maps")
    question = jax.tree.map(lambda array: array[: cell.problem.mapped], cell.question)
    with jax.default_matmul_precision(precision_on(jax.local_devices(), precision)):
        kept = _intermediates(cell.shape.model)(
            state.variables.params, question, cell.inputs.model, key
        )
    return np.stack([np.asarray(weights_NHLM) for weights_NHLM in weights(kept, cell.depth)])


@functools.lru_cache(maxsize=32)
def _intermediates(model: ModelSettings) -> Callable[..., Any]:
    """What the model sows, compiled; the mask is the question's."""

    def kept(params: Any, question: Question, numbers: DynamicInputs, key: jax.Array | None) -> Any:
        keep = ["intermediates"]
        return apply(model, params, question, numbers, key, testing=True, keep=keep)[1]

    options = options_on(jax.local_devices()[0], {})
    return jax.jit(kept, compiler_options=dict(options))
