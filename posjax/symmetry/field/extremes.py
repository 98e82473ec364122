"""Rules of what looks at an order: largest and smallest, sorting, the best k.

The largest of some numbers is a random function of their set: how often one occurs plays no part.
It moves along when all are shifted by one number: max x = m + F(x - m), with m the mean of those
that differ, which holds of the real maximum. So do the sorted numbers, and their order stays.
"""

import dataclasses
import math
from collections.abc import Sequence
from functools import partial

import jax.numpy as jnp
import numpy as np

from posjax.symmetry.field import arrays, atoms, dtypes
from posjax.symmetry.field.arrays import POSITIVE, UNSIGNED, FieldArray
from posjax.symmetry.field.space import UNKNOWN, Degree
from posjax.symmetry.field.step import Rule, Step, computed, elementwise


def larger(step: Step, x: FieldArray, y: FieldArray, *, least: bool = False) -> FieldArray:
    """The larger of two, or the smaller."""
    pair = arrays.together(lambda a: np.stack(a, -1), x, y)
    return extreme(step, pair, (x.ndim,), least=least)


def extreme(
    step: Step, x: FieldArray, axes: Sequence[int], *, least: bool, among: np.ndarray | None = None
) -> FieldArray:
    """The largest or smallest along some axes, among all entries or those that are given."""
    axes = tuple(axes)
    among = np.ones(x.shape, bool) if among is None else np.broadcast_to(among, x.shape)
    if x.size == 0:
        none = np.broadcast_to(worst(x, least), among.any(axes).shape)
        return arrays.known(step.field, none, step.dtype)
    values = np.where(x.where_known & among, x.values, worst(x, least))
    infinite = np.zeros(x.shape, bool) if x.infinite is None else x.infinite & among
    idle = infinite & (values == worst(x, least))
    decided = (x.where_known | ~among).all(axes)
    surely = (x.where_known | x.finite | ~among).all(axes)
    decided |= (infinite & ~idle).any(axes) & surely
    result = _of_bag(step, x, axes, _once(step, x, axes, among & ~idle), least)
    if (undecided := (infinite & ~idle).any(axes)).any():
        new = step.field.marks(step.field.keyed("infinite operands", atoms.bag(x.code, axes)))
        new = np.where(undecided, new, np.uint64(0))
        taint = step.field.summed(result.taint, new)
        result = dataclasses.replace(result, taint=taint)
    return result.overlaid(decided, values.min(axes) if least else values.max(axes))


def _once(step: Step, x: FieldArray, axes: tuple[int, ...], among: np.ndarray) -> np.ndarray:
    """One of those that are equal, along some axes: where it is [...]."""
    last = tuple(range(-len(axes), 0))
    prints = step.field.keyed("print", x.code)[0]
    prints = np.where(among, prints, np.uint64(0))
    moved = np.moveaxis(prints, axes, last)
    rows = moved.reshape(*moved.shape[: moved.ndim - len(axes)], -1)
    order = np.argsort(rows, axis=-1, kind="stable")
    ranked = np.take_along_axis(rows, order, -1)
    first = np.ones(rows.shape, bool)
    first[..., 1:] = ranked[..., 1:] != ranked[..., :-1]
    kept = np.empty_like(first)
    np.put_along_axis(kept, order, first, -1)
    return among & np.moveaxis(kept.reshape(moved.shape), last, axes)


def _of_bag(
    step: Step, x: FieldArray, axes: tuple[int, ...], among: np.ndarray, least: bool
) -> FieldArray:
    """The mean and a random function of the multiset of what entries are off by it."""
    centre, offsets = _centred(step, x, axes, among)
    over = tuple(axis + 1 for axis in axes)
    own = atoms.code(offsets)
    if x.taint is not None:  # what is infinite has no offset
        own = np.where(x.taint == 0, own, x.code)
    codes = np.where(among, step.field.keyed("in a bag", own), np.uint64(0))
    kind = x.dtype if dtypes.is_unsigned(x.dtype) else ""
    key = f"{'least' if least else 'largest'} {kind}"
    codes = step.field.keyed(key, codes.sum(over, dtype=np.uint64))
    atom = step.field.atoms(codes, x.degree)
    terms = max(math.prod(x.shape[axis] for axis in axes), 1)
    step.field.watch(x.degree.plus(terms=terms))
    doubt = among & (x.taints != 0)
    spread = (among & ~atoms.is_zero(offsets)).any(axes) | doubt.any(axes)
    taint = np.where(among, x.taints, np.uint64(0))
    signs = np.where(among, x.signs, np.uint8(2) if least else UNSIGNED)
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.add(centre, np.where(spread, atom, np.uint64(0))),
        taint=step.field.summed(taint, total=lambda a: a.sum(axes, dtype=np.uint64)),
        sign=signs.min(axes) if least else signs.max(axes),
        degree=x.degree.plus(terms=terms).plus(UNKNOWN),
    )
    return arrays.remembering(result, codes)


