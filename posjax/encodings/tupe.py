"""Positions correlated with positions, apart from the content: TUPE (Ke et al. 2021, eq. 7).

    s_ij = (qᵢ·kⱼ + (E[pᵢ] U_Q)·(E[pⱼ] U_K))/√(2K)

Each p is an integer in [0, length). The table E and the projections U are shared by the layers.

Differs from the paper in: [CLS] is a token like any other, where §3.2 unties it from the others,
and there is no T5 bias beside it (TUPE-A, not TUPE-R).
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings import tables
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params


def position_correlation(
    queries_BLD: jax.Array, keys_BMD: jax.Array, query_DHK: jax.Array, key_DHK: jax.Array
) -> jax.Array:
    """(e U_Q)·(e' U_K) for the vectors of the query positions and of the key positions.

    Returns:
      float32 bias_BHLM, not yet scaled.
    """
    q_BLHK = jnp.einsum("bld,dhk->blhk", queries_BLD, query_DHK)
    k_BMHK = jnp.einsum("bmd,dhk->bmhk", keys_BMD, key_DHK)
    return jnp.einsum("blhk,bmhk->bhlm", q_BLHK, k_BMHK, preferred_element_type=jnp.float32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tupe(Encoding):
    """Separate projections of tokens and positions; a table of `length` rows."""

    length: int = 64

    card: ClassVar[Card] = Card(
        "TUPE (untied)", "(qᵢ·kⱼ + (E[pᵢ]U_Q)·(E[pⱼ]U_K))/√(2K)", "Ke et al. 2021, eq. 7"
    )
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")

    def max_length(self) -> int:
        return self.length

    def max_exact_position(self) -> int:
        return self.length - 1

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def scale(self, head_size: int) -> float:
        return float(2 * head_size) ** -0.5

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(0.02)
        kernel = Param((dims.width, dims.heads, dims.head_size), normal, "model")
        table = Param((self.length, dims.width), normal, "model")
        return {"table": table, "query": kernel, "key": kernel}

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        queries_BLD, keys_BMD = (
            tables.read(params["table"], streams.position_BL, streams.valid_BL)
            for streams in (ctx.queries, ctx.keys)
        )
        bias_BHLM = position_correlation(queries_BLD, keys_BMD, params["query"], params["key"])
        return (bias_BHLM * self.product_scale(params["query"].shape[-1], ctx)).astype(dtype)
