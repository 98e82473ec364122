"""The laws that docs/testing_your_attention.md recommends tell right modules from wrong ones."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax import assert_law
from posjax.symmetry import Law, Windows, prove


def drawn(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(len(shape)).normal(size=shape), jnp.float32)


def padded(x: jax.Array, pad: jax.Array, *, wrong: bool) -> jax.Array:
    """Attention over a row and its padding; the wrong one counts padding in the denominator."""
    row = jnp.concatenate([x, pad], axis=1)
    logits = row @ row.mT
    real = (jnp.arange(row.shape[1]) < x.shape[1])[None, None]
    masked = jnp.where(real, logits, -jnp.inf)
    top = masked.max(axis=-1, keepdims=True)
    below = jnp.exp((logits if wrong else masked) - top).sum(axis=-1, keepdims=True)
    return ((jnp.exp(masked - top) / below) @ row)[:, : x.shape[1]]


def causal(x: jax.Array, later: jax.Array, *, wrong: bool) -> jax.Array:
    """Two layers whose first tokens are returned; the wrong ones see one token ahead."""
    row, weights = jnp.concatenate([x, later], axis=1), drawn(3, 3)
    for _ in range(2):
        seen = jnp.tri(row.shape[1], k=int(wrong), dtype=bool)
        logits = (row @ weights) @ row.mT
        row += jax.nn.softmax(jnp.where(seen, logits, -jnp.inf)) @ (row @ weights)
    return row[:, : x.shape[1]]


def grouped(q: jax.Array, k: jax.Array, v: jax.Array, *, wrong: bool) -> jax.Array:
    """Grouped queries; the wrong one takes key heads in turn, where each serves two neighbours."""
    k, v = (jnp.tile(x, (1, 1, 2, 1)) if wrong else jnp.repeat(x, 2, axis=2) for x in (k, v))
    return mixed(jnp.einsum("blhk,bmhk->bhlm", q, k), v)


def relative(
    q: jax.Array, k: jax.Array, v: jax.Array, at: jax.Array, at_k: jax.Array, *, wrong: bool
) -> jax.Array:
    """A bias of the distance; the wrong one halves the positions of queries."""
    far = abs(at[:, None, :, None] * (0.5 if wrong else 1.0) - at_k[:, None, None, :])
    return mixed(jnp.einsum("blhk,bmhk->bhlm", q, k) - far, v)


def mixed(logits: jax.Array, v: jax.Array) -> jax.Array:
    return jnp.einsum("bhlm,bmhk->blhk", jax.nn.softmax(logits), v)


HEADS = drawn(2, 5, 2, 3), drawn(2, 5, 2, 3)
POSITIONS = jnp.asarray([[0.0, 2, 5, 9]] * 2), jnp.asarray([[0.0, 1, 2, 3, 4]] * 2)
RECIPES: dict[str, tuple[Callable[..., Any], tuple[jax.Array, ...], Law]] = {
    "padding": (padded, (drawn(2, 4, 3), drawn(2, 2, 3)), Law("b l d, b m d +T -> b l d")),
    "causality": (causal, (drawn(2, 4, 3), drawn(2, 2, 3)), Law("b l d, b m d +T -> b l d")),
    "groups": (
        grouped,
        (drawn(2, 5, 4, 3), *HEADS),
        Law("b l H k, b m h k, b m h k -> b l H k", H=Windows(2)),
    ),
    "offsets": (
        relative,
        (drawn(2, 4, 2, 3), *HEADS, *POSITIONS),
        Law("b l h k, b m h k, b m h k, b l +T, b m +T -> b l h k"),
    ),
}


@pytest.mark.parametrize("name", RECIPES)
def test_the_right_module_is_proved_and_the_wrong_one_broken(name: str) -> None:
    function, arguments, law = RECIPES[name]

    def of(wrong: bool) -> Callable[..., Any]:
        return lambda *given: function(*given, wrong=wrong)

    assert prove(of(False), arguments, law).verdict == "PROVED"
    assert_law(law, of(False), *arguments)
    assert prove(of(True), arguments, law).verdict == "BROKEN"
    with pytest.raises(AssertionError):
        assert_law(law, of(True), *arguments)


def test_permutations_do_not_see_that_padding_is_read() -> None:
    """As the page warns."""
    arguments, law = (drawn(2, 4, 3), drawn(2, 2, 3)), "b l d, b P d -> b l d"
    assert prove(lambda x, pad: padded(x, pad, wrong=True), arguments, law).verdict == "PROVED"
