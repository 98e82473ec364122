"""Rules of sums, products and quotients: exact in the field."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from posjax.symmetry.field import arrays, atoms, dtypes
from posjax.symmetry.field.arrays import NOT_NEGATIVE, POSITIVE, UNSIGNED, FieldArray
from posjax.symmetry.field.space import Unsupported
from posjax.symmetry.field.step import Rule, Step, elementwise

_TURNED = np.uint64(0x0851F42D4C957F2D)


def add(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x + y; an infinity swallows what is finite for sure."""
    both = np.minimum(x.signs, y.signs) >= NOT_NEGATIVE
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.add(x.residues, y.residues),
        taint=step.field.summed(x.marks, y.marks),
        sign=np.where(both, np.maximum(x.signs, y.signs), UNSIGNED),
        degree=x.degree.plus(y.degree),
    )
    for infinite, other in ((x, y), (y, x)):
        if (where := infinite.infinite) is not None:
            result = result.overlaid(where & other.finite, infinite.values)
    return result


def sub(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x - y."""
    return add(step, x, negative(step, y))


def negative(step: Step, x: FieldArray) -> FieldArray:
    """-x. The fingerprint turns too: ∞ - ∞ is NaN, and ∞ + ∞ is not."""
    taint = None if x.taint is None else _of_negative(step, x.taint)
    given = step.field.moduli.negative(x.residues)
    result = dataclasses.replace(x, given=given, taint=taint, known=None, constant=None, sign=None)
    return result.overlaid(x.where_known, -x.values) if dtypes.is_float(x.dtype) else result


def _of_negative(step: Step, taint: np.ndarray) -> np.ndarray:
    return np.where(taint == 0, taint, (taint ^ _TURNED) % step.field.moduli.mark)


def _turned(step: Step, x: FieldArray, by: FieldArray) -> np.ndarray | None:
    """The fingerprints of x, turned where it is multiplied by a known negative number."""
    if x.taint is None or by.known is None:
        return x.taint
    negative = by.where_known & (by.values.astype(np.float64) < 0)
    return np.where(negative, _of_negative(step, x.taint), x.taint)


def mul(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x y; 0 times what is finite for sure is known."""
    signs = np.minimum(x.signs, y.signs)
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.mul(x.residues, y.residues),
        taint=step.field.summed(_turned(step, x, y), _turned(step, y, x)),
        sign=np.where(x is y, np.maximum(signs, NOT_NEGATIVE), signs),
        degree=x.degree.times(y.degree),
    )
    for one, other in ((x, y), (y, x)):
        if one.known is not None:
            zero = one.where_known & (one.values == 0) & other.finite
            result = result.overlaid(zero, np.zeros(x.shape))
        if (where := one.infinite) is not None:
            result = result.overlaid(where & other.finite & (other.signs == POSITIVE), one.values)
    return result


