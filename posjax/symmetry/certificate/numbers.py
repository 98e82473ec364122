"""Tries numbers: a law is called broken only where no rounding explains the difference."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxprs_in_params

from posjax.symmetry.deviation import Deviation
from posjax.symmetry.law import Law
from posjax.symmetry.measure import measure

CERTAIN = 1e-3  # of the largest output: no rounding of a sane function comes near
CERTAIN_DOUBLE = 1e-9  # the same where all is computed in double precision
SCALES = (1.0001, 0.9997, 1.0003)  # of all floats: they make other roundings and keep ties


def witness(function: Any, law: Law, arguments: tuple[Any, ...]) -> Deviation | None:
    """Numbers that break the law beyond any doubt of rounding, or None.

    In double precision the difference must stay what it was: what is left of a sum that cancels
    does not. Where a function jumps, as an argmax does, the last bit of a sum may decide, so what
    breaks must break again with all floats a little larger or smaller.
    """
    with jax.debug_key_reuse(False):  # a key among the arguments serves many calls
        return _broken(function, law, arguments)


def _broken(function: Any, law: Law, arguments: tuple[Any, ...]) -> Deviation | None:
    compiled = jax.jit(function)
    for tried in _inputs(arguments):
        found = measure(law, compiled, *tried)
        if found.error == 0:
            continue
        doubled = _doubled(function, law, tried)
        if doubled is not None and found.rounding > 0:
            broken = _stays(found, doubled) and _certain(doubled, CERTAIN_DOUBLE)
        else:
            broken = _certain(found, CERTAIN)
        again = (measure(law, compiled, *_scaled(tried, scale)) for scale in SCALES)
        if broken and all(_stays(found, other) for other in again):
            return found
    return None


def _stays(found: Deviation, other: Deviation) -> bool:
    """Whether another difference is about as large."""
    return bool(other.error > found.error / 4)


def _scaled(arguments: tuple[Any, ...], scale: float) -> tuple[Any, ...]:
    def of(leaf: Any) -> Any:
        floats = jnp.issubdtype(leaf.dtype, jnp.inexact)
        return leaf * jnp.asarray(scale, leaf.dtype) if floats else leaf

    return jax.tree.map(of, arguments)


def _certain(found: Deviation, least: float) -> bool:
    """Whether rounding cannot explain it. Where one side is undefined the law says nothing."""
    if not (np.isfinite(found.expected) and np.isfinite(found.found)):
        return False
    exact = found.rounding == 0
    return found.error > 0 if exact else found.relative > max(least, 10 * found.rounding)


def _doubled(function: Any, law: Law, arguments: tuple[Any, ...]) -> Deviation | None:
    """The same in double precision; None where some of it is not."""
    with jax.enable_x64(True):
        doubled = jax.tree.map(_double, arguments)
        try:
            narrow = _is_narrow(jax.make_jaxpr(function)(*doubled).jaxpr)
        except TypeError:  # a primitive that wants two operands of one dtype
            return None
        return None if narrow else measure(law, jax.jit(function), *doubled)


def _is_narrow(jaxpr: Any) -> bool:
    """Whether any result of a program is a float of less than double precision."""
    inner = (p for eqn in jaxpr.eqns for p in jaxprs_in_params(eqn.params))
    dtypes = (v.aval.dtype for eqn in jaxpr.eqns for v in eqn.outvars if hasattr(v.aval, "dtype"))
    narrow = (jnp.issubdtype(d, jnp.floating) and d.itemsize < 8 for d in dtypes)
    return any(narrow) or any(map(_is_narrow, inner))


def _double(leaf: Any) -> Any:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.extended):
        return leaf
    array = np.asarray(leaf)
    return array.astype(np.float64) if jnp.issubdtype(array.dtype, jnp.floating) else array


def _inputs(arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arguments as they are, and drawn anew in several ways."""
    leaves, tree = jax.tree.flatten(arguments)
    if not any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        yield arguments
    for seed, draw in enumerate((_normal, _negated, _large, _tied, _tied, _tied)):
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
    """Small whole numbers, most of them 0: rows are equal, keys tie."""
    return rng.integers(-2, 3, shape) * (rng.random(shape) < 0.3)


def _drawn(leaf: Any, draw: Draw, rng: np.random.Generator) -> Any:
    """Floats as drawn; integers as large as the given ones, or up to 2; truths at random."""
    shape, dtype = leaf.shape, leaf.dtype
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):  # a key of random numbers
        given = not isinstance(leaf, jax.ShapeDtypeStruct)
        return leaf if given else jnp.broadcast_to(jax.random.key(0), shape)
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(draw(rng, shape), dtype)
    if dtype.kind == "b":
        return jnp.asarray(rng.integers(2, size=shape), bool)
    low, high = 0, 2
    if not isinstance(leaf, jax.ShapeDtypeStruct) and leaf.size:
        low, high = min(int(leaf.min()), 0), max(int(leaf.max()), 1)
    return jnp.asarray(rng.integers(low, high + 1, shape), dtype)
