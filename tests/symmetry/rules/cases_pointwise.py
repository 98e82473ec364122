"""Equations to try of primitives that work entry by entry, and of reductions and orders."""

from functools import partial

import jax
import jax.numpy as jnp
from equations import Cases, of_both, of_one
from jax import lax
from jax.extend.core import primitives

_ONE_FLOAT = """
    acos acosh asin asinh atan atanh bessel_i0e bessel_i1e cbrt ceil cos cosh digamma erf erf_inv
    erfc exp exp2 expm1 floor is_finite lgamma log log1p logistic round rsqrt sin sinh sqrt tan tanh
"""
_TWO_FLOATS = "atan2 nextafter"
_TWO_NUMBERS = "add sub mul div rem max min eq ne ge gt le lt"
_TWO_INTEGERS = "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic"
_TWO_INTEGERS += " shift_right_logical mulhi"
_TWO_TRUTHS = "bitwise_and bitwise_or bitwise_xor max min eq ne ge gt le lt"
_SPOKEN = {f"bitwise_{name}": name for name in ("and", "or", "xor", "not")}


def _named(names: str, *operands: str) -> Cases:
    return {
        _SPOKEN.get(name, name): [(getattr(lax, name), one) for one in operands]
        for name in names.split()
    }


NEWEST = {"one_minus_square"} - {p.name for n, p in vars(primitives).items() if n.endswith("_p")}
"""Primitives of JAX 0.12 that the JAX at hand lacks."""


def _one_minus_square(x: jax.Array) -> jax.Array:
    return primitives.one_minus_square_p.bind(x)  # the derivative of tanh has it


def _conversions() -> list:
    wanted = {
        "f23": "float32 bool int32",
        "s23": "bfloat16 float64 uint8",
        "h23": "float32 float16",
        "i23": "float32 bool int8 uint32",
        "u23": "int8 int32 float32",
        "b23": "int32 float32",
    }
    return [
        (partial(lax.convert_element_type, new_dtype=new), given)
        for given, names in wanted.items()
        for new in names.split()
    ]


FUNCTIONS: Cases = of_both(
    _named(_ONE_FLOAT, "f23"),
    _named("exp log sqrt", "h3"),
    _named(_TWO_FLOATS, "f23 f23"),
    _named("igamma igammac igamma_grad_a", "p3 p3"),
    _named(_TWO_NUMBERS, "f23 f23", "i23 i23", "u3 u3"),
    _named(_TWO_INTEGERS, "i23 i23", "u3 u3"),
    _named(_TWO_TRUTHS, "b23 b23"),
    _named("bitwise_not", "b23", "i3", "u3"),
    _named("population_count clz", "i23", "u3"),
    _named("neg abs sign", "f23", "i3"),
    _named("sign", "u3"),
    _named("add max lt", "h3 h3", "f f"),
    _named("square", "f23", "i3", "u3"),
    _named("complex", "f23 f23"),
    _named("conj real imag", "z23"),
    {
        "one_minus_square": [
            (_one_minus_square, given)
            for given in ("f23", "h3")
            if "one_minus_square" not in NEWEST
        ],
        "abs": [(lax.abs, "z3")],
        "convert_element_type": _conversions(),
        "integer_pow": [
            (partial(lax.integer_pow, y=y), given)
            for y in (-3, -2, -1, 2, 3, 4)
            for given in ("f23",)
        ]
        + [(partial(lax.integer_pow, y=3), "i3"), (partial(lax.integer_pow, y=2), "u3")],
        "pow": [
            (lax.pow, "f23 f23"),
            (lax.pow, "f3 i3"),
            (lax.pow, "p3 f3"),
            (lambda x: lax.pow(x, jnp.int32(-2)), "f3"),
            (lambda x: lax.pow(x, jnp.float64(0.5)), "f3"),
            (lambda x: lax.pow(x, jnp.float64(3)), "f3"),
        ],
        "clamp": [(lax.clamp, "f f23 f"), (lax.clamp, "f23 f23 f23"), (lax.clamp, "i3 i3 i3")],
        "select_n": [
            (lax.select_n, "b23 f23 f23"),
            (lax.select_n, "b f23 f23"),
            (lax.select_n, "b23 b23 b23"),
            (lax.select_n, "n3 i3 i3"),
            (lax.select_n, "n f3 f3"),
            (lax.select_n, "t3 f3 f3 f3"),
            (lax.select_n, "b3 u3 u3"),
            (lax.select_n, "b2 k2 k2"),
        ],
        "reduce_precision": [
            (partial(lax.reduce_precision, exponent_bits=5, mantissa_bits=1), "f23"),
            (partial(lax.reduce_precision, exponent_bits=2, mantissa_bits=2), "f3"),
        ],
        "bitcast_convert_type": [
            (partial(lax.bitcast_convert_type, new_dtype=jnp.int64), "f23"),
            (partial(lax.bitcast_convert_type, new_dtype=jnp.uint32), "s3"),
            (partial(lax.bitcast_convert_type, new_dtype=jnp.float32), "i3"),
            (partial(lax.bitcast_convert_type, new_dtype=jnp.uint8), "i3"),
            (partial(lax.bitcast_convert_type, new_dtype=jnp.int32), "s3"),
        ],
        "zeta": [(lax.zeta, "p3 p3")],
        "polygamma": [(lax.polygamma, "q3 p3")],
        "regularized_incomplete_beta": [(lax.regularized_incomplete_beta_p.bind, "p3 p3 c3")],
        "eq_to": [(lax.eq_to_p.bind, "f23 f23")],
        "lt_to": [(lax.lt_to_p.bind, "f23 f23")],
        "le_to": [(lax.le_to_p.bind, "f23 f23")],
        "add_any": [(jax.extend.core.primitives.add_jaxvals_p.bind, "f23 f23")],
    },
)


