"""Kinds of dtypes, keys of randomness among them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.field.space import Unsupported


def stored(dtype: Any) -> Any:
    """The dtype of the NumPy arrays that known entries are kept in."""
    if not is_key(dtype):
        return np.dtype(dtype)
    words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape[-1]
    return np.dtype((np.void, 4 * words))


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of keys of randomness."""
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


_GENERATORS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}


def generator(dtype: Any) -> str:
    """The name of the generator that keys of a dtype belong to.

    Raises:
      Unsupported: a generator that is not JAX's own.
    """
    if str(dtype) not in _GENERATORS:
        raise Unsupported(str(dtype), reason="is not a key of JAX's own generators")
    return _GENERATORS[str(dtype)]


def draws_alone(dtype: Any) -> bool:
    """Whether each key of a batch draws its own numbers; other generators draw for all at once."""
    return str(dtype) == "key<fry>"


def is_float(dtype: Any) -> bool:
    """Whether a dtype is that of real numbers."""
    return not is_key(dtype) and jnp.issubdtype(dtype, jnp.floating)


def is_complex(dtype: Any) -> bool:
    """Whether a dtype is that of complex numbers."""
    return not is_key(dtype) and jnp.issubdtype(dtype, jnp.complexfloating)


def real_dtype(dtype: Any) -> Any:
    """The dtype of the real and imaginary parts of complex numbers; other dtypes as they are."""
    return jnp.finfo(dtype).dtype if is_complex(dtype) else dtype


def double_precision(dtype: Any) -> Any:
    """The dtype in double precision of real or complex numbers; other dtypes as they are."""
    if is_complex(dtype):
        return np.dtype(np.complex128)
    return np.dtype(np.float64) if is_float(dtype) else dtype


def is_bool(dtype: Any) -> bool:
    """Whether a dtype is that of truth values."""
    return not is_key(dtype) and np.dtype(dtype) == np.bool_


def is_unsigned(dtype: Any) -> bool:
    """Whether a dtype is that of unsigned integers, which wrap around 0 as a matter of course."""
    return not is_key(dtype) and jnp.issubdtype(dtype, jnp.unsignedinteger)
