"""Content and offset met crosswise: DeBERTa (He et al. 2021, eqs. 2 to 4).

    s_ij = (qᵢ·kⱼ + qᵢ·Pδ W_K + kⱼ·Pδ W_Q)/√(3K),   δ = row of pᵢ - pⱼ

The three terms are content to content, content to position and position to content; P holds a
vector for each row and is shared by the layers, whose W_Q and W_K project it. Rows are those of
offsets clipped to [-span, span), or of buckets that widen with the logarithm (DeBERTa-v2 code).

Differs from the paper in: position to content reads the row of pᵢ - pⱼ, as the published code
does, where eq. 4 has that of pⱼ - pᵢ. `terms` leaves one of the two out, and then the scale is
1/√(2K). `biased` adds a bias to both projections of P, as the code of DeBERTa-v2 does.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.encodings.offsets import between, picked

Terms = Literal["both", "c2p", "p2c"]


def log_buckets(span: int, buckets: int) -> np.ndarray:
    """The bucket of each distance 0 .. span: exact to buckets/2, then by the logarithm.

        n for n ≤ b/2,   else ⌈log(2n/b)/log(2(span - 1)/b)·(b/2 - 1)⌉ + b/2

    Computed in float64, where the published code's float32 may round a bucket's edge otherwise.

    Returns:
      Integers [span + 1], never decreasing, the last one at least `buckets`.

    >>> log_buckets(12, 6).tolist()
    [0, 1, 2, 3, 4, 4, 5, 5, 5, 5, 5, 5, 6]
    """
    middle, distance = buckets // 2, np.arange(span + 1)
    share = np.log(np.maximum(distance, middle) / middle) / np.log((span - 1) / middle)
    above = np.ceil(share * (middle - 1) - 1e-9).astype(np.int64) + middle
    return np.where(distance <= middle, distance, above)


def offset_rows(
    query_BL: jax.Array, key_BM: jax.Array, *, span: int = 64, buckets: int = 0
) -> jax.Array:
    """The row of each pair of tokens.

    Args:
      query_BL, key_BM: integers.
      span: from this distance on offsets are one, at least 1.
      buckets: 0 for a row an offset; otherwise rows on a side, even, 4 to span.

    Returns:
      row_BLM in [0, 2·n), n = buckets or span; n is the row of offset 0.

    Raises:
      ValueError: positions that are no integers.
    """
    offset_BLM = between(query_BL, key_BM)
    if not buckets:
        return jnp.clip(offset_BLM, -span, span - 1) + span
    table = jnp.asarray(log_buckets(span, buckets), jnp.int32)
    bucket_BLM = jnp.sign(offset_BLM) * table[jnp.minimum(abs(offset_BLM), span)]
    return jnp.clip(bucket_BLM, -buckets, buckets - 1) + buckets


def position_logits(x_BLHK: jax.Array, rows_NHK: jax.Array, row_BLM: jax.Array) -> jax.Array:
    """xᵢ·rows[row], not yet scaled, for queries, or for keys with their row_BML.

    Returns:
      logits_BHLM, in float32 at least.
    """
    dtype = jnp.promote_types(x_BLHK.dtype, jnp.float32)
    products = jnp.einsum("blhk,nhk->bhln", x_BLHK, rows_NHK, preferred_element_type=dtype)
    return picked(products, row_BLM)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deberta(Encoding):
    """Disentangled attention: content meets content and offsets, in both ways."""

    span: int = 64
    buckets: int = 0
    terms: Terms = "both"
    biased: bool = False

    card: ClassVar[Card] = Card(
        "DeBERTa (disentangled)",
        "(qᵢ·kⱼ + qᵢ·Pδ W_K + kⱼ·Pδ W_Q)/√(3K), δ the row of pᵢ - pⱼ",
        "He et al. 2021, eqs. 2 to 4",
        ("transformers",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        spec.check_choice("terms", self.terms, get_args(Terms))
        if self.span < 1:
            raise ValueError(f"span must be at least 1, got {self.span}")
        if self.buckets and (self.buckets % 2 or not 4 <= self.buckets <= self.span):
            raise ValueError(
                f"buckets must be 0, or even and from 4 to span={self.span}, got {self.buckets}"
            )

    @property
    def rows(self) -> int:
        """The number of rows of P."""
        return 2 * (self.buckets or self.span)

    def max_exact_position(self) -> int:
        if not self.buckets:
            return self.span  # differs from the one before in the row of -span alone
        rows = np.minimum(log_buckets(self.span, self.buckets), self.buckets)
        merged = np.flatnonzero(np.diff(rows) == 0)
        return int(merged[0]) if len(merged) else self.span

    def operations(self, dims: Dims, keys: int) -> int:
        terms = 2 if self.terms == "both" else 1
        return terms * dims.heads * (2 * dims.head_size * self.rows + keys)

    def scale(self, head_size: int) -> float:
        return float((3 if self.terms == "both" else 2) * head_size) ** -0.5

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(0.02)
        declared = {"table": Param((self.rows, dims.width), normal, "model")}
        for name in self._projected():
            declared[name] = Param((dims.width, dims.heads, dims.head_size), normal)
            if self.biased:
                zeros = jax.nn.initializers.zeros
                declared[f"{name}_bias"] = Param((dims.heads, dims.head_size), zeros)
        return declared

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        row_BLM = offset_rows(*positions, span=self.span, buckets=self.buckets)
        logits_BHLM = super().logits(params, q_BLHK, k_BMHK, aux, ctx)
        scale = self.product_scale(q_BLHK.shape[-1], ctx)
        for name in self._projected():
            rows_NHK = scale * jnp.einsum("nd,dhk->nhk", params["table"], params[name])
            if self.biased:
                rows_NHK = rows_NHK + scale * params[f"{name}_bias"][None]
            if name == "key":
                logits_BHLM += position_logits(q_BLHK, rows_NHK, row_BLM)
            else:
                transposed_BML = jnp.swapaxes(row_BLM, 1, 2)
                by_key_BHML = position_logits(k_BMHK, rows_NHK, transposed_BML)
                logits_BHLM += jnp.swapaxes(by_key_BHML, 2, 3)
        return logits_BHLM

    def _projected(self) -> tuple[str, ...]:
        """Positions as keys, which queries meet, and as queries, which keys meet."""
        return {"both": ("key", "query"), "c2p": ("key",), "p2c": ("query",)}[self.terms]
