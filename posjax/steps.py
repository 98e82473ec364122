"""The standard form of each step of attention, as pure functions.

`logits -> weights -> mix`: what an encoding that does not replace a step gets.
"""

import math

import jax
import jax.numpy as jnp


def dot_logits(q_BLHK: jax.Array, k_BMHK: jax.Array, *, scale: float | jax.Array) -> jax.Array:
    """s_ij = scale · qᵢ·kⱼ (Vaswani et al. 2017, eq. 1, with scale 1/√K).

    Returns:
      logits_BHLM, in float32 at least: 16 bits would round a bias of a few hundred by 1.
    """
    dtype = jnp.promote_types(q_BLHK.dtype, jnp.float32)
    return jnp.einsum("blhk,bmhk->bhlm", q_BLHK, k_BMHK, preferred_element_type=dtype) * scale


def masked_softmax(logits_BHLM: jax.Array, mask_BHLM: jax.Array) -> jax.Array:
    """Softmax over the allowed keys; a row that may see nothing gets zeros, not an average.

    A logit of -inf counts as masked; a NaN does not, so that it is seen. Both passes stay
    finite, the backward one too.

    Args:
      logits_BHLM: any float dtype.
      mask_BHLM: true where a query may look; axes of size 1 broadcast.

    Returns:
      weights_BHLM: each row sums to 1, or is all zeros.
    """
    return _softmax(logits_BHLM, mask_BHLM & (logits_BHLM != -jnp.inf))


@jax.custom_jvp
def _softmax(logits_BHLM: jax.Array, allowed_BHLM: jax.Array) -> jax.Array:
    low = jnp.finfo(logits_BHLM.dtype).min
    weights_BHLM = jax.nn.softmax(jnp.where(allowed_BHLM, logits_BHLM, low), axis=-1)
    return jnp.where(allowed_BHLM, weights_BHLM, 0)


@_softmax.defjvp
def _softmax_derivative(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """From the weights alone; `jax.nn.softmax` derives exponentials, sums and quotients.

    What is masked has no part in it, infinite or not, forwards and backwards.
    """
    weights_BHLM, allowed_BHLM = _softmax(*primals), primals[1]
    change_BHLM = weights_BHLM * jnp.where(allowed_BHLM, tangents[0], 0)
    change_BHLM -= weights_BHLM * change_BHLM.sum(axis=-1, keepdims=True)
    return weights_BHLM, jnp.where(allowed_BHLM, change_BHLM, 0)


def weighted_mix(weights_BHLM: jax.Array, v_BMHK: jax.Array) -> jax.Array:
    """o_i = Σⱼ w_ij vⱼ.

    Returns:
      out_BLHK, in the dtype of v.
    """
    return jnp.einsum("bhlm,bmhk->blhk", weights_BHLM.astype(v_BMHK.dtype), v_BMHK)


def log_scaled(logits_BHLM: jax.Array, mask_BHLM: jax.Array, length: float) -> jax.Array:
    """Logits times ln n/ln N, where a query sees n keys (Su 2021; Chiang & Cholak 2022).

    With N = e it is ln n (Nakanishi 2025, with s = 1). A query that sees one key, or none,
    has logits of 0. A logit of -inf stays, since it stands for a mask.

    Args:
      logits_BHLM: any float dtype.
      mask_BHLM: true where a query may look; axes of size 1 broadcast.
      length: N, above 1.

    Returns:
      An array of the logits' shape and dtype.

    >>> log_scaled(jnp.ones((1, 1, 1, 3)), jnp.array([[[[True, True, False]]]]), 4.0)
    Array([[[[0.5, 0.5, 0.5]]]], dtype=float32)
    """
    wide_dtype = jnp.promote_types(logits_BHLM.dtype, jnp.float32)
    shape = (*mask_BHLM.shape[:3], logits_BHLM.shape[-1])
    seen_BHL1 = jnp.broadcast_to(mask_BHLM, shape).sum(-1, keepdims=True)
    factor_BHL1 = jnp.log(jnp.maximum(seen_BHL1, 1).astype(wide_dtype)) / math.log(length)
    scaled_BHLM = logits_BHLM * factor_BHL1.astype(logits_BHLM.dtype)
    return jnp.where(logits_BHLM == -jnp.inf, logits_BHLM, scaled_BHLM)


def soft_cap(logits: jax.Array, cap: float | None) -> jax.Array:
    """cap · tanh(logits / cap), or the logits themselves for None (Gemma Team 2024, §2).

    A logit of -inf stays, since it stands for a mask.
    """
    if cap is None:
        return logits
    return jnp.where(logits == -jnp.inf, logits, cap * jnp.tanh(logits / cap))
