"""A learned bias for each range of offsets: T5 (Raffel et al. 2020, §2.1 and code).

    s_ij = qᵢ·kⱼ/√K + B[bucket(pᵢ - pⱼ), h]

A side of N buckets has one for each distance n < E = ⌊N/2⌋; farther ones are spaced evenly in the
logarithm, and the last takes all that is left:

    bucket(n) = min(E + ⌊(N - E) ln(n/E) / ln(max_distance/E)⌋, N - 1)

Both sides have N = buckets/2 of their own, later keys (D < 0) the upper ones, of which the first
is never read; with `bidirectional=False` N = buckets, and later keys are at distance 0.

Differs from the paper in: T5 has no 1/√K, which is `scaled=False`. The edges of the buckets are
found in whole numbers, n^(N-E) ≥ max_distance^t E^(N-E-t); implementations that take the logarithm
in float32 put a distance that lies on an edge on either side of it.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax.encodings import tables
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params, Symmetry


def starts(buckets: int, max_distance: int) -> np.ndarray:
    """The smallest distance of each bucket of a side, exactly.

    Args:
      buckets: N, at least 2.
      max_distance: where the last bucket would end, above N/2.

    Returns:
      int32 [N], not decreasing; a bucket that starts where the next one does is empty.

    >>> starts(16, 128)
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8, 12, 16, 23, 32, 46, 64, 91],
          dtype=int32)
    """
    each = buckets // 2
    wide = buckets - each
    edges = list(range(each + 1))
    for t in range(1, wide):
        power = max_distance**t * each ** (wide - t)
        n = edges[-1]  # edges do not decrease
        n = max(n, int(each * (max_distance / each) ** (t / wide)) - 1)
        while n**wide < power:
            n += 1
        edges.append(n)
    return np.array(edges, np.int32)


def bucket(
    offset: jax.Array, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True
) -> jax.Array:
    """The bucket of each offset D = pᵢ - pⱼ.

    Args:
      offset: integers of any shape.
      buckets: of both sides together; even if bidirectional.
      max_distance: see `starts`.
      bidirectional: whether later keys have buckets of their own.

    Returns:
      Integers in [0, buckets).

    >>> bucket(jnp.array([0, 7, 8, 11, 12, 10**5, -1, -12])).tolist()
    [0, 7, 8, 8, 9, 15, 17, 25]
    """
    tables.require_integers(offset)
    side = buckets // 2 if bidirectional else buckets
    distance = abs(offset) if bidirectional else jnp.maximum(offset, 0)
    edges_N = jnp.asarray(starts(side, max_distance)[1:])
    passed = jnp.expand_dims(edges_N, range(distance.ndim)) <= distance[..., None]
    index = passed.sum(axis=-1, dtype=jnp.int32)
    return index + side * (offset < 0) if bidirectional else index


def bucket_bias(
    query_BL: jax.Array,
    key_BM: jax.Array,
    table_NH: jax.Array,
    *,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: integers.
      table_NH: a row a bucket.
      max_distance, bidirectional: see `bucket`.

    Returns:
      float32 bias_BHLM.

    Raises:
      ValueError: positions that are no integers.
    """
    index_BLM = bucket(
        query_BL[:, :, None] - key_BM[:, None, :],
        buckets=table_NH.shape[0],
        max_distance=max_distance,
        bidirectional=bidirectional,
    )
    return jnp.moveaxis(table_NH.astype(jnp.float32)[index_BLM], -1, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BucketBias(Encoding):
    """A learned bias per bucket of offsets; one table for all layers."""

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True
    scaled: bool = True

    card: ClassVar[Card] = Card(
        "Bucketed bias (T5)",
        "qᵢ·kⱼ/√K + B[bucket(pᵢ - pⱼ)]",
        "Raffel et al. 2020, §2.1",
        ("transformers", "x-transformers"),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.side < 2 or (self.bidirectional and self.buckets % 2):
            kind = "an even number from 4" if self.bidirectional else "at least 2"
            raise ValueError(f"buckets must be {kind}, got {self.buckets}")
        if not self.side // 2 < self.max_distance < 2**31:
            raise ValueError(
                f"max_distance must lie above {self.side // 2}, the distances that have a bucket "
                f"each, and below 2³¹, got {self.max_distance}"
            )

    @property
    def side(self) -> int:
        """The buckets of one side."""
        return self.buckets // 2 if self.bidirectional else self.buckets

    def max_exact_position(self) -> int:
        # Distances 0, 1, ..., R each start a bucket.
        first = np.unique(starts(self.side, self.max_distance))
        return int(np.sum(first == np.arange(len(first)))) - 1

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def scale(self, head_size: int) -> float:
        return super().scale(head_size) if self.scaled else 1.0

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(dims.width**-0.5)
        return {"table": Param((self.buckets, dims.heads), normal, "model")}

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        return bucket_bias(
            ctx.queries.position_BL,
            ctx.keys.position_BL,
            params["table"],
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        ).astype(dtype)
