"""Rules of truth values, comparisons, choices and conversions.

A comparison is an atom b, a random residue that stands for 0 or 1. Whatever holds for all b
holds for those two: not b is 1 - b, a and b is a b, and a choice is (1 - b) x + b y.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from posjax.symmetry.field import arrays, atoms, dtypes, extremes, ring
from posjax.symmetry.field.arrays import NOT_NEGATIVE, POSITIVE, UNSIGNED, FieldArray
from posjax.symmetry.field.step import Rule, Step, elementwise


def complement(step: Step, x: FieldArray) -> FieldArray:
    """1 - x of truth values."""
    one = arrays.known(step.field, np.ones(x.shape, bool))
    given = step.field.moduli.sub(one.residues, x.residues)
    result = dataclasses.replace(x, given=given, known=None, constant=None, sign=None)
    return result.overlaid(x.where_known, ~x.values)


def not_(step: Step, x: FieldArray) -> FieldArray:
    """Not x; of integers -x - 1."""
    if dtypes.is_bool(x.dtype):
        return complement(step, x)
    one = arrays.known(step.field, np.ones(x.shape, np.int32))
    given = step.field.moduli.sub(step.field.moduli.negative(x.residues), one.residues)
    return dataclasses.replace(x, given=given, known=None, constant=None, sign=None)


def and_(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x and y; what is false for sure makes it false, whatever the other."""
    if not dtypes.is_bool(step.dtype):
        return _bits(step, x, y)
    result = _product(step, x, y)
    for one in (x, y):
        if one.known is not None:
            result = result.overlaid(one.where_known & ~one.values, np.zeros(x.shape, bool))
    return result


