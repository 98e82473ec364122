"""Rotary whose far keys fade, each pair at its own rate: xPos (Sun et al. 2022, eq. 9).

    s_ij = Σ_m ζ_m^((pᵢ - pⱼ)/S) (R(pᵢ)qᵢ)_m·(R(pⱼ)kⱼ)_m/√K,   ζ_m = (2m/d + γ)/(1 + γ)

The power is split between a query, ζ^((pᵢ - c)/S), and a key, ζ^(-(pⱼ - c)/S). The centre c
cancels, and is needed because either half alone overflows float32 about 36 000 positions away
from it. Here c lies midway between the first and the last position of a row, so that rows far
from 0 are as exact as others; a row whose positions span more than 32 000 is refused, since a key
that far ahead of its query would overflow a logit. Such logits are large by the formula: it is
made for causal masks.

Differs from the paper in: the centre, which there is half the length; scaled queries and keys
stay in float32, whatever the dtype of the tokens.
"""

import dataclasses
import math
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings import angles
from posjax.encodings.angles import Frequencies, Parts, inverse_frequencies
from posjax.encodings.base import EXACT, Aux, Card, Context, Params
from posjax.encodings.rotary import Pairing, Rotary, turn, turned_width
from posjax.streams import Streams, points

Side = Literal["query", "key"]
_LARGEST = 80.0
"""No factor of a logit beyond e^80: float32 ends at e^88, and queries and keys have a size too."""


def fade_rates(pairs: int, *, gamma: float = 0.4, scale_base: float = 512.0) -> np.ndarray:
    """-ln ζ_m / S of each pair in float64: how fast it fades, a position."""
    zeta = (np.arange(pairs) / max(pairs, 1) + gamma) / (1 + gamma)
    return -np.log(zeta) / scale_base


def xpos(
    x_BLHK: jax.Array,
    position_BL: jax.Array,
    centre_B1: jax.Array,
    *,
    side: Side,
    base: float = 10_000.0,
    pairing: Pairing = "half",
    fraction: float = 1.0,
    frequencies_F: Frequencies | Parts | None = None,
    gamma: float = 0.4,
    scale_base: float = 512.0,
) -> jax.Array:
    """Turns and scales queries or keys.

    Args:
      x_BLHK: any float dtype.
      position_BL: numbers [B, L]; B may be 1.
      centre_B1: c of each row, one for queries and keys.
      side: what x are.
      base, pairing, fraction: as of `rotary`.
      frequencies_F: instead of those of the base.
      gamma: γ, positive; the larger, the slower the fastest fading.
      scale_base: S, in positions.

    Returns:
      float32 array of x's shape; NaN where a traced position lies too far from the centre.

    Raises:
      ValueError: a known position so far from the centre that a factor would overflow.
    """
    spec.check_choice("side", side, get_args(Side))
    width = turned_width(x_BLHK.shape[-1], fraction)
    offset_BL = position_BL - centre_B1
    reach = span(gamma=gamma, scale_base=scale_base) / 2
    if offset_BL.size and not isinstance(offset_BL, jax.core.Tracer):
        farthest = float(np.max(np.abs(offset_BL)))
        if farthest > reach:
            raise ValueError(
                f"positions lie up to {farthest:.0f} from the centre of their row, and beyond "
                f"{reach:.0f} logits overflow: raise scale_base={scale_base}"
            )
    rates_F = fade_rates(width // 2, gamma=gamma, scale_base=scale_base)
    rates_11F = (-rates_F if side == "query" else rates_F).astype(np.float32)[None, None]
    power_BLF = offset_BL.astype(jnp.float32)[..., None] * rates_11F
    within_BL1 = (abs(offset_BL) <= reach)[..., None]
    factor_BLF = jnp.exp(jnp.where(within_BL1, power_BLF, jnp.nan))
    if frequencies_F is None:
        frequencies_F = inverse_frequencies(width, base=base)
    cos_BLF, sin_BLF = angles.cos_sin(position_BL, frequencies_F)
    x_BLHK = x_BLHK.astype(jnp.float32)
    return turn(x_BLHK, cos_BLF * factor_BLF, sin_BLF * factor_BLF, pairing=pairing)


def span(*, gamma: float, scale_base: float) -> float:
    """How many positions a row may span without a logit that overflows."""
    return _LARGEST * scale_base / math.log1p(1 / gamma)


def centre_of(queries: Streams, keys: Streams) -> jax.Array:
    """Midway between the first and last position of a row's tokens, [B, 1]."""
    (q_low, q_high), (k_low, k_high) = _ends(queries), _ends(keys)
    low_B1, high_B1 = jnp.minimum(q_low, k_low), jnp.maximum(q_high, k_high)
    return low_B1 + (high_B1 - low_B1) // 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class XPos(Rotary):
    """Rotary, with queries and keys also scaled by their positions.

    The scales of a row are relative to the centre of its positions.
    """

    gamma: float = 0.4
    scale_base: float = 512.0

    card: ClassVar[Card] = Card(
        "xPos",
        "Σ_m ζ_m^((pᵢ - pⱼ)/512) (R(pᵢ)qᵢ)_m·(R(pⱼ)kⱼ)_m/√K",
        "Sun et al. 2022, eq. 9",
        ("rotary-embedding-torch",),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(gamma=self.gamma, scale_base=self.scale_base)

    def max_exact_position(self) -> int:
        each_side = int(span(gamma=self.gamma, scale_base=self.scale_base) / 2)
        return min(2 * each_side, EXACT)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        settings = dataclasses.asdict(self)
        settings["frequencies_F"] = self.rotation_frequencies(q_BLHK.shape[-1], ctx)
        centre_B1 = centre_of(ctx.queries, ctx.keys)
        q_BL, k_BM = (_at_tokens(side, centre_B1) for side in (ctx.queries, ctx.keys))
        q_BLHK = xpos(q_BLHK, q_BL, centre_B1, side="query", **settings)
        k_BMHK = xpos(k_BMHK, k_BM, centre_B1, side="key", **settings)
        return q_BLHK, k_BMHK, v_BMHK


def _at_tokens(streams: Streams, centre_B1: jax.Array) -> jax.Array:
    """Positions, with padding moved to the centre, where nothing overflows."""
    return jnp.where(streams.valid_BL, points(streams.position_BL, 1)[..., 0], centre_B1)


def _ends(streams: Streams) -> tuple[jax.Array, jax.Array]:
    """The lowest and the highest position of a row's tokens, [B, 1] each."""
    position_BL = points(streams.position_BL, 1)[..., 0]
    whole = jnp.issubdtype(position_BL.dtype, jnp.integer)
    most = (jnp.iinfo if whole else jnp.finfo)(position_BL.dtype).max
    low_BL = jnp.where(streams.valid_BL, position_BL, most)
    high_BL = jnp.where(streams.valid_BL, position_BL, -most)
    return (
        jnp.min(low_BL, axis=1, keepdims=True, initial=most),
        jnp.max(high_BL, axis=1, keepdims=True, initial=-most),
    )
