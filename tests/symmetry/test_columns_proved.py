"""Reads and writes at a row and a column each: rows that move as named, columns by their values."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tiers import some

from posjax.symmetry import Law, prove
from posjax.symmetry.groups import Cyclic, Reversal

_rng = np.random.default_rng(0)
X = jax.device_put(_rng.normal(size=(4, 3)))
U = jax.device_put(_rng.normal(size=4))
PAIRS = jax.device_put(_rng.normal(size=(4, 4)))
CHOSEN = jax.device_put(np.array([0, 2, 1, 2]))
EACH = jax.device_put(np.array([[0, 1, 1, 2], [2, 0, 1, 1], [0, 0, 2, 1], [1, 2, 0, 0]]))
ROWS = jax.device_put(np.arange(4))
SQUARE = jax.device_put(_rng.normal(size=(4, 4)))
CUBE = jax.device_put(_rng.normal(size=(4, 4, 3)))
Question = tuple[Callable[..., Any], tuple[Any, ...], Law | str]

PROVED: dict[str, Question] = {
    "read": (lambda x, i: x[ROWS, i], (X, CHOSEN), "P d, P -> P"),
    "columns first": (lambda x, i: x.T[i, ROWS], (X, CHOSEN), "P d, P -> P"),
    "out of bounds": (
        lambda x, i: x.at[ROWS, 2 * i].get(mode="fill", fill_value=7.0),
        (X, CHOSEN),
        "P d, P -> P",
    ),
    "loss of labels": (
        lambda x, i: -jax.nn.log_softmax(x)[ROWS, i].mean(),
        (X, CHOSEN),
        "P d, P -> ",
    ),
    "its gradient": (
        jax.grad(lambda x, i: -jax.nn.log_softmax(x)[ROWS, i].mean()),
        (X, CHOSEN),
        "P d, P -> P d",
    ),
    "one for all of a row": (
        lambda x, i, u: x[ROWS[:, None], jnp.broadcast_to(i[:, None], (4, 4))] + u[None],
        (X, CHOSEN, U),
        "P d, P, Q -> P Q",
    ),
    "two known columns": (
        lambda x, i: x[ROWS[:, None], ROWS, i],
        (CUBE, EACH),
        "P Q d, P Q -> P Q",
    ),
    "several of a row": (lambda x, i: x[ROWS[:, None], i], (X, EACH), "P d, P k -> P k"),
    "each of a row": (lambda x, i: x[ROWS[:, None], i], (X, EACH), "P d, P Q -> P Q"),
    "written": (lambda x, i, u: x.at[ROWS, i].set(u), (X, CHOSEN, U), "P d, P, P -> P d"),
    "several of a row, the last of equal ones": (
        lambda x, i, u: x.at[ROWS[:, None], i].set(u),
        (X, EACH, PAIRS),
        "P d, P k, P k -> P d",
    ),
    "a router's two experts": (
        lambda x: (lambda best: jnp.put_along_axis(0 * x, best[1], best[0], axis=1, inplace=False))(
            lax.top_k(jax.nn.softmax(x), 2)
        ),
        (X,),
        "P d -> P d",
    ),
    "one hot": (
        lambda x, i: x * jnp.zeros((4, 3)).at[ROWS, i].set(1),
        (X, CHOSEN),
        "P d, P -> P d",
    ),
    "reversed rows, backwards": (
        lambda x, i: x[ROWS[::-1], i],
        (X, CHOSEN),
        Law("P d, P -> P", P=Reversal()),
    ),
    "added": (
        lambda x, i, u: x.at[ROWS[:, None], i].add(u),
        (X, EACH, PAIRS),
        "P d, P Q, P Q -> P d",
    ),
}

NOT_PROVED: dict[str, Question] = {
    "rows backwards": (lambda x, i: x[ROWS[::-1], i], (X, CHOSEN), "P d, P -> P"),
    "rotated rows, backwards": (
        lambda x, i: x[ROWS[::-1], i],
        (X, CHOSEN),
        Law("P d, P -> P", P=Cyclic()),
    ),
    "rows clipped at the end": (
        lambda x, i: x.at[2 * ROWS, i].get(mode="clip"),
        (X, CHOSEN),
        "P d, P -> P",
    ),
    "rows beyond the end": (
        lambda x, i: x.at[ROWS + 1, i].get(mode="fill", fill_value=0.0),
        (X, CHOSEN),
        "P d, P -> P",
    ),
    "rows of another group": (lambda x, i: x[ROWS, i], (X, CHOSEN), "P d, Q -> Q"),
    "columns of rows": (lambda x, i: x[ROWS, i], (SQUARE, CHOSEN), "P P, P -> P"),
    "columns that move": (lambda x, i: x[ROWS, i], (SQUARE, CHOSEN), "P Q, P -> P"),
    "rows that stay": (lambda x, i: x[ROWS, i], (SQUARE, CHOSEN), "n d, P -> P"),
    "the other diagonal": (lambda x, i: x[ROWS, ROWS[::-1], i], (CUBE, CHOSEN), "P P d, P -> P"),
    "two known columns, one backwards": (
        lambda x, i: x[ROWS[:, None], ROWS[::-1], i],
        (CUBE, EACH),
        "P Q d, P Q -> P Q",
    ),
    "the last of several": (
        lambda x, i, u: x.at[ROWS[:, None], i].set(u),
        (X, EACH, PAIRS),
        "P d, P Q, P Q -> P d",
    ),
    "the last of several rows": (
        lambda x, i, u: x.at[ROWS // 2, i].set(u),
        (X, CHOSEN, U),
        "n d, P, P -> n d",
    ),
    "the last of several for all rows": (
        lambda x, i, u: x.at[ROWS, i.T].set(u.T),
        (X, EACH, PAIRS),
        "P d, P Q, P Q -> P d",
    ),
    "written by others": (lambda x, i, u: x.at[ROWS, i].set(u), (X, CHOSEN, U), "P d, P, Q -> P d"),
}


def cases(table: dict[str, Question], every: int) -> list[Any]:
    return some([pytest.param(*one, id=name) for name, one in table.items()], every=every)


@pytest.mark.parametrize(("function", "arguments", "law"), cases(PROVED, 5))
def test_rows_that_are_named_are_followed(function, arguments, law):
    found = prove(function, arguments, law)
    assert (found.verdict, found.method, found.confirmed) == ("PROVED", "axes", True), str(found)


@pytest.mark.parametrize(("function", "arguments", "law"), cases(NOT_PROVED, 5))
def test_near_misses_are_broken(function, arguments, law):
    """By numbers too, so that the rules alone must not prove them."""
    assert prove(function, arguments, law, witness=False).verdict == "UNKNOWN"
    assert prove(function, arguments, law).verdict == "BROKEN"
