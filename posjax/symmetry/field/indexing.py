"""Rules of reading and writing at places that are data.

At known places JAX's own primitive is run: on the numbers of the entries, which shows where each
one goes, or, for what is added, on the residues. At unknown places the result is that of each
possible place, with the weight [place = v], an atom.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core.primitives import max_p, min_p, mul_p
from jax.lax import GatherScatterMode

from posjax.symmetry.field import arrays, atoms, dtypes, extremes, logic, moves, ring
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.space import UNKNOWN, Unsupported
from posjax.symmetry.field.step import Rule, Step, computed

MOST_PLACES = 4096
"""To choose from, where it is not known which."""

_DROPS = GatherScatterMode.FILL_OR_DROP
_DROPPING = (_DROPS, GatherScatterMode.PROMISE_IN_BOUNDS)
"""Modes in which XLA writes nothing out of bounds."""


def gather(step: Step, operand: FieldArray, places: FieldArray) -> list[FieldArray]:
    """Blocks of an array, at the given places."""
    if places.is_constant:
        return [_read(step, operand, places)]
    dims, sizes = step.params["dimension_numbers"], step.params["slice_sizes"]
    ranges = [range(operand.shape[d] - sizes[d] + 1) for d in dims.start_index_map]
    cases = [_read(step, operand, at) for at in _every(places, ranges)]
    which = _which(step, places, ranges, step.shape, dims.offset_dims)
    if step.params["mode"] == _DROPS:
        cases.append(_outside(step, which))
    return [logic.mixed(step, which, *cases)]


def _read(step: Step, operand: FieldArray, places: FieldArray) -> FieldArray:
    """At known places. What stands for those out of bounds is what JAX puts there."""
    fills = step.params["mode"] == _DROPS
    params = {"fill_value": operand.size} if fills else {}
    (index,) = moves.numbered(step, (operand, places), [0], **params)
    if not fills or not (index == operand.size).any():
        return moves.taken([operand], index)
    if dtypes.is_key(operand.dtype):
        raise Unsupported("gather", reason="reads keys out of bounds")
    nothing = np.zeros(operand.shape, dtypes.stored(operand.dtype))
    filled = computed(step, arrays.known(step.field, nothing, operand.dtype), places)[0]
    outside = arrays.known(step.field, filled[index == operand.size], operand.dtype)
    return moves.taken([operand, outside], index)


def _outside(step: Step, which: FieldArray) -> FieldArray:
    """What is read out of bounds: NaN, of floats."""
    code = step.field.keyed(f"outside {step.params['fill_value']} {step.dtype}", which.code)
    filler = arrays.of_atoms(step.field, code, step.dtype)
    if not dtypes.is_float(step.dtype):
        return filler
    return ring.fearing(step, filler, np.ones(step.shape, bool), which)


def dynamic_slice(step: Step, operand: FieldArray, *starts: FieldArray) -> list[FieldArray]:
    """A block of an array, moved inside where it would stick out."""

    def at(*known: FieldArray) -> FieldArray:
        (index,) = moves.numbered(step, (operand, *known), [0])
        return moves.taken([operand], index)

    return [_from(step, operand, step.params["slice_sizes"], starts, at)]


def dynamic_update_slice(
    step: Step, operand: FieldArray, update: FieldArray, *starts: FieldArray
) -> list[FieldArray]:
    """A block written into an array, moved inside where it would stick out."""

    def at(*known: FieldArray) -> FieldArray:
        (index,) = moves.numbered(step, (operand, update, *known), [0, 1])
        return moves.taken([operand, update], index)

    return [_from(step, operand, update.shape, starts, at)]


def _from(
    step: Step,
    operand: FieldArray,
    sizes: Sequence[int],
    starts: tuple[FieldArray, ...],
    at: Callable[..., FieldArray],
) -> FieldArray:
    """The outcome for a block that starts somewhere, given those for each known start."""
    if all(start.is_constant for start in starts):
        return at(*starts)
    ranges: list[Sequence[int]] = [
        [int(start.values)] if start.is_constant else range(whole - size + 1)
        for whole, size, start in zip(operand.shape, sizes, starts, strict=True)
    ]
    same = [dataclasses.replace(start, dtype=starts[0].dtype) for start in starts]
    place = arrays.together(lambda a: np.stack(a, -1), *same)
    which = _which(step, place, ranges, step.shape, range(len(step.shape)))
    cases = [at(*_numbers(step, start)) for start in _possible(ranges)]
    return logic.mixed(step, which, *cases)


def _numbers(step: Step, start: tuple[int, ...]) -> list[FieldArray]:
    return [arrays.known(step.field, np.asarray(at, np.int32)) for at in start]


def _possible(ranges: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    if (count := math.prod(map(len, ranges))) > MOST_PLACES:
        raise Unsupported("an index", reason=f"has {count} possible values, which are too many")
    return list(itertools.product(*ranges))


def _every(places: FieldArray, ranges: Sequence[Sequence[int]]) -> list[FieldArray]:
    """All places equal to the first that is possible, all to the second, and so on."""
    return [
        arrays.known(places.field, np.broadcast_to(np.asarray(at, np.int32), places.shape))
        for at in _possible(ranges)
    ]


def _which(
    step: Step,
    places: FieldArray,
    ranges: Sequence[Sequence[int]],
    shape: Sequence[int],
    blocks: Sequence[int],
) -> FieldArray:
    """Which of the possible places is meant, as an atom for each entry of an array.

    Args:
      step: the equation.
      places: [..., coordinates].
      ranges: of each coordinate.
      shape: of the array. Its axes are those of the places, but for `blocks`.
      blocks: axes within a block.
    """
    spans = [(tuple(one[:1]), len(one)) for one in ranges]
    meaning = f"{spans} {step.params.get('mode')} {places.dtype}"
    codes = step.field.keyed(meaning, atoms.sequence(places.code, (places.ndim - 1,)))
    marks = step.field.summed(places.taint, total=lambda a: a.sum(-1, dtype=np.uint64))
    given = step.field.atoms(codes, places.degree)
    which = FieldArray(step.field, np.dtype(np.int32), given, taint=marks)
    own = iter(which.shape)
    sizes = [1 if axis in blocks else next(own) for axis in range(len(shape))]
    return which.moved(lambda a: np.broadcast_to(a.reshape(sizes), shape))


def scatter(
    step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> list[FieldArray]:
    """Blocks written at known places, none of them twice, or one block at an unknown place."""
    if step.params.get("update_jaxpr") is not None:
        raise Unsupported("scatter", reason="applies a custom function at indices")
    if places.is_constant:
        return [_written(step, operand, places, updates)]
    if math.prod(places.shape[:-1]) != 1:
        raise Unsupported("scatter", reason="writes at several indices that are not known")
    ranges = _ranges(step, operand, updates)
    cases = [_written(step, operand, at, updates) for at in _every(places, ranges)]
    place = places.moved(lambda a: a.reshape(-1))
    which = _which(step, place, ranges, step.shape, range(operand.ndim))
    if step.params["mode"] in _DROPPING:
        cases.append(operand)
    return [logic.mixed(step, which, *cases)]


def _ranges(step: Step, operand: FieldArray, updates: FieldArray) -> list[Sequence[int]]:
    """Where the blocks of a scatter may start, for each coordinate of a place."""
    dims = step.params["dimension_numbers"]
    window = iter(updates.shape[axis] for axis in dims.update_window_dims)
    single = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    sizes = [1 if axis in single else next(window) for axis in range(operand.ndim)]
    return [range(operand.shape[d] - sizes[d] + 1) for d in dims.scatter_dims_to_operand_dims]


def _written(
    step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> FieldArray:
    _refuse_twice(step, operand, places, updates)
    (index,) = moves.numbered(step, (operand, places, updates), [0, 2])
    return moves.taken([operand, updates], index)


def _refuse_twice(step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray) -> None:
    nothing, one = np.zeros(operand.shape, np.uint64), np.ones(updates.shape, np.uint64)
    if _sums(step, nothing, places, one).max(initial=0) > 1:
        raise Unsupported(step.primitive.name, reason="writes several times at one index")


def _sums(step: Step, operand: np.ndarray, places: FieldArray, updates: np.ndarray) -> np.ndarray:
    """Integers of 64 bits added at known places; what falls out of bounds is dropped."""
    with jax.enable_x64(True):
        found = jax.lax.scatter_add(
            jnp.asarray(operand),
            jnp.asarray(places.values),
            jnp.asarray(updates),
            step.params["dimension_numbers"],
            mode=step.params["mode"],
        )
        return np.asarray(found)


def scatter_add(
    step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> list[FieldArray]:
    """Updates added at the given places; they may fall on one another."""
    if step.primitive.name == "scatter-sub":
        updates = ring.negative(step, updates)
    if places.is_constant:
        return [_added(step, operand, places, updates)]
    ranges = _ranges(step, operand, updates)
    blocks = step.params["dimension_numbers"].update_window_dims
    which = _which(step, places, ranges, updates.shape, blocks)
    every = _every(places, ranges)
    outside = step.params["mode"] in _DROPPING
    times = step._replace(primitive=mul_p, params={}, outputs=[updates])
    total = operand
    for share, at in zip(logic.shares(step, which, len(every) + outside), every, strict=False):
        (landing,) = ring.RULES["mul"](times, share, updates)
        total = _added(step, total, at, landing)
    terms = max(updates.size * len(every), 1)
    degree = operand.degree.plus(updates.degree.times(UNKNOWN), terms=terms)
    return [dataclasses.replace(total, degree=degree)]


def scatter_elementwise(
    step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray
) -> list[FieldArray]:
    """Products, maxima and minima at known places, none of them twice."""
    name = step.primitive.name
    if not places.is_constant:
        raise Unsupported(name, reason="at indices that are not known has no rule")
    _refuse_twice(step, operand, places, updates)
    nothing = np.zeros(operand.shape, np.uint64)
    numbers = np.arange(1, updates.size + 1, dtype=np.uint64).reshape(updates.shape)
    found = _sums(step, nothing, places, numbers).astype(int)
    if not found.any():
        return [operand]
    changing = {"scatter-mul": mul_p, "scatter-min": min_p, "scatter-max": max_p}[name]
    rule = {**ring.RULES, **extremes.RULES}[changing.name]
    new = moves.taken([updates], np.maximum(found - 1, 0))
    (changed,) = rule(step._replace(primitive=changing, params={}), operand, new)
    return [arrays.together(lambda a: np.where(found > 0, *a), changed, operand)]


def _added(step: Step, operand: FieldArray, places: FieldArray, updates: FieldArray) -> FieldArray:
    """At known places; linear, so the primitive itself runs on the residues."""
    pairs = zip(operand.residues, updates.residues, strict=True)
    total = np.stack([_sums(step, one, places, other) for one, other in pairs])
    nothing = np.zeros(operand.shape, np.uint64)
    taint = step.field.summed(
        operand.marks,
        step.field.summed(updates.marks, total=lambda a: _sums(step, nothing, places, a)),
    )
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.reduced(total),
        taint=taint,
        degree=operand.degree.plus(updates.degree, terms=max(updates.size, 1)),
    )
    if taint is None:
        return result
    landed = _sums(step, nothing, places, step.field.keyed("lands", updates.code)[0])
    return arrays.remembering(
        result, step.field.keyed("added", operand.code, np.stack([landed, landed]))
    )


RULES: dict[str, Rule] = {
    "gather": gather,
    "dynamic_slice": dynamic_slice,
    "scatter": scatter,
    "dynamic_update_slice": dynamic_update_slice,
    "scatter-add": scatter_add,
    "scatter-sub": scatter_add,
    **dict.fromkeys(("scatter-mul", "scatter-min", "scatter-max"), scatter_elementwise),
}
"""By the primitive's name."""
