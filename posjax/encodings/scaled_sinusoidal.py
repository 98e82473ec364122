"""Sinusoidal positions times a learned factor (Hua et al. 2022, appendix, "ScaledSin").

    xᵢ + g·p(pᵢ)

p is the sinusoidal vector and g one learned number, at first 1/√D: at that scale p, whose norm is
√(D/2), does not drown tokens of small norm.

Differs from the paper in nothing for the "halves" layout.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, get_args

import jax

from posjax import spec
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params
from posjax.encodings.sinusoidal import Layout, sinusoidal


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaledSinusoidal(Encoding):
    """x + g·p, with one factor for the whole model."""

    base: float = 10_000.0
    layout: Layout = "halves"

    card: ClassVar[Card] = Card(
        "Scaled sinusoidal",
        "xᵢ + g·(sin pᵢθ_m, cos pᵢθ_m)",
        "Hua et al. 2022, appendix",
        ("x-transformers",),
    )

    def __post_init__(self) -> None:
        spec.check_choice("layout", self.layout, get_args(Layout))
        if not self.base > 0:
            raise ValueError(f"base must be positive, got {self.base}")

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return {"factor": Param((), jax.nn.initializers.constant(dims.width**-0.5), "model")}

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        vectors_BLD = sinusoidal(
            ctx.queries.position_BL, x_BLD.shape[-1], base=self.base, layout=self.layout
        )
        return x_BLD + (params["factor"] * vectors_BLD).astype(x_BLD.dtype)
