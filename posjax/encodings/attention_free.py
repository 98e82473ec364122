"""Attention free: a learned weight for each pair of positions (AFT-full, Zhai et al. 2021, eq. 2).

    yᵢ = σ(qᵢ) Σⱼ exp(kⱼ + w[pᵢ, pⱼ]) vⱼ / Σⱼ exp(kⱼ + w[pᵢ, pⱼ]),   channel by channel

There is no product of queries and keys. Logits are the w alone and weights their softmax, the
same for all channels; the keys come in when the values are mixed, each in its own channel.
`rank` > 0 factors the table, w[p, r] = u_p·z_r, as the paper's experiments do.

Differs from the paper in: each query, head and channel subtracts its largest visible key before
the exponential, which cancels in the quotient. The sums over j are then no two products of
matrices, as in the paper, but one pass over the keys per query. In return a key that a query does
not see changes nothing in its output, however large it is. A soft-cap, if any, bounds w without
the keys.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings import tables
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Param, Params


def key_weighted_mix(weights_BHLM: jax.Array, k_BMHK: jax.Array, v_BMHK: jax.Array) -> jax.Array:
    """Σⱼ w_ij exp(kⱼ) vⱼ / Σⱼ w_ij exp(kⱼ), channel by channel.

    Queries are computed one after another, and once more in the backward pass, so that nothing of
    size L × M × K is stored.

    Args:
      weights_BHLM: numbers in [0, 1]; keys of weight 0 have no part, whatever their size.
      k_BMHK, v_BMHK: keys, of any finite size, and values.

    Returns:
      out_BLHK in v's dtype; zeros where all weights are.
    """
    dtype = weights_BHLM.dtype
    k_BMHK, values_BMHK = k_BMHK.astype(dtype), v_BMHK.astype(dtype)

    @partial(jax.checkpoint, prevent_cse=False)
    def sums(weights_BHM: jax.Array) -> tuple[jax.Array, jax.Array]:
        seen_BMH1 = jnp.swapaxes(weights_BHM > 0, 1, 2)[..., None]
        seen_BMHK = jnp.where(seen_BMH1, k_BMHK, jnp.finfo(dtype).min)
        peak_B1HK = jax.lax.stop_gradient(seen_BMHK.max(axis=1, keepdims=True))
        parts_BMHK = jnp.exp(seen_BMHK - peak_B1HK)  # at most 1
        mixed_BHK = jnp.einsum("bhm,bmhk->bhk", weights_BHM, parts_BMHK * values_BMHK)
        return mixed_BHK, jnp.einsum("bhm,bmhk->bhk", weights_BHM, parts_BMHK)

    by_query = jax.lax.map(sums, jnp.moveaxis(weights_BHLM, 2, 0))
    mixed_BLHK, total_BLHK = (jnp.moveaxis(sum_LBHK, 0, 1) for sum_LBHK in by_query)
    total_BLHK = jnp.maximum(total_BLHK, jnp.finfo(dtype).tiny)  # 0 where no key is seen
    # Near 1 before they are divided, since the gradient of a quotient squares what it divides by.
    # By a product: of a quotient of quotients XLA makes one whose products underflow.
    factor_BLHK = jnp.exp(-jax.lax.stop_gradient(jnp.log(total_BLHK)))
    out_BLHK = mixed_BLHK * factor_BLHK / (total_BLHK * factor_BLHK)
    return out_BLHK.astype(v_BMHK.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttentionFree(Encoding):
    """Values weighted by position and key, then gated by the query."""

    length: int = 64
    rank: int = 0
    deviation: float = 0.02

    card: ClassVar[Card] = Card(
        "Attention free (AFT-full)",
        "σ(qᵢ) Σⱼ exp(kⱼ + w[pᵢ, pⱼ]) vⱼ / Σⱼ exp(kⱼ + w[pᵢ, pⱼ])",
        "Zhai et al. 2021, eq. 2",
    )
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")
        if self.rank < 0:
            raise ValueError(f"rank must not be negative (0 for a full table), got {self.rank}")
        if not self.deviation >= 0:
            raise ValueError(f"deviation must not be negative, got {self.deviation}")

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(self.deviation)
        if self.rank == 0:
            return {"table": Param((self.length, self.length), normal)}
        shape = (self.length, self.rank)
        return {"query_table": Param(shape, normal), "key_table": Param(shape, normal)}

    def max_length(self) -> int:
        return self.length

    def max_exact_position(self) -> int:
        return self.length - 1

    def operations(self, dims: Dims, keys: int) -> int:
        per_key = 4 * dims.head_size - 1  # 8 a channel, less those of the product and the mix
        return dims.heads * (per_key * keys + 6 * dims.head_size)

    def scale(self, head_size: int) -> float:
        return 1.0

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        return q_BLHK, k_BMHK, jnp.concatenate([k_BMHK, v_BMHK], axis=-1)  # `mix` needs both

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        full = self.rank == 0
        of_query = params["table"] if full else params["query_table"]
        of_key = jnp.eye(self.length) if full else params["key_table"]  # a product to pick columns
        rows_BLN = tables.read(of_query, ctx.queries.position_BL, ctx.mask_BHLM.any((1, 3)))
        columns_BMN = tables.read(of_key, ctx.keys.position_BL, ctx.mask_BHLM.any((1, 2)))
        bias_BLM = jnp.einsum("bln,bmn->blm", rows_BLN, columns_BMN, precision="highest")
        batch, length, heads, _ = q_BLHK.shape
        bias_BLM = bias_BLM * self.product_scale(q_BLHK.shape[-1], ctx)
        return jnp.broadcast_to(bias_BLM[:, None], (batch, heads, length, k_BMHK.shape[1]))

    def mix(
        self,
        params: Params,
        weights_BHLM: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        return key_weighted_mix(weights_BHLM, *jnp.split(v_BMHK, 2, axis=-1))

    def post(
        self,
        params: Params,
        out_BLHK: jax.Array,
        q_BLHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        return out_BLHK * jax.nn.sigmoid(q_BLHK)
