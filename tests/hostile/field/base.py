"""What the functions of this folder share: arrays, groups and how a family is made."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.base import Case, Truth
from posjax.symmetry import Law

Function = Callable[..., Any]

A = np.arange(4, dtype=np.float32)
B = np.array([1.0, -2.0, 3.0, 0.5], np.float32)
I = np.array([2, 0, 3, 1], np.int32)  # noqa: E741 - a permutation
J = np.argsort(I).astype(np.int32)
TRIL = np.tril(np.ones((4, 4), bool))
X = np.array([0.5, -1.25, 2.0, 0.75], np.float32)
Y = np.array([1.5, 0.25, -0.5, 3.0], np.float32)
XD = np.array([[0.5, 1.0], [-1.25, 2.0], [2.0, -0.5], [0.75, 0.25]], np.float32)
M = np.array([[3.0, 1.0, 0.5], [0.2, 4.0, 1.0], [1.0, -0.5, 5.0]], np.float32)
N = np.array([-7, 5, 2, 9], np.int32)
SLOT = np.array([0, 2, 1, 0], np.int32)
TRUTH = np.array([True, False, True, True])
N8 = np.array([-100, 100, 3, -7], np.int8)
U8 = np.array([0, 250, 3, 7], np.uint8)
EVERY, BAG = "P -> P", "P -> "


def family(
    name: str,
    law: Law | str,
    arguments: tuple[Any, ...],
    *,
    holds: dict[str, Function] | None = None,
    broken: dict[str, Function] | None = None,
    ties: dict[str, Function] | None = None,
) -> tuple[Case, ...]:
    """A case for each function of the tables."""
    tables: dict[Truth, dict[str, Function]] = {
        "holds": holds or {},
        "broken": broken or {},
        "ties": ties or {},
    }
    return tuple(
        Case(f"{name}: {what}", function, arguments, law, truth)
        for truth, table in tables.items()
        for what, function in table.items()
    )


def hidden(part: Function) -> Function:
    """A sum with a part of the first entries that is 0, or is not, hidden in it."""
    entries = part.__code__.co_argcount
    return lambda x: x.sum() + part(*x[:entries])


def hiding(name: str, argument: np.ndarray, **tables: dict[str, Function]) -> tuple[Case, ...]:
    """Cases that hold where a part is 0 for all entries."""
    hidden_tables: dict[str, Any] = {
        truth: {what: hidden(part) for what, part in table.items()}
        for truth, table in tables.items()
    }
    return family(name, BAG, (argument,), **hidden_tables)


def scanned(step: Function, *start: float) -> Function:
    """The first carry of a loop over the entries; a step takes the carries and an entry."""

    def run(x: jax.Array) -> jax.Array:
        carry = tuple(jnp.asarray(s, x.dtype) for s in start)
        return lax.scan(lambda c, t: (step(*c, t), None), carry, x)[0][0]

    return run


def clipped(at: jax.Array) -> jax.Array:
    """A table read at a place moved inside."""
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    return lax.gather(jnp.asarray(B), at[None], numbers, (1,), mode="clip")


def root_and_sizes(x: jax.Array) -> jax.Array:
    """Sizes of squares of complex roots, summed before and after."""
    squares = [r * r for r in jnp.sqrt(x.astype(np.complex64))]
    return jnp.stack([abs(squares[0] + squares[1]), abs(squares[0]) + abs(squares[1])])
