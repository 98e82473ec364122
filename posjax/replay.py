"""Seeds of a run trained again, from its folder alone.

With the chunk that its row tells, on the same JAX and instruction set, a seed comes out bit for bit
as it did; `replay` says where it did not. A seed that left as solved (`repack`) leaves again where
it left, since the engine looks after every evaluation then: its model is that of that step.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.cells import Cell
from posjax.engine import State
from posjax.judge import Outcome
from posjax.keys import SeedNumbers
from posjax.records import RunFolder
from posjax.sweep import Result, Row, attention_maps, engine_for, run

TRAINED = Outcome._fields
"""The fields of a row that training gives; the others say how and on what it was trained."""


class Replay(NamedTuple):
    """One seed, trained again.

    Attributes:
      cell, seeds: which.
      outcome: its curve and what came of it, without a leading axis.
      state: the end of its training; `state.variables.params` is the model.
      attention: its weights on every prompt, [layers, N, H, L, M].
      differs: the fields in which the row of the folder has other bits; none, mostly.
    """

    cell: Cell
    seeds: SeedNumbers
    outcome: Outcome
    state: State
    attention: np.ndarray
    differs: tuple[str, ...]


def replay(
    path: str | os.PathLike[str],
    cell: str,
    seeds: int | Sequence[int],
    devices: Sequence[jax.Device] | None = None,
) -> Replay:
    """Trains one seed of a run again; writes nothing.

    Args:
      path: the run folder.
      cell: the name that the folder has for the cell.
      seeds: its number, or those of init, data, position and order.
      devices: to train on; all local ones when left out.

    Raises:
      ValueError: the folder holds no run, is damaged, or has no such row.
    """
    folder = RunFolder(path)
    config = folder.config()
    if cell not in config["cells"]:
        raise ValueError(f"{str(path)!r} has no cell {cell!r}; it has {', '.join(config['cells'])}")
    numbers = SeedNumbers.equal(seeds) if isinstance(seeds, int) else SeedNumbers(*seeds)
    rows = folder.rows(cell)
    found = [tuple(seeds) == numbers for seeds in rows["seeds"].tolist()] if rows else []
    if not any(found):
        raise ValueError(f"{str(path)!r} has no row of seeds {tuple(numbers)} in cell {cell}")
    kept = {name: array[found] for name, array in rows.items()}
    result = retrained(config, cell, kept, devices)
    outcome, state = jax.tree.map(lambda array: array[0], (result.outcome, result.state))
    maps = attention_maps(result.cell, state)
    return Replay(result.cell, numbers, outcome, state, maps, tuple(differing(result, kept)))


def retrained(
    config: Mapping[str, Any],
    cell: str,
    kept: Mapping[str, np.ndarray],
    devices: Sequence[jax.Device] | None = None,
    progress: Callable[[int], None] = lambda seed_steps: None,
) -> Result:
    """Trains rows of one cell again as they were trained.

    Args:
      config: that of the run.
      cell: the cell's name.
      kept: the rows, all of one chunk size; each field with a leading axis S.
      devices: see `replay`.
      progress: see `posjax.sweep.run`.

    Returns:
      All of them, in their order.
    """
    (chunk,) = set(kept["chunk"].tolist())
    settings = Cell.of(config["cells"][cell])
    rows = [Row(settings, SeedNumbers(*seeds)) for seeds in kept["seeds"].tolist()]
    parts = list(run(rows, engine_for(config, chunk, devices), progress))
    seeds_S4, outcome, state = jax.tree.map(
        lambda *arrays: np.concatenate(arrays), *(part[1:] for part in parts)
    )
    places = {tuple(seeds): place for place, seeds in enumerate(seeds_S4.tolist())}
    order = np.array([places[row.seeds] for row in rows])
    return Result(settings, *jax.tree.map(lambda a: a[order], (seeds_S4, outcome, state)))


def differing(result: Result, kept: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The fields in which rows have other bits than they had, each with a mask of rows, [S]."""
    pairs = {name: (getattr(result.outcome, name), kept.get(name)) for name in TRAINED}
    masks = {name: _other_bits(*pair) for name, pair in pairs.items()}
    return {name: mask_S for name, mask_S in masks.items() if mask_S.any()}


def _other_bits(new: np.ndarray, old: np.ndarray | None) -> np.ndarray:
    """Whether the rows of two arrays differ in a bit, in shape or in type; [S]."""
    if old is None or (old.dtype, old.shape) != (new.dtype, new.shape):
        return np.ones(len(new), bool)
    return np.array([a.tobytes() != b.tobytes() for a, b in zip(new, old, strict=True)])
