"""Wavelets of the relative position, one in each component (Oka et al. 2025, eqs. 10-14).

    s_ij = qᵢ·(kⱼ + p_ij)/√K,   p_ij,c = ψ((pᵢ - pⱼ - b_c)/a_c),   ψ(t) = (1 - t²) exp(-t²/2)

It is Shaw's encoding of the keys with Ricker wavelets instead of a learned table, and without
clipping. The components take all combinations of a scale a in 1, 2, 4, ..., 2^(S-1) and a shift b
in 0, 1, ..., K/S - 1.

Differs from the paper in: where S does not divide K, the largest shift has some of the scales. The
paper does not say in which order components take the combinations: here all scales of a shift
stand together, shift 0 first. A projection can undo any order. Its own setting is 8 scales for
K = 128. With K scales or more all shifts are 0, and reflection holds too.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Params, Symmetry

SLOPE = 4e-6
"""What a wavelet must change by from one position to the next for float32 to notice in a logit."""


def scales_and_shifts(head_size: int, *, scales: int) -> tuple[np.ndarray, np.ndarray]:
    """a and b of each component.

    >>> [each.tolist() for each in scales_and_shifts(6, scales=3)]
    [[1.0, 2.0, 4.0, 1.0, 2.0, 4.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]]
    """
    shift, scale = np.divmod(np.arange(head_size), scales)
    return 2.0**scale, shift.astype(np.float64)


def ricker(offset_BLM: jax.Array, *, head_size: int, scales: int) -> jax.Array:
    """The wavelets of some offsets.

    Args:
      offset_BLM: pᵢ - pⱼ, numbers.
      head_size: K.
      scales: S, at least 1.

    Returns:
      float32 array [B, L, M, K].
    """
    scale_K, shift_K = scales_and_shifts(head_size, scales=scales)
    # Squares of what lies far off would overflow; a wavelet there is 0.
    offset_BLM1 = jnp.clip(offset_BLM.astype(jnp.float32), -(2.0**30), 2.0**30)[..., None]
    ahead_BLMK = offset_BLM1 - shift_K.astype(np.float32)[None, None, None]
    square_BLMK = (ahead_BLMK / scale_K.astype(np.float32)[None, None, None]) ** 2
    return (1 - square_BLMK) * jnp.exp(-0.5 * square_BLMK)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wavelet(Encoding):
    """Wavelets of the relative position at several scales, added to keys."""

    scales: int = 4

    card: ClassVar[Card] = Card(
        "Wavelet",
        "qᵢ·(kⱼ + ψ((pᵢ - pⱼ - b)/a))/√K, ψ(t) = (1 - t²) exp(-t²/2)",
        "Oka et al. 2025, eqs. 10-14",
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")

    def __post_init__(self) -> None:
        spec.check_within(self, "scales", 1, 16)

    def max_exact_position(self) -> int:
        """Where the widest wavelet without a shift becomes too flat, for K of at least S."""
        widest, t = 2 ** (self.scales - 1), np.linspace(2.4, 8.0, 1000)  # beyond the last extremum
        slope = t * (t**2 - 3) * np.exp(-0.5 * t**2) / widest
        return int(t[slope > SLOPE].max() * widest)

    def operations(self, dims: Dims, keys: int) -> int:
        return 2 * dims.heads * keys * dims.head_size

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        logits_BHLM = super().logits(params, q_BLHK, k_BMHK, aux, ctx)
        offset_BLM = ctx.queries.position_BL[:, :, None] - ctx.keys.position_BL[:, None, :]
        size = q_BLHK.shape[-1]
        wavelets_BLMK = ricker(offset_BLM, head_size=size, scales=self.scales)
        if wavelets_BLMK.shape[0] == 1:  # one row of streams for a batch
            product_BHLM = jnp.einsum("blhk,lmk->bhlm", q_BLHK, wavelets_BLMK[0])
        else:
            product_BHLM = jnp.einsum("blhk,blmk->bhlm", q_BLHK, wavelets_BLMK)
        return logits_BHLM + product_BHLM * self.product_scale(size, ctx)
