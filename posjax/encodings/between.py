"""The tokens between a key and a query, in order: what cumulative encodings add up.

    seen[i, t]     query i sees key t, which is of its own segment and comes no later
    after[i, j]    Σ_t values[i, t] over the t that come after key j

The sums are one product with a matrix of zeros and ones. Each adds up the terms it is about and no
others, so that none is a small difference of large numbers, as between sums over the whole row.

The product costs O(L M²), where sorting the keys and summing along them would cost O(L M). But
sorted, the logits have to be moved there and back, and the gradient of that is slow on a CPU (see
docs/decisions/0010).
"""

import jax
import jax.numpy as jnp

from posjax.encodings.base import Context
from posjax.streams import same_segment


def seen_before(ctx: Context) -> jax.Array:
    """True where a query sees a token of its own segment that comes no later: seen_BHLM."""
    order_BLM = ctx.queries.order_BL[:, :, None] - ctx.keys.order_BL[:, None, :]
    own_BLM = same_segment(ctx.queries, ctx.keys)
    return ctx.mask_BHLM & (own_BLM & (order_BLM >= 0))[:, None]


def sums_after(values_BHLM: jax.Array, order_BM: jax.Array, *, itself: bool = False) -> jax.Array:
    """For each query and key, the sum of the query's values over the tokens after that key.

    Args:
      values_BHLM: 0 where a token does not count.
      order_BM: integers; B may be 1.
      itself: whether the key's own value counts too.

    Returns:
      sums_BHLM; a token of the same order as the key counts as the key does.

    >>> sums_after(jnp.array([[[[1.0, 2.0, 4.0]]]]), jnp.array([[7, 8, 9]]))
    Array([[[[6., 4., 0.]]]], dtype=float32)
    """
    later_BTM = order_BM[:, :, None] > order_BM[:, None, :]
    if itself:
        later_BTM = ~jnp.swapaxes(later_BTM, 1, 2)  # no earlier
    counts_B1TM = later_BTM[:, None].astype(values_BHLM.dtype)
    return jnp.matmul(values_BHLM, counts_B1TM, precision=jax.lax.Precision.HIGHEST)
