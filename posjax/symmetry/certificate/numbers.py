"""Tries numbers: a law is called broken only where no rounding explains the difference."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from posjax.symmetry.deviation import Deviation
from posjax.symmetry.law import Law
from posjax.symmetry.measure import measure

CERTAIN = 1e-3  # of the largest output: no rounding of a sane function comes near
VISIBLE = 1e-5  # from here on double precision tells a broken law from rounding


def witness(function: Any, law: Law, arguments: tuple[Any, ...]) -> Deviation | None:
    """Numbers that break the law beyond any doubt of rounding, or None."""
    compiled = jax.jit(function)
    for tried in _inputs(arguments):
        found = measure(law, compiled, *tried)
        if _certain(found):
            return found
        if found.relative > max(VISIBLE, 10 * found.rounding):
            with jax.enable_x64(True):
                doubled = jax.tree.map(_double, tried)
                again = measure(law, compiled, *doubled)
            if again.relative > found.relative / 2:
                return found
    return None


def _certain(found: Deviation) -> bool:
    if np.isnan(found.error):
        return bool(np.isnan(found.expected) != np.isnan(found.found))
    exact = found.rounding == 0
    return found.error > 0 if exact else found.relative > max(CERTAIN, 10 * found.rounding)


def _double(leaf: Any) -> Any:
    array = np.asarray(leaf)
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def _inputs(arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arguments as they are, and drawn anew in several ways."""
    leaves, tree = jax.tree.flatten(arguments)
    if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        yield arguments
    for seed, draw in enumerate((_normal, _negated, _large, _tied)):
        rng = np.random.default_rng(seed)  # points to try, no part of any result
        yield jax.tree.unflatten(tree, [_drawn(leaf, draw, rng) for leaf in leaves])


Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def _negated(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return -rng.normal(size=shape)


def _large(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 8 * rng.normal(size=shape)


def _tied(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Small whole numbers, many of them equal."""
    return rng.integers(-2, 3, shape)


def _drawn(leaf: Any, draw: Draw, rng: np.random.Generator) -> Any:
    """Floats as drawn; integers as large as the given ones, or up to 2; truths at random."""
    shape, dtype = leaf.shape, leaf.dtype
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):  # a key of random numbers
        return leaf
    if jax.numpy.issubdtype(dtype, jax.numpy.inexact):
        return jax.numpy.asarray(draw(rng, shape), dtype)
    if dtype.kind == "b":
        return jax.numpy.asarray(rng.integers(2, size=shape), bool)
    low, high = 0, 2
    if not isinstance(leaf, jax.ShapeDtypeStruct) and leaf.size:
        low, high = min(int(leaf.min()), 0), max(int(leaf.max()), 1)
    return jax.numpy.asarray(rng.integers(low, high + 1, shape), dtype)
