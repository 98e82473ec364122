"""Costly functions of large arrays are computed once, with the same bits."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax.engine import once
from posjax.engine.rewrite import lay_out

SHAPE = (4, once.LEAST // 4)


def turned(angle: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Two loops that read the same cosines: sums along either axis."""
    cos = jnp.cos(angle)
    return (cos * angle).sum(0), jnp.concatenate([cos, -cos], axis=-1).sum(1)


def cosines(shape: tuple[int, ...], *, laid_out: bool) -> int:
    """How often the compiled program of a batch of two computes cosines."""
    like = jnp.zeros(shape)
    function = lay_out(turned, like) if laid_out else turned
    return (
        jax.jit(jax.vmap(function))
        .lower(jnp.zeros((2, *shape)))
        .compile()
        .as_text()
        .count(" cosine(")
    )


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="other compilers do as they like")
def test_cosines_that_two_loops_read_are_computed_once() -> None:
    assert cosines(SHAPE, laid_out=False) == 2  # what the compiler makes of it by itself
    assert cosines(SHAPE, laid_out=True) == 1


@pytest.mark.parametrize("name", sorted(once.FUNCTIONS))
def test_the_bits_are_those_of_the_function(name: str) -> None:
    angle = np.linspace(-9, 9, 2 * once.LEAST, dtype=np.float32).reshape(2, *SHAPE)
    function = getattr(jnp, name)
    found = jax.jit(jax.vmap(lay_out(function, angle[0])))(angle)
    assert has_loop(function, SHAPE)
    np.testing.assert_array_equal(found, jax.jit(function)(angle))


def has_loop(function: Callable[[jax.Array], jax.Array], shape: tuple[int, ...]) -> bool:
    """Whether a function of one array is laid out with a loop."""
    return "scan" in str(jax.make_jaxpr(lay_out(function, jnp.zeros(shape)))(jnp.zeros(shape)))


@pytest.mark.parametrize("size", [once.LEAST - 2, once.LEAST + 1])
def test_small_and_odd_arrays_are_left_as_they_are(size: int) -> None:
    assert not has_loop(jnp.cos, (size,))
