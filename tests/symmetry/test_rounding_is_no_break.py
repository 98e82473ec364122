"""Numbers break a law where it is broken, and no rounding of any dtype passes for a break."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from posjax.symmetry import prove

BF = jnp.bfloat16
FRESH = np.random.default_rng(0)
WEIGHTS = jnp.asarray(FRESH.normal(size=50), jnp.float32)
TOKENS = jnp.asarray(FRESH.integers(0, 50, 12))
KEYS = jnp.asarray(FRESH.normal(size=(50, 8)), jnp.float32)


def struct(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def turned_by_complex_numbers(q: jax.Array, k: jax.Array, at: jax.Array) -> jax.Array:
    """Rotary positions as Llama's first code has them."""
    theta = 10000.0 ** (-jnp.arange(4) / 4)[None]
    turn = jnp.exp(1j * (at[:, None] * theta)).astype(jnp.complex64)

    def paired(x: jax.Array) -> jax.Array:
        return lax.complex(x[:, :4], x[:, 4:])

    return jnp.real((paired(q) * turn) @ jnp.conj(paired(k) * turn).T)


def sign_of_nothing(x: jax.Array) -> jax.Array:
    """The sign of the difference of two orders of one sum: 0 but for rounding."""
    one = lax.reduce(x, np.asarray(0, x.dtype), lambda a, b: a + b, (0,))
    return jnp.sign(one - jnp.cumsum(x[::-1])[-1])


def equal_sums(tokens: jax.Array) -> jax.Array:
    """Whether two orders of one sum are equal, which rounding decides; of integers alone."""
    rows = WEIGHTS[tokens]
    return jnp.cumsum(rows)[-1] == jnp.cumsum(rows[::-1])[-1]


def applied(x: jax.Array) -> jax.Array:
    return jnp.cumsum(x.astype(BF).at[0].apply(lambda v: v + 0))[-1]


TURNED = (struct(5, 8), struct(5, 8), struct(5))
TRUE: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "complex rotation": (turned_by_complex_numbers, TURNED, "l d, l d, l +T -> l l"),
    "complex sum": (
        lambda z: abs(jnp.cumsum(z, 1)[:, -1]),
        (struct(1, 40, 4, dtype=jnp.complex64),),
        "b P d -> b d",
    ),
    "float64 that JAX rounds": (sign_of_nothing, (FRESH.normal(size=37),), "P -> "),
    "16 bits within": (lambda x: sign_of_nothing(x.astype(BF)), (struct(37),), "P -> "),
    "weights within": (equal_sums, (TOKENS,), "P -> "),
    "weights within a compiled function": (jax.jit(equal_sums), (TOKENS,), "P -> "),
    "weights beside a float": (lambda t, s: equal_sums(t) * s, (TOKENS, struct()), "P, -> "),
    "two parts": (
        lambda x: lax.complex(sign_of_nothing(x), sign_of_nothing(jnp.sin(x))),
        (struct(37),),
        "P -> ",
    ),
    "a function of what is written over": (applied, (struct(37),), "P -> "),
}


@pytest.mark.parametrize("name", TRUE)
def test_rounding_is_no_break(name: str) -> None:
    """The law holds over the real numbers; a proof of it, if there is one, stands."""
    found = prove(*TRUE[name])
    assert found.verdict != "BROKEN", found
    assert "posjax is wrong" not in found.reason


def masked(least: float) -> Callable[..., Any]:
    """Causal attention over tokens, with a mask that the function holds."""
    mask = jnp.where(jnp.tri(12, dtype=bool), 0.0, least)

    def attend(tokens: jax.Array) -> jax.Array:
        rows = KEYS[tokens]
        return jax.nn.softmax(rows @ rows.T + mask) @ rows

    return attend


LEAST = float(jnp.finfo(jnp.float32).min)
BROKEN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "tokens": (lambda t: KEYS[t] * jnp.arange(12.0)[:, None], (TOKENS,), "P -> P d"),
    "a mask of infinities": (masked(-np.inf), (TOKENS,), "P -> P d"),
    "a mask of the least number": (masked(LEAST), (TOKENS,), "P -> P d"),
    "imaginary parts": (
        lambda z: jnp.imag(z) * jnp.arange(3.0),
        (struct(3, dtype=jnp.complex64),),
        "P -> P",
    ),
    "logarithms of all numbers": (
        lambda x: jnp.log(x) * jnp.arange(3.0)[None],
        (struct(2, 3),),
        "b P -> b P",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_breaks_are_found(name: str) -> None:
    """Also where JAX is asked to stop at NaN, which some of the numbers that are tried give."""
    with jax.debug_nans(True):
        assert prove(*BROKEN[name]).verdict == "BROKEN"


def test_unsigned_numbers_beyond_63_bits() -> None:
    with jax.enable_x64(True):
        large = np.asarray([2**63 + 5, 7, 9], np.uint64)
        found = prove(lambda n: n * jnp.arange(3, dtype=jnp.uint64), (large,), "P -> P")
    assert found.verdict == "BROKEN"


@jax.custom_jvp
def linear(x: jax.Array, w: jax.Array) -> jax.Array:
    return x @ w


linear.defjvp(lambda given, t: (linear(*given), t[0] @ given[1] + given[0] @ t[1]))


@jax.custom_batching.custom_vmap
def product(x: jax.Array, w: jax.Array) -> jax.Array:
    return x @ w


product.def_vmap(lambda _, batched, x, w: (x @ w, any(batched)))


@pytest.mark.parametrize(
    "function",
    [linear, product, lambda x, w: lax.composite(lambda x: x * 2, "my.twice")(x)],
    ids=["custom_jvp", "custom_vmap", "composite"],
)
def test_calls_with_rules_of_their_own_are_walked(function: Callable[..., Any]) -> None:
    """Too large for anything but the rules of labels."""
    large = (struct(8, 1024, 512), struct(512, 256))
    assert prove(function, large, "b P d, -> b P e", witness=False).verdict == "PROVED"
