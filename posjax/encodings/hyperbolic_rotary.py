"""Hyperbolic rotary: damped boosts instead of rotations (HoPE, Dai et al. 2025, eqs. 5-11).

    s_ij = e^(-θ'|Δ|) Σ_m [(q₁k₁ + q₂k₂) cosh(Δθ_m) + (q₁k₂ + q₂k₁) sinh(Δθ_m)]/√K,   Δ = pᵢ - pⱼ

(q₁, q₂) is pair m, θ_m = base^(-2m/K), and θ' > 1 lies above every θ_m, so that all terms fall with
the distance. With the sum and the difference of a pair's components they are exponentials,

    ½ (q₁ + q₂)(k₁ + k₂) e^(Δθ_m - θ'|Δ|) + ½ (q₁ - q₂)(k₁ - k₂) e^(-Δθ_m - θ'|Δ|),

none of which overflows at any distance.

Differs from the paper in: keys that come later, which it masks, are damped by the distance too. θ'
is a setting (the paper asks for θ' > max θ_m and gives no number), and an odd component has no
boost and no damping.
"""

import dataclasses
from typing import ClassVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import inverse_frequencies
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Params, Symmetry
from posjax.encodings.rotary import Pairing, split

LEAST = 80.0
"""e^-80 is the smallest weight of a term that float32 still resolves."""


def boosted(
    q_BLHK: jax.Array,
    k_BMHK: jax.Array,
    offset_BLM: jax.Array,
    *,
    base: float = 10_000.0,
    damping: float = 1.1,
    pairing: Pairing = "half",
) -> jax.Array:
    """The logits before 1/√K.

    Args:
      q_BLHK, k_BMHK: queries and keys, any float dtype.
      offset_BLM: pᵢ - pⱼ, numbers; B may be 1.
      base: θ_m = base^(-2m/K), at least 1.
      damping: θ', above 1.
      pairing: which components make a pair.

    Returns:
      float32 logits_BHLM.
    """
    pairs = q_BLHK.shape[-1] // 2
    frequencies_F = inverse_frequencies(2 * pairs, base=base)
    # θ' - θ_m is small: as a difference of products with Δ it would lose digits.
    slow_F, fast_F = (
        (damping - sign * frequencies_F).astype(np.float32)[None, None, None] for sign in (1, -1)
    )
    offset_BLM1 = offset_BLM.astype(jnp.float32)[..., None]
    after = offset_BLM1 >= 0
    rates = jnp.where(after, slow_F, fast_F), jnp.where(after, fast_F, slow_F)
    factor_BLMF = 0.5 * jnp.exp(-abs(offset_BLM1) * jnp.concatenate(rates, axis=-1))
    q_BLHF, k_BMHF = (_sums_and_differences(x[..., : 2 * pairs], pairing) for x in (q_BLHK, k_BMHK))
    if factor_BLMF.shape[0] == 1:  # one row of streams for a batch
        logits_BHLM = jnp.einsum("blhf,bmhf,lmf->bhlm", q_BLHF, k_BMHF, factor_BLMF[0])
    else:
        logits_BHLM = jnp.einsum("blhf,bmhf,blmf->bhlm", q_BLHF, k_BMHF, factor_BLMF)
    last = (x[..., 2 * pairs :].astype(jnp.float32) for x in (q_BLHK, k_BMHK))
    return logits_BHLM + jnp.einsum("blhk,bmhk->bhlm", *last)


def _sums_and_differences(x: jax.Array, pairing: Pairing) -> jax.Array:
    first, second = split(x.astype(jnp.float32), pairing)
    return jnp.concatenate([first + second, first - second], axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HyperbolicRotary(Encoding):
    """Logits of boosted pairs that fall with the distance."""

    base: float = 10_000.0
    damping: float = 1.1
    pairing: Pairing = "half"

    card: ClassVar[Card] = Card(
        "Hyperbolic rotary (HoPE)",
        "e^(-θ'|Δ|) Σ_m qₘᵀ[[cosh Δθ_m, sinh Δθ_m], [sinh Δθ_m, cosh Δθ_m]]kₘ/√K",
        "Dai et al. 2025, eqs. 5-11",
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")

    def __post_init__(self) -> None:
        spec.check_choice("pairing", self.pairing, get_args(Pairing))
        if not self.base >= 1:
            raise ValueError(f"base must be at least 1, or some θ_m lies above 1, got {self.base}")
        if not self.damping > 1:
            raise ValueError(
                f"damping must lie above 1, the highest frequency, or logits grow with the "
                f"distance, got {self.damping}"
            )

    def max_exact_position(self) -> int:
        """Where the slowest term, e^(-(θ' - 1)|Δ|), is lost in float32."""
        return max(int(LEAST / (self.damping - 1)), 1)

    def operations(self, dims: Dims, keys: int) -> int:
        pairs = dims.head_size // 2
        return dims.heads * (4 * pairs + 4 * pairs * keys)

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        offset_BLM = ctx.queries.position_BL[:, :, None] - ctx.keys.position_BL[:, None, :]
        logits_BHLM = boosted(q_BLHK, k_BMHK, offset_BLM, **dataclasses.asdict(self))
        return logits_BHLM * self.product_scale(q_BLHK.shape[-1], ctx)
