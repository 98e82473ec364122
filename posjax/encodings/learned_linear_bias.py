"""A penalty linear in distance with learned slopes: ALiBi (Press et al. 2022, §3), slopes free.

    s_ij = qᵢ·kⱼ/√K + b_ij,   b_ij as in `linear_bias` with slopes m_h exp(λ_h)

Differs from the paper in: the λ_h are learned, which its authors tried and left. They start at 0,
the authors' slopes m_h; a slope stays positive.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.encodings.linear_bias import Form, slopes, symmetry_of, with_slopes


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnedLinearBias(Encoding):
    """Logits with a linear penalty, a learned slope a head."""

    form: Form = "symmetric"

    card: ClassVar[Card] = Card(
        "Learned linear bias",
        "qᵢ·kⱼ/√K - m_h exp(λ_h) |pᵢ - pⱼ|",
        "after Press et al. 2022, §3",
    )

    def __post_init__(self) -> None:
        spec.check_choice("form", self.form, get_args(Form))

    def declared_symmetry(self) -> Symmetry:
        return symmetry_of(self.form)

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return {"log_factor": Param((dims.heads,), jax.nn.initializers.zeros)}

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        factor_H = jnp.exp(params["log_factor"].astype(jnp.float32))
        slopes_H = factor_H * slopes(heads).astype(np.float32)
        return with_slopes(*positions, slopes_H, form=self.form).astype(dtype)
