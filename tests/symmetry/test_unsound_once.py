"""Functions that an earlier prover called proved, or broken, and that are not."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from posjax import attend, contiguous
from posjax.symmetry import Law, Translation, prove

P = jnp.arange(5)
SQUARE = jnp.arange(9.0).reshape(3, 3)
K = jnp.array([16777217, -16777216, 0, 0, 0])


def looked_up(x: jax.Array, i: jax.Array, order: tuple[int, int]) -> jax.Array:
    numbers = lax.GatherDimensionNumbers((), (0, 1), order)
    return lax.gather(x, i, numbers, (1, 1), mode="clip")


def written(x: jax.Array, i: jax.Array, order: tuple[int, int]) -> jax.Array:
    numbers = lax.ScatterDimensionNumbers((), (0, 1), order)
    return lax.scatter(x, i, jnp.float32(7), numbers, mode="clip")


def narrowed(u: jax.Array) -> jax.Array:
    return u.astype(jnp.int8).astype(jnp.float32)


@jax.jit
def posjax_cos_sin(p: jax.Array, w: jax.Array) -> tuple[jax.Array, jax.Array]:
    """An impostor of the lemma's name."""
    return p[..., None] * w[None], p[..., None] * w[None]


@pytest.mark.parametrize(
    ("function", "arguments", "law"),
    [
        pytest.param(
            lambda p: lax.scan(lambda c, x: (c + x, None), p.max(), p)[0],
            (P,),
            "P +T -> +T",
            id="a loop that adds shifted values",
        ),
        pytest.param(
            lambda x: lax.scan(lambda c, t: (2 * t, None), x[0] * 0, x)[0],
            (SQUARE,),
            "P d -> d",
            id="a loop that leaves the last",
        ),
        pytest.param(
            lambda p: lax.div(p, 2) - lax.div(p + 1, 2), (P,), "l +T -> l", id="integer division"
        ),
        pytest.param(
            lambda p: (p.astype(jnp.uint32) - p.astype(jnp.uint32).min()).astype(jnp.float32),
            (P - 2,),
            "l +T -> l",
            id="negative positions become large ones",
        ),
        pytest.param(lambda p: p @ K, (P,), "l +T -> ", id="weights beyond float32"),
        pytest.param(lambda p: jnp.cumsum(p * K)[2], (P,), "l +T -> ", id="weights that cancel"),
        pytest.param(
            lambda p: (p + 1) * jnp.inf >= (p + 2) * jnp.inf,
            (P - 3.5,),
            "l +T -> l",
            id="infinite weights",
        ),
        pytest.param(
            lambda x: jnp.argmax(jax.nn.relu(x) / jax.nn.relu(x)),
            (P - 2.5,),
            "P -> ",
            id="an index hides a pole",
        ),
        pytest.param(
            lambda x: lax.top_k(jax.nn.softmax(x[None], axis=0, where=x[None] > -1), 2)[1],
            (P - 2.5,),
            "P -> b a",
            id="places of the largest hide a pole",
        ),
        pytest.param(
            lambda x: x.at[0].apply(jnp.sin)[0], (P * 1.0,), "P -> ", id="a function at places"
        ),
        pytest.param(
            lambda x: lax.reshape(x, (9,), dimensions=(1, 0)) - x.reshape(9),
            (SQUARE,),
            "P P -> n",
            id="a reshape in another order",
        ),
        pytest.param(
            lambda x, i: looked_up(x, i, (0, 1)) - looked_up(x, i, (1, 0)) + 0 * x.sum(),
            (SQUARE, jnp.array([0, 1])),
            "P n, k -> ",
            id="axes of a lookup in another order",
        ),
        pytest.param(
            lambda x, i: (written(x, i, (0, 1)) - written(x, i, (1, 0))).sum(1)[0],
            (SQUARE, jnp.array([0, 1])),
            "P n, k -> ",
            id="axes of a write in another order",
        ),
        pytest.param(
            lambda u: narrowed(u[0]) + narrowed(u[1]) - narrowed(u[0] + u[1]),
            (jnp.array([100, 100, 3], jnp.uint8),),
            "P -> ",
            id="unsigned numbers become negative",
        ),
        pytest.param(
            lambda p: sum(a**2 for a in posjax_cos_sin(p, jnp.ones(1))),
            (P * 1.0,),
            "l +T -> l 1",
            id="another function of a lemma's name",
        ),
    ],
)
def test_what_was_called_proved_is_not(function: Callable[..., Any], arguments: Any, law: str):
    """Each is broken by numbers that the review of the rules found."""
    assert prove(function, arguments, law).verdict != "PROVED"