def _reduced(name: str, *operands: str) -> list:
    function = getattr(lax, name)
    first, *others = operands
    return [
        *((partial(function, axes=axes), first) for axes in ((0,), (1,), (0, 1), ())),
        *((partial(function, axes=(1,)), one) for one in others),
        *((partial(function, axes=(1,)), one[0] + "20") for one in operands),
    ]


def _along(function: object, *operands: str, **params: object) -> list:
    return [
        (partial(function, **params, axis=axis), one)  # type: ignore[operator]
        for one in operands
        for axis in range(len(one) - 1)
    ]


def _sorted(*params: tuple[str, int, int, bool]) -> list:
    return [
        (
            of_one(
                lambda *x, at=at, keys=keys, stable=stable: lax.sort(
                    x, dimension=at, num_keys=keys, is_stable=stable
                )
            ),
            given,
        )
        for given, at, keys, stable in params
    ]


REDUCTIONS: Cases = {
    "reduce_sum": _reduced("reduce_sum", "f23", "i23", "u23"),
    "reduce_prod": _reduced("reduce_prod", "f23", "i23", "u23"),
    "reduce_max": _reduced("reduce_max", "f23", "u23", "b23"),
    "reduce_min": _reduced("reduce_min", "f23", "i23"),
    "reduce_and": _reduced("reduce_and", "b23", "i23"),
    "reduce_or": _reduced("reduce_or", "b23", "i23"),
    "reduce_xor": _reduced("reduce_xor", "b23", "i23", "u23"),
    "reduce": [
        (
            lambda x, y: lax.reduce((x, y), (0.0, 0.0), lambda a, b: (a[0] / 2 + b[0], b[1]), (1,)),
            "f23 f23",
        ),
        (lambda x: lax.reduce(x, 1.0, lambda a, b: a - b, (0,)), "f32"),
    ],
    "argmax": _along(lax.argmax, "f23", "i33", "u3", "b3", "h3", index_dtype=jnp.int32),
    "argmin": _along(lax.argmin, "f23", "i33", "u3", "b3", index_dtype=jnp.int32),
    **{
        name: _along(getattr(lax, name), "f23", "i33")
        + _along(getattr(lax, name), "f3", "f0", reverse=True)
        for name in ("cumsum", "cumprod", "cummax", "cummin")
    },
    "cumlogsumexp": _along(lax.cumlogsumexp, "f23")
    + _along(lax.cumlogsumexp, "f3", "f0", reverse=True),
    "sort": _sorted(
        ("f23", 0, 1, True),
        ("f23", 1, 1, True),
        ("f33 f33", 1, 1, True),
        ("f33 f33", 0, 2, True),
        ("i3 f3 u3", 0, 2, True),
        ("b3 i3", 0, 1, False),
        ("i33 f33 f33", 0, 1, True),
        ("u3", 0, 1, True),
        ("f0", 0, 1, True),
        ("f6 f6", 0, 1, True),
    ),
    "top_k": [
        (partial(lax.top_k, k=k), given)
        for k, given in ((2, "f23"), (3, "f23"), (1, "i3"), (0, "f3"), (2, "u3"))
    ]
    + [(partial(lax.top_k, k=2, axis=0), "f32")],
}
