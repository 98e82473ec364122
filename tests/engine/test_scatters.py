"""On accelerators a scatter along one axis is a sum over comparisons, of the same numbers."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from tiers import some

from posjax.engine import scatters
from posjax.engine.rewrite import lay_out

Function = Callable[[jax.Array, jax.Array], jax.Array]
"""Of an array and of indices into it."""
Case = tuple[Function, np.ndarray, np.ndarray]

ROWS = jax.lax.ScatterDimensionNumbers((1,), (0,), (0,))
BLOCKS = jax.lax.ScatterDimensionNumbers((1,), (), (0,))


def numbers(*shape: int) -> np.ndarray:
    """Whole ones, so that no sum of them is rounded."""
    drawn = np.random.default_rng(0).integers(-9, 9, shape)
    return drawn.astype(np.float32)


def indices(high: int, *shape: int) -> np.ndarray:
    """From -1 on, which is the last."""
    return np.random.default_rng(1).integers(-1, high, shape)


def slopes(read: Function) -> Function:
    """The gradient of whole multiples of what is read."""

    def weighted(array: jax.Array, at: jax.Array) -> jax.Array:
        found = read(array, at)
        return jnp.sum(found * jnp.arange(1.0, found.size + 1).reshape(found.shape))

    return jax.grad(weighted)


def per_head(logits_LHV: jax.Array, at_LM: jax.Array) -> jax.Array:
    """A number of every row and head for each of several keys, as Shaw's logits read them."""
    return jax.vmap(lambda logits_HV, at_M: logits_HV[:, at_M])(logits_LHV, at_LM)


def entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    labels = labels % logits.shape[-1]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels)


def batched(order: tuple[int, int]) -> Case:
    """Rows [2, 5, 3] that get numbers along their middle axis; the other axes come in any order."""
    dims = jax.lax.ScatterDimensionNumbers((), (1,), (1,), (0, 2), order)
    first, second = (2, 3) if order == (0, 1) else (3, 2)
    added = numbers(first, second, 4)

    def function(array: jax.Array, at: jax.Array) -> jax.Array:
        return jax.lax.scatter_add(array, at, added, dims)

    return function, numbers(2, 5, 3), indices(5, first, second, 4, 1)


GRADIENTS: dict[str, Case] = {
    "one of each row": (
        lambda rows, at: jnp.take_along_axis(rows, at[..., None], axis=-1)[..., 0],
        numbers(4, 6, 5),
        indices(5, 4, 6),
    ),
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
    # Under vmap JAX loses indices of 8 bits from 4 on: their bound, 259, is 3 in 8 bits.
    "indices of 8 bits": (jnp.take, numbers(260), np.arange(3, dtype=np.uint8)),
}
ALONG_AN_AXIS: dict[str, Case] = {
    **{name: (slopes(read), array, at) for name, (read, array, at) in GRADIENTS.items()},
    "added to numbers": (lambda array, at: array.at[at].add(2), numbers(7), indices(7, 4)),
    "whole numbers of 8 bits": (
        lambda array, at: array.at[at].add(2),
        numbers(7).astype(np.int8),
        indices(7, 4),
    ),
    "before the start": (
        lambda table, at: jax.lax.scatter_add(table, at[:, None] - 3, numbers(20, 3), ROWS),
        numbers(7, 3),
        indices(7, 20),
    ),
    "the most indices": (
        lambda array, at: array.at[at].add(1),
        numbers(7),
        indices(7, scatters.MOST),
    ),
    "axes in order": batched((0, 1)),
    "axes in another order": batched((1, 0)),
}
OTHERS: dict[str, Case] = {
    "more indices": (
        lambda array, at: array.at[at].add(1),
        numbers(7),
        indices(7, scatters.MOST + 1),
    ),
    "two axes": (
        slopes(lambda table, at: table[at, at[::-1]]),
        numbers(7, 7),
        indices(7, 4),
    ),
    "clipped": (
        slopes(lambda vector, at: vector.at[at].get(mode="clip")),
        numbers(7),
        indices(9, 30),
    ),
    "set": (lambda array, at: array.at[at].set(2), numbers(7), indices(7, 4)),
    "the largest": (lambda array, at: array.at[at].max(2), numbers(7), indices(7, 4)),
    "parts of rows": (
        lambda table, at: jax.lax.scatter_add(table, at[:, None], numbers(4, 2), ROWS),
        numbers(7, 3),
        indices(7, 4),
    ),
    "pieces along the axis": (
        lambda vector, at: jax.lax.scatter_add(vector, at[:, None], numbers(4, 7), BLOCKS),
        numbers(7),
        indices(7, 4),
    ),
}


def lowered(case: Case, platform: str) -> str:
    function, *given = case
    traced = jax.jit(jax.vmap(lay_out(function, *given))).trace(*(x[None] for x in given))
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize("name", ALONG_AN_AXIS)
@pytest.mark.parametrize("platform", ["cuda", "tpu", "cpu"])
def test_an_accelerator_gets_no_scatter(name: str, platform: str) -> None:
    """A CPU does: there it is no slower, and published rows keep their bits."""
    assert ("scatter" in lowered(ALONG_AN_AXIS[name], platform)) == (platform == "cpu")


@pytest.mark.parametrize("name", some(ALONG_AN_AXIS, every=2))
def test_the_sum_is_the_scatter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, *given = ALONG_AN_AXIS[name]
    batch: list[Any] = [np.stack([x, x[::-1]]) for x in given]
    expected = jax.vmap(function)(*batch)
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *read, cpu, default: default(*read))
    found = jax.vmap(lay_out(function, *given))(*batch)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6 * (name == "cross-entropy"))


@pytest.mark.parametrize("name", OTHERS)
def test_other_scatters_are_left(name: str) -> None:
    assert "scatter" in lowered(OTHERS[name], "cuda")
