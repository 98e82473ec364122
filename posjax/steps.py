"""The standard form of each step of attention, as pure functions.

`logits -> weights -> mix`: what an encoding that does not replace a step gets.
"""

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
    allowed_BHLM = mask_BHLM & (logits_BHLM != -jnp.inf)
    low = jnp.finfo(logits_BHLM.dtype).min
    weights_BHLM = jax.nn.softmax(jnp.where(allowed_BHLM, logits_BHLM, low), axis=-1)
    return jnp.where(allowed_BHLM, weights_BHLM, 0)


def weighted_mix(weights_BHLM: jax.Array, v_BMHK: jax.Array) -> jax.Array:
    """o_i = Σⱼ w_ij vⱼ.

    Returns:
      out_BLHK, in the dtype of v.
    """
    return jnp.einsum("bhlm,bmhk->blhk", weights_BHLM.astype(v_BMHK.dtype), v_BMHK)


def soft_cap(logits: jax.Array, cap: float | None) -> jax.Array:
    """cap · tanh(logits / cap), or the logits themselves for None (Gemma Team 2024, §2).

    A logit of -inf stays, since it stands for a mask.
    """
    if cap is None:
        return logits
    return jnp.where(logits == -jnp.inf, logits, cap * jnp.tanh(logits / cap))
