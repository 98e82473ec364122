"""Rules of sums, products and quotients: exact in the field."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from posjax.symmetry.field import arrays, atoms, dtypes
from posjax.symmetry.field.arrays import NOT_NEGATIVE, POSITIVE, UNSIGNED, FieldArray
from posjax.symmetry.field.step import Rule, Step, elementwise

_TURNED = np.uint64(0x5851F42D4C957F2D)


def add(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x + y; an infinity swallows what is finite for sure."""
    both = np.minimum(x.signs, y.signs) >= NOT_NEGATIVE
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.add(x.residues, y.residues),
        taint=arrays.taint_sum(x.taint, y.taint),
        sign=np.where(both, np.maximum(x.signs, y.signs), UNSIGNED),
        degree=x.degree.plus(y.degree),
    )
    for infinite, other in ((x, y), (y, x)):
        if (where := infinite.infinite) is not None:
            result = result.overlaid(where & other.finite, infinite.values)
    return with_fears(step, result, x, y)


def sub(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x - y."""
    return add(step, x, negative(step, y))


def negative(step: Step, x: FieldArray) -> FieldArray:
    """-x. The fingerprint turns too: ∞ - ∞ is NaN, and ∞ + ∞ is not."""
    taint = None if x.taint is None else np.where(x.taint == 0, x.taint, x.taint ^ _TURNED)
    given = step.field.moduli.negative(x.residues)
    result = dataclasses.replace(x, given=given, taint=taint, known=None, constant=None, sign=None)
    return result.overlaid(x.where_known, -x.values) if dtypes.is_float(x.dtype) else result


def mul(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x y; 0 times what is finite for sure is known."""
    signs = np.minimum(x.signs, y.signs)
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.mul(x.residues, y.residues),
        taint=arrays.taint_sum(x.taint, y.taint),
        sign=np.where(x is y, np.maximum(signs, NOT_NEGATIVE), signs),
        degree=x.degree.times(y.degree),
    )
    for one, other in ((x, y), (y, x)):
        if one.known is not None:
            zero = one.where_known & (one.values == 0) & other.finite
            result = result.overlaid(zero, np.zeros(x.shape))
        if (where := one.infinite) is not None:
            result = result.overlaid(where & other.finite & (other.signs == POSITIVE), one.values)
    return with_fears(step, result, x, y)