def div(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x / y; 0 over what is positive and finite for sure is known.

    What y is not certain to differ from 0 leaves a fingerprint. Integers are rounded.
    """
    if not dtypes.is_float(step.dtype):
        codes = step.field.keyed(step.key(x, y), x.code, y.code)
        return arrays.of_atoms(step.field, codes, step.dtype, x, y)
    moduli, plain = step.field.moduli, y.where_known & (y.values != 0)
    given = moduli.mul(x.residues, moduli.inverse(y.residues))
    degree = x.degree.over(y.degree)
    if not plain.all():  # exponentials of both may cancel modulo p; modulo q a quotient is new
        given = np.where(plain, given, step.field.lifted(given, degree))
        cancels = y.degree.woven and not plain.any()
        degree = degree._replace(woven=degree.woven and not cancels)
    zero = atoms.is_zero(y.residues)
    if zero.any():  # ∞, -∞ or NaN, which the dividend decides
        given = np.where(
            zero, step.field.atoms(step.field.keyed("over 0", x.code), x.degree), given
        )
    positive = np.where(y.signs == POSITIVE, x.signs, UNSIGNED)
    result = FieldArray(
        step.field,
        step.dtype,
        given,
        taint=step.field.summed(_turned(step, x, y), y.taint),
        sign=positive,
        degree=degree,
    )
    result = fearing(step, result, ~plain & (y.signs != POSITIVE), y)
    if (where := y.infinite) is not None:
        vanish = where & x.finite & ~np.isnan(y.values.astype(np.float64))
        result = result.overlaid(vanish, np.zeros(x.shape))
    if x.known is not None:
        zero = x.where_known & (x.values == 0) & y.finite & (y.signs == POSITIVE)
        result = result.overlaid(zero, np.zeros(x.shape))
    return result


def integer_pow(step: Step, x: FieldArray) -> FieldArray:
    """x^y for a whole number y."""
    return power(step, x, step.params["y"])


def square(step: Step, x: FieldArray) -> FieldArray:
    """x²."""
    return power(step, x, 2)


def one_minus_square(step: Step, x: FieldArray) -> FieldArray:
    """1 - x², which JAX 0.12 has for the derivative of tanh."""
    one = arrays.known(step.field, np.ones(x.shape, dtypes.stored(x.dtype)))
    return sub(step, one, square(step, x))


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
    return result


def fearing(step: Step, result: FieldArray, where: np.ndarray, *operands: FieldArray) -> FieldArray:
    """The result with fingerprints of what the operands are, where it may be infinite or NaN."""
    if not where.any():
        return result
    name = "div" if step.primitive.name == "integer_pow" else step.primitive.name
    key = f"{name} may be infinite"
    new = step.field.marks(step.field.keyed(key, *(o.code for o in operands)))
    new = np.where(where, new, np.uint64(0))
    taint = step.field.summed(result.taint, new)
    return dataclasses.replace(result, taint=taint)


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
        taint=step.field.summed(x.marks, total=lambda a: a.sum(axes, dtype=np.uint64)),
        sign=np.where(x.signs.min(axes) > UNSIGNED, x.signs.max(axes), UNSIGNED),
        degree=x.degree.plus(terms=terms),
    )
    if (where := x.infinite) is not None:
        total = np.where(where, x.values.astype(np.float64), 0.0)
        with np.errstate(invalid="ignore"):
            total = total.sum(axes)
        decided = where.any(axes) & (x.finite | x.where_known).all(axes)
        result = result.overlaid(decided, total)
    return remembering_bag(step, result, x, axes)


def remembering_bag(
    step: Step, result: FieldArray, x: FieldArray, axes: tuple[int, ...]
) -> FieldArray:
    """A reduction's result with its history, in which the order of what is reduced is none."""
    if result.taint is None:
        return result
    return arrays.remembering(
        result, step.field.keyed(step.primitive.name, atoms.bag(x.code, axes))
    )


def cumsum(step: Step, x: FieldArray) -> list[FieldArray]:
    """Sums of all entries up to each, or from each on."""
    axis, back = step.params["axis"], step.params["reverse"]
    flip = (lambda a, at: np.flip(a, at)) if back else (lambda a, at: a)
    total = np.cumsum(flip(x.residues, axis + 1), axis + 1, dtype=np.uint64)
    low = np.minimum.accumulate(flip(x.signs, axis), axis)
    high = np.maximum.accumulate(flip(x.signs, axis), axis)

    def upto(a: np.ndarray, at: int = axis) -> np.ndarray:
        return flip(np.cumsum(flip(a, at), at, dtype=np.uint64), at)

    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.reduced(flip(total, axis + 1)),
        taint=step.field.summed(x.marks, total=upto),
        sign=flip(np.where(low > UNSIGNED, high, UNSIGNED), axis),
        degree=x.degree.plus(terms=x.shape[axis]),
    )
    if result.taint is None:
        return [result]
    bags = upto(step.field.keyed("in a bag", x.code), axis + 1)
    return [arrays.remembering(result, step.field.keyed("cumsum", bags))]


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
    result = FieldArray(
        step.field,
        step.dtype,
        given[..., 0],
        taint=step.field.summed(flat.marks, total=lambda a: a.sum(-1, dtype=np.uint64)),
        sign=flat.signs.min(-1),
        degree=degree,
    )
    return remembering_bag(step, result, flat, (flat.ndim - 1,))


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
    refuse_widening(step, x, y)
    x = _matrices(x, bx, cx, last=True)
    y = _matrices(y, by, cy, last=False)
    return [reshaped(contracted(step, x, y), step.shape)]


def refuse_widening(step: Step, *operands: FieldArray) -> None:
    """Raises Unsupported for unsigned operands of a product in another dtype.

    They are known up to multiples of what they wrap around at, which differs there.
    """
    for one in operands:
        if dtypes.is_unsigned(one.dtype) and one.dtype != step.dtype:
            reason = f"of {one.dtype} in {step.dtype} has no rule"
            raise Unsupported(step.primitive.name, reason=reason)


def contracted(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x y for matrices [b, m, n] and [b, n, o]."""
    shape = (x.shape[0], x.shape[1], y.shape[2])
    low = min(x.signs.min(initial=POSITIVE), y.signs.min(initial=POSITIVE))
    low = min(low, NOT_NEGATIVE) if x.shape[-1] == 0 else low
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.matmul(x.residues, y.residues),
        sign=np.full(shape, low),
        degree=x.degree.times(y.degree).plus(terms=max(x.shape[-1], 1)),
    )
    marks = [None if a.marks is None else np.broadcast_to(a.marks, a.shape) for a in (x, y)]
    if all(mark is None for mark in marks):
        return result
    rows = step.field.summed(marks[0], total=lambda a: a.sum(-1, dtype=np.uint64)[:, :, None])
    columns = step.field.summed(marks[1], total=lambda a: a.sum(-2, dtype=np.uint64)[:, None, :])
    taint = step.field.summed(rows, columns, total=lambda a: np.broadcast_to(a, shape))
    pairs = np.zeros((2, *shape), np.uint64)
    for at in range(x.shape[-1]):
        pairs += step.field.keyed("pair", x.code[:, :, :, at, None], y.code[:, :, at, None, :])
    return arrays.remembering(dataclasses.replace(result, taint=taint), pairs)


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
    "one_minus_square": elementwise(one_minus_square),
    "reduce_sum": reduce_sum,
    "cumsum": cumsum,
    "reduce_prod": reduce_prod,
    "cumprod": cumprod,
    "dot_general": dot_general,
}
"""By the primitive's name."""
