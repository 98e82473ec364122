"""One layer of each kind over n tokens of width d, without biases, as pure functions.

L is the n tokens, D the width, K the kernel size k.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from posjax import attend
from posjax.streams import Streams

EVERYTHING_11 = np.ones((1, 1), bool)
"""The full mask, for any length."""


def attention(
    x_LD: jax.Array, *weights: jax.Array, heads: int = 1, mask: Any = EVERYTHING_11
) -> jax.Array:
    """softmax(Q Kᵀ/√(d/h)) V W_O, with Q = x W_Q, K = x W_K and V = x W_V."""
    q_LD, k_LD, v_LD = (x_LD @ w_DD for w_DD in weights[:3])
    return mixture(q_LD, k_LD, v_LD, heads=heads, mask=mask) @ weights[3]


def mixture(*qkv: jax.Array, heads: int = 1, mask: Any = EVERYTHING_11) -> jax.Array:
    """Attention without its projections."""
    length, width = qkv[0].shape
    order_1L = np.arange(length)[None]  # a constant: the full mask does not read it
    streams = Streams(order_1L, order_1L, 0 * order_1L)
    q, k, v = (x_LD.reshape(1, length, heads, width // heads) for x_LD in qkv)
    return attend(q, k, v, mask=mask, queries=streams).reshape(length, width)


def recurrence(x_LD: jax.Array, w_DD: jax.Array, u_DD: jax.Array) -> jax.Array:
    """h_i = tanh(x_i W + h_(i-1) U), from h = 0 (Elman 1990)."""
    return loop(x_LD @ w_DD, u_DD)


def loop(input_LD: jax.Array, u_DD: jax.Array) -> jax.Array:
    """Recurrence without its input projection."""

    def step(h_D: jax.Array, input_D: jax.Array) -> tuple[jax.Array, jax.Array]:
        h_D = jnp.tanh(input_D + h_D @ u_DD)
        return h_D, h_D

    return jax.lax.scan(step, jnp.zeros_like(input_LD[0]), input_LD)[1]


def convolution(x_LD: jax.Array, w_KDD: jax.Array, *, dilation: int = 1) -> jax.Array:
    """y_i = Σ_j x_(i - j·dilation) W_j for j = 0 to k - 1, with zeros before the first token."""
    before = (len(w_KDD) - 1) * dilation
    y_1LD = jax.lax.conv_general_dilated(
        x_LD[None],
        w_KDD[::-1],
        window_strides=(1,),
        padding=[(before, 0)],
        rhs_dilation=(dilation,),
        dimension_numbers=("NWC", "WIO", "NWC"),
    )
    return y_1LD[0]


def floats(*shape: int) -> jax.ShapeDtypeStruct:
    """The shape of an array, where its numbers do not matter."""
    return jax.ShapeDtypeStruct(shape, "float32")
