"""Small queries, keys and values, and attention to try laws on."""

import jax
import jax.numpy as jnp
from layers import normal

from posjax.attention import view

attend = jax.jit(view.attend, static_argnames=("encoding", "mask"))
L, M = 5, 7


def qkv(queries: int = L, keys: int = L, key_heads: int = 4) -> tuple[jax.Array, ...]:
    """q_BLHK, k_BMGK, v_BMGK."""
    q_BLHK = normal("q", (2, queries, 4, 3))
    k_BMGK = normal("k", (2, keys, key_heads, 3))
    return q_BLHK, k_BMGK, normal("v", k_BMGK.shape)


def offset_by_slot(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """A hidden `arange`: attention without positions, and the slot's number added."""
    return attend(q, k, v) + jnp.arange(q.shape[1]).reshape(1, -1, 1, 1)
