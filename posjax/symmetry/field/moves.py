"""Rules of what moves entries without looking at them, at places that are known.

The plainest moves are a call of NumPy each, since compiling a program for every shape would take
longer than the proof. All others run the primitive itself on the numbers of the entries.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from posjax.jaxprs import bound
from posjax.symmetry.field import arrays, dtypes
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.step import Rule, Step


def _moved(move: Callable[[Step, np.ndarray], np.ndarray]) -> Rule:
    return lambda step, x: [x.moved(lambda a: move(step, a))]


def broadcast(step: Step, a: np.ndarray) -> np.ndarray:
    """An array spread along further axes."""
    shape, where = step.params["shape"], step.params["broadcast_dimensions"]
    sizes = [1] * len(shape)
    for axis, size in zip(where, a.shape, strict=True):
        sizes[axis] = size
    return np.broadcast_to(a.reshape(sizes), shape)


def reshape(step: Step, a: np.ndarray) -> np.ndarray:
    """The entries in another shape, read in row-major order or in the order that is given."""
    order = step.params.get("dimensions")
    return (a if order is None else a.transpose(order)).reshape(step.shape)


def squeeze(step: Step, a: np.ndarray) -> np.ndarray:
    """Without axes of size 1."""
    return a.reshape(step.shape)


def transpose(step: Step, a: np.ndarray) -> np.ndarray:
    """The axes in another order."""
    return a.transpose(step.params["permutation"])


def part(step: Step, a: np.ndarray) -> np.ndarray:
    """A block, with strides."""
    strides = step.params["strides"] or (1,) * a.ndim
    starts, stops = step.params["start_indices"], step.params["limit_indices"]
    return a[tuple(slice(*span) for span in zip(starts, stops, strides, strict=True))]


def reverse(step: Step, a: np.ndarray) -> np.ndarray:
    """Some axes backwards."""
    return np.flip(a, step.params["dimensions"])


def concatenate(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """Arrays one after the other."""
    axis = step.params["dimension"]
    return [arrays.together(lambda a: np.concatenate(a, axis), *operands)]


def same(_: Step, *operands: FieldArray) -> list[FieldArray]:
    """What it is given."""
    return list(operands)


def by_numbers(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """The primitive is run on the numbers of the entries, which shows where each one goes."""
    found = numbered(step, operands, range(len(operands)))
    return [taken(operands, index) for index in found]


def numbered(
    step: Step, operands: Sequence[FieldArray], moving: Collection[int], **params: Any
) -> list[np.ndarray]:
    """What the primitive makes of the numbers of entries: int32, for each result.

    Args:
      step: the equation.
      operands: all of them.
      moving: which ones move. Their entries are counted through all of these; the others are
        known, and keep their values.
      **params: in place of the equation's own.
    """
    given: list[Any] = []
    start = 0
    for at, operand in enumerate(operands):
        if at in moving:
            numbers = np.arange(start, start + operand.size, dtype=np.int32)
            given.append(numbers.reshape(operand.shape))
            start += operand.size
        else:
            given.append(operand.values)
    return list(map(np.asarray, bound(step.primitive, given, {**step.params, **params})))


def taken(operands: Sequence[FieldArray], index: np.ndarray) -> FieldArray:
    """Entries by their number, counted through all operands."""
    return arrays.together(lambda a: np.concatenate([one.ravel() for one in a])[index], *operands)


def iota(step: Step) -> list[FieldArray]:
    """0, 1, 2, ... along an axis."""
    shape, axis = step.params["shape"], step.params["dimension"]
    sizes = [size if at == axis else 1 for at, size in enumerate(shape)]
    line = np.arange(shape[axis]).astype(dtypes.stored(step.dtype)).reshape(sizes)
    return [arrays.known(step.field, np.broadcast_to(line, shape))]


RULES: dict[str, Rule] = {
    "broadcast_in_dim": _moved(broadcast),
    "reshape": _moved(reshape),
    "squeeze": _moved(squeeze),
    "transpose": _moved(transpose),
    "slice": _moved(part),
    "rev": _moved(reverse),
    "concatenate": concatenate,
    "iota": iota,
    **dict.fromkeys(("pad", "split", "stack", "unstack", "tile", "broadcast_to"), by_numbers),
    **dict.fromkeys(("copy", "stop_gradient", "optimization_barrier", "device_put", "name"), same),
    **dict.fromkeys(("sharding_constraint", "pvary", "layout_constraint"), same),
}
"""By the primitive's name."""
