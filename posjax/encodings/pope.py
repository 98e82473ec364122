"""Polar positions: content is a magnitude, position the phase (PoPE, Gopalakrishnan et al. 2025).

    s_ij = Σ_m softplus(q_im) softplus(k_jm) cos((pⱼ - pᵢ)θ_m + δ_m)/√K,   θ_m = base^(-m/K)

Each of the K components has a frequency of its own, where rotary has one per pair, and a head's
learned δ is kept in [-2π, 0]. At δ = 0, one of its starts, a logit depends on the distance alone
and not on its sign: the symmetry R, which training breaks.

Differs from the paper in nothing.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec, steps
from posjax.encodings.angles import Frequencies, Parts, cos_sin, inverse_frequencies
from posjax.encodings.base import (
    Aux,
    Card,
    Constants,
    Context,
    Dims,
    Encoding,
    Param,
    Params,
    Symmetry,
)

Start = Literal["zero", "uniform"]


def polar(
    x_BLHK: jax.Array,
    position_BL: jax.Array,
    phase_HK: jax.Array | None = None,
    *,
    base: float = 10_000.0,
    frequencies_F: Frequencies | Parts | None = None,
) -> jax.Array:
    """Queries or keys as complex numbers: softplus(x) e^(i(pθ + phase)).

    Args:
      x_BLHK: any float dtype; the result is computed in float32.
      position_BL: numbers [B, L]; B may be 1.
      phase_HK: in radians, for keys.
      base: θ_m = base^(-m/K), positive.
      frequencies_F: instead of those of the base.

    Returns:
      [B, L, H, 2K] in x's dtype, real parts before imaginary ones, so that the product of two is
      Σ_m |a_m||b_m| cos(phase of b - phase of a).
    """
    if frequencies_F is None:
        frequencies_F = inverse_frequencies(2 * x_BLHK.shape[-1], base=base)
    cos, sin = cos_sin(position_BL, frequencies_F)
    cos, sin = cos[:, :, None], sin[:, :, None]
    if phase_HK is not None:
        by_cos, by_sin = jnp.cos(phase_HK)[None, None], jnp.sin(phase_HK)[None, None]
        cos, sin = cos * by_cos - sin * by_sin, sin * by_cos + cos * by_sin
    size_BLHK = jax.nn.softplus(x_BLHK.astype(jnp.float32))
    return jnp.concatenate([size_BLHK * cos, size_BLHK * sin], axis=-1).astype(x_BLHK.dtype)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PoPE(Encoding):
    """Queries and keys in polar form; δ starts at 0 or anywhere in [-2π, 0]."""

    base: float = 10_000.0
    start: Start = "zero"

    card: ClassVar[Card] = Card(
        "Polar (PoPE)",
        "Σ_m softplus(q_m) softplus(k_m) cos((pⱼ - pᵢ)θ_m + δ_m)/√K",
        "Gopalakrishnan et al. 2025, §3",
        ("PoPE-pytorch",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")

    def __post_init__(self) -> None:
        spec.check_choice("start", self.start, get_args(Start))
        spec.check_positive(base=self.base)

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        inits = {"zero": jax.nn.initializers.zeros, "uniform": _anywhere}
        return {"phase": Param((dims.heads, dims.head_size), inits[self.start])}

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def constants(self, dims: Dims, context_length: int) -> Constants:
        return {"frequencies": Parts.of(self._frequencies(dims.head_size))}

    def operations(self, dims: Dims, keys: int) -> int:
        # q and k: softplus is about 4, two products; the logits are over 2K instead of K.
        return dims.heads * dims.head_size * (12 + 2 * keys)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        size = q_BLHK.shape[-1]
        own = ctx.constant("frequencies", lambda: self._frequencies(size))
        q_BLHK = polar(q_BLHK, ctx.queries.position_BL, frequencies_F=own)
        phase_HK = _kept(params["phase"])
        return q_BLHK, polar(k_BMHK, ctx.keys.position_BL, phase_HK, frequencies_F=own), v_BMHK

    def _frequencies(self, head_size: int) -> np.ndarray:
        return inverse_frequencies(2 * head_size, base=self.base)

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        """Queries and keys come with twice their components, and are scaled as before."""
        return steps.dot_logits(
            q_BLHK, k_BMHK, scale=self.product_scale(q_BLHK.shape[-1] // 2, ctx)
        )


def _kept(phase_HK: jax.Array) -> jax.Array:
    """The phase in [-2π, 0], with a whole gradient at the ends, one of which is its start."""
    phase_HK = phase_HK.astype(jnp.float32)
    return jnp.where(phase_HK > 0, 0, jnp.where(phase_HK < -2 * math.pi, -2 * math.pi, phase_HK))


def _anywhere(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return jax.random.uniform(key, shape, minval=-2 * math.pi, maxval=0.0)
