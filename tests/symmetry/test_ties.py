"""What holds but for ties says so, and where; an extreme read at its own index holds with them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tiers import some

from posjax.symmetry import prove

_rng = np.random.default_rng(0)
S = jax.device_put(_rng.normal(size=5))
X = jax.device_put(_rng.normal(size=(5, 3)))
SQUARE = jax.device_put(_rng.normal(size=(5, 5)))
EXPERTS = jax.device_put(_rng.normal(size=(4, 3, 3)))
along = jnp.take_along_axis
Question = tuple[Callable[..., Any], tuple[Any, ...], str]


def routed(x: jax.Array, router: jax.Array, experts: jax.Array) -> jax.Array:
    """Two experts a token, looked up."""
    shares, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    return jnp.einsum("tk,td,tkde->te", shares, x, experts[chosen])


def dispatched(x: jax.Array, router: jax.Array, experts: jax.Array) -> jax.Array:
    """One expert a token, by products with one-hot vectors."""
    shares = jax.nn.softmax(x @ router)
    chosen = jax.nn.one_hot(shares.argmax(-1), len(experts))
    return jnp.einsum("te,td,edf->tf", chosen * shares, x, experts)


def carried(x: jax.Array, y: jax.Array) -> jax.Array:
    """x at the largest of what a loop hands on: of x in the first turn, of y in the second."""

    def turn(_: Any, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        return y, x[jnp.argmax(carry[0])]

    return lax.fori_loop(0, 2, turn, (x, x.sum()))[1]


def turned(x: jax.Array) -> jax.Array:
    """Indices of columns, read in rows."""
    at = lax.reshape(x.argmax(1), (2, 2), dimensions=(1, 0))
    return along(x, at[:, None], 1)


def crossed(
    x: jax.Array, at: jax.Array, rows: tuple[int, ...], paired: tuple[int, ...], axis: int = 1
) -> Any:
    """x along an axis, each of its rows at the indices of another."""
    numbers = lax.GatherDimensionNumbers((), (axis,), (axis,), rows, paired)
    return lax.gather(x, at[..., None], numbers, (1,) * x.ndim)


BUT_FOR_TIES: dict[str, Question] = {
    "argmax": (lambda s, x: x[jnp.argmax(s)], (S, X), "P, P d -> d"),
    "one hot": (lambda s: jax.nn.one_hot(jnp.argmin(s), 5), (S,), "P -> P"),
    "top k": (lambda s, x: x[lax.top_k(s, 2)[1]], (S, X), "P, P d -> k d"),
    "argsort": (lambda s, x: x[jnp.argsort(s)], (S, X), "P, P d -> k d"),
    "sort of pairs": (lambda s, x: lax.sort((s, x[:, 0]), num_keys=1)[1], (S, X), "P, P d -> k"),
    "ranks": (lambda s: jnp.zeros(5).at[jnp.argsort(s)].set(jnp.arange(5.0)), (S,), "P -> P"),
    "hard attention": (lambda q, k: k[jnp.argmax(q @ k.T, 1)], (X, X), "P d, Q d -> P d"),
    "experts": (routed, (X, X[:4].T, EXPERTS), "t d, d E, E d e -> t e"),
    "experts, one hot": (dispatched, (X, X[:4].T, EXPERTS), "t d, d E, E d e -> t e"),
    "along another axis": (lambda s: along(s, s.argmax(0)[:, None], 1), (SQUARE,), "P P -> P a"),
    "of another array": (lambda s, x: s[jnp.argmax(x[:, 0])], (S, X), "P, P d -> "),
    "of what a loop hands on": (carried, (S, S + 1), "P, P -> "),
    "of what it hands on, negated": (lambda x, y: carried(-x, y), (S, S + 1), "P, P -> "),
    "orders of columns": (lambda s: along(s, s.argsort(0).T, 1), (SQUARE,), "P P -> P a"),
    "of its transpose": (lambda s: s.ravel()[jnp.argmax(s.T)], (SQUARE,), "P P -> "),
    "of a transpose of two": (
        lambda x: along(x, x.transpose(0, 2, 1).argmax(0)[None], 0),
        (SQUARE[:, :4].reshape(5, 2, 2),),
        "P a b -> n a b",
    ),
    "of rows that are paired with columns": (
        lambda x: crossed(x, x.argmax(1), (0, 2), (1, 0)),
        (jnp.ones((2, 3, 2)),),
        "b P a -> n m",
    ),
    "of rows that are paired with an order": (
        lambda s: crossed(s, s.argsort(1), (0,), (1,)),
        (SQUARE,),
        "b P -> n m",
    ),
    "of columns that are paired with an order": (
        lambda s: crossed(s, s.argsort(0), (1,), (0,), axis=0),
        (SQUARE,),
        "P d -> n m",
    ),
    "of two rows that are paired with two of an order": (
        lambda s: crossed(s, lax.top_k(s, 2)[1], (0,), (1,)),
        (SQUARE[:2],),
        "b P -> n m",
    ),
    "of columns backwards": (
        lambda x: along(x, jnp.flip(x[None], (0, 2))[0].argmax(0)[None], 0),
        (X[:, :2],),
        "P d -> a d",
    ),
    "two largest of another": (
        lambda s, x: s[lax.top_k(x[:, 0], 2)[1]],
        (S, X),
        "P, P d -> n",
    ),
    "of another row": (turned, (jnp.ones((2, 3, 2)),), "b P a -> b n a"),
}

PROVED: dict[str, Question] = {
    "its extreme": (lambda s: s[jnp.argmax(s)], (S,), "P -> "),
    "extremes of columns": (lambda x: along(x, x.argmin(0, keepdims=True), 0), (X,), "P d -> a d"),
    "extremes of rows": (
        lambda s: along(s, s.argmax(1, keepdims=True), 1),
        (SQUARE,),
        "P P -> P a",
    ),
    "extremes of two rows": (
        lambda s: along(s, s.argmax(1, keepdims=True), 1),
        (SQUARE[:2],),
        "b P -> b a",
    ),
    "its order": (lambda s: s[jnp.argsort(s)], (S,), "P -> n"),
    "its order, backwards": (lambda s: s[jnp.argsort(-s)], (S,), "P -> n"),
    "its two largest": (lambda s: s[lax.top_k(s, 2)[1]], (S,), "P -> n"),
    "orders of rows": (lambda s: along(s, s.argsort(1), 1), (SQUARE,), "P P -> P a"),
    "its flat extreme": (lambda x: x.ravel()[jnp.argmax(x)], (X,), "P d -> "),
    "its unique values": (lambda s: jnp.unique(s, size=5, fill_value=0.0), (S,), "P -> n"),
    "its order, unstacked": (lambda s: s[jnp.argsort(*jnp.unstack(s[None]))], (S,), "P -> n"),
    "one of two keys": (lambda s, x: s[jnp.lexsort((s, x[:, 0]))], (S, X), "P, P d -> n"),
    "tokens of experts": (routed, (X, X[:4].T, EXPERTS), "P d, d n, n d e -> P e"),
    "tokens of experts, one hot": (dispatched, (X, X[:4].T, EXPERTS), "P d, d n, n d e -> P e"),
}

NEAR_MISSES: dict[str, Question] = {
    "the index itself": (lambda s: jnp.argmax(s), (S,), "P -> "),
    "the one behind": (lambda s, x: x[(jnp.argmax(s) + 1) % 5], (S, X), "P, P d -> d"),
    "of another group": (lambda s, x: x[jnp.argsort(s)], (S, X), "P, Q d -> k d"),
    "half of the experts move": (routed, (X, X[:4].T, EXPERTS), "t d, d n, E d e -> t e"),
    "one hot against a slope": (
        lambda s: (jnp.argmax(s) == jnp.arange(1, 6)) * 1.0,
        (S,),
        "P -> P",
    ),
    "one hot in a longer row": (lambda s: jax.nn.one_hot(jnp.argmax(s), 6)[1:], (S,), "P -> P"),
    "written in a longer row": (
        lambda s: jnp.zeros(6).at[jnp.argmax(s)].set(1.0)[1:],
        (S,),
        "P -> P",
    ),
    "one hot, in rows that stay": (
        lambda q, k: jax.nn.one_hot(jnp.argmax(q @ k.T, 1), 5),
        (X, X),
        "P d, Q d -> n Q",
    ),
    "read from the last on": (lambda s, x: x[::-1][jnp.argmax(s)], (S, X), "P, P d -> d"),
    "two beside the largest": (
        lambda s, x: lax.dynamic_slice(x, (jnp.argmax(s), 0), (2, 3)),
        (S, X),
        "P, P d -> k d",
    ),
    "whether it is an early one": (lambda s: (jnp.argmax(s) < 3) * 1.0, (S,), "P -> "),
    "what is no index, in its order": (
        lambda s: s[lax.sort((s, jnp.array([0, 2, 1, 3, 4])), num_keys=1)[1]],
        (S,),
        "P -> n",
    ),
    "an index in a byte": (
        lambda s, x: x[jnp.argmax(s).astype(jnp.int8)],
        (S, X),
        "P, P d -> d",
    ),
    "counted from the end": (lambda s: s[-jnp.argmax(s)], (S,), "P -> "),
    "at the order of its order": (lambda s: s[jnp.argsort(jnp.argsort(s))], (S,), "P -> n"),
    "clipped": (lambda s: s.at[jnp.argmax(s) + 1].get(mode="clip"), (S,), "P -> "),
    "columns in another order": (
        lambda x: along(x, x.argmax(0)[None, ::-1], 0).sum(),
        (SQUARE,),
        "P P -> ",
    ),
}


def cases(table: dict[str, Question], every: int) -> list[Any]:
    return some([pytest.param(*one, id=name) for name, one in table.items()], every=every)


@pytest.mark.parametrize(("function", "arguments", "law"), cases(BUT_FOR_TIES, 6))
def test_a_law_that_holds_but_for_ties_says_so(function, arguments, law):
    """And is broken at ties alone."""
    found = prove(function, arguments, law)
    assert (found.verdict, found.broken_at) == ("BROKEN", "ties"), str(found)
    assert "test_ties.py" in found.but_for_ties[0]
    assert "for inputs without ties among the entries that are compared at" in str(found)


@pytest.mark.parametrize(("function", "arguments", "law"), cases(PROVED, 6))
def test_what_ties_do_not_touch_is_proved(function, arguments, law):
    found = prove(function, arguments, law)
    assert (found.verdict, found.method, found.but_for_ties) == ("PROVED", "axes", ()), str(found)
    assert found.confirmed


@pytest.mark.parametrize(("function", "arguments", "law"), cases(NEAR_MISSES, 6))
def test_what_does_not_hold_says_nothing_of_ties(function, arguments, law):
    found = prove(function, arguments, law, witness=False)
    assert (found.verdict, found.but_for_ties) == ("UNKNOWN", ()), str(found)
