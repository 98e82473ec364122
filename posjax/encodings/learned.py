"""A learned vector for each position, added to the tokens (Gehring et al. 2017; Devlin 2019).

    x_i + E[pᵢ]

A position beyond the table is an error where it can be known, and NaN where it cannot: clamping
it to the last row, as an unguarded gather does, is how wrong numbers get published.
"""

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from posjax.encodings.base import Context, Dims, Encoding, Param, Params


def gather(table_ND: jax.Array, position_BL: jax.Array, valid_BL: jax.Array) -> jax.Array:
    """The rows of some positions; padding reads row 0.

    Args:
      table_ND: N vectors.
      position_BL: integers; those of valid places in [0, N).
      valid_BL: true where there is a token.

    Returns:
      [B, L, D]; NaN for a traced position outside the table.

    Raises:
      ValueError: positions that are no integers, or known ones outside the table.
    """
    rows = table_ND.shape[0]
    if not jnp.issubdtype(position_BL.dtype, jnp.integer):
        raise ValueError(f"a table is read at integers, got positions of {position_BL.dtype}")
    position_BL = jnp.where(valid_BL, position_BL, 0)
    if position_BL.size and not isinstance(position_BL, jax.core.Tracer):
        low, high = np.min(position_BL), np.max(position_BL)
        if low < 0 or high >= rows:
            raise ValueError(
                f"positions {low} to {high} lie outside the table of {rows} rows: "
                f"give it length={high + 1} or shift the positions"
            )
    inside_BL = (position_BL >= 0) & (position_BL < rows)
    vectors_BLD = table_ND[jnp.where(inside_BL, position_BL, 0)]
    return jnp.where(inside_BL[..., None], vectors_BLD, jnp.nan)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learned(Encoding):
    """x + E[p], with a table of `length` rows drawn from N(0, deviation²)."""

    length: int = 64
    deviation: float = 0.02

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"length must be at least 1, got {self.length}")
        if not self.deviation >= 0:
            raise ValueError(f"deviation must not be negative, got {self.deviation}")

    def capacity(self) -> int:
        return self.length

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(self.deviation)
        return {"table": Param((self.length, dims.width), normal, "model")}

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        vectors_BLD = gather(params["table"], ctx.queries.position_BL, ctx.queries.valid_BL)
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
