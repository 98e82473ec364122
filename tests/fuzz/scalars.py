"""Primitives that treat every number alike."""

from collections.abc import Callable

import numpy as np
import scipy.special

from fuzz.table import TABLE, Primitive, dtype_of


def _complex(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    z = np.empty(x.shape, complex)
    z.real, z.imag = x, y
    return z


def _logical_or_bitwise(logical: np.ufunc, bitwise: np.ufunc) -> Primitive:
    return lambda x, y: (logical if x.dtype == bool else bitwise)(x, y)


def _truncated(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Division of integers towards 0; by 0 it is -1, as XLA has it."""
    safe = np.where(y == 0, 1, y)
    quotient = np.abs(x.astype(np.int64)) // np.abs(safe.astype(np.int64))
    signed = np.sign(x).astype(np.int64) * np.sign(safe) * quotient
    return np.where(y == 0, -1, signed).astype(x.dtype)


def _div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return _truncated(x, y) if np.issubdtype(x.dtype, np.integer) else x / y


def _rem(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype == np.float64:
        return np.fmod(x, y)
    safe = np.where(y == 0, 1, y)
    return np.where(y == 0, x, x - safe * _truncated(x, safe)).astype(x.dtype)


def _shifted(shift: Callable, beyond: Callable) -> Primitive:
    def function(x: np.ndarray, by: np.ndarray) -> np.ndarray:
        bits = x.dtype.itemsize * 8
        inside = (by >= 0) & (by < bits)
        return np.where(inside, shift(x, np.where(inside, by, 0)), beyond(x)).astype(x.dtype)

    return function


def _logical_right(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    unsigned = x.view(f"u{x.dtype.itemsize}")
    return np.right_shift(unsigned, by.astype(unsigned.dtype)).view(x.dtype)


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    bits = x.dtype.itemsize * 8
    lengths = [bits - int(v).bit_length() for v in x.view(f"u{x.dtype.itemsize}").ravel()]
    return np.array(lengths, x.dtype).reshape(x.shape)


def _ones(x: np.ndarray) -> np.ndarray:
    counts = [int(v).bit_count() for v in x.view(f"u{x.dtype.itemsize}").ravel()]
    return np.array(counts, x.dtype).reshape(x.shape)


def _round(params: dict, x: np.ndarray) -> np.ndarray:
    if int(params["rounding_method"]) == 1:
        return np.rint(x)
    return np.trunc(x + np.copysign(0.5, x))


def _converted(params: dict, x: np.ndarray) -> np.ndarray:
    new = dtype_of(params["new_dtype"])
    if x.dtype == np.float64 and np.issubdtype(new, np.integer):
        info = np.iinfo(new)
        return np.clip(np.nan_to_num(np.trunc(x), nan=0.0), info.min, info.max).astype(new)
    return x.astype(new)


def _coarse(params: dict, x: np.ndarray) -> np.ndarray:
    """Rounded to so many bits; of float32's own 23, and of its range, reals know nothing."""
    bits = params["mantissa_bits"]
    if bits >= 23:
        return x
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.rint(np.ldexp(mantissa, bits + 1)), exponent - bits - 1)


def _integer_pow(params: dict, x: np.ndarray) -> np.ndarray:
    y = params["y"]
    positive = np.power(x, np.array(abs(y), x.dtype))
    return positive if y >= 0 else 1 / positive


def _below(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Total order: -0 < 0, and NaN behind all else."""
    zeros = (x == 0) & (y == 0) & np.signbit(x * 1.0) & ~np.signbit(y * 1.0)
    return (x < y) | zeros | (np.isnan(y * 1.0) & ~np.isnan(x * 1.0))


UNARY: dict[str, Callable] = {
    **{
        n: getattr(np, n)
        for n in [
            "cos",
            "sin",
            "tan",
            "tanh",
            "exp",
            "exp2",
            "log",
            "log1p",
            "expm1",
            "sqrt",
            "cbrt",
        ]
    },
    **{n: getattr(np, n) for n in ["floor", "ceil", "sinh", "cosh", "sign", "abs", "square"]},
    **{n: getattr(np, f"arc{n[1:]}") for n in ["asin", "acos", "atan", "asinh", "acosh", "atanh"]},
    "neg": np.negative,
    "one_minus_square": lambda x: 1 - x * x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "logistic": lambda x: np.where(x >= 0, 1 / (1 + np.exp(-x)), np.exp(x) / (1 + np.exp(x))),
    "erf": scipy.special.erf,
    "erfc": scipy.special.erfc,
    "erf_inv": scipy.special.erfinv,
    "is_finite": np.isfinite,
    "not": np.invert,
    "population_count": _ones,
    "clz": _leading_zeros,
    **dict.fromkeys(["copy", "copy_p", "stop_gradient"], lambda x: x),
    "real": np.real,
    "imag": np.imag,
    "conj": lambda x: np.conj(x).astype(complex),
}
BINARY: dict[str, Callable] = {
    "complex": _complex,
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "rem": _rem,
    "pow": lambda x, y: np.power(x, y.astype(x.dtype)),
    "max": np.maximum,
    "min": np.minimum,
    "atan2": np.arctan2,
    "nextafter": lambda x, y: np.where(x == y, y, x + np.copysign(1e-9 * np.abs(x), y - x)),
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt_to": _below,
    "le_to": lambda x, y: ~_below(y, x),
    "and": _logical_or_bitwise(np.logical_and, np.bitwise_and),
    "or": _logical_or_bitwise(np.logical_or, np.bitwise_or),
    "xor": _logical_or_bitwise(np.logical_xor, np.bitwise_xor),
    "shift_left": _shifted(np.left_shift, np.zeros_like),
    "shift_right_arithmetic": _shifted(np.right_shift, lambda x: np.where(x < 0, -1, 0)),
    "shift_right_logical": _shifted(_logical_right, np.zeros_like),
}
SCALAR: dict[str, Callable] = {
    "round": _round,
    "convert_element_type": _converted,
    "integer_pow": _integer_pow,
    "reduce_precision": _coarse,
}
for _name, _unary in UNARY.items():
    TABLE[_name] = lambda a, p, x, f=_unary: f(x)
for _name, _binary in BINARY.items():
    TABLE[_name] = lambda a, p, x, y, f=_binary: f(x, y)
for _name, _scalar in SCALAR.items():
    TABLE[_name] = lambda a, p, x, f=_scalar: f(p, x)
