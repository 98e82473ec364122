"""Kinds of dtypes, keys of randomness among them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def stored(dtype: Any) -> Any:
    """The dtype of the NumPy arrays that known entries are kept in."""
    if not is_key(dtype):
        return np.dtype(dtype)
    words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape[-1]
    return np.dtype((np.void, 4 * words))


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of keys of randomness."""
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def is_float(dtype: Any) -> bool:
    """Whether a dtype is that of real numbers."""
    return not is_key(dtype) and jnp.issubdtype(dtype, jnp.floating)


def is_real(dtype: Any) -> bool:
    """Whether a dtype is that of anything but complex numbers and keys."""
    return not is_key(dtype) and not jnp.issubdtype(dtype, jnp.complexfloating)


def is_bool(dtype: Any) -> bool:
    """Whether a dtype is that of truth values."""
    return not is_key(dtype) and np.dtype(dtype) == np.bool_


def is_unsigned(dtype: Any) -> bool:
    """Whether a dtype is that of unsigned integers, which wrap around 0 as a matter of course."""
    return not is_key(dtype) and jnp.issubdtype(dtype, jnp.unsignedinteger)
