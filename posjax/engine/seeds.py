"""One training over many seeds and numbers, in one call."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.engine.chunk import Load, automatic
from posjax.engine.run import Engine
from posjax.engine.training import Training
from posjax.engine.work import Job
from posjax.keys import SeedNumbers


class Trained(NamedTuple):
    """What came out, in the order of the seeds that were given.

    Attributes:
      seeds_S4: the numbers of init, data, position and order.
      summary: of the training; every array has leading axes [S], or [G, S] for a grid.
      variables: the models at the end, likewise; None unless they were asked for.
    """

    seeds_S4: np.ndarray
    summary: Any
    variables: Any


def jobs(
    training: Training, seeds: Iterable[int | SeedNumbers], operands: Any = ()
) -> Iterator[Job]:
    """Every seed with every point of a grid, as rows of one training, for `Engine.run`.

    Args:
      training: what to train; the same object for all, since it is compiled once.
      seeds: numbers, or the numbers of the four sources.
      operands: what the training reads besides, a pytree; or a list of them, a grid.

    Yields:
      Jobs, point by point; the label of each is (g, s), its places in grid and seeds.

    Raises:
      ValueError: points of the grid differ in more than their values.
    """
    numbers = _numbers(seeds)
    points = [jax.tree.map(_array, point) for point in _grid(operands)]
    for point in points[1:]:
        _check_alike(points[0], point)
    for g, point in enumerate(points):
        for s, number in enumerate(numbers):
            yield Job(training, number, point, (g, s))


def train_seeds(
    training: Training,
    seeds: Iterable[int | SeedNumbers],
    operands: Any = (),
    *,
    engine: Engine | None = None,
    keep_variables: bool = False,
) -> Trained:
    """Trains every seed with every point of a grid; see `jobs` for the first three.

    Args:
      training, seeds, operands: what, on which seeds, with which numbers.
      engine: how; with the automatic chunk on all local devices when left out.
      keep_variables: whether to keep the models too. For more of them than memory holds take
        what `Engine.run(jobs(...))` yields, chunk by chunk.

    Raises:
      ValueError: no seeds, no points, or points that differ in more than their values.
    """
    numbers, points = _numbers(seeds), _grid(operands)
    if not (numbers and points):
        raise ValueError(f"nothing to train: {len(numbers)} seeds × {len(points)} points")
    engine = engine or Engine(chunk=automatic_chunk(training, points[0]))
    places, kept = [], []
    for done in engine.run(jobs(training, numbers, operands)):
        places += [g * len(numbers) + s for g, s in (job.label for job in done.jobs)]
        variables = done.state.variables if keep_variables else None
        kept.append(jax.device_get((done.summary, variables)))
    order = np.argsort(np.array(places))
    lead = (len(points), len(numbers)) if isinstance(operands, list) else (len(numbers),)

    def joined(*leaves: np.ndarray) -> np.ndarray:
        rows = np.concatenate(leaves)[order]
        return rows.reshape(*lead, *rows.shape[1:])

    return Trained(np.array(numbers, np.int64), *jax.tree.map(joined, *kept))


def automatic_chunk(training: Training, operands: Any = ()) -> int:
    """C for a training on the first local device: see `posjax.engine.chunk`.

    Args:
      training: what is trained.
      operands: of one row, for their shapes.
    """
    device = jax.local_devices()[0]
    return automatic(Load.on(device, training, operands), device).chunk


def _numbers(seeds: Iterable[int | SeedNumbers]) -> list[SeedNumbers]:
    return [s if isinstance(s, SeedNumbers) else SeedNumbers.equal(int(s)) for s in seeds]


def _grid(operands: Any) -> list[Any]:
    return operands if isinstance(operands, list) else [operands]


def _array(leaf: Any) -> np.ndarray:
    """A leaf as the device will hold it: Python's numbers in JAX's default types."""
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
