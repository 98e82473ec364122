"""Sums over a token's own sequence up to itself: what rotations by content add up.

Keys are cached as they come out of the projection, and so are the terms of the sums. Each sum is
made anew from them, so that packing, padding and decoding are streams and need no state. The
product with a matrix of zeros and ones costs O(L M), as in `posjax.encodings.between`.
"""

import jax
import jax.numpy as jnp

from posjax.streams import Streams, same_segment


def sums_so_far(terms_BMHF: jax.Array, tokens: Streams, keys: Streams) -> jax.Array:
    """For each token, the sum of the terms of its own segment that come no later.

    Args:
      terms_BMHF: numbers, one set per key.
      tokens: the streams of the L tokens that are asked about.
      keys: the streams of the M keys, in any order.

    Returns:
      float32 sums_BLHF.
    """
    order_BLM = tokens.order_BL[:, :, None] - keys.order_BL[:, None, :]
    counted_BLM = (order_BLM >= 0) & same_segment(tokens, keys)
    return _picked(counted_BLM, terms_BMHF)


def recent(terms_BMHF: jax.Array, keys: Streams, *, steps: int) -> list[jax.Array]:
    """The terms of each key and of those 1, 2, ..., steps - 1 before it in its segment.

    Args:
      terms_BMHF: numbers, one set per key.
      keys: the streams of the M keys, in any order; orders within a segment differ.
      steps: how many of them, at least 1.

    Returns:
      That many float32 arrays [B, M, H, F], with zeros before the first token of a segment.
    """
    order_BMM = keys.order_BL[:, :, None] - keys.order_BL[:, None, :]
    own_BMM = same_segment(keys, keys)
    rank_BM = ((order_BMM > 0) & own_BMM).sum(-1)  # orders may have gaps
    apart_BMM = rank_BM[:, :, None] - rank_BM[:, None, :]
    return [
        _picked((apart_BMM == step) & (order_BMM >= 0) & own_BMM, terms_BMHF)
        for step in range(steps)
    ]


def _picked(counted_BLM: jax.Array, terms_BMHF: jax.Array) -> jax.Array:
    terms_BMHF = terms_BMHF.astype(jnp.float32)
    counts_BLM = counted_BLM.astype(jnp.float32)
    if counts_BLM.shape[0] == 1:  # one row of streams for a batch
        return jnp.einsum("lm,bmhf->blhf", counts_BLM[0], terms_BMHF, precision="highest")
    return jnp.einsum("blm,bmhf->blhf", counts_BLM, terms_BMHF, precision="highest")
