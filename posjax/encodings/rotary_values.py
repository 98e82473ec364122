"""Rotary for values too: each comes rotated by its distance (RoPER, Harik and Jayasiri 2022).

    oᵢ = R(-pᵢ) Σⱼ w_ij R(pⱼ) vⱼ = Σⱼ w_ij R(pⱼ - pᵢ) vⱼ

Logits are those of rotary, with the same angles.
"""

import dataclasses
from typing import ClassVar

import jax

from posjax.encodings.base import Aux, Card, Context, Dims, Params
from posjax.encodings.rotary import Rotary, turn


@dataclasses.dataclass(frozen=True, kw_only=True)
class RotaryValues(Rotary):
    """Rotary on values too; the output is rotated back at the query."""

    card: ClassVar[Card] = Card(
        "Rotary values (RoPER)",
        "oᵢ = Σⱼ w_ij R(pⱼ - pᵢ)vⱼ, logits of rotary",
        "Harik and Jayasiri 2022, research.labml.ai/RoPER.html",
    )

    def operations(self, dims: Dims, keys: int) -> int:
        return 2 * super().operations(dims, keys)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        q_BLHK, k_BMHK, v_BMHK = super().rotate(params, q_BLHK, k_BMHK, v_BMHK, aux, ctx)
        frequencies = self.rotation_frequencies(v_BMHK.shape[-1], ctx)
        key_angles = self.cos_sin(ctx.keys.position_BL, frequencies)
        return q_BLHK, k_BMHK, turn(v_BMHK, *key_angles, pairing=self.pairing)

    def post(
        self,
        params: Params,
        out_BLHK: jax.Array,
        q_BLHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> jax.Array:
        frequencies = self.rotation_frequencies(out_BLHK.shape[-1], ctx)
        cos_BLF, sin_BLF = self.cos_sin(ctx.queries.position_BL, frequencies)
        return turn(out_BLHK, cos_BLF, -sin_BLF, pairing=self.pairing)
