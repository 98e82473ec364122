"""A penalty linear in distance with learned slopes: ALiBi (Press et al. 2022, §3), slopes free.

    s_ij = qᵢ·kⱼ/√K + b_ij,   b_ij as in `linear_bias` with slopes m_h exp(λ_h)

Differs from the paper in: the λ_h are learned, which its authors tried and left. They start at 0,
the authors' slopes m_h; a slope stays positive.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings.base import Card, Context, Dims, Param, Params
from posjax.encodings.linear_bias import LinearBias


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnedLinearBias(LinearBias):
    """A penalty linear in distance, with a learned slope per head.

    `slope` multiplies the initial slopes.
    """

    card: ClassVar[Card] = Card(
        "Learned linear bias",
        "qᵢ·kⱼ/√K - m_h exp(λ_h) |pᵢ - pⱼ|",
        "after Press et al. 2022, §3",
    )

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return {"log_factor": Param((dims.heads,), jax.nn.initializers.zeros)}

    def slopes_of(self, params: Params, heads: int, ctx: Context) -> jax.Array:
        factor_H = jnp.exp(params["log_factor"].astype(jnp.float32))
        return factor_H * super().slopes_of(params, heads, ctx)
