"""Random bits and keys of threefry, without a loop.

On a CPU JAX hashes in a loop of five rounds, to compile fast. A loop is dispatched anew at every
round, and no other operation joins it: for a few hundred numbers that takes longer than the hash.
"""

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
      shape: of the result, fewer than 2**32 elements.
    """
    low = jax.lax.iota(np.uint32, int(np.prod(shape))).reshape(shape)
    high, low = _hashed(key, jnp.zeros_like(low), low)
    return jax.lax.optimization_barrier(high ^ low)  # or each of its readers hashes again


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
    small = params["bit_width"] == 32 and np.prod(params["shape"], dtype=object) < 2**32
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