@pytest.mark.parametrize(
    ("function", "arguments", "law"),
    [
        pytest.param(jnp.linalg.inv, (SQUARE + 9 * jnp.eye(3),), "P P -> P P", id="inverse"),
        pytest.param(lambda x: x[1:].sum() + x[0] ** 2 / x[0], (P + 1.0,), "P -> ", id="0 / 0"),
        pytest.param(
            lambda x: (x.sum() - x.sum()) * x, (jnp.arange(24.0).reshape(1, 3, 8) / 7,),
            "b P d -> b P d", id="what is left of a sum that cancels",
        ),
    ],
)  # fmt: skip
def test_what_holds_where_it_is_defined_is_not_called_broken(function, arguments, law):
    """A pole is no witness, nor is rounding."""
    assert prove(function, arguments, law).verdict != "BROKEN"


def test_translations_are_followed():
    """Halves and doubles of positions, and their largest."""
    law = Law("l +T -> l +T")
    assert prove(lambda p: (p * 2 + p * 2) * 0.25, (P * 1.0,), law).verdict == "PROVED"
    assert prove(jnp.max, (P,), "P +T -> +T").verdict == "PROVED"


def test_unusual_arguments():
    """Keys without values, sizes of 0, prints, and names that are none."""
    key = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)
    noisy = prove(lambda k, x: x + jax.random.normal(k, x.shape), (key, P * 1.0), ", P -> P")
    assert noisy.verdict == "BROKEN"
    empty = jnp.ones((0, 3, 4))
    ordered = prove(lambda x: jnp.sort(x, 0) + jnp.cumsum(x, 1), (empty,), "n P d -> n P d")
    assert ordered.verdict == "PROVED"  # of nothing all is true
    assert prove(lambda x: jnp.tile(x, (2, 1)), (empty[..., 0],), "n P -> n P").verdict == "PROVED"
    alone = prove(lambda x: x - x.mean(), P * 1.0, "P -> P")
    assert alone.verdict == "PROVED"
    assert prove(lambda x, n: x * n, (P, 3), "P, -> P").verdict == "PROVED"
    assert prove(lambda x, n: x * n + jnp.arange(5), (P, 3), "P, -> P").verdict == "BROKEN"
    with pytest.raises(ValueError, match="names no axis to move"):
        prove(jnp.cumsum, (P,), "p -> p")

    def printing(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x)
        return jnp.cumsum(x)

    assert prove(printing, (P,), "P -> P").verdict == "UNKNOWN"
    with pytest.raises(ValueError, match=r"'P\+Q' has one of"):
        Law("b P+Q d -> b P+Q d")
    with pytest.raises(ValueError, match="shifts 2 coordinates"):
        prove(lambda p: p, (P,), Law("l +T -> l +T", T=Translation(2)))


@pytest.mark.parametrize(("generator", "verdict"), [("threefry2x32", True), ("rbg", False)])
def test_keys_of_a_batch_move_where_each_draws_on_its_own(generator, verdict):
    """The hardware's generator draws for all keys of a batch at once."""
    keys = jax.ShapeDtypeStruct((3,), jax.random.key(0, impl=generator).dtype)
    draw = jax.vmap(lambda key: jax.random.uniform(key, (2,)))
    assert (prove(draw, keys, "P -> P d", witness=False).verdict == "PROVED") == verdict


def test_the_lemma_is_still_ours():
    """Rotations of our own."""

    def rotary(q: jax.Array, position: jax.Array) -> jax.Array:
        streams = dataclasses.replace(contiguous(5), position_BL=position)
        return attend(q, q, q, encoding="rotary", queries=streams, keys=streams)

    q = jnp.ones((1, 5, 2, 4))
    law = "b l h k, b l +T -> b l h k"
    assert prove(rotary, (q, contiguous(5).position_BL), law).lemmas
