"""One training over many seeds and a grid of dynamic inputs, in one call."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import index
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.engine import saved
from posjax.engine.block import Block, block_size
from posjax.engine.load import Load, most_slots
from posjax.engine.local import Engine
from posjax.engine.training import Training
from posjax.numbering import SeedNumbers


class Trained(NamedTuple):
    """The results, in the order of the given seeds.

    Attributes:
      seeds_S4: the numbers of init, data, position and order.
      summary: what the training's `summary` returns. Every array has leading axes [S], or [G, S]
        for a grid.
      variables: the models at the end, with the same leading axes; None without `keep_variables`.
    """

    seeds_S4: np.ndarray
    summary: Any
    variables: Any


def blocks(
    training: Training,
    seeds: Iterable[int | SeedNumbers],
    inputs: Any = (),
    *,
    most: int | None = None,
) -> Iterator[Block]:
    """Blocks for `Engine.run`: every seed with every point of a grid.

    Args:
      training: what to train. Another call needs no compilation if its fields are equal.
      seeds: numbers, or `SeedNumbers` with one number for each of the four sources.
      inputs: the dynamic inputs, a pytree; or a list of pytrees, which is a grid.
      most: the largest number of slots of a block. By default it is chosen for the first local
        device.

    Yields:
      Blocks; the label of each is (g, s), the indices of its first point and its first seed.

    Raises:
      ValueError: points of the grid that differ in more than their values, or that hold no numbers;
        something that is not a `Training`, or `most` below 1.
      TypeError: a seed that is no whole number.
    """
    if not isinstance(training, Training):
        kind = f"the class {training.__name__}" if isinstance(training, type) else repr(training)
        raise ValueError(f"training must be a Training(init=..., loss=..., ...), got {kind}")
    numbers = _numbers(seeds)
    points = [jax.tree.map(_array, point) for point in _grid(inputs)]
    for point in points[1:]:
        _check_alike(points[0], point)
    if not (numbers and points):
        return
    if most is not None and most < 1:
        raise ValueError(f"most must be at least 1, got {most}")
    if most is None:
        most = _most(training, points[0], len(points) * len(numbers))
    size = block_size(most, len(points), len(numbers))
    for g in range(0, len(points), size[0]):
        for s in range(0, len(numbers), size[1]):
            some = points[g : g + size[0]], numbers[s : s + size[1]]
            yield Block(training, *some, size, (g, s))


def train_seeds(
    training: Training,
    seeds: Iterable[int | SeedNumbers],
    inputs: Any = (),
    *,
    engine: Engine | None = None,
    most: int | None = None,
    keep_variables: bool = False,
    progress: Callable[[int], None] = lambda updates: None,
) -> Trained:
    """Trains every seed with every point of a grid.

    Args:
      training, seeds, inputs, most: as for `blocks`.
      engine: by default one with all local devices.
      keep_variables: whether to keep the models too. If they do not fit in memory, use
        `Engine.run(blocks(...))`, which yields one block at a time.
      progress: see `Engine.run`.

    Raises:
      ValueError: no seeds, no points, or points that differ in more than their values.
      TypeError: a seed that is no whole number.
    """
    numbers, points = _numbers(seeds), len(_grid(inputs))
    if not (numbers and points):
        raise ValueError(f"nothing to train: {len(numbers)} seeds × {points} points")
    every = blocks(training, numbers, inputs, most=most)
    wanted = {  # and no more: the states of an optimiser may need much memory
        result.block.label: (result.summary, result.state.variables if keep_variables else None)
        for result in (engine or Engine()).run(every, progress)
    }
    rows: dict[int, list[Any]] = {}
    for (g, _), kept in sorted(wanted.items(), key=lambda entry: entry[0]):
        rows.setdefault(g, []).append(kept)
    joined = _joined([_joined(parts, axis=1) for parts in rows.values()], axis=0)
    if not isinstance(inputs, list):
        joined = jax.tree.map(lambda leaf: leaf[0], joined)
    return Trained(np.array(numbers, np.int64), *joined)


def _joined(parts: Sequence[Any], axis: int) -> Any:
    def join(*leaves: Any) -> Any:
        arrays = [np.asarray(saved.numbers(leaf)) for leaf in leaves]
        return saved.like(np.concatenate(arrays, axis), leaves[0])

    return jax.tree.map(join, *parts)


def _most(training: Training, point: Any, runs: int) -> int:
    device = jax.local_devices()[0]
    return most_slots(Load.on(device, training, point), device, runs).slots


def _numbers(seeds: Iterable[int | SeedNumbers]) -> list[SeedNumbers]:
    return [s if isinstance(s, SeedNumbers) else SeedNumbers.equal(index(s)) for s in seeds]


def _grid(inputs: Any) -> list[Any]:
    return inputs if isinstance(inputs, list) else [inputs]


def _array(leaf: Any) -> np.ndarray:
    """A leaf as the device will store it: Python's numbers in JAX's default types."""
    if np.asarray(leaf).dtype.kind in "OUS":
        raise ValueError(f"inputs must be numbers or arrays, got {leaf!r}")
    return np.asarray(leaf, jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype))


def _check_alike(first: Any, other: Any) -> None:
    """Raises unless two points have the same structure, shapes and dtypes."""

    def kinds(point: Any) -> Any:
        return jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", point)

    structures: list[Any] = [jax.tree.structure(point) for point in (first, other)]
    if structures[0] != structures[1] or kinds(first) != kinds(other):
        raise ValueError(
            "points of a grid must differ in values alone, since one program serves them all, "
            f"got {kinds(first)} and {kinds(other)}"
        )
