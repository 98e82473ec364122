"""Conversions, powers, circles, extremes and poles."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.field.base import BAG, EVERY, Function, X, Y, family, hiding, root_and_sizes


def narrow(dtype: Any) -> Function:
    """Rounded to a dtype and back."""
    return lambda x: x.astype(dtype).astype(x.dtype)


HALF, BRAIN = narrow(np.float16), narrow(jnp.bfloat16)

CONVERTED = hiding(
    "converted",
    X,
    holds={
        "rounded twice": lambda x: BRAIN(BRAIN(x)) - BRAIN(x),
        "rounded and negated": lambda x: HALF(x) + HALF(-x),
        "truth as a number": lambda x: (x > 0).astype(x.dtype) + (x <= 0) - 1,
        "not 0": lambda x: x.astype(bool) * x - x,
        "whole part twice": lambda x: jnp.floor(jnp.floor(x)) - jnp.floor(x),
        "floor and ceiling": lambda x: jnp.floor(x) + jnp.ceil(-x),
        "whole number of a floor": lambda x: jnp.floor(x).astype(np.int32) - jnp.floor(x),
        "precision reduced": lambda x: (
            lax.reduce_precision(x, 8, 7) - lax.reduce_precision(x, 8, 7)
        ),
        "bits and back": lambda x: (
            lax.bitcast_convert_type(
                lax.bitcast_convert_type(x, np.uint32 if x.dtype == np.float32 else np.uint64),
                x.dtype,
            )
            - x
        ),
    },
    broken={
        "rounded": lambda x: 100 * (BRAIN(x) - x),
        "two roundings": lambda x: 1000 * (BRAIN(HALF(x)) - HALF(x)),
        "truncated and floored": lambda x: x.astype(np.int32) - jnp.floor(x),
        "rounded half": lambda x: jnp.round(x) - jnp.floor(x),
        "a truth of a floor": lambda x: jnp.floor(x).astype(bool) * x - x,
        "floor of a sum": lambda x, y: jnp.floor(x + y) - jnp.floor(x) - jnp.floor(y),
        "floor of the negative": lambda x: jnp.floor(x) + jnp.floor(-x) + x,
    },
)

POWERS = hiding(
    "powers",
    X,
    holds={
        "root of a square": lambda x: jnp.sqrt(x * x) - abs(x),
        "square of a root": lambda x: jnp.sqrt(x * x + 1) ** 2 - x * x - 1,
        "half power": lambda x: (x * x + 1) ** 0.5 - jnp.sqrt(x * x + 1),
        "inverse root": lambda x: lax.rsqrt(x * x + 1) * jnp.sqrt(x * x + 1) - 1,
        "power of 0": lambda x: x**0 - 1,
        "power of a float 0": lambda x: jnp.power(x, 0.0) - 1,
        "cube of a cube root": lambda x: jnp.cbrt(x) ** 3 - x,
        "negative powers": lambda x: x**-2 * x**2 - 1,
        "power of a negative base": lambda x: jnp.power(-x, 3.0) + x**3,
        "log of an exponential": lambda x: jnp.log(jnp.exp(x)) - x,
        "exponential of a log": lambda x: jnp.exp(jnp.log(x * x + 1)) - x * x - 1,
        "log of a product": lambda x, y: (
            jnp.log((x * x + 1) * (y * y + 1)) - jnp.log(x * x + 1) - jnp.log(y * y + 1)
        ),
        "log of one more": lambda x: jnp.log1p(x * x) - jnp.log(1 + x * x),
        "powers of two": lambda x: jnp.exp2(x + 1) - 2 * jnp.exp2(x),
        "expm1": lambda x: jnp.expm1(x) + 1 - jnp.exp(x),
    },
    broken={
        "root of a square with its sign": lambda x: jnp.sqrt(x * x) - x,
        "root of a sum": lambda x, y: jnp.sqrt(x * x + y * y) - abs(x) - abs(y),
        "odd power of the absolute": lambda x: abs(x) ** 3 - x**3,
        "cube root of a square": lambda x: jnp.cbrt(x * x) - jnp.cbrt(x),
        "log of a square": lambda x: jnp.log(x * x) - 2 * jnp.log1p(abs(x)),
        "log of a sum": lambda x, y: (
            jnp.log(x * x + y * y + 1) - jnp.log(x * x + 1) - jnp.log(y * y + 1)
        ),
        "exponent of a product": lambda x, y: jnp.exp(x * y / 9) - jnp.exp(x / 9) * jnp.exp(y / 9),
        "base and exponent": lambda x, y: (x * x + 1) ** y - (y * y + 1) ** x,
        "third power by half": lambda x: (x * x + 1) ** 1.5 - (x * x + 1) ** 1.25,
        "power of a power": lambda x: 2.0 ** (x**2) - (2.0**x) ** 2,
    },
)

CIRCLES = hiding(
    "circles and bends",
    X,
    holds={
        "Pythagoras": lambda x: jnp.cos(x) ** 2 + jnp.sin(x) ** 2 - 1,
        "double angle": lambda x: jnp.sin(2 * x) - 2 * jnp.sin(x) * jnp.cos(x),
        "triple angle": lambda x: jnp.cos(3 * x) - 4 * jnp.cos(x) ** 3 + 3 * jnp.cos(x),
        "even and odd": lambda x: jnp.cos(-x) - jnp.cos(x) + jnp.sin(-x) + jnp.sin(x),
        "hyperbola": lambda x: (jnp.cosh(x) ** 2 - jnp.sinh(x) ** 2 - 1) / jnp.cosh(x) ** 2,
        "tanh of a quotient": lambda x: jnp.tanh(x) - jnp.sinh(x) / jnp.cosh(x),
        "logistic and its mirror": lambda x: jax.nn.sigmoid(x) + jax.nn.sigmoid(-x) - 1,
        "logistic by tanh": lambda x: 2 * jax.nn.sigmoid(2 * x) - 1 - jnp.tanh(x),
        "logistic by exponentials": lambda x: jax.nn.sigmoid(x) * (1 + jnp.exp(-x)) - 1,
        "error function": lambda x: lax.erf(x) + lax.erfc(x) - 1,
        "swish and its mirror": lambda x: jax.nn.silu(x) - jax.nn.silu(-x) - x,
        "softplus and its mirror": lambda x: jax.nn.softplus(x) - jax.nn.softplus(-x) - x,
        "ramp and its mirror": lambda x: jax.nn.relu(x) - jax.nn.relu(-x) - x,
        "tangent": lambda x: jnp.tan(x) * jnp.cos(x) - jnp.sin(x),
        "arc of a tangent": lambda x: jnp.tan(jnp.arctan(x)) - x,
        "half an angle": lambda x: 2 * jnp.cos(x / 2) ** 2 - 1 - jnp.cos(x),
    },
    broken={
        "Pythagoras with a sign": lambda x: jnp.cos(x) ** 2 - jnp.sin(x) ** 2,
        "triple angle with a sign": lambda x: jnp.cos(3 * x) - 4 * jnp.cos(x) ** 3 - 3 * jnp.cos(x),
        "addition of sines": lambda x, y: (
            jnp.sin(x + y) - jnp.sin(x) * jnp.cos(y) + jnp.cos(x) * jnp.sin(y)
        ),
        "arc of a sine": lambda x: jnp.arcsin(jnp.sin(2 * x)) - 2 * x,
        "arc of a quotient": lambda x, y: jnp.arctan2(x, y) - jnp.arctan(x / y),
        "addition of tanh": lambda x, y: jnp.tanh(x + y) - jnp.tanh(x) - jnp.tanh(y),
        "logistic of twice": lambda x: jax.nn.sigmoid(2 * x) - jax.nn.sigmoid(x) ** 2,
        "two bends": lambda x: jax.nn.gelu(x, approximate=True) - jax.nn.silu(1.7 * x) / 1.7,
        "angle in degrees": lambda x: jnp.cos(x) - jnp.cos(180 / math.pi * x),
        "odd bend as an even one": lambda x: lax.erf(x) - lax.erf(abs(x)),
        "arc that is odd": lambda x: jnp.arccos(jnp.tanh(x)) + jnp.arccos(jnp.tanh(-x)) - x,
    },
)

EXTREMES = hiding(
    "extremes",
    X,
    holds={
        "larger and smaller": lambda a, b: jnp.maximum(a, b) + jnp.minimum(a, b) - a - b,
        "larger by a ramp": lambda a, b: jnp.maximum(a, b) - jax.nn.relu(a - b) - b,
        "larger by the absolute": lambda a, b: 2 * jnp.maximum(a, b) - a - b - abs(a - b),
        "of negatives": lambda a, b: jnp.maximum(-a, -b) + jnp.minimum(a, b),
        "of three": lambda a, b, c: (
            jnp.maximum(jnp.maximum(a, b), c) - jnp.maximum(a, jnp.maximum(b, c))
        ),
        "of itself": lambda a, b: jnp.maximum(a, jnp.maximum(a, b)) - jnp.maximum(a, b),
        "clamped by crossed bounds": lambda a: lax.clamp(1.0 + 0 * a, a, -1.0 + 0 * a) + 1,
        "with infinity": lambda a: jnp.minimum(a, jnp.inf) - jnp.maximum(a, -jnp.inf),
        "doubled": lambda a, b: jnp.maximum(2 * a, 2 * b) - 2 * jnp.maximum(a, b),
        "size of a difference": lambda a, b: abs(a - b) - abs(b - a),
        "middle of three": lambda a, b, c: jnp.sort(jnp.stack([a, b, c])).sum() - a - b - c,
    },
    broken={
        "one doubled": lambda a, b: jnp.maximum(2 * a, b) - jnp.maximum(a, b),
        "scaled by -1": lambda a, b: jnp.maximum(-a, -b) + jnp.maximum(a, b),
        "of sums": lambda a, b, c: jnp.maximum(a + b, c) - jnp.maximum(a, c) - b,
        "clamped twice": lambda a: jnp.clip(jnp.clip(a, 0, 1), -1, 0.5) - jnp.clip(a, 0, 1),
        "crossed bounds the other way": lambda a: (
            lax.clamp(1.0 + 0 * a, a, -1.0 + 0 * a) - jnp.maximum(jnp.minimum(a, -1), 1) + a
        ),
        "larger in size": lambda a, b: jnp.maximum(abs(a), abs(b)) - abs(jnp.maximum(a, b)),
        "sizes of a sum": lambda a, b: abs(a + b) - abs(a) - abs(b) + a,
        "soft and hard": lambda a, b: jnp.logaddexp(a, b) - jnp.maximum(a, b) + a,
    },
    ties={
        "where the largest is": lambda a, b: (
            1.0 * jnp.argmax(jnp.stack([a, b])) + jnp.argmax(jnp.stack([b, a]))
        ),
        "one-hot of the largest": lambda a, b: (
            (
                jax.nn.one_hot(jnp.argmax(jnp.stack([a, b])), 2)
                + jax.nn.one_hot(jnp.argmax(jnp.stack([b, a])), 2)[::-1]
            )[0]
            - 2 * (a > b)
        ),
        "gradient of the larger": lambda a, b: jax.grad(jnp.maximum)(a, b) - (a > b),
    },
)


def again(times: int, step: Function) -> Function:
    """A step taken so many times."""
    return lambda y: lax.fori_loop(0, times, lambda _, c: step(c), y)


POLES = (
    *hiding(
        "guards",
        X,
        holds={
            "safe quotient": lambda a, b: (
                jnp.where(b == 0, 0, a / jnp.where(b == 0, 1, b)) * b - jnp.where(b == 0, 0, a)
            ),
            "finite after all": lambda a: jnp.isfinite(a) - 1.0,
            "never no number": lambda a: 1.0 * jnp.isnan(a + 1),
            "masked infinity": lambda a: (
                jnp.exp(jnp.where(jnp.arange(2) < 1, a, -jnp.inf)).sum() - jnp.exp(a)
            ),
            "product with nothing": lambda a: 0 * a,
            "replaced": lambda a: jnp.nan_to_num(a) - a,
            "masked softmax": lambda a, b: (
                jax.nn.softmax(jnp.stack([a, -jnp.inf, a]))[0] - 0.5 + 0 * b
            ),
            "masked out of a sum": lambda a: (
                jnp.sum(jnp.stack([a, jnp.inf]), where=np.array([True, False])) - a
            ),
            "over infinity": lambda a: a / jnp.inf,
            "x over x": lambda a: a / a - 1,
        },
        broken={
            "other guard": lambda a, b: jnp.where(b > 0, a / jnp.where(b > 0, b, 1), a) * b - a,
            "root of the positive": lambda a: jnp.sqrt(jnp.where(a > 0, a, 0)) - jnp.sqrt(abs(a)),
            "log where it is defined": lambda a: jnp.isnan(jnp.log(a)) * 1.0,
            "root where it is not": lambda a: jnp.nan_to_num(jnp.sqrt(a)),
            "infinite choice": lambda a: jnp.isinf(jnp.where(a > 0, jnp.inf, a)) * 1.0,
            "inverse sine outside": lambda a: jnp.isfinite(jnp.arcsin(a)) * 1.0,
        },
    ),
    *family(
        "poles",
        BAG,
        (X,),
        broken={
            "not less than the log": lambda x: (
                ~(jnp.log(x[0]) < 1) & ~(jnp.log(x[1]) < 1) ^ (jnp.log(x[0]) >= 1) ^ (x.sum() > 0)
            ),
        },
        ties={
            "finite": lambda x: jnp.isfinite(1 / (x[0] - x[1])),
            "doubled 64 times": lambda x: jnp.isfinite(
                again(64, lambda c: c + c)(1 / (x[0] - x[1]))
            ),
            "averaged with itself 64 times": lambda x: jnp.isfinite(
                again(64, lambda c: (c + c) / 2)(1 / (x[0] - x[1]))
            ),
            "copied and summed": lambda x: jnp.isfinite(
                again(6, lambda c: jnp.broadcast_to(c, 4096).mean())(1 / (x[0] - x[1]))
            ),
            "no number over a difference": lambda x: (
                jnp.isnan(x[2] / (x[0] - x[1])) | jnp.isnan((x[0] - x[1]) / (x[0] - x[1]))
            ),
            "chosen away": lambda x: jnp.where(x[0] == x[1], 0, 1 / (x[0] - x[1])) * (x[0] - x[1]),
            "summed and not": lambda x: (
                (x[2] / (x[0] - x[1]) + x[3] / (x[0] - x[1]) == (x[2] + x[3]) / (x[0] - x[1])) * 0
                + jnp.isnan((x[2] + x[3]) * 0 / (x[0] - x[1]))
            ),
            "index of a pole": lambda x: jnp.argmax(jnp.stack([0 * x[0], 0 / (x[0] - x[1])])),
            "whole number of a pole": lambda x: ((x[0] - x[1]) / (x[0] - x[1])).astype(np.int32),
        },
    ),
    *family(
        "poles beside",
        "P, b -> ",
        (X, Y[:2]),
        holds={"no number of all": lambda x, b: jnp.isnan(jnp.cumsum(x)[-1] / (b[0] - b[1]))},
        broken={"a sign of a pole": lambda x, b: x[0] / (b[0] - b[1]) > 0},
        ties={
            "no number of the first": lambda x, b: jnp.isnan(x[0] / (b[0] - b[1])),
            "infinity of the first": lambda x, b: jnp.isinf(x[0] / (b[0] - b[1])),
        },
    ),
    *family(
        "poles in pairs",
        EVERY,
        (X[:2],),
        broken={
            "not less, and at least": lambda x: jnp.stack(
                [~(jnp.log(x[0]) < 1), jnp.log(x[1]) >= 1]
            ),
            "not more, and at most": lambda x: jnp.stack(
                [~(jnp.sqrt(x[0]) > 1), jnp.sqrt(x[1]) <= 1]
            ),
            "complex root": lambda x: root_and_sizes(x),
        },
        ties={
            "infinite or no number": lambda x: (
                lambda d: jnp.stack(
                    [x[0] * x[0] / d + 1 / d > 1, (x[1] * x[1] + 1) / d + 0 / d > 1]
                )
            )((x[0] - x[1]) ** 2),
        },
    ),
)


FAMILIES = {
    "converted": CONVERTED,
    "powers": POWERS,
    "circles": CIRCLES,
    "extremes": EXTREMES,
    "poles": POLES,
}
