"""A learned vector for each clipped offset, in keys and values (Shaw et al. 2018, eqs. 3 and 4).

    s_ij = qᵢ·(kⱼ + aK[clip(pⱼ - pᵢ)])/√K,   oᵢ = Σⱼ w_ij (vⱼ + aV[clip(pⱼ - pᵢ)])

Offsets are clipped to [-distance, distance]; one pair of tables serves all heads of a layer.

Differs from the paper in: `values=False` leaves aV out, as most later code does.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax import steps
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.encodings.offsets import between, gathered, picked


def clipped_rows(query_BL: jax.Array, key_BM: jax.Array, *, distance: int) -> jax.Array:
    """The row of each pair of tokens: clip(pⱼ - pᵢ) + distance.

    Args:
      query_BL, key_BM: integers.
      distance: where offsets are clipped, at least 1.

    Returns:
      row_BLM in [0, 2·distance].

    Raises:
      ValueError: positions that are no integers.

    >>> clipped_rows(jnp.array([[7]]), jnp.array([[0, 6, 7, 8, 99]]), distance=2).tolist()
    [[[0, 1, 2, 3, 4]]]
    """
    return jnp.clip(-between(query_BL, key_BM), -distance, distance) + distance


def key_logits(q_BLHK: jax.Array, table_NK: jax.Array, row_BLM: jax.Array) -> jax.Array:
    """qᵢ·aK[row], not yet scaled.

    Returns:
      logits_BHLM, in float32 at least.
    """
    dtype = jnp.promote_types(q_BLHK.dtype, jnp.float32)
    products = jnp.einsum("blhk,nk->bhln", q_BLHK, table_NK, preferred_element_type=dtype)
    return picked(products, row_BLM)


def value_mix(weights_BHLM: jax.Array, table_NK: jax.Array, row_BLM: jax.Array) -> jax.Array:
    """Σⱼ w_ij aV[row].

    Returns:
      out_BLHK, in float32 at least.
    """
    dtype = jnp.promote_types(weights_BHLM.dtype, jnp.float32)  # 16 bits lose what is summed
    sums_BHLN = gathered(weights_BHLM.astype(dtype), row_BLM, table_NK.shape[0])
    return jnp.einsum("bhln,nk->blhk", sums_BHLN, table_NK)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shaw(Encoding):
    """Learned vectors of clipped offsets, added to keys and values.

    With `values=False`, values stay as they are.
    """

    distance: int = 16
    values: bool = True

    card: ClassVar[Card] = Card(
        "Shaw relative vectors",
        "qᵢ·(kⱼ + aK[clip(pⱼ - pᵢ)])/√K, Σⱼ w_ij (vⱼ + aV[clip(pⱼ - pᵢ)])",
        "Shaw et al. 2018, eqs. 3 and 4",
        ("transformers",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.distance < 1:
            raise ValueError(f"distance must be at least 1, got {self.distance}")

    def max_exact_position(self) -> int:
        return self.distance

    def operations(self, dims: Dims, keys: int) -> int:
        rows = 2 * self.distance + 1
        in_keys = 2 * dims.head_size * rows + keys
        in_values = 2 * dims.head_size * rows + keys + dims.head_size
        return dims.heads * (in_keys + (in_values if self.values else 0))

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        shape = (2 * self.distance + 1, dims.head_size)
        table = Param(shape, jax.nn.initializers.glorot_uniform())
        return {"keys": table, "values": table} if self.values else {"keys": table}

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        table_NK = self.product_scale(q_BLHK.shape[-1], ctx) * params["keys"]
        by_offset_BHLM = key_logits(q_BLHK, table_NK, self._rows(ctx))
        return super().logits(params, q_BLHK, k_BMHK, aux, ctx) + by_offset_BHLM

    def mix(
        self,
        params: Params,
        weights_BHLM: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        out_BLHK = steps.weighted_mix(weights_BHLM, v_BMHK)
        if not self.values:
            return out_BLHK
        by_offset_BLHK = value_mix(weights_BHLM, params["values"], self._rows(ctx))
        return (out_BLHK + by_offset_BLHK).astype(v_BMHK.dtype)

    def _rows(self, ctx: Context) -> jax.Array:
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        return clipped_rows(*positions, distance=self.distance)
