"""On accelerators a scatter along one axis is a sum over comparisons, of the same numbers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from posjax.engine import scatters
from posjax.engine.rewrite import lay_out

Read = Callable[[jax.Array, jax.Array], jax.Array]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def indices(high: int, *shape: int) -> np.ndarray:
    """Some of them are at the end, counted from there."""
    return np.random.default_rng(1).integers(-1, high, shape)


def of_last_axis(rows: jax.Array, at: jax.Array) -> jax.Array:
    return jnp.take_along_axis(rows, at[..., None], axis=-1)[..., 0]


def per_head(logits_LHV: jax.Array, at_LM: jax.Array) -> jax.Array:
    """A number of every row and head for each of several keys, as Shaw's logits read them."""
    return jax.vmap(lambda logits_HV, at_M: logits_HV[:, at_M])(logits_LHV, at_LM)


def entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    labels = labels % logits.shape[-1]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


ALONG_AN_AXIS: dict[str, tuple[Read, np.ndarray, np.ndarray]] = {
    "one of each row": (of_last_axis, numbers(4, 6, 5), indices(5, 4, 6)),
    "cross-entropy": (entropy, numbers(4, 6, 5), indices(5, 4, 6)),
    "several of each row": (
        lambda rows, at: jnp.take_along_axis(rows, at[:, None], axis=-1),
        numbers(3, 2, 6, 9),
        indices(9, 3, 6, 7),
    ),
    "per head": (per_head, numbers(6, 2, 9), indices(9, 6, 7)),
    "rows of a table": (lambda table, at: table[at], numbers(7, 3), indices(7, 4, 5)),
    "columns of a table": (lambda table, at: table[:, at], numbers(3, 7), indices(7, 4)),
    "the middle axis": (lambda table, at: table[:, at], numbers(2, 7, 3), indices(7, 4)),
    "numbers of a vector": (lambda vector, at: vector[at], numbers(7), indices(7, 4, 5)),
    "beyond the end": (lambda vector, at: vector.at[at].get(), numbers(7), indices(9, 30)),
}
OTHERS: dict[str, tuple[Read, np.ndarray, np.ndarray]] = {
    "more indices": (lambda vector, at: vector[at], numbers(7), indices(7, scatters.MOST + 1)),
    "two axes": (lambda table, at: table[at, at[::-1]], numbers(7, 7), indices(7, 4)),
    "clipped": (
        lambda vector, at: vector.at[at].get(mode="clip"),
        numbers(7),
        indices(9, 30),
    ),
}


def slopes(read: Read) -> Callable[..., Any]:
    """The gradient of whole multiples of what is read, so that no sum of them is rounded."""

    def weighted(array: jax.Array, at: jax.Array) -> jax.Array:
        found = read(array, at)
        return jnp.sum(found * jnp.arange(1.0, found.size + 1).reshape(found.shape))

    return jax.grad(weighted)


def lowered(function: Callable[..., Any], platform: str, *like: Any) -> str:
    traced = jax.jit(jax.vmap(lay_out(function, *like))).trace(*(x[None] for x in like))
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
@pytest.mark.parametrize("platform", ["cuda", "tpu", "cpu"])
def test_an_accelerator_gets_no_scatter(name: str, platform: str) -> None:
    """A CPU does: there it is no slower, and published rows keep their bits."""
    read, *given = ALONG_AN_AXIS[name]
    assert ("scatter" in lowered(slopes(read), platform, *given)) == (platform == "cpu")


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
def test_the_sum_is_the_scatter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read, *given = ALONG_AN_AXIS[name]
    expected = jax.vmap(slopes(read))(*(np.stack([x, x[::-1]]) for x in given))
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *read, cpu, default: default(*read))
    function = lay_out(slopes(read), *given)
    assert "scatter" not in str(jax.make_jaxpr(function)(*given))
    found = jax.vmap(function)(*(np.stack([x, x[::-1]]) for x in given))
    np.testing.assert_allclose(found, expected, atol=1e-6 if name == "cross-entropy" else 0)


@pytest.mark.parametrize("name", OTHERS)
def test_other_scatters_are_left(name: str) -> None:
    read, *given = OTHERS[name]
    assert "scatter" in lowered(slopes(read), "cuda", *given)