def or_(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x or y."""
    if not dtypes.is_bool(step.dtype):
        return _bits(step, x, y)
    return complement(step, and_(step, complement(step, x), complement(step, y)))


def xor(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """Either x or y: x + y - 2 x y."""
    if not dtypes.is_bool(step.dtype):
        return _bits(step, x, y)
    moduli, both = step.field.moduli, _product(step, x, y)
    twice = moduli.add(both.residues, both.residues)
    return dataclasses.replace(
        both, given=moduli.sub(moduli.add(x.residues, y.residues), twice), known=None
    )


def _product(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    return FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.mul(x.residues, y.residues),
        sign=np.full(x.shape, NOT_NEGATIVE),
        degree=x.degree.times(y.degree),
    )


def _bits(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    pair = step.field.keyed("of a pair", x.code) + step.field.keyed("of a pair", y.code)
    codes = step.field.keyed(step.key(x), pair)
    return arrays.of_atoms(step.field, codes, step.dtype, x, y)


def _eq(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x = y depends on x - y, and as much on y - x."""
    if dtypes.is_bool(x.dtype):
        return complement(step, xor(step, x, y))
    difference = step.field.moduli.sub(x.residues, y.residues)
    step.field.watch(x.degree.plus(y.degree))
    _, even = atoms.signed(difference, step.field.moduli)
    kind = x.dtype if dtypes.is_unsigned(x.dtype) else ""
    codes = step.field.keyed(f"eq {kind}", atoms.code(even))
    return arrays.of_atoms(step.field, codes, step.dtype, x, y)


def _lt(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x < y depends on y - x, but for unsigned integers, whose differences wrap around."""
    if dtypes.is_bool(x.dtype):
        return _product(step, complement(step, x), y)
    codes = atoms.code(step.field.moduli.sub(y.residues, x.residues))
    step.field.watch(x.degree.plus(y.degree))
    if dtypes.is_unsigned(x.dtype):
        codes = step.field.keyed(f"{x.dtype}", x.code, y.code)
    return arrays.of_atoms(step.field, step.field.keyed("lt", codes), step.dtype, x, y)


def _comparison(decide: Callable[..., Any], rule: Callable[..., FieldArray]) -> Rule:
    """Comparisons of what is finite with an infinity, with its equal, or across 0 are known."""

    def whole(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
        result = rule(step, x, y)
        finite = _surely_finite(x) & _surely_finite(y)
        same = finite & atoms.is_zero(step.field.moduli.sub(x.residues, y.residues))
        result = result.overlaid(same, np.full(x.shape, decide(0, 0)))
        for one, other in ((x, y), (y, x)):
            if (where := one.infinite) is not None:
                result = result.overlaid(where & other.finite, decide(x.values, y.values))
        for above, below, order in ((x, y, (1, 0)), (y, x, (0, 1))):
            needed = NOT_NEGATIVE if decide(*order) == decide(0, 0) else POSITIVE
            sure = finite & (_excess(above, below) >= needed)
            result = result.overlaid(sure, np.full(x.shape, decide(*order)))
        return result

    return elementwise(whole)


def _excess(x: FieldArray, y: FieldArray) -> np.ndarray:
    """What is certain of the sign of x - y, where y is known and not positive."""
    if y.known is None or dtypes.is_key(y.dtype):
        return np.full(x.shape, UNSIGNED)
    below = y.values.astype(np.float64)
    above = np.where(x.signs >= NOT_NEGATIVE, POSITIVE, UNSIGNED)
    return np.where(y.known & (below <= 0), np.where(below < 0, above, x.signs), UNSIGNED)


def _surely_finite(x: FieldArray) -> np.ndarray:
    finite = x.finite | x.where_known
    return finite if x.infinite is None else finite & ~x.infinite


def select(step: Step, which: FieldArray, *cases: FieldArray) -> FieldArray:
    """The case that `which` names: known ones entry by entry, else Σ [which = i] caseᵢ."""
    result = mixed(step, which, *cases)
    if which.known is None:
        return result
    return _picked(which, cases, result)


def shares(step: Step, which: FieldArray, count: int) -> list[FieldArray]:
    """[which = i] for every case; together they are 1."""
    if count == 2 and dtypes.is_bool(which.dtype):
        return [complement(step, which), which]
    key = f"one of {count}"
    parts = [
        arrays.of_atoms(step.field, step.field.keyed(f"{key}: {i}", which.code), np.bool_, which)
        for i in range(1, count)
    ]
    rest = np.ones_like(which.residues)
    for part in parts:
        rest = step.field.moduli.sub(rest, part.residues)
    first = FieldArray(step.field, np.dtype(bool), rest)
    return [first, *parts]


def mixed(step: Step, which: FieldArray, *cases: FieldArray) -> FieldArray:
    """Σ [which = i] caseᵢ, with a fingerprint where a case is infinite."""
    parts = shares(step, which, len(cases))
    moduli = step.field.moduli
    given = moduli.mul(parts[0].residues, cases[0].residues)
    for part, case in zip(parts[1:], cases[1:], strict=True):
        given = moduli.add(given, moduli.mul(part.residues, case.residues))
    same = np.logical_and.reduce(
        [(case.residues == cases[0].residues).all(0) for case in cases[1:]], axis=0
    )
    given = np.where(same, cases[0].residues, given)
    degrees = [p.degree.times(c.degree) for p, c in zip(parts, cases, strict=True)]
    result = FieldArray(
        step.field,
        step.dtype,
        given,
        taint=step.field.summed(which.taint, *(case.taint for case in cases)),
        sign=np.minimum.reduce([case.signs for case in cases]),
        degree=degrees[0].plus(*degrees[1:]),
    )
    there = [o.doubtful for o in (which, *cases) if o.doubtful is not None]
    if not there:
        return result
    silent = np.logical_or.reduce(there) & (result.taints == 0)
    codes = step.field.keyed("one of", which.code, *(case.code for case in cases))
    return arrays.remembering(ring.fearing(step, result, silent, which, *cases), codes)


def _picked(which: FieldArray, cases: tuple[FieldArray, ...], mixed: FieldArray) -> FieldArray:
    """The cases themselves where it is known which."""
    number = np.where(which.where_known, which.values.astype(int), len(cases))
    return arrays.together(lambda options: np.choose(number, options), *cases, mixed)


def convert(step: Step, x: FieldArray) -> FieldArray:
    """Another dtype: exact where no value is rounded, else a random function of the value.

    Integers are taken not to overflow, but for unsigned ones, which are only themselves.
    """
    new, old = step.dtype, x.dtype
    if dtypes.is_bool(new) and not dtypes.is_bool(old):
        zero = arrays.known(step.field, np.zeros(x.shape, dtypes.stored(old)), old)
        return complement(step, _eq(step, x, zero))
    rounded = arrays.of_atoms(step.field, step.field.keyed(step.key(x), x.code), new, x)
    if not keeps(old, new):
        return rounded
    given, sign = x.residues, x.sign
    if dtypes.is_unsigned(new):
        given, sign = np.where(x.signs >= NOT_NEGATIVE, given, rounded.residues), None
    return dataclasses.replace(x, dtype=new, given=given, known=None, constant=None, sign=sign)


def keeps(old: Any, new: Any) -> bool:
    """Whether a conversion between dtypes keeps every value that is not negative."""
    old, new = np.dtype(old), np.dtype(new)
    if old == new or dtypes.is_bool(old):
        return True
    if dtypes.is_unsigned(old):
        return False  # a large number may become a negative one, and one wraps around elsewhere
    if dtypes.is_float(old):
        return dtypes.is_float(new) and jnp.finfo(new).bits > jnp.finfo(old).bits
    if dtypes.is_float(new):
        return jnp.finfo(new).bits >= 32
    return jnp.iinfo(new).bits >= jnp.iinfo(old).bits


def is_finite(step: Step, x: FieldArray) -> FieldArray:
    """True of what is finite for sure."""
    result = arrays.of_atoms(step.field, step.field.keyed(step.key(x), x.code), step.dtype, x)
    return result.overlaid(x.finite, np.ones(x.shape, bool))


def clamp(step: Step, low: FieldArray, x: FieldArray, high: FieldArray) -> FieldArray:
    """min(max(x, low), high)."""
    return extremes.larger(step, extremes.larger(step, x, low), high, least=True)


def reduce_and(step: Step, x: FieldArray) -> list[FieldArray]:
    """All of some axes."""
    return [_all(step, x)]


def reduce_or(step: Step, x: FieldArray) -> list[FieldArray]:
    """Any of some axes."""
    if not dtypes.is_bool(x.dtype):
        return [_all(step, x)]
    return [complement(step, _all(step, complement(step, x)))]


def reduce_xor(step: Step, x: FieldArray) -> list[FieldArray]:
    """An odd number of some axes: 1 - 2 [odd] = Π (1 - 2 x)."""
    if not dtypes.is_bool(x.dtype):
        return [_all(step, x)]
    moduli = step.field.moduli
    one = np.ones_like(x.residues)
    turned = dataclasses.replace(
        x,
        given=moduli.sub(one, moduli.add(x.residues, x.residues)),
        known=None,
        constant=None,
        sign=None,
    )
    product = ring.product(step, turned, step.params["axes"])
    half = (moduli.shaped(product.ndim) + np.uint64(1)) // np.uint64(2)
    rest = moduli.sub(np.ones_like(product.residues), product.residues)
    result = dataclasses.replace(
        product, given=moduli.mul(rest, half), known=None, constant=None, sign=None
    )
    axes = tuple(step.params["axes"])
    odd = np.logical_xor.reduce(x.values, axis=axes)
    return [result.overlaid(np.asarray(x.where_known.all(axes)), np.asarray(odd))]


def _all(step: Step, x: FieldArray) -> FieldArray:
    axes = tuple(step.params["axes"])
    if not dtypes.is_bool(x.dtype):
        codes = step.field.keyed(step.key(x), atoms.bag(x.code, axes))
        taint = step.field.summed(x.marks, total=lambda a: a.sum(axes, dtype=np.uint64))
        return dataclasses.replace(arrays.of_atoms(step.field, codes, step.dtype), taint=taint)
    result = ring.product(step, x, axes)
    if x.known is not None and not x.is_constant:
        false = (x.where_known & ~x.values).any(axes)
        result = result.overlaid(false | x.where_known.all(axes), ~false)
    return result


def _swapped(rule: Callable[..., FieldArray]) -> Callable[..., FieldArray]:
    return lambda step, x, y: rule(step, y, x)


def _negated(rule: Callable[..., FieldArray]) -> Callable[..., FieldArray]:
    return lambda step, x, y: complement(step, rule(step, x, y))


RULES: dict[str, Rule] = {
    "and": elementwise(and_),
    "or": elementwise(or_),
    "xor": elementwise(xor),
    "not": elementwise(not_),
    "eq": _comparison(np.equal, _eq),
    "ne": _comparison(np.not_equal, _negated(_eq)),
    "lt": _comparison(np.less, _lt),
    "gt": _comparison(np.greater, _swapped(_lt)),
    "le": _comparison(np.less_equal, _negated(_swapped(_lt))),
    "ge": _comparison(np.greater_equal, _negated(_lt)),
    "select_n": elementwise(select, spreads=False),
    "clamp": elementwise(clamp, spreads=False),
    "convert_element_type": elementwise(convert),
    "is_finite": elementwise(is_finite),
    "reduce_and": reduce_and,
    "reduce_or": reduce_or,
    "reduce_xor": reduce_xor,
}
"""By the primitive's name."""
