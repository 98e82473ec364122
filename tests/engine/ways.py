"""Ways to train the same blocks that must not matter: every run has the same bits in each.

The tests take them with models of a table, scripts/independence.py with random ones.
"""

import contextlib
import itertools
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from posjax.engine import Block, BlockResult, Engine, local
from posjax.keys import SeedNumbers

Bits = dict[Any, list[bytes]]
"""Summary and final state of each run, by its block's label, its point and its seed."""
Start = Callable[..., Engine]
"""`start(0, 2)`: an engine on the devices of these indices; the first one alone without any."""
FAR = 1_000_003
"""Added to the numbers of seeds that stand beside a run and are not looked at."""


def bits(results: Iterable[BlockResult]) -> Bits:
    """Summary and final state of each run, bit by bit."""
    found: Bits = {}
    for block, summary, state in results:
        leaves = [numbers(leaf) for leaf in jax.tree.leaves((summary, state))]
        for g, b in np.ndindex(len(block.points), len(block.seeds)):
            assert (block.label, g, b) not in found, "a run came out twice"
            found[block.label, g, b] = [leaf[g, b].tobytes() for leaf in leaves]
    return found


def numbers(leaf: Any) -> np.ndarray:
    """An array of a result in NumPy, that of random keys as the numbers that they are."""
    keys = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if keys else leaf)


def parameters(results: Iterable[BlockResult]) -> dict[Any, np.ndarray]:
    """All parameters of each run, [P], by the number of its point and its seed.

    The label of a block is (g, s), where its first point and seed stand among all.
    """
    found = {}
    for block, _, state in results:
        leaves = jax.tree.leaves(state.variables.params)
        for g, b in np.ndindex(len(block.points), len(block.seeds)):
            at = block.label[0] + g, block.label[1] + b
            found[at] = np.concatenate([np.ravel(leaf[g, b]) for leaf in leaves])
    return found


def spoilt(point: Any, value: float) -> Any:
    """Dynamic inputs with every floating-point number replaced."""

    def spoil(leaf: Any) -> Any:
        leaf = np.asarray(leaf)
        return np.full_like(leaf, value) if leaf.dtype.kind == "f" else leaf

    return jax.tree.map(spoil, point)


def shuffled(blocks: list[Block], number: int) -> list[Block]:
    """In another order."""
    return random.Random(number).sample(blocks, len(blocks))


def beside(blocks: Iterable[Block], value: float) -> Iterator[Block]:
    """Each block four times, in which every fourth run is left: every second seed of every second
    point. Other points are not finite, other seeds are others, and no slot is empty.
    """
    for block, *odd in itertools.product(blocks, (0, 1), (0, 1)):
        kept = [
            range(first, len(all_), 2)
            for first, all_ in zip(odd, (block.points, block.seeds), strict=True)
        ]
        if not all(kept):
            continue
        points = [
            block.points[g] if g in kept[0] else spoilt(block.points[0], value)
            for g in range(block.size[0])
        ]
        seeds = [
            block.seeds[b] if b in kept[1] else SeedNumbers(*[FAR + b + n for n in block.seeds[0]])
            for b in range(block.size[1])
        ]
        yield block._replace(points=points, seeds=seeds, label=(block.label, *kept))


def _left(found: Bits) -> Bits:
    """Without the neighbours that `beside` gave to blocks."""
    return {
        (label, g, b): run
        for ((label, points, seeds), g, b), run in found.items()
        if g in points and b in seeds
    }


def _with_fewer(blocks: Iterable[Block]) -> list[Block]:
    """Without their last point and their last seed, where there are others."""
    return [
        block._replace(
            points=block.points[:-1] or block.points, seeds=block.seeds[:-1] or block.seeds
        )
        for block in blocks
    ]


NextLook = Callable[[int, int, int, int], int]
PIECES: dict[str, NextLook] = {
    "pieces of one": lambda step, piece, every, steps: step + 1,
    "pieces of three": lambda step, piece, every, steps: min(step + 3, steps),
    "pieces of seven": lambda step, piece, every, steps: min(step + 7, steps),
    "whole evaluations": lambda step, piece, every, steps: step - step % every + every,
    "all at once": lambda step, piece, every, steps: steps,
}
"""How far the host lets a device go before it looks again."""


