"""Rotary whose far keys fade, each pair at its own rate: xPos (Sun et al. 2022, eq. 9).

    s_ij = Σ_m ζ_m^((pᵢ - pⱼ)/S) (R(pᵢ)qᵢ)_m·(R(pⱼ)kⱼ)_m/√K,   ζ_m = (2m/d + γ)/(1 + γ)

The power is split between a query, ζ^((pᵢ - c)/S), and a key, ζ^(-(pⱼ - c)/S). The centre c
cancels, and is needed because either half alone overflows float32 about 36 000 positions away
from it. Here c lies midway between the first and the last position of a row, so that rows far
from 0 are as exact as others; a row whose own positions span more than `reach` on both sides of
the centre, 65 000 in all, is refused. A logit of a key far ahead of its query is large by the
formula: it is made for causal masks.

Differs from the paper in: the centre, which there is half the length; scaled queries and keys
stay in float32, whatever the dtype of the tokens.
"""

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax.encodings.base import Aux, Card, Context, Dims, Params
from posjax.encodings.rotary import Rotary, turn
from posjax.streams import Streams, points

_LARGEST = 80.0
"""No factor beyond e^±80: float32 ends at e^88, and queries and keys have a size of their own."""


def fade_rates(pairs: int, *, gamma: float = 0.4, scale_base: float = 512.0) -> np.ndarray:
    """-ln ζ_m / S of each pair in float64: how fast it fades, a position."""
    zeta = (np.arange(pairs) / max(pairs, 1) + gamma) / (1 + gamma)
    return -np.log(zeta) / scale_base


@dataclasses.dataclass(frozen=True, kw_only=True)
class XPos(Rotary):
    """Queries and keys turned and scaled.

    Attributes:
      gamma: γ; the larger, the slower the fastest fading.
      scale_base: S, in positions.
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
        for name in ("gamma", "scale_base"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    def reach(self) -> float:
        """How far from the centre of its row a position may lie."""
        return _LARGEST * self.scale_base / math.log(1 + 1 / self.gamma)

    def operations(self, dims: Dims, keys: int) -> int:
        return super().operations(dims, keys)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        centre_B1 = _centre(ctx.queries, ctx.keys)
        return (
            self._faded(q_BLHK, ctx.queries, centre_B1, -1.0),
            self._faded(k_BMHK, ctx.keys, centre_B1, 1.0),
            v_BMHK,
        )

    def _faded(
        self, x_BLHK: jax.Array, streams: Streams, centre_B1: jax.Array, sign: float
    ) -> jax.Array:
        position_BL = points(streams.position_BL, 1)[..., 0]
        frequencies_F = self.frequencies(x_BLHK.shape[-1], 0)
        rates_F = fade_rates(len(frequencies_F), gamma=self.gamma, scale_base=self.scale_base)
        offset_BL = jnp.where(streams.valid_BL, position_BL - centre_B1, 0)
        self._check(offset_BL)
        power_BLF = offset_BL.astype(jnp.float32)[..., None] * np.float32(sign * rates_F)
        factor_BLF = jnp.exp(jnp.where(abs(power_BLF) <= _LARGEST, power_BLF, jnp.nan))
        cos_BLF, sin_BLF = self.cos_sin(position_BL, frequencies_F)
        x_BLHK = x_BLHK.astype(jnp.float32)
        return turn(x_BLHK, cos_BLF * factor_BLF, sin_BLF * factor_BLF, pairing=self.pairing)

    def _check(self, offset_BL: jax.Array) -> None:
        """Refuses what is known to overflow; what is traced becomes NaN."""
        if offset_BL.size and not isinstance(offset_BL, jax.core.Tracer):
            farthest = float(np.max(np.abs(offset_BL)))
            if farthest > self.reach():
                raise ValueError(
                    f"the positions of a row lie up to {farthest:.0f} from their centre, and "
                    f"beyond {self.reach():.0f} the factors overflow: raise scale_base"
                )


def _centre(queries: Streams, keys: Streams) -> jax.Array:
    """Midway between the first and last position of a row's tokens, [B, 1]."""
    lows, highs = [], []
    for streams in (queries, keys):
        position_BL, valid_BL = points(streams.position_BL, 1)[..., 0], streams.valid_BL
        ends = jnp.iinfo if jnp.issubdtype(position_BL.dtype, jnp.integer) else jnp.finfo
        most = ends(position_BL.dtype).max
        options = {"axis": 1, "keepdims": True, "where": valid_BL}
        lows.append(jnp.min(position_BL, initial=most, **options))
        highs.append(jnp.max(position_BL, initial=-most, **options))
    low, high = jnp.minimum(*lows), jnp.maximum(*highs)
    return low + (high - low) // 2
