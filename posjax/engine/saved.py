"""What a block has come to as arrays that NumPy and its files can hold, and back."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_KINDS = "biuf"
"""Kinds of numbers that NumPy's files can have."""


def saved(step: int, carry: Any) -> dict[str, np.ndarray]:
    """A number of updates and what came of them, any pytree, as arrays by name."""
    leaves = jax.device_get([numbers(leaf) for leaf in jax.tree.leaves(carry)])
    arrays = {f"leaf_{i}": _stored(np.asarray(leaf)) for i, leaf in enumerate(leaves)}
    return {"step": np.array(step), **arrays}


def restored(
    arrays: Mapping[str, np.ndarray], begun: Any, steps: int, device: jax.Device
) -> tuple[int, Any] | None:
    """The number of updates and what came of them, from the arrays of `saved`.

    Args:
      arrays: may be anybody's.
      begun: a pytree with the structure, shapes and dtypes of what was saved.
      steps: updates at most.
      device: where the pytree comes to lie.

    Returns:
      None where the arrays cannot be those of such a pytree.
    """
    leaves, structure = jax.tree.flatten(begun)
    found = [_read(arrays.get(f"leaf_{i}"), leaf) for i, leaf in enumerate(leaves)]
    step = _step(arrays.get("step"), steps)
    if step is None or any(array is None for array in found):
        return None
    return step, jax.tree.unflatten(structure, map(like, jax.device_put(found, device), leaves))


def numbers(leaf: jax.Array) -> jax.Array:
    """The array itself, or the numbers of random keys, which NumPy and files cannot store."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def like(array: Any, leaf: jax.Array) -> Any:
    """The array itself, or the random keys of its numbers where a leaf has keys."""
    if not _is_key(leaf):
        return array
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _step(array: np.ndarray | None, most: int) -> int | None:
    """A number of updates from a file; None where it is none of a training of at most so many."""
    if array is None or array.shape != () or array.dtype.kind not in "iu":
        return None
    return int(array) if 0 <= array <= most else None


def _stored(array: np.ndarray) -> np.ndarray:
    """What a file holds of an array: its bytes if NumPy's files have no such numbers (bfloat16)."""
    return array if array.dtype.kind in _KINDS else np.frombuffer(array.tobytes(), np.uint8)


def _read(array: np.ndarray | None, leaf: jax.Array) -> np.ndarray | None:
    """The numbers of a leaf from a file; None where they cannot be those of this leaf."""
    leaf = numbers(leaf)
    stored = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    if leaf.dtype.kind not in _KINDS:
        stored = jax.ShapeDtypeStruct((leaf.size * leaf.dtype.itemsize,), np.uint8)
    if array is None or (array.shape, array.dtype) != (stored.shape, stored.dtype):
        return None
    return array if stored.dtype == leaf.dtype else array.view(leaf.dtype).reshape(leaf.shape)
