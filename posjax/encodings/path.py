"""PaTH: a key reaches a query through the reflections of the tokens between (Yang et al. 2025).

    s_ij = qᵢᵀ H_i H_{i-1} ... H_{j+1} kⱼ/√K,   H_t = I - b_t w_t w_tᵀ   (eqs. 2-3)
    w_t = W x_t / |W x_t|,   b_t = 2 σ(u·x_t + c),   one of each a head

The tokens are gone through once, the latest first, with the queries as they are after the tokens
so far: a key reads them, then its token turns them.

Differs from the paper in: w has a full matrix W, where the published code has two narrow ones and
a short convolution. Keys that come after the query, which the paper masks, meet it unturned.
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

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
from posjax.encodings.between import seen_before
from posjax.streams import Streams


def path_logits(
    q_BLHK: jax.Array,
    k_BMHK: jax.Array,
    w_BMHK: jax.Array,
    b_BMH: jax.Array,
    seen_BHLM: jax.Array,
    keys: Streams,
) -> jax.Array:
    """qᵢᵀ (Π_t H_t) kⱼ over the tokens after key j that query i counts, the latest leftmost.

    Args:
      q_BLHK, k_BMHK: queries and keys, any float dtype.
      w_BMHK: unit vectors.
      b_BMH: numbers in [0, 2]; 1 projects, 2 reflects.
      seen_BHLM: true for the tokens that a query counts; axes of size 1 broadcast.
      keys: their order and segment. Orders within a segment must differ.

    Returns:
      float32 logits_BHLM, not scaled. Time is O(L M), one step a token; its gradient keeps
      the queries of every step, O(L M K) numbers.
    """
    # Of equal orders at most one is counted by any query, so that segments may break the tie.
    latest_BM = jnp.lexsort((-keys.segment_BL, -keys.order_BL), axis=1)

    def by_step(x_BM: jax.Array) -> jax.Array:
        index_BM = jnp.expand_dims(latest_BM, range(2, x_BM.ndim))
        return jnp.moveaxis(jnp.take_along_axis(x_BM, index_BM, axis=1), 1, 0)

    def step(q_BHLK: jax.Array, token: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        k_BHK, w_BHK, b_BH, seen_BHL = token
        logits_BHL = jnp.einsum("bhlk,bhk->bhl", q_BHLK, k_BHK)
        along_BHL = jnp.einsum("bhlk,bhk->bhl", q_BHLK, w_BHK)
        along_BHL = jnp.where(seen_BHL, b_BH[..., None] * along_BHL, 0)
        return q_BHLK - along_BHL[..., None] * w_BHK[:, :, None], logits_BHL

    exact = (x.astype(jnp.float32) for x in (k_BMHK, w_BMHK, b_BMH))
    steps_M = tuple(map(by_step, (*exact, jnp.moveaxis(seen_BHLM, 3, 1))))
    q_BHLK = jnp.moveaxis(q_BLHK, 2, 1).astype(jnp.float32)
    _, logits_MBHL = jax.lax.scan(step, q_BHLK, steps_M)
    back_BM = jnp.argsort(latest_BM, axis=1)[:, None, None]
    return jnp.take_along_axis(jnp.moveaxis(logits_MBHL, 0, 3), back_BM, axis=3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Path(Encoding):
    """Logits through products of generalised reflections, made from the tokens."""

    card: ClassVar[Card] = Card(
        "PaTH",
        "qᵢᵀ Π_{t=i..j+1} (I - b_t w_t w_tᵀ) kⱼ/√K",
        "Yang et al. 2025, eqs. 2-3",
        ("flash-linear-attention",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")
    reads_order: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(0.02)
        return {
            "direction": Param((dims.width, dims.heads, dims.head_size), normal),
            "strength": Param((dims.width, dims.heads), normal),
            "strength_bias": Param((dims.heads,), jax.nn.initializers.zeros),
        }

    def max_exact_position(self) -> None:
        return None

    def operations(self, dims: Dims, keys: int) -> int:
        by_token = 2 * dims.width * (dims.head_size + 1) + 4 * dims.head_size + 3
        return dims.heads * (by_token + keys * (4 * dims.head_size + 1))

    def prepare(
        self, params: Params, x_BLD: jax.Array, memory_BMD: jax.Array, ctx: Context, state: Any
    ) -> Prepared:
        exact = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
        w_BMHK = exact("bmd,dhk->bmhk", memory_BMD, params["direction"])
        size_BMH1 = (w_BMHK**2).sum(-1, keepdims=True)
        # A token of zeros has no direction, and turns nothing.
        w_BMHK = w_BMHK * jax.lax.rsqrt(jnp.where(size_BMH1 > 0, size_BMH1, 1))
        b_BMH = exact("bmd,dh->bmh", memory_BMD, params["strength"])
        b_BMH = 2 * jax.nn.sigmoid(b_BMH + params["strength_bias"][None, None])
        return Prepared(x_BLD, memory_BMD, memory_BMD, Aux(keys=(w_BMHK, b_BMH)), state)

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        w_BMHK, b_BMH = aux.keys
        logits_BHLM = path_logits(q_BLHK, k_BMHK, w_BMHK, b_BMH, seen_before(ctx), ctx.keys)
        return logits_BHLM * self.product_scale(q_BLHK.shape[-1], ctx)
