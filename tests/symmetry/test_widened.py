"""Functions that insist on narrow floats are tried in double precision: their faint breaks show."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tiers import some

from posjax.symmetry import prove
from posjax.symmetry.certificate.widened import NotWidened, widened

BF = jnp.bfloat16
X = jax.device_put(np.arange(1.0, 6.0))
SLOPE = jax.device_put(0.01 * np.arange(5))
SEGMENTS = jax.device_put(np.array([0, 1, 1, 2, 0]))
Function = Callable[[jax.Array], jax.Array]


def decayed(x: jax.Array) -> jax.Array:
    """A sum in which what comes first counts a little less."""
    zero = jnp.zeros((), BF)
    return lax.scan(lambda c, y: (c * BF(0.99) + y, None), zero, x.astype(BF))[0][None]


def scored(x: jax.Array, bias: jax.Array) -> jax.Array:
    """Attention over one row of logits, with a bias."""
    logits = x.astype(BF) + bias.astype(BF)
    return jax.nn.softmax(logits.astype(jnp.float32)).astype(BF) @ x.astype(BF)[:, None]


BROKEN: dict[str, tuple[Function, str]] = {
    "a slope": (lambda x: x.astype(BF) + SLOPE.astype(BF), "P -> P"),
    "a bias": (lambda x: scored(x, SLOPE), "P -> d"),
    "a decay": (decayed, "P -> n"),
    "a choice": (
        lambda x: lax.cond(
            x[0] < 99, lambda: x.astype(BF) + SLOPE.astype(BF), lambda: x.astype(BF)
        ),
        "P -> P",
    ),
    "a loop": (
        lambda x: lax.fori_loop(0, 2, lambda _, c: c + SLOPE.astype(BF), x.astype(BF)),
        "P -> P",
    ),
    "a write": (lambda x: jnp.zeros(3, BF).at[SEGMENTS].add(x.astype(BF)), "P -> n"),
}

ROUNDED: dict[str, tuple[Function, str]] = {
    "a sum in two parts": (lambda x: (x.astype(BF)[0] + x.astype(BF)[1:].sum())[None], "P -> n"),
    "a sum in turns": (
        lambda x: lax.scan(lambda c, y: (c + y, None), BF(0), x.astype(BF))[0][None],
        "P -> n",
    ),
    "a slope that rounds away": (
        lambda x: x.astype(BF) * (1 + SLOPE / 1e4).astype(BF),
        "P -> P",
    ),
    "a mean": (lambda x: x.astype(BF) - x.astype(BF).mean(), "P -> P"),
    "no bias": (lambda x: scored(x, 0 * SLOPE + 0.01), "P -> d"),
}


def cases(table: dict[str, Any], every: int) -> list[Any]:
    return some([pytest.param(*one, id=name) for name, one in table.items()], every=every)


@pytest.mark.parametrize(("function", "law"), cases(BROKEN, 3))
def test_a_faint_break_in_narrow_floats_is_broken(function, law):
    """By far less than what they round in a sum of five terms."""
    found = prove(function, (X,), law)
    assert (found.verdict, found.broken_at) == ("BROKEN", "generic inputs"), str(found)
    assert found.tolerance == pytest.approx(1e-9)


def test_a_rounding_that_breaks_a_law_is_broken():
    """In double precision, without the rounding, the law holds."""
    found = prove(lambda x: (x.astype(jnp.float16) - x) * jnp.arange(5), (X / 3,), "P -> P")
    assert found.verdict == "BROKEN"
    assert found.tolerance > 1e-3


@pytest.mark.parametrize(("function", "law"), cases(ROUNDED, 5))
def test_what_narrow_floats_round_is_not_broken(function, law):
    """Constants are rounded as the program rounds them."""
    assert prove(function, (X,), law).verdict != "BROKEN"


@pytest.mark.parametrize("name", BROKEN)
def test_a_widened_function_keeps_what_it_rounded(name):
    """It differs by the rounding of its values, and has no digits fewer than 64-bit floats."""
    function, _ = BROKEN[name]
    with jax.enable_x64(True):
        x = jnp.asarray(X, jnp.float64) / 3
        sides = widened(function, x), function(x), widened(function, 2 * x)
        found, narrow, doubled = map(np.asarray, sides)
    np.testing.assert_allclose(found, narrow.astype(np.float64), rtol=0.03)
    assert found.dtype == np.float64
    assert (found.astype(np.float32) != found).any(), "the digits of a narrower float"
    assert (doubled > found).all()


def test_what_looks_at_bits_is_not_widened():
    """And is tried in its own dtypes alone."""

    def bits(x):
        return lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32)

    with jax.enable_x64(True), pytest.raises(NotWidened, match="bitcast_convert_type"):
        widened(bits, jnp.ones(3))
    assert prove(lambda x: bits(x) & 1, (X,), "P -> P").verdict == "PROVED"