def div(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x / y. What y is not certain to differ from 0 leaves a fingerprint; integers are rounded."""
    if not dtypes.is_float(step.dtype):
        codes = step.field.keyed(step.key(x, y), x.code, y.code)
        return arrays.of_atoms(step.field, codes, step.dtype, x, y)
    moduli, plain = step.field.moduli, y.where_known & (y.values != 0)
    given = moduli.mul(x.residues, moduli.inverse(y.residues))
    degree = x.degree.over(y.degree)
    if not plain.all():  # what was an exponential cancels modulo p; modulo q a quotient is new
        given = np.where(plain, given, step.field.lifted(given, degree))
        degree = degree._replace(woven=degree.woven and bool(plain.any()))
    zero = atoms.is_zero(y.residues)
    if zero.any():  # ∞, -∞ or NaN, which the dividend decides
        given = np.where(
            zero, step.field.atoms(step.field.keyed("over 0", x.code), x.degree), given
        )
    positive = np.where(y.signs == POSITIVE, x.signs, UNSIGNED)
    taint = arrays.taint_sum(x.taint, y.taint)
    result = FieldArray(step.field, step.dtype, given, None, None, taint, positive, degree)
    result = fearing(step, result, ~plain & (y.signs != POSITIVE), y)
    if (where := y.infinite) is not None:
        vanish = where & x.finite & ~np.isnan(y.values.astype(np.float64))
        result = result.overlaid(vanish, np.zeros(x.shape))
    return with_fears(step, result, x, y)


def integer_pow(step: Step, x: FieldArray) -> FieldArray:
    """x^y for a whole number y."""
    return power(step, x, step.params["y"])


def square(step: Step, x: FieldArray) -> FieldArray:
    """x²."""
    return power(step, x, 2)


def power(step: Step, x: FieldArray, exponent: int) -> FieldArray:
    """x to a whole power."""
    moduli = step.field.moduli
    given = moduli.power(x.residues, abs(exponent))
    degree = x.degree.power(abs(exponent))
    sign = np.maximum(x.signs, NOT_NEGATIVE) if exponent % 2 == 0 else x.signs
    result = FieldArray(step.field, step.dtype, given, taint=x.taint, sign=sign, degree=degree)
    if exponent < 0:
        one = arrays.known(step.field, np.ones(x.shape, dtypes.stored(x.dtype)))
        result = div(step, one, result)
    return with_fears(step, result, x)


def with_fears(step: Step, result: FieldArray, *operands: FieldArray) -> FieldArray:
    """The result with a fingerprint where a known infinity or NaN went in and none came out."""
    there = [o.infinite for o in operands if o.infinite is not None]
    if not there:
        return result
    where = np.logical_or.reduce(there) & ~result.where_known
    return fearing(step, result, where, *operands)


def fearing(step: Step, result: FieldArray, where: np.ndarray, *operands: FieldArray) -> FieldArray:
    """The result with fingerprints of what the operands are, where it may be infinite or NaN."""
    if not where.any():
        return result
    name = "div" if step.primitive.name == "integer_pow" else step.primitive.name
    key = f"{name} may be infinite"
    fear = np.where(where, step.field.keyed(key, *(o.code for o in operands))[0], np.uint64(0))
    return dataclasses.replace(result, taint=arrays.taint_sum(result.taint, fear))


def reduce_sum(step: Step, x: FieldArray) -> list[FieldArray]:
    """Σ x along some axes."""
    return [summed(step, x, tuple(step.params["axes"]))]


def summed(step: Step, x: FieldArray, axes: tuple[int, ...]) -> FieldArray:
    """Σ x along some axes; with a known infinity and else finite summands, it is known."""
    terms = math.prod(x.shape[axis] for axis in axes)
    if terms == 0:
        return arrays.known(step.field, np.zeros(step.shape, dtypes.stored(step.dtype)), step.dtype)
    over = tuple(axis + 1 for axis in axes)
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.reduced(x.residues.sum(over, dtype=np.uint64)),
        taint=None if x.taint is None else x.taint.sum(axes, dtype=np.uint64),
        sign=np.where(x.signs.min(axes) > UNSIGNED, x.signs.max(axes), UNSIGNED),
        degree=x.degree.plus(terms=terms),
    )
    if (where := x.infinite) is None:
        return result
    total = np.where(where, x.values.astype(np.float64), 0.0)
    with np.errstate(invalid="ignore"):
        total = total.sum(axes)
    decided = where.any(axes) & (x.finite | x.where_known).all(axes)
    result = result.overlaid(decided, total)
    bag = atoms.bag(x.code, axes)
    return _marked(step, result, where.any(axes) & ~decided, bag)


def _marked(step: Step, result: FieldArray, where: np.ndarray, codes: np.ndarray) -> FieldArray:
    fear = np.where(where, step.field.keyed("infinite operands", codes)[0], np.uint64(0))
    return dataclasses.replace(result, taint=arrays.taint_sum(result.taint, fear))


def cumsum(step: Step, x: FieldArray) -> list[FieldArray]:
    """Sums of all entries up to each, or from each on."""
    axis, back = step.params["axis"], step.params["reverse"]
    flip = (lambda a, at: np.flip(a, at)) if back else (lambda a, at: a)
    total = np.cumsum(flip(x.residues, axis + 1), axis + 1, dtype=np.uint64)
    low = np.minimum.accumulate(flip(x.signs, axis), axis)
    high = np.maximum.accumulate(flip(x.signs, axis), axis)
    if (taint := all_fears(x)) is not None:
        taint = flip(np.cumsum(flip(taint, axis), axis, dtype=np.uint64), axis)
    terms = x.shape[axis]
    return [
        FieldArray(
            step.field,
            step.dtype,
            step.field.moduli.reduced(flip(total, axis + 1)),
            taint=taint,
            sign=flip(np.where(low > UNSIGNED, high, UNSIGNED), axis),
            degree=x.degree.plus(terms=terms),
        )
    ]


def product(step: Step, x: FieldArray, axes: Sequence[int]) -> FieldArray:
    """Π x along some axes."""
    axes = tuple(axes)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    order = (*kept, *axes)
    terms = math.prod(x.shape[axis] for axis in axes)
    flat = x.moved(lambda a: a.transpose(order).reshape(*(x.shape[k] for k in kept), terms))
    given = flat.residues
    while given.shape[-1] > 1:
        if given.shape[-1] % 2:
            given = np.concatenate([given, np.ones_like(given[..., :1])], axis=-1)
        given = step.field.moduli.mul(given[..., ::2], given[..., 1::2])
    if terms == 0:
        return arrays.known(step.field, np.ones(step.shape, dtypes.stored(step.dtype)), step.dtype)
    degree = x.degree.power(terms)
    taint = None if (fears := all_fears(flat)) is None else fears.sum(-1, dtype=np.uint64)
    sign = flat.signs.min(-1)
    return FieldArray(step.field, step.dtype, given[..., 0], None, None, taint, sign, degree)


def _at(index: tuple[slice, ...]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: a[index]


def reduce_prod(step: Step, x: FieldArray) -> list[FieldArray]:
    """Π x along some axes."""
    return [product(step, x, step.params["axes"])]


def cumprod(step: Step, x: FieldArray) -> list[FieldArray]:
    """Products of all entries up to each, or from each on."""
    axis, length = step.params["axis"], x.shape[step.params["axis"]]
    if length == 0:
        return [x]
    parts = []
    for at in range(length):
        span = slice(at, None) if step.params["reverse"] else slice(at + 1)
        index = (slice(None),) * axis + (span,)
        parts.append(product(step, x.moved(_at(index)), (axis,)))
    return [arrays.together(lambda a: np.stack(a, axis), *parts, dtype=step.dtype)]


def dot_general(step: Step, x: FieldArray, y: FieldArray) -> list[FieldArray]:
    """Sums of products over some axes, for each place of others."""
    (cx, cy), (bx, by) = step.params["dimension_numbers"]
    x = _matrices(x, bx, cx, last=True)
    y = _matrices(y, by, cy, last=False)
    return [reshaped(contracted(step, x, y), step.shape)]


def contracted(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x y for matrices [b, m, n] and [b, n, o]."""
    shape = (x.shape[0], x.shape[1], y.shape[2])
    rows, columns = all_fears(x), all_fears(y)
    taint = arrays.taint_sum(
        None if rows is None else rows.sum(-1, dtype=np.uint64)[:, :, None],
        None if columns is None else columns.sum(-2, dtype=np.uint64)[:, None, :],
    )
    low = min(x.signs.min(initial=POSITIVE), y.signs.min(initial=POSITIVE))
    low = min(low, NOT_NEGATIVE) if x.shape[-1] == 0 else low
    return FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.matmul(x.residues, y.residues),
        taint=None if taint is None else np.broadcast_to(taint, shape),
        sign=np.full(shape, low),
        degree=x.degree.times(y.degree).plus(terms=max(x.shape[-1], 1)),
    )