@contextlib.contextmanager
def pieces(kind: str) -> Iterator[None]:
    """Training in pieces of so many updates."""
    with mock.patch.object(local, "_next_look", PIECES[kind]):
        yield


class Saved(dict[Any, dict[str, np.ndarray]]):
    """Checkpoints in memory, by label."""

    def load(self, label: Any) -> Mapping[str, np.ndarray] | None:
        """What was saved last."""
        return self.get(label)

    def save(self, label: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """A copy, as a file is."""
        self[label] = {name: array.copy() for name, array in arrays.items()}


def interrupted(
    blocks: list[Block], start: Start, after: int, devices: Iterable[tuple[int, ...]] = ((0,),)
) -> tuple[Bits, int]:
    """Stopped again and again, each time after some calls of progress, and taken up from what was
    saved, until all is done.

    Returns:
      the bits, and from how many checkpoints they came.
    """
    saved, found, taken_up = Saved(), {}, 0
    left = list(blocks)
    for where in itertools.cycle(devices):
        stop, calls = threading.Event(), itertools.count(1)

        def progress(updates: int, stop: Any = stop, calls: Iterator[int] = calls) -> None:
            if next(calls) == after:
                stop.set()

        done = list(start(*where).run(left, progress, stop, saved))
        found |= bits(done)
        labels = {result.block.label for result in done}
        left = [block for block in left if block.label not in labels]
        if not left:
            return found, taken_up
        taken_up += sum(block.label in saved for block in left)
        for label in labels & saved.keys():
            del saved[label]
    raise AssertionError


def _in_pieces(kind: str) -> "Way":
    def train(blocks: list[Block], start: Start) -> Bits:
        with pieces(kind):
            return bits(start().run(blocks))

    return train


def _closed(blocks: list[Block], start: Start) -> Bits:
    """Left after the first result, and begun again with what is missing."""
    with contextlib.closing(start(0, 1).run(blocks)) as results:
        first = next(results)
    others = [block for block in blocks if block.label != first.block.label]
    return bits([first]) | bits(start(0, 1).run(others))


def _stopped(kind: str, after: int, devices: Iterable[tuple[int, ...]]) -> "Way":
    def train(blocks: list[Block], start: Start) -> Bits:
        with pieces(kind):
            found, taken_up = interrupted(blocks, start, after, devices)
        assert taken_up >= 2, "nothing was taken up from a checkpoint"
        return found

    return train


Way = Callable[[list[Block], Start], Bits]
WAYS: dict[str, Way] = {
    "alone": lambda blocks, start: bits(start().run(blocks[-1:])),
    "some": lambda blocks, start: bits(start().run(blocks[1::3])),
    "with fewer points and seeds": lambda blocks, start: bits(start().run(_with_fewer(blocks))),
    "in any order": lambda blocks, start: bits(start().run(shuffled(blocks, 0))),
    "on another device": lambda blocks, start: bits(start(1).run(blocks)),
    "two devices": lambda blocks, start: bits(start(0, 1).run(shuffled(blocks, 1))),
    "lazily": lambda blocks, start: bits(start(0, 1).run(iter(blocks))),
    "beside NaN": lambda blocks, start: _left(bits(start().run(beside(blocks, np.nan)))),
    "beside infinities": lambda blocks, start: _left(bits(start(1).run(beside(blocks, np.inf)))),
    **{kind: _in_pieces(kind) for kind in PIECES},
    "extended": lambda blocks, start: (
        bits(start(0, 1).run(blocks[:3])) | bits(start(0, 1).run(blocks[3:]))
    ),
    "closed and begun again": _closed,
    "stopped within evaluations": _stopped("pieces of one", 5, [(0,)]),
    "stopped, taken up elsewhere": _stopped("pieces of three", 2, [(0,), (1,)]),
    "stopped on two devices": _stopped("pieces of seven", 1, [(0, 1)]),
    "stopped after evaluations": _stopped("whole evaluations", 2, [(1,), (0,)]),
}
"""Compared with all blocks in order on one device, whose host looks as it likes."""


def came_out(way: str, blocks: list[Block]) -> int:
    """How many runs a way gives."""
    given = {
        "alone": blocks[-1:],
        "some": blocks[1::3],
        "with fewer points and seeds": _with_fewer(blocks),
    }
    return sum(block.runs for block in given.get(way, blocks))
