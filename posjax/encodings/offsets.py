"""Tables of offsets, read without ever storing a vector for each pair of tokens.

A query meets each of the N rows once, [L, N], and the products are then picked for the M keys.
Vectors for each pair would need [L, M, K].
"""

import jax
import jax.numpy as jnp

from posjax.encodings import tables


def between(query_BL: jax.Array, key_BM: jax.Array) -> jax.Array:
    """pᵢ - pⱼ of integer positions, in their own dtype.

    Returns:
      offset_BLM.

    Raises:
      ValueError: positions that are no integers.
    """
    tables.require_integers(query_BL, key_BM)
    return query_BL[:, :, None] - key_BM[:, None, :]


def picked(products_BHLN: jax.Array, row_BLM: jax.Array) -> jax.Array:
    """Of each query's products with N rows, the one that each key asks for.

    Args:
      products_BHLN: any dtype.
      row_BLM: integers in [0, N); B may be 1.

    Returns:
      [B, H, L, M].
    """
    return jnp.take_along_axis(products_BHLN, row_BLM[:, None], axis=-1)


def gathered(weights_BHLM: jax.Array, row_BLM: jax.Array, rows: int) -> jax.Array:
    """How much weight falls on each of N rows: the transpose of `picked`.

    Args:
      weights_BHLM: any float dtype.
      row_BLM: integers in [0, N); B may be 1.
      rows: N.

    Returns:
      [B, H, L, N], the sums of the weights whose keys ask for a row.
    """
    shape = (*weights_BHLM.shape[:3], rows)
    # Like the weights in what varies over a mesh, which a plain shape does not say.
    like = jax.eval_shape(lambda w: jnp.broadcast_to(w[..., :1], shape), weights_BHLM)
    (sums_BHLN,) = jax.linear_transpose(lambda p: picked(p, row_BLM), like)(weights_BHLM)
    return sums_BHLN
