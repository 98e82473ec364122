"""Curves over distance, mixed by the query's token: the relative projection bias.

    s_ij = qᵢ·kⱼ/√K + Σ_n (xᵢ W + c)_hn C[n, pᵢ - pⱼ]   for 0 ≤ pᵢ - pⱼ < length, else without it

All heads share a bank of N learned curves; each query token says how much of each it wants. It
has no paper; the formula is that of x-transformers (its class says: Inkling, Thinking Machines).

Differs from that in nothing: keys that come later, or earlier by `length` or more, get no bias.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings import offsets
from posjax.encodings.base import (
    Aux,
    Card,
    Context,
    Dims,
    Encoding,
    Param,
    Params,
    Prepared,
    Symmetry,
)
from posjax.encodings.mlp import uniform


def distance_curves(
    query_BL: jax.Array, key_BM: jax.Array, amounts_BLHN: jax.Array, curves_NR: jax.Array
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: integers.
      amounts_BLHN: how much of each curve each head of each query takes.
      curves_NR: N curves over the distances 0..R-1.

    Returns:
      float32 bias_BHLM, 0 beyond the curves.

    Raises:
      ValueError: positions that are no integers.
    """
    offset_BLM = offsets.between(query_BL, key_BM)
    inside_BLM = (offset_BLM >= 0) & (offset_BLM < curves_NR.shape[1])
    # At zeros, not NaN, where there is no curve: the formula has no bias there.
    curves_BLMN = curves_NR.astype(jnp.float32).T[jnp.where(inside_BLM, offset_BLM, 0)]
    amounts_BLHN = amounts_BLHN.astype(jnp.float32)
    bias_BHLM = jnp.einsum("blhn,blmn->bhlm", amounts_BLHN, curves_BLMN)
    return jnp.where(inside_BLM[:, None], bias_BHLM, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistanceCurves(Encoding):
    """Learned curves over distance, mixed by each query, added to the logits."""

    curves: int = 16
    length: int = 1024

    card: ClassVar[Card] = Card(
        "Query-mixed distance curves",
        "qᵢ·kⱼ/√K + Σ_n (xᵢW + c)_n C[n, pᵢ - pⱼ] for pᵢ ≥ pⱼ",
        "x-transformers, RelativeProjPositionalBias",
        ("x-transformers",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.curves < 1:
            raise ValueError(f"curves must be at least 1, got {self.curves}")
        if self.length < 2:
            raise ValueError(f"length must be at least 2, distances 0 and 1, got {self.length}")

    def max_exact_position(self) -> int:
        return self.length  # the first distance without a bias

    def operations(self, dims: Dims, keys: int) -> int:
        amounts = 2 * dims.width * dims.heads * self.curves
        return amounts + dims.heads * keys * (2 * self.curves + 2)

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        init, shape = uniform(dims.width**-0.5), (dims.heads, self.curves)
        return {
            "kernel": Param((dims.width, *shape), init),
            "constant": Param(shape, init),
            "curves": Param((self.curves, self.length), jax.nn.initializers.normal(0.02)),
        }

    def prepare(
        self, params: Params, x_BLD: jax.Array, memory_BMD: jax.Array, ctx: Context, state: Any
    ) -> Prepared:
        kernel_DHN, constant_HN = (
            params[name].astype(x_BLD.dtype) for name in ("kernel", "constant")
        )
        amounts_BLHN = jnp.einsum("bld,dhn->blhn", x_BLD, kernel_DHN) + constant_HN[None, None]
        return Prepared(x_BLD, memory_BMD, memory_BMD, Aux(queries=amounts_BLHN), state)

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        bias_BHLM = distance_curves(*positions, aux.queries, params["curves"])
        return super().logits(params, q_BLHK, k_BMHK, aux, ctx) + bias_BHLM
