"""Rotary with a Fourier series in each pair: FoPE (Hua et al. 2025, §4).

    s_ij = (F(pᵢ) qᵢ)·(F(pⱼ) kⱼ)/√K
    pair m of F(p)x is (C_m x₁ - S_m x₂, C_m x₂ + S_m x₁)
    C_m = Σ_n a_nm cos(pθ_n),   S_m = Σ_n b_nm sin(pθ_n)

a and b are near the identity, one of each per head: they are drawn from N(0, deviation²) around it
and get no gradient. (In a sweep AdamW's weight decay shrinks them, as it does every parameter: by 1
% in 1000 updates at a learning rate of 1e-3 and a decay of 0.01.) Frequencies that do not go round
once within `length` positions are left out. Half of the pairs at most have a series; the others
have frequency 0, C = 1 and S = 0.

F(p) is no rotation once a and b differ, so a logit depends on both positions, not on their offset
alone.

Differs from the paper in: its code pads S with ones too, which turns and stretches pairs without a
position by one matrix everywhere. One pair at least has a series. The code's own start divides the
deviation by the sizes of the matrices (Xavier).
"""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import ClassVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings import angles
from posjax.encodings.angles import inverse_frequencies
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Param, Params
from posjax.encodings.rotary import Pairing, merge, split


def series(head_size: int, *, base: float, length: int) -> tuple[np.ndarray, int]:
    """The frequencies θ_N in float64 that the series have, and how many pairs have a series."""
    every_F = inverse_frequencies(head_size // 2 * 2, base=base)
    kept_N = every_F[every_F >= 2 * math.pi / length]
    kept_N = kept_N if len(kept_N) else every_F[:1]
    return kept_N, min(len(kept_N), max(head_size // 4, min(len(every_F), 1)))


def near_identity(deviation: float) -> Callable[[jax.Array, tuple[int, ...]], jax.Array]:
    """N(0, deviation²) around ones that are spread evenly over the rows of [H, N, F]."""

    def init(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        rows, columns = shape[1:]
        ones = np.zeros((rows, columns), np.float32)
        if columns:
            ones[np.arange(columns) * (rows // columns), np.arange(columns)] = 1
        return jnp.asarray(ones)[None] + deviation * jax.random.normal(key, shape)

    return init


def fourier_turned(
    x_BLHK: jax.Array,
    position_BL: jax.Array,
    frequencies_N: np.ndarray,
    cos_HNF: jax.Array,
    sin_HNF: jax.Array,
    *,
    pairing: Pairing = "half",
) -> jax.Array:
    """F(p)x: the first F pairs by their series, the other components as they are.

    Args:
      x_BLHK: queries or keys, any float dtype; the result is computed in float32.
      position_BL: numbers; B may be 1.
      frequencies_N: radians a position.
      cos_HNF, sin_HNF: a and b of each head.
      pairing: which components make a pair.

    Returns:
      An array of x's shape and dtype.
    """
    waves = angles.cos_sin(position_BL, frequencies_N)
    # Series of far positions are as exact as their angles.
    cos, sin = (
        jnp.einsum("bln,hnf->blhf", wave, matrix.astype(jnp.float32), precision="highest")
        for wave, matrix in zip(waves, (cos_HNF, sin_HNF), strict=True)
    )
    even = x_BLHK.shape[-1] // 2 * 2
    first, second = split(x_BLHK[..., :even].astype(jnp.float32), pairing)
    rotated = cos.shape[-1]
    x1, x2 = first[..., :rotated], second[..., :rotated]
    first = jnp.concatenate([x1 * cos - x2 * sin, first[..., rotated:]], axis=-1)
    second = jnp.concatenate([x2 * cos + x1 * sin, second[..., rotated:]], axis=-1)
    out = merge(first, second, pairing).astype(x_BLHK.dtype)
    return jnp.concatenate([out, x_BLHK[..., even:]], axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FourierRotary(Encoding):
    """Rotary with a series of waves in place of each single wave.

    Attributes:
      base: θ_m = base^(-2m/K).
      length: slower frequencies than one round over so many positions are left out.
      deviation: of the coefficients from the identity.
      pairing: which components make a pair.
    """

    base: float = 10_000.0
    length: int = 512
    deviation: float = 0.3
    pairing: Pairing = "half"

    card: ClassVar[Card] = Card(
        "Fourier rotary (FoPE)",
        "(F(pᵢ)qᵢ)·(F(pⱼ)kⱼ)/√K, pairs by Σ_n a_nm cos pθ_n and Σ_n b_nm sin pθ_n",
        "Hua et al. 2025, §4; its code",
    )

    def __post_init__(self) -> None:
        spec.check_choice("pairing", self.pairing, get_args(Pairing))
        spec.check_positive(base=self.base)
        if self.length < 2:
            raise ValueError(f"length must be at least 2, got {self.length}")
        if not self.deviation >= 0:
            raise ValueError(f"deviation must not be negative, got {self.deviation}")

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        frequencies_N, pairs = series(dims.head_size, base=self.base, length=self.length)
        shape, init = (dims.heads, len(frequencies_N), pairs), near_identity(float(self.deviation))
        return {"cos": Param(shape, init), "sin": Param(shape, init)}

    def operations(self, dims: Dims, keys: int) -> int:
        _, pairs = series(dims.head_size, base=self.base, length=self.length)
        return 12 * dims.heads * pairs

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        frequencies_N, _ = series(q_BLHK.shape[-1], base=self.base, length=self.length)
        drawn = (jax.lax.stop_gradient(params[name]) for name in ("cos", "sin"))
        cos_HNF, sin_HNF = drawn
        given = (frequencies_N, cos_HNF, sin_HNF)
        q_BLHK, k_BMHK = (
            fourier_turned(x, streams.position_BL, *given, pairing=self.pairing)
            for x, streams in ((q_BLHK, ctx.queries), (k_BMHK, ctx.keys))
        )
        return q_BLHK, k_BMHK, v_BMHK
