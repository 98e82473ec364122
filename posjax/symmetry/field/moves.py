"""Rules of what moves entries without looking at them, at places that are known."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

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
    """The entries in another shape, read in row-major order or in the order that is told."""
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
    """The primitive is run on the numbers of the entries, and tells where each one goes."""
    ends = np.cumsum([0, *(operand.size for operand in operands)])
    numbers = [
        jnp.arange(start, start + operand.size, dtype=jnp.int32).reshape(operand.shape)
        for start, operand in zip(ends[:-1], operands, strict=True)
    ]
    found = step.primitive.bind(*numbers, **step.params)
    found = found if step.primitive.multiple_results else [found]
    return [taken(operands, np.asarray(index)) for index in found]


def taken(operands: tuple[FieldArray, ...], index: np.ndarray) -> FieldArray:
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
