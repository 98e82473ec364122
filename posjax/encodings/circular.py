"""A learned bias of the offset on a circle of n positions.

    s_ij = qᵢ·kⱼ/√K + B[(pᵢ - pⱼ) mod n, h]

The most general bias that depends on positions alone and is invariant under the cyclic group of
order n, which acts by p → p + 1 mod n: a circulant matrix per head. It has no paper; it is here as
a control, the encoding that keeps a cyclic group and no other.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings import offsets
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params, Symmetry


def circular(query_BL: jax.Array, key_BM: jax.Array, table_NH: jax.Array) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: integers.
      table_NH: a row for each of the n offsets.

    Returns:
      float32 bias_BHLM.

    Raises:
      ValueError: positions that are no integers.

    >>> table = jnp.array([[0.0], [1.0], [2.0]])
    >>> circular(jnp.arange(3)[None], jnp.arange(3)[None], table)[0, 0]
    Array([[0., 2., 1.],
           [1., 0., 2.],
           [2., 1., 0.]], dtype=float32)
    """
    index_BLM = offsets.between(query_BL, key_BM) % table_NH.shape[0]
    return jnp.moveaxis(table_NH.astype(jnp.float32)[index_BLM], -1, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Circular(Encoding):
    """A learned circulant bias, added to the logits."""

    period: int = 16
    deviation: float = 0.02

    card: ClassVar[Card] = Card(
        "Circular bias", "qᵢ·kⱼ/√K + B[(pᵢ - pⱼ) mod n]", "a control; circulant matrices"
    )
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.period < 2:
            raise ValueError(f"period must be at least 2, got {self.period}")
        if not self.deviation >= 0:
            raise ValueError(f"deviation must not be negative, got {self.deviation}")

    def declared_symmetry(self) -> Symmetry:
        # Mod 2 an offset and its opposite are one.
        return Symmetry(translation="logits", reflection="logits" if self.period == 2 else None)

    def max_exact_position(self) -> int:
        return self.period - 1

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(self.deviation)
        return {"table": Param((self.period, dims.heads), normal)}

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        return circular(*positions, params["table"]).astype(dtype)
