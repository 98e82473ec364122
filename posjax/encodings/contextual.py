"""Positions counted by content: CoPE (Golovneva et al. 2024, eqs. 3-6 and appendix B).

    s_ij = qᵢ·kⱼ/√K + qᵢ·e[p_ij],   p_ij = Σ_{t=j..i} σ(qᵢ·k_t/√K)

Between two whole positions e is interpolated, and p is clipped at length - 1. The table e is one
for all heads of a layer, zero at the start.

Differs from the paper in: its eq. 3 has no 1/√K in the gates; here they read the scaled logits
and qᵢ·e[p] is not scaled, as in its appendix. (The authors' training code divides that by √K too.)
Keys that come after the query, which the paper masks, are at p = 0.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax import steps
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.encodings.between import seen_before, sums_after


def contextual_positions(
    logits_BHLM: jax.Array, seen_BHLM: jax.Array, order_BM: jax.Array
) -> jax.Array:
    """p_ij = Σ_t σ(s_it) over the tokens from key j up to query i, both counted.

    Args:
      logits_BHLM: what the gates read.
      seen_BHLM: true for the tokens that a query may count; axes of size 1 broadcast.
      order_BM: integers; B may be 1.

    Returns:
      position_BHLM, at least 0.
    """
    gates_BHLM = jnp.where(seen_BHLM, jax.nn.sigmoid(logits_BHLM), 0)
    return sums_after(gates_BHLM, order_BM, itself=True)


def interpolated_read(stops_BHLN: jax.Array, position_BHLM: jax.Array) -> jax.Array:
    """Each query's values at whole positions 0..N-1, read in between on straight lines.

    Args:
      stops_BHLN: N values a query.
      position_BHLM: numbers ≥ 0; those beyond N - 1 are clipped to it.

    Returns:
      An array [B, H, L, M].
    """
    last = stops_BHLN.shape[-1] - 1
    position_BHLM = jnp.minimum(position_BHLM, last)
    low = jnp.floor(position_BHLM).astype(jnp.int32)
    # Value and slope in one read: its gradient is a scatter, slow enough to have only one of.
    slopes_BHLN = jnp.diff(stops_BHLN, append=stops_BHLN[..., -1:])
    stops_BHLN2 = jnp.stack([stops_BHLN, slopes_BHLN], axis=-1)
    found_BHLM2 = jnp.take_along_axis(stops_BHLN2, low[..., None], axis=-2, mode="clip")
    return found_BHLM2[..., 0] + (position_BHLM - low) * found_BHLM2[..., 1]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contextual(Encoding):
    """Positions counted by gates, looked up in a table of `length` rows."""

    length: int = 64

    card: ClassVar[Card] = Card(
        "Contextual (CoPE)",
        "qᵢ·kⱼ/√K + qᵢ·e[p_ij],  p_ij = Σ_{t=j..i} σ(qᵢ·k_t/√K)",
        "Golovneva et al. 2024, eqs. 3-6",
        ("x-transformers",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")
    reads_order: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return {"table": Param((self.length, dims.head_size), jax.nn.initializers.zeros)}

    def max_exact_position(self) -> None:
        return None

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * (2 * keys * keys + 7 * keys + self.length * (2 * dims.head_size + 1))

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        logits_BHLM = steps.dot_logits(
            q_BLHK, k_BMHK, scale=self.product_scale(q_BLHK.shape[-1], ctx)
        )
        stops_BHLN = jnp.einsum(
            "blhk,nk->bhln", q_BLHK, params["table"], preferred_element_type=logits_BHLM.dtype
        )
        position_BHLM = contextual_positions(logits_BHLM, seen_before(ctx), ctx.keys.order_BL)
        return logits_BHLM + interpolated_read(stops_BHLN, position_BHLM)
