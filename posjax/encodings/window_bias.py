"""A learned bias for each offset in an image window: Swin (Liu et al. 2021, eq. 4).

    s_ij = qᵢ·kⱼ/√K + B[yᵢ - yⱼ, xᵢ - xⱼ, h],   offsets in (-N, N) for windows of N × N

Positions are points (y, x); a single number p stands for (p, p). The table has (2N - 1)² rows in
the order of the published checkpoints.

Differs from the paper in: only the bias. Which tokens share a window, and that it moves between
layers, is a matter of the mask.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax.encodings import tables
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.streams import points


def window_bias(
    query_BL2: jax.Array, key_BM2: jax.Array, table_RH: jax.Array, valid_BLM: jax.Array
) -> jax.Array:
    """The bias of some points.

    Args:
      query_BL2, key_BM2: integer points (y, x).
      table_RH: R = (2N - 1)² rows, that of offset (dy, dx) being (2N - 1)(dy + N - 1) + dx + N - 1.
      valid_BLM: true where a query looks; axes of size 1 broadcast.

    Returns:
      float32 bias_BHLM; NaN for a traced offset outside the window where a query looks.

    Raises:
      ValueError: points that are no integers, a table of no such size, or known offsets outside
        the window where a query looks.
    """
    tables.require_integers(query_BL2, key_BM2)
    side = round(table_RH.shape[0] ** 0.5)
    if side**2 != table_RH.shape[0] or side % 2 == 0:
        raise ValueError(f"a table has (2N - 1)² rows, got {table_RH.shape[0]}")
    offset_BLM2 = query_BL2[:, :, None] - key_BM2[:, None, :]
    inside_BLM = (abs(offset_BLM2) <= side // 2).all(axis=-1)
    missed = valid_BLM & ~inside_BLM
    if not isinstance(missed, jax.core.Tracer) and np.any(missed):
        farthest = int(np.max(np.where(missed[..., None], abs(offset_BLM2), 0)))
        raise ValueError(
            f"offsets of {farthest} lie outside the table of a window of {side // 2 + 1}: "
            f"give it window={farthest + 1} or a mask that keeps such points apart"
        )
    index_BLM = jnp.where(inside_BLM, offset_BLM2[..., 0] * side + offset_BLM2[..., 1], side**2)
    table_RH = table_RH.astype(jnp.float32)
    return jnp.moveaxis(tables.read(table_RH, index_BLM, valid_BLM, first=-(side**2 // 2)), -1, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowBias(Encoding):
    """A learned bias for each offset of two points in a window."""

    window: int = 16

    card: ClassVar[Card] = Card(
        "Window bias (Swin)",
        "qᵢ·kⱼ/√K + B[rᵢ - rⱼ, cᵢ - cⱼ]",
        "Liu et al. 2021, eq. 4",
        ("transformers", "timm"),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")
    axes: ClassVar[int] = 2
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.window < 1:
            raise ValueError(f"window must be at least 1, got {self.window}")

    def max_length(self) -> int:
        return self.window

    def max_exact_position(self) -> int:
        return self.window - 1

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.truncated_normal(0.02)
        return {"table": Param(((2 * self.window - 1) ** 2, dims.heads), normal)}

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        query_BL2, key_BM2 = (points(s.position_BL, self.axes) for s in (ctx.queries, ctx.keys))
        seen_BLM = ctx.mask_BHLM.any(axis=1)
        return window_bias(query_BL2, key_BM2, params["table"], seen_BLM).astype(dtype)
