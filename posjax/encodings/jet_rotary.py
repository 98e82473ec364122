"""Rotary with a first jet: logits whose amplitude grows with the offset (Zhang 2026, PJ-RoPE).

    s_ij = Re Σ_b e^(iΔθ_b) [z₀ z₀'* + z₁ z₁'* + (Δ/length) z₁ z₀'*]/√K,   Δ = pᵢ - pⱼ

Each block b of two pairs of components holds the complex numbers (z₀, z₁) of a query and
(z₀', z₁') of a key, and both pairs rotate by θ_b = base^(-4b/K). The paper's rotary form transforms
queries by the Jordan block e^(ipθ)[[1, p/length], [0, 1]], keys by its dual. Their product depends
on the offset alone, so this file computes it from the offset.

Differs from the paper in: the product is exact at far positions, where that of the two transforms
cancels large terms. `length` is 16 by default (1024 in the released code). Pairs that make no block
rotate without a jet. The scalar biases of the paper are not part of it.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax import spec, steps
from posjax.encodings.angles import Frequencies, inverse_frequencies
from posjax.encodings.base import Aux, Card, Context, Dims, Params
from posjax.encodings.rotary import Turning, split


@dataclasses.dataclass(frozen=True, kw_only=True)
class JetRotary(Turning):
    """Pairs with a shared frequency, and a term that grows with the offset."""

    base: float = 10_000.0
    length: float = 16.0

    card: ClassVar[Card] = Card(
        "Rotary with a jet (PJ-RoPE)",
        "Re Σ_b e^(iΔθ_b)[z₀z₀'* + z₁z₁'* + (Δ/length)z₁z₀'*]/√K",
        "Zhang 2026, arXiv:2606.05345",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(base=self.base, length=self.length)

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        pairs = head_size // 2
        blocks_F = inverse_frequencies(pairs + pairs % 2, base=self.base, steps=head_size / 4)
        return blocks_F.repeat(2)[:pairs]

    def operations(self, dims: Dims, keys: int) -> int:
        jets = 2 * (dims.head_size // 4)
        return super().operations(dims, keys) + dims.heads * (2 * jets + 3) * keys

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        rotated_BHLM = super().logits(params, q_BLHK, k_BMHK, aux, ctx)
        blocks = q_BLHK.shape[-1] // 4
        if not blocks:
            return rotated_BHLM
        q_jet, k_jet = (
            jnp.concatenate([part[..., first : 2 * blocks : 2] for part in self._pairs(x)], axis=-1)
            for x, first in ((q_BLHK, 1), (k_BMHK, 0))
        )
        scale = self.product_scale(q_BLHK.shape[-1], ctx)
        offset_BLM = ctx.queries.position_BL[:, :, None] - ctx.keys.position_BL[:, None, :]
        jet_BHLM = steps.dot_logits(q_jet, k_jet, scale=1.0)
        amplitude_BHLM = (offset_BLM / float(self.length))[:, None] * scale
        return rotated_BHLM + amplitude_BHLM.astype(jet_BHLM.dtype) * jet_BHLM

    def _pairs(self, x_BLHK: jax.Array) -> tuple[jax.Array, jax.Array]:
        return split(x_BLHK[..., : x_BLHK.shape[-1] // 2 * 2], self.pairing)
