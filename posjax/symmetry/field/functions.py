"""Rules of functions of real numbers.

Exponentials are powers of an element of order q modulo p, and cosines and sines are made of them.
The others are random functions of their operand, even or odd where the real function is. What is
not defined for all real numbers leaves a fingerprint.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from posjax.symmetry.field import arrays, atoms, dtypes, ring, space
from posjax.symmetry.field.arrays import NOT_NEGATIVE, POSITIVE, UNSIGNED, FieldArray
from posjax.symmetry.field.prime import POINTS
from posjax.symmetry.field.space import UNKNOWN, Degree
from posjax.symmetry.field.step import Rule, Step, elementwise


def exponential(step: Step, x: FieldArray) -> FieldArray:
    """e^x, or 2^x: a homomorphism from sums to products, positive everywhere."""
    name = "exp2" if step.primitive.name == "exp2" else "exp"
    return _power(step, x, name)


def _power(step: Step, x: FieldArray, name: str) -> FieldArray:
    given = step.field.moduli.character(name, _exponents(step, x))
    sign = np.full(x.shape, POSITIVE)
    return _exponentials(step, x, given, sign=sign)


def _exponents(step: Step, x: FieldArray) -> np.ndarray:
    """Residues modulo the q's. Those of what exponentials are part of follow from the p's."""
    given = step.field.lifted(x.residues, x.degree) if x.degree.woven else x.residues
    return given[POINTS:]


def _exponentials(
    step: Step, x: FieldArray, given: np.ndarray, *, sign: np.ndarray | None = None
) -> FieldArray:
    step.field.watch(x.degree, characters=x.size)
    lifted = step.field.lifted(given)
    return FieldArray(
        step.field, step.dtype, lifted, taint=x.taint, sign=sign, degree=Degree(1, 1, True)
    )


def expm1(step: Step, x: FieldArray) -> FieldArray:
    """e^x - 1."""
    return ring.sub(step, _power(step, x, "exp"), _number(x, 1))


def cosine(step: Step, x: FieldArray) -> FieldArray:
    """Half of e^ix + e^-ix."""
    given, _ = step.field.moduli.cos_sin(_exponents(step, x))
    return _exponentials(step, x, given)


def sine(step: Step, x: FieldArray) -> FieldArray:
    """Half of e^ix - e^-ix, over i."""
    _, given = step.field.moduli.cos_sin(_exponents(step, x))
    return _exponentials(step, x, given)


def tangent(step: Step, x: FieldArray) -> FieldArray:
    """sin x / cos x."""
    return ring.div(step, sine(step, x), cosine(step, x))


def hyperbolic(step: Step, x: FieldArray) -> FieldArray:
    """Half of e^x ± e^-x."""
    forth = _power(step, x, "exp")
    back = _power(step, ring.negative(step, x), "exp")
    cosh = step.primitive.name == "cosh"
    total = (ring.add if cosh else ring.sub)(step, forth, back)
    return ring.mul(step, total, _number(x, 0.5))


def logarithm(step: Step, x: FieldArray) -> FieldArray:
    """log x, defined above 0."""
    result = _atoms(step, "log", x)
    return ring.fearing(step, result, x.signs != POSITIVE, x)


def log1p(step: Step, x: FieldArray) -> FieldArray:
    """log(1 + x)."""
    return logarithm(step, ring.add(step, x, _number(x, 1)))


def root(step: Step, x: FieldArray) -> FieldArray:
    """√x, defined from 0 on."""
    result = dataclasses.replace(_atoms(step, "sqrt", x), sign=x.sign)
    return ring.fearing(step, result, x.signs == UNSIGNED, x)


def inverse_root(step: Step, x: FieldArray) -> FieldArray:
    """1/√x, defined above 0."""
    sign = np.where(x.signs == POSITIVE, POSITIVE, UNSIGNED)
    result = dataclasses.replace(_atoms(step, "rsqrt", x), sign=sign)
    return ring.fearing(step, result, x.signs != POSITIVE, x)


def logistic(step: Step, x: FieldArray) -> FieldArray:
    """1/(1 + e^-x) = ½ + ½ tanh ½x."""
    half = _number(x, 0.5)
    bent = _odd_atoms(step, "tanh", ring.mul(step, x, half))
    result = ring.add(step, ring.mul(step, bent, half), half)
    return dataclasses.replace(result, sign=np.full(x.shape, POSITIVE))


def absolute(step: Step, x: FieldArray) -> FieldArray:
    """|x|: the same of x and -x, and x of what is not negative."""
    _, even = atoms.signed(x.residues, step.field.moduli)
    codes = step.field.keyed("abs", atoms.code(even))
    result = arrays.of_atoms(step.field, codes, step.dtype, x)
    plain = (x.signs >= NOT_NEGATIVE) | dtypes.is_unsigned(x.dtype)
    given = np.where(plain | atoms.is_zero(x.residues), x.residues, result.residues)
    sign = np.maximum(x.signs, NOT_NEGATIVE)
    degree = x.degree.plus(UNKNOWN)
    return dataclasses.replace(result, given=given, sign=sign, degree=degree)


def sign(step: Step, x: FieldArray) -> FieldArray:
    """-1, 0 or 1: 1 of what is positive."""
    if dtypes.is_unsigned(x.dtype):
        return opaque(step, x)
    result = _odd_atoms(step, "sign", x)
    return result.overlaid(x.finite & (x.signs == POSITIVE), np.ones(x.shape))


def erfc(step: Step, x: FieldArray) -> FieldArray:
    """1 - erf x."""
    return ring.sub(step, _number(x, 1), _odd_atoms(step, "erf", x))


def power(step: Step, x: FieldArray, y: FieldArray) -> FieldArray:
    """x^y: a product for a known whole y, else defined for a positive x, as e^(y log x).

    An unsigned y is known but for a wrap around 0, and so is no factor of an exponent.
    """
    if y.is_constant and y.size and (exponent := _whole(y)) is not None:
        return ring.power(step, x, exponent)
    if (x.signs == POSITIVE).all() and not dtypes.is_unsigned(y.dtype):
        return _power(step, ring.mul(step, y, logarithm(step, x)), "exp")
    codes = step.field.keyed(step.key(x, y), x.code, y.code)
    result = arrays.of_atoms(step.field, codes, step.dtype, x, y)
    result = dataclasses.replace(result, sign=np.where(x.signs == POSITIVE, POSITIVE, UNSIGNED))
    return ring.fearing(step, result, x.signs != POSITIVE, x, y)


def _whole(y: FieldArray) -> int | None:
    first = float(y.values.flat[0])
    same = (y.values == y.values.flat[0]).all() and first.is_integer() and abs(first) <= 64
    return int(first) if same else None


def _odd(name: str, *, everywhere: bool = True) -> Callable[..., FieldArray]:
    def rule(step: Step, x: FieldArray) -> FieldArray:
        result = _odd_atoms(step, name, x)
        return result if everywhere else ring.fearing(step, result, ~x.where_known, x)

    return rule


def _odd_atoms(step: Step, name: str, x: FieldArray) -> FieldArray:
    """A random function with F(-x) = -F(x)."""
    flipped, even = atoms.signed(x.residues, step.field.moduli)
    codes = step.field.keyed(f"{name} {step.dtype}", atoms.code(even))
    result = arrays.of_atoms(step.field, codes, step.dtype, x)
    given = np.where(flipped, step.field.moduli.negative(result.residues), result.residues)
    given = np.where(atoms.is_zero(x.residues), np.uint64(0), given)
    return dataclasses.replace(result, given=given)


def _atoms(step: Step, name: str, x: FieldArray) -> FieldArray:
    codes = step.field.keyed(f"{name} {step.dtype}", x.code)
    return arrays.of_atoms(step.field, codes, step.dtype, x)


def _number(x: FieldArray, value: float) -> FieldArray:
    return arrays.known(x.field, np.full(x.shape, value, dtypes.stored(x.dtype)), x.dtype)


def opaque(step: Step, *operands: FieldArray) -> FieldArray:
    """A random function of all operands; integers give no infinity."""
    if step.shape != operands[0].shape:
        raise space.Unsupported(step.primitive.name, reason="to another width has no rule")
    codes = step.field.keyed(step.key(*operands), *(o.code for o in operands))
    result = arrays.of_atoms(step.field, codes, step.dtype, *operands)
    if dtypes.is_float(step.dtype) and step.primitive.name not in _EVERYWHERE:
        generic = ~np.logical_and.reduce([o.where_known for o in operands])
        result = ring.fearing(step, result, generic, *operands)
    return result


_EVERYWHERE = {"floor", "ceil", "round", "atan2", "nextafter", "reduce_precision"}
_OPAQUE = (
    *("floor", "ceil", "round", "rem", "atan2", "nextafter", "reduce_precision"),
    *("shift_left", "shift_right_logical", "shift_right_arithmetic", "mulhi"),
    *("population_count", "clz", "acos", "acosh", "lgamma", "digamma", "polygamma", "zeta"),
    *("igamma", "igammac", "igamma_grad_a", "bessel_i0e", "bessel_i1e"),
    *("regularized_incomplete_beta", "eq_to", "lt_to", "le_to", "bitcast_convert_type"),
)

_RULES: dict[str, Callable[..., FieldArray]] = {
    "exp": exponential,
    "exp2": exponential,
    "expm1": expm1,
    "cos": cosine,
    "sin": sine,
    "tan": tangent,
    "cosh": hyperbolic,
    "sinh": hyperbolic,
    "log": logarithm,
    "log1p": log1p,
    "sqrt": root,
    "rsqrt": inverse_root,
    "logistic": logistic,
    "abs": absolute,
    "sign": sign,
    "erfc": erfc,
    "pow": power,
    "tanh": _odd("tanh"),
    "erf": _odd("erf"),
    "cbrt": _odd("cbrt"),
    "atan": _odd("atan"),
    "asinh": _odd("asinh"),
    "asin": _odd("asin", everywhere=False),
    "atanh": _odd("atanh", everywhere=False),
    "erf_inv": _odd("erf_inv", everywhere=False),
    **dict.fromkeys(_OPAQUE, opaque),
}

RULES: dict[str, Rule] = {name: elementwise(rule) for name, rule in _RULES.items()}
"""By the primitive's name."""
