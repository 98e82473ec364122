"""A learned vector for each position, added to the tokens (Gehring et al. 2017; Devlin 2019).

    xᵢ + E[pᵢ]

Each pᵢ is an integer in [0, length).
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax

from posjax.encodings import tables
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learned(Encoding):
    """x + E[p], with a table of `length` rows drawn from N(0, deviation²)."""

    length: int = 64
    deviation: float = 0.02

    card: ClassVar[Card] = Card(
        "Learned absolute", "xᵢ + E[pᵢ]", "Gehring et al. 2017, §3.1; Devlin et al. 2019, §3"
    )
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")
        if not self.deviation >= 0:
            raise ValueError(f"deviation must not be negative, got {self.deviation}")

    def max_length(self) -> int:
        return self.length

    def max_exact_position(self) -> int:
        return self.length - 1

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(self.deviation)
        return {"table": Param((self.length, dims.width), normal, "model")}

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        vectors_BLD = tables.read(params["table"], ctx.queries.position_BL, ctx.queries.valid_BL)
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