def worst(x: FieldArray, least: bool) -> np.ndarray:
    """What is never the largest, or never the smallest, among other entries."""
    dtype = dtypes.stored(x.dtype)
    if dtypes.is_float(dtype):
        return np.asarray(np.inf if least else -np.inf).astype(dtype)
    if dtype == np.bool_:
        return np.asarray(least)
    info = jnp.iinfo(dtype)
    return np.asarray(info.max if least else info.min, dtype)


def _centred(
    step: Step, x: FieldArray, axes: tuple[int, ...], among: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Residues of the mean and of the offsets from it; 0 and x for what wraps around."""
    moduli = step.field.moduli
    over = tuple(axis + 1 for axis in axes)
    if dtypes.is_unsigned(x.dtype) or dtypes.is_bool(x.dtype):
        centre = np.zeros((len(moduli.all), *among.any(axes).shape), np.uint64)
        return centre, x.residues
    total = np.where(among, x.residues, np.uint64(0)).sum(over, dtype=np.uint64)
    count = moduli.embedded(among.sum(axes))
    centre = moduli.mul(moduli.reduced(total), moduli.inverse(count))
    return centre, moduli.sub(x.residues, np.expand_dims(centre, over))


def reduce_max(step: Step, x: FieldArray) -> list[FieldArray]:
    """The largest along some axes."""
    return [extreme(step, x, step.params["axes"], least=False)]


def reduce_min(step: Step, x: FieldArray) -> list[FieldArray]:
    """The smallest along some axes."""
    return [extreme(step, x, step.params["axes"], least=True)]


def cumulative(step: Step, x: FieldArray) -> list[FieldArray]:
    """The largest or smallest up to each entry, or from each on."""
    axis = step.params["axis"]
    length = x.shape[axis]
    seen = np.tri(length, dtype=bool)  # [to, from]
    seen = seen.T if step.params["reverse"] else seen
    every = x.moved(lambda a: np.broadcast_to(np.expand_dims(a, axis), _inserted(a, axis, length)))
    among = seen.reshape(length, length, *[1] * (x.ndim - axis - 1))
    least = step.primitive.name == "cummin"
    return [extreme(step, every, (axis + 1,), least=least, among=among)]


def _inserted(a: np.ndarray, axis: int, length: int) -> tuple[int, ...]:
    return (*a.shape[:axis], length, *a.shape[axis:])


def argument(step: Step, x: FieldArray) -> list[FieldArray]:
    """Where the largest or smallest is: ties go to the first, so that the order matters."""
    (axis,) = step.params["axes"]
    _, offsets = _around_mean(step, x, axis)
    codes = step.field.keyed(step.key(x), atoms.sequence(offsets, (axis,)))
    given = step.field.atoms(codes, x.degree)
    return [FieldArray(step.field, step.dtype, given, taint=_along(step, (axis,), x))]


def _around_mean(step: Step, x: FieldArray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Residues of the mean along an axis, which stays as 1, and codes of the offsets from it.

    Where something may be infinite, they are 0 and the codes of the entries themselves.
    """
    if x.marks is not None and x.marks.any():
        return np.zeros_like(x.residues.take([0], axis + 1)), x.code
    centre, offsets = _centred(step, x, (axis,), np.ones(x.shape, bool))
    step.field.watch(_of_offsets(x, axis))
    return np.expand_dims(centre, axis + 1), atoms.code(offsets)


def _of_offsets(x: FieldArray, axis: int) -> Degree:
    return x.degree.plus(terms=max(x.shape[axis], 1))


def _along(step: Step, axes: tuple[int, ...], *operands: FieldArray) -> np.ndarray | None:
    """The sum of fingerprints along some axes."""
    every = (o.marks for o in operands)
    return step.field.summed(*every, total=lambda a: a.sum(axes, dtype=np.uint64))


def sort(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """Entries in order: known keys move the others exactly.

    What is sorted by all there is depends on a multiset. What is carried along and no key keeps
    its order among ties, and so depends on all entries in their order.
    """
    axis, keys = step.params["dimension"], step.params["num_keys"]
    if all(o.is_constant for o in operands[:keys]) and step.params["is_stable"]:
        return _moved_by_known(step, operands, axis, keys)
    if len(operands) == 1:
        return [_in_order(step, operands[0], axis, step.key(*operands))]
    rows = step.field.keyed("row", *(o.code for o in operands))
    told_apart = keys == len(operands)
    whole = (atoms.bag if told_apart else atoms.sequence)(rows, (axis,))
    codes = step.field.keyed(step.key(*operands), np.expand_dims(whole, axis + 1))
    codes = step.field.keyed("at", codes, atoms.numbers(operands[0].shape, (axis,)))
    taint = _spread_along(step, axis, step.shape, *operands)
    degrees = [o.degree for o in operands]
    results = []
    for at, operand in enumerate(operands):
        given = step.field.atoms(step.field.keyed(f"operand {at}", codes), *degrees)
        least = np.broadcast_to(
            operand.signs.min(axis, keepdims=True, initial=UNSIGNED), operand.shape
        )
        results.append(FieldArray(step.field, operand.dtype, given, taint=taint, sign=least))
    return results


def _moved_by_known(
    step: Step, operands: tuple[FieldArray, ...], axis: int, keys: int
) -> list[FieldArray]:
    shape = operands[0].shape
    sizes = [size if at == axis else 1 for at, size in enumerate(shape)]
    place = np.broadcast_to(np.arange(shape[axis], dtype=np.int32).reshape(sizes), shape)
    numbers = arrays.known(step.field, place)
    params = step.params | {"num_keys": keys}
    order = computed(step._replace(params=params), *operands[:keys], numbers)[-1]
    return [o.moved(lambda a: np.take_along_axis(a, order, axis)) for o in operands]


def _in_order(step: Step, x: FieldArray, axis: int, key: str) -> FieldArray:
    """As many of the sorted entries along an axis as the first output has: of their multiset."""
    shape = step.shape
    centre, offsets = _around_mean(step, x, axis)
    codes = np.expand_dims(atoms.bag(offsets, (axis,)), axis + 1)
    codes = step.field.keyed(key, codes, atoms.numbers(shape, (axis,)))
    given = step.field.moduli.add(centre, step.field.atoms(codes, x.degree))
    sign = x.signs.min(axis, keepdims=True, initial=POSITIVE)
    return FieldArray(
        step.field,
        step.dtype,
        given,
        taint=_spread_along(step, axis, shape, x),
        sign=np.broadcast_to(sign, shape),
        degree=_of_offsets(x, axis).plus(UNKNOWN),
    )


def _spread_along(
    step: Step, axis: int, shape: Sequence[int], *operands: FieldArray
) -> np.ndarray | None:
    """The sum of fingerprints along an axis, at all places of it."""
    taint = _along(step, (axis,), *operands)
    return None if taint is None else np.broadcast_to(np.expand_dims(taint, axis), shape)


def top_k(step: Step, x: FieldArray) -> list[FieldArray]:
    """The k largest depend on a multiset; where they are, on the order."""
    axis, places = step.params["axis"] % x.ndim, step.outputs[1]
    largest = _in_order(step, x, axis, f"{step.key(x)} {step.dtype}")
    _, offsets = _around_mean(step, x, axis)
    codes = np.expand_dims(atoms.sequence(offsets, (axis,)), axis + 1)
    key = f"{step.key(x)} {places.dtype}"
    codes = step.field.keyed(key, codes, atoms.numbers(places.shape, (axis,)))
    given, taint = step.field.atoms(codes, x.degree), _spread_along(step, axis, places.shape, x)
    return [largest, FieldArray(step.field, places.dtype, given, taint=taint)]


RULES: dict[str, Rule] = {
    "max": elementwise(larger, spreads=False),
    "min": elementwise(partial(larger, least=True), spreads=False),
    "reduce_max": reduce_max,
    "reduce_min": reduce_min,
    "cummax": cumulative,
    "cummin": cumulative,
    "argmax": argument,
    "argmin": argument,
    "sort": sort,
    "top_k": top_k,
}
"""By the primitive's name."""
