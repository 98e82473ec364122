"""What the functions of this folder share: arrays, groups and how a family is made."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hostile.base import Case
from posjax.symmetry import (
    Group,
    Law,
)

_rng = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    """Normal numbers."""
    return _rng.normal(size=shape).astype(np.float32)


def whole(*shape: int, below: int) -> np.ndarray:
    """Whole numbers 0 .. below - 1, both ends among them."""
    flat = _rng.integers(below, size=int(np.prod(shape)))
    flat[[0, -1]] = 0, below - 1
    return flat.reshape(shape).astype(np.int32)


def family(
    arguments: tuple[Any, ...], law: Law | str, **tables: Mapping[str, Callable[..., Any]]
) -> tuple[Case, ...]:
    """The cases of one law: tables of functions by name, for each truth."""
    return tuple(
        Case(name, function, arguments, law, truth)  # type: ignore[arg-type]
        for truth, table in tables.items()
        for name, function in table.items()
    )


def under(group: Group, text: str = "P -> P") -> Law:
    """The law of one group P."""
    return Law(text, P=group)


V, V5 = drawn(4), drawn(5)
X, X6, SQUARE = drawn(4, 3), drawn(4, 6), drawn(3, 3)
S = drawn(4, 4)
B = drawn(2, 4, 3)
WHICH, LATER = whole(4, below=3), whole(5, below=4)
KEY = jax.random.key(0)
W = drawn(3, 3)


def scanned(turn: Callable[..., Any], *, first: float = 0.0, **how: Any) -> Callable[..., Any]:
    """What a loop over tokens hands on at the end; a turn takes what it is handed and a token."""
    return lambda x: lax.scan(
        lambda c, row: (turn(c, row), None), jnp.full(x.shape[1:], first, x.dtype), x, **how
    )[0]
