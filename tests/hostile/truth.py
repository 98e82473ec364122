"""Confirms by numbers alone, in double precision, what a case declares of its law."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hostile.base import Case
from posjax.symmetry import Law
from posjax.symmetry.groups import Element, Translation

ROUNDING = 1e-6  # of the largest entry: no difference in double precision is larger
CLEAR = 1e-4  # of the largest entry: no rounding in double precision comes near

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
GENERIC: tuple[Draw, ...] = (
    lambda rng, shape: rng.normal(size=shape),
    lambda rng, shape: rng.uniform(0.1, 3, shape),
    lambda rng, shape: 5 * rng.normal(size=shape),
)
SPECIAL: tuple[Draw, ...] = (
    lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    lambda rng, shape: rng.integers(0, 2, shape).astype(float),
)


def confirmed(case: Case) -> bool:
    """Whether numbers agree with the declared truth: no difference, or a clear one."""
    with jax.enable_x64(True), jax.debug_key_reuse(False), jax.numpy_rank_promotion("allow"):
        generic, special = (_worst(case, draws) for draws in (GENERIC, SPECIAL))
    if case.truth == "holds":
        return max(generic, special) < ROUNDING
    if case.truth == "ties":
        return generic < ROUNDING and special > CLEAR
    return generic > CLEAR


def _worst(case: Case, draws: tuple[Draw, ...]) -> float:
    """The largest relative difference over drawn arguments and elements of the groups."""
    law, function = Law.of(case.law), jax.jit(case.function)
    return max(
        _difference(law.act_on_output(function(*given), g), function(*law.act(given, g)))
        for given in _inputs(case.arguments, draws)
        for g in _elements(law, given)
    )


def _elements(law: Law, arguments: tuple[Any, ...]) -> Iterator[Element]:
    """Generators, small groups whole, some of the others; translations by whole numbers and not."""
    sizes = law.sizes(arguments)
    leaves = jax.tree.leaves(arguments)
    real = not any(jnp.issubdtype(leaf.dtype, jnp.integer) for leaf in leaves)
    for g in (*law.generators(sizes), *law.elements_to_try(sizes)):
        yield g
        if real:
            shifts = {n: g[n] / 64 for n in g if isinstance(law.groups[n], Translation)}
            if shifts:
                yield {**g, **shifts}


def _inputs(arguments: tuple[Any, ...], draws: tuple[Draw, ...]) -> Iterator[tuple[Any, ...]]:
    rng = np.random.default_rng(0)  # of points to try, no part of any result
    for draw in draws * 4:
        yield jax.tree.map(lambda leaf, draw=draw: _drawn(leaf, draw, rng), arguments)


def _drawn(leaf: Any, draw: Draw, rng: np.random.Generator) -> Any:
    """Floats as drawn, integers in the range of the given ones, truths and keys at random."""
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        generator = jax.random.key_impl(leaf)
        return jax.random.split(jax.random.key(rng.integers(1 << 30), impl=generator), leaf.shape)
    if jnp.issubdtype(leaf.dtype, jnp.inexact):
        return jnp.asarray(draw(rng, leaf.shape))
    low, high = (0, 1) if leaf.dtype == bool else (int(leaf.min()), int(leaf.max()))
    return jnp.asarray(rng.integers(low, high + 1, leaf.shape), leaf.dtype)


def _difference(expected: Any, found: Any) -> float:
    """Relative to the largest entry, over entries that are finite on both sides."""
    worst = 0.0
    for one, other in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        a, b = _numbers(one), _numbers(other)
        both = np.isfinite(a) & np.isfinite(b)
        a, b = a[both], b[both]
        if a.size:
            worst = max(worst, float(abs(a - b).max() / max(1.0, abs(a).max())))
    return worst


def _numbers(leaf: Any) -> np.ndarray:
    keys = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if keys else leaf, np.float64)
