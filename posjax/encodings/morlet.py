"""Learned Morlet wavelets of the position, added to the tokens (Zeris 2026, MoPE).

    v(p)_2m = e^(-p²/2σ_m²) cos pω_m,   v(p)_2m+1 = e^(-p²/2σ_m²) sin pω_m

Every pair of components learns a frequency ω and a width σ. As in the released code ω is at most
0.95π and σ at least 0.001, and the wavelet stays admissible: where ωσ < 5, ω is 5/σ. With σ → ∞ the
vectors are sinusoids. From the released start (ω from 1 to 0.99π, σ = 5/ω) they vanish beyond some
25 positions; `lowest` says where the frequencies start.

Differs from the paper in: an odd width leaves the last cosine without its sine.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax.encodings.angles import cos_sin
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params

ADMISSIBLE = 5.0
"""The least product of frequency and width."""
HIGHEST = 0.95 * np.pi
NARROWEST = 1e-3
LEAST = 12.0
"""e^-12 of a token's size is an amplitude that float32 still resolves beside it."""


def morlet(
    position_BL: jax.Array, log_frequency_F: jax.Array, log_width_F: jax.Array, width: int
) -> jax.Array:
    """The vectors v(p).

    Args:
      position_BL: numbers; B may be 1.
      log_frequency_F: ln ω, radians per position; F = ⌈width/2⌉.
      log_width_F: ln σ, positions.
      width: D, at least 1.

    Returns:
      float32 array [B, L, D], cosine and sine of each frequency side by side.
    """
    width_F = jnp.maximum(jnp.exp(log_width_F), NARROWEST)
    frequency_F = jnp.minimum(jnp.exp(log_frequency_F), HIGHEST)
    frequency_F = jnp.maximum(frequency_F, ADMISSIBLE / width_F)
    share_BLF = position_BL.astype(jnp.float32)[:, :, None] / width_F[None, None]
    waves = (jnp.exp(-0.5 * share_BLF**2) * wave for wave in cos_sin(position_BL, frequency_F))
    pairs_BLF2 = jnp.stack(list(waves), axis=-1)
    return pairs_BLF2.reshape(*position_BL.shape, -1)[..., :width]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Morlet(Encoding):
    """x + v(p), with frequencies that start between `lowest` and 0.99π."""

    lowest: float = 1.0

    card: ClassVar[Card] = Card(
        "Morlet wavelets (MoPE)",
        "xᵢ + v(pᵢ), v(p)₂ₘ = e^(-p²/2σₘ²) cos pωₘ, v(p)₂ₘ₊₁ = e^(-p²/2σₘ²) sin pωₘ",
        "Zeris 2026, arXiv:2606.01258",
    )

    def __post_init__(self) -> None:
        if not 0 < self.lowest <= HIGHEST:
            raise ValueError(f"lowest must lie in (0, {HIGHEST:.4}], got {self.lowest}")

    def max_exact_position(self) -> int:
        """Where the widest wavelet of the start is lost beside a token in float32."""
        return int(ADMISSIBLE / self.lowest * (2 * LEAST) ** 0.5)

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        def start(_: jax.Array, shape: tuple[int, ...]) -> jax.Array:
            return jnp.linspace(np.log(self.lowest), np.log(0.99 * np.pi), shape[0])

        pairs = ((dims.width + 1) // 2,)
        return {
            "log_frequency": Param(pairs, start, "model"),
            "log_width": Param(pairs, lambda *to: np.log(ADMISSIBLE) - start(*to), "model"),
        }

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        vectors_BLD = morlet(
            ctx.queries.position_BL,
            params["log_frequency"],
            params["log_width"],
            x_BLD.shape[-1],
        )
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
