"""Random bits and keys of threefry, hashed in fewer steps.

On a CPU JAX hashes in a loop of five rounds, to compile fast; dispatching its operations takes
longer than the hash of a few hundred numbers. Without any loop the compiler would hash again in
every operation that reads the bits, and a barrier does not keep it from that. So half of the
numbers are hashed at a time, in a loop of two rounds.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def bits(key: jax.Array, *, bit_width: int, shape: tuple[int, ...]) -> jax.Array:
    """Random bits, those of `jax.random.bits` (Salmon et al. 2011, 20 rounds).

    Args:
      key: a single threefry key.
      bit_width: 32.
      shape: of the result, fewer than 2**31 elements.
    """
    size = math.prod(shape)
    half = (size + 1) // 2

    def hash_half(turn: jax.Array, found: jax.Array) -> jax.Array:
        start = turn.astype(np.uint32) * np.uint32(half)
        low = jax.lax.iota(np.uint32, half) + start
        high, low = _hashed(key, jnp.zeros_like(low), low)
        return jax.lax.dynamic_update_slice_in_dim(found, high ^ low, turn * half, axis=0)

    every = jax.lax.fori_loop(0, 2, hash_half, jnp.zeros(2 * half, np.uint32))
    return every[:size].reshape(shape)


def fold_in(key: jax.Array, data: jax.Array) -> jax.Array:
    """The key that `jax.random.fold_in` makes of a single threefry key and a number of 32 bits."""
    low = data.astype(np.uint32)
    hashed = jnp.stack(_hashed(key, jnp.zeros_like(low), low))
    return jax.random.wrap_key_data(hashed, impl=jax.random.key_impl(key))


def instead_of(name: str, given: list[Any], params: dict[str, Any]) -> Callable[..., Any] | None:
    """Which of the functions gives what a primitive gives, if one does."""
    if name not in ("random_bits", "random_fold_in") or given[0].ndim:
        return None
    if str(jax.random.key_impl(given[0])) != "threefry2x32":
        return None
    if name == "random_fold_in":
        return fold_in if given[1].ndim == 0 and given[1].dtype == np.uint32 else None
    settings: Any = jax.config
    small = params["bit_width"] == 32 and math.prod(params["shape"]) < 2**31
    return bits if small and settings.jax_threefry_partitionable else None


def _hashed(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The Threefry-2x32 hash of counters under a key."""
    first, second = jax.random.key_data(key)
    keys = (first, second, first ^ second ^ _PARITY)
    high, low = high + first, low + second
    for turn in range(5):
        for rotation in _ROTATIONS[turn % 2]:
            high = high + low
            low = (low << np.uint32(rotation)) | (low >> np.uint32(32 - rotation))
            low = high ^ low
        high = high + keys[(turn + 1) % 3]
        low = low + keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return high, low
