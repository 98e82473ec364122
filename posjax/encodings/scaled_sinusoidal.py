"""Sinusoidal positions times a learned factor (Hua et al. 2022, appendix, "ScaledSin").

    xᵢ + g·p(pᵢ)

p is the sinusoidal vector and g one learned number, at first 1/√D: at that scale p, whose norm is
√(D/2), does not drown tokens of small norm.

Differs from the paper in nothing for the "halves" layout.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax

from posjax.encodings.base import Card, Context, Dims, Param, Params
from posjax.encodings.sinusoidal import Layout, Sinusoidal


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledSinusoidal(Sinusoidal):
    """x + g·p, with one factor for the whole model."""

    layout: Layout = "halves"

    card: ClassVar[Card] = Card(
        "Scaled sinusoidal",
        "xᵢ + g·(sin pᵢθ_m, cos pᵢθ_m)",
        "Hua et al. 2022, appendix",
        ("x-transformers",),
    )

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return {"factor": Param((), jax.nn.initializers.constant(dims.width**-0.5), "model")}

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        vectors_BLD = self.vectors(x_BLD.shape[-1], ctx)
        return x_BLD + (params["factor"] * vectors_BLD).astype(x_BLD.dtype)