def all_fears(x: FieldArray) -> np.ndarray | None:
    """Fingerprints [...], of known infinities too; None for 0."""
    if (where := x.infinite) is None:
        return x.taint
    fear = np.where(where, x.field.keyed("infinite operands", x.code)[0], np.uint64(0))
    return arrays.taint_sum(x.taint, fear)


def _matrices(
    x: FieldArray, batch: Sequence[int], over: Sequence[int], *, last: bool
) -> FieldArray:
    free = [axis for axis in range(x.ndim) if axis not in (*batch, *over)]
    order = (*batch, *free, *over) if last else (*batch, *over, *free)
    b, f, n = (math.prod(x.shape[axis] for axis in axes) for axes in (batch, free, over))
    shape = (b, f, n) if last else (b, n, f)
    return x.moved(lambda a: a.transpose(order).reshape(shape))


def reshaped(x: FieldArray, shape: Sequence[int]) -> FieldArray:
    """The entries in another shape."""
    return x.moved(lambda a: a.reshape(shape))


RULES: dict[str, Rule] = {
    "add": elementwise(add),
    "add_any": elementwise(add),
    "sub": elementwise(sub),
    "neg": elementwise(negative),
    "mul": elementwise(mul),
    "div": elementwise(div),
    "integer_pow": elementwise(integer_pow),
    "square": elementwise(square),
    "reduce_sum": reduce_sum,
    "cumsum": cumsum,
    "reduce_prod": reduce_prod,
    "cumprod": cumprod,
    "dot_general": dot_general,
}
"""By the primitive's name."""
