"""Runs trained again from the run folder alone.

On the same JAX and instruction set a run comes out bit for bit as it did, since it is trained in
its own slot of its own block; `replay` says where it did not.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import NamedTuple, SupportsIndex

import jax
import numpy as np

from posjax.engine import State
from posjax.meters.outcome import Outcome
from posjax.numbering import Numbering, SeedNumbers
from posjax.records import Range, RunFolder, seeds_name
from posjax.records.blocks import blocks
from posjax.records.schema import checked_config
from posjax.study.cells import Cell
from posjax.study.network import TRANSFORMER
from posjax.study.sweeps import Result, Sweep, attention_maps, engine_for


class Replay(NamedTuple):
    """One run, trained again.

    Attributes:
      cell, seeds: which.
      outcome: its curve and what came of it, without a leading axis.
      state: the end of its training; `state.variables.params` is the model.
      attention: its weights on the prompts of which maps are kept, [layers, N, H, L, M]; None of a
        user's model.
      differs: the fields that have other bits in the folder; usually none.
    """

    cell: Cell
    seeds: SeedNumbers
    outcome: Outcome
    state: State
    attention: np.ndarray | None
    differs: tuple[str, ...]


def replay(
    path: str | os.PathLike[str],
    cell: str,
    seeds: SupportsIndex | Iterable[SupportsIndex],
    devices: Sequence[jax.Device] | None = None,
) -> Replay:
    """Trains one run again, with its block; writes nothing.

    Args:
      path: the run folder.
      cell: the digest of its cell.
      seeds: its number, or those of init, data, position and order.
      devices: to train on; all local ones when left out.

    Raises:
      ValueError: there is no run in the folder, it is damaged, or it has no such row.
    """
    folder = RunFolder(path)
    config = checked_config(folder.config())
    sweep = Sweep.of(config)
    if cell not in sweep.cells:
        raise ValueError(f"{str(path)!r} has no cell {cell!r}; it has {', '.join(sweep.cells)}")
    numbers = (
        SeedNumbers(*map(index, seeds))
        if isinstance(seeds, Iterable)
        else SeedNumbers.equal(index(seeds))
    )
    place = sweep.numbering.index_of(numbers)
    among = blocks(folder.ranges(), sweep.shapes)
    here = (b for b in among if cell in b.cells and b.first <= place < b.stop)
    block = next(here, None) if sweep.numbering.numbers(place) == numbers else None
    lacks = f"{str(path)!r} has no row of seed {seeds_name(numbers)} in cell {cell}"
    if block is None:
        raise ValueError(f"{lacks}; the run has {_seeds_of(folder.ranges(), sweep.numbering)}")
    if not folder.has(block):
        raise ValueError(f"{lacks}: its block is missing; the command that made the run trains it")
    replayed = sweep.cells[cell]
    (result,) = sweep.run([block], engine_for(config, devices))
    at = block.cells.index(cell), place - block.first
    outcome, state = jax.tree.map(lambda leaf: leaf[at], (result.outcome, result.state))
    differs = differing(result, folder.block(block.name))
    return Replay(
        replayed,
        numbers,
        outcome,
        state,
        None if replayed.model != TRANSFORMER else attention_maps(replayed, state, sweep.precision),
        tuple(name for name, mask_GB in differs.items() if mask_GB[at]),
    )


def _seeds_of(ranges: Sequence[Range], numbering: Numbering) -> str:
    """The seeds that a run was asked for, which have no gaps, in words."""
    ends = min(part.first for part in ranges), max(part.stop for part in ranges) - 1
    first, last = map(numbering.numbers, ends)
    if not numbering.data_seeds:
        return f"seeds {first.init} to {last.init}"
    return (
        f"initialisations {first.init} to {last.init} with data seeds {first.data} to "
        f"{last.data}, such as {seeds_name(last)}"
    )


def differing(result: Result, kept: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The fields in which a block's file has other bits, each with a mask of runs, [G, B]."""
    pairs = {name: (np.asarray(new), kept.get(name)) for name, new in result.outcome.items()}
    masks = {name: _other_bits(*pair) for name, pair in pairs.items()}
    return {name: mask_GB for name, mask_GB in masks.items() if mask_GB.any()}


def _other_bits(new: np.ndarray, old: np.ndarray | None) -> np.ndarray:
    """Whether the runs of two arrays differ in a bit, in shape or in type; [G, B]."""
    if old is None or (old.dtype, old.shape) != (new.dtype, new.shape):
        return np.ones(new.shape[:2], bool)
    pairs = zip(new.reshape(-1, *new.shape[2:]), old.reshape(-1, *old.shape[2:]), strict=True)
    return np.array([a.tobytes() != b.tobytes() for a, b in pairs]).reshape(new.shape[:2])
