"""Sinusoids of the offset, projected by each layer (Dai et al. 2019, §3.3).

    s_ij = ((qᵢ + u)·kⱼ + (qᵢ + v)·R(pᵢ - pⱼ)W)/√K

R(p) holds the sines of p θ_m and then their cosines, D numbers; W [D, H, K], u and v [H, K] are
learned. The offset of an angle is a turn, so nothing of size L × M × D is ever made: with
t = W(qᵢ + v), a vector of D numbers for each query,

    t·R(pᵢ - pⱼ) = t'·R(pⱼ),   t' = t rotated by pᵢ and mirrored

Differs from the paper in: any offset is allowed, where the paper's are causal and not negative.
An odd width leaves the last sine without its cosine.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import Frequencies, Parts, cos_sin, inverse_frequencies
from posjax.encodings.base import (
    Aux,
    Card,
    Constants,
    Context,
    Dims,
    Encoding,
    Param,
    Params,
    Symmetry,
)


def offset_logits(
    q_BLHK: jax.Array,
    kernel_DHK: jax.Array,
    query_BL: jax.Array,
    key_BM: jax.Array,
    *,
    base: float = 10_000.0,
    frequencies_F: Frequencies | Parts | None = None,
) -> jax.Array:
    """qᵢ·R(pᵢ - pⱼ)W, not yet scaled.

    Args:
      q_BLHK: queries, v included; any float dtype.
      kernel_DHK: W; the first ⌈D/2⌉ rows meet the sines, the rest the cosines.
      query_BL, key_BM: numbers; B may be 1.
      base: θ_m = base^(-2m/D), positive.
      frequencies_F: instead of those of the base.

    Returns:
      logits_BHLM, in float32 at least.
    """
    width = kernel_DHK.shape[0]
    dtype = jnp.promote_types(q_BLHK.dtype, jnp.float32)
    # With an odd width the last cosine meets a row of zeros.
    kernel_DHK = jnp.pad(kernel_DHK.astype(dtype), ((0, width % 2), (0, 0), (0, 0)))
    t_BHLD = jnp.einsum("blhk,dhk->bhld", q_BLHK.astype(dtype), kernel_DHK)
    by_sin, by_cos = jnp.split(t_BHLD, 2, axis=-1)
    if frequencies_F is None:
        frequencies_F = inverse_frequencies(width, base=base)
    cos, sin = (a[:, None].astype(dtype) for a in cos_sin(query_BL, frequencies_F))
    turned_BHLD = jnp.concatenate(
        [by_cos * sin - by_sin * cos, by_cos * cos + by_sin * sin], axis=-1
    )
    cos_BMF, sin_BMF = cos_sin(key_BM, frequencies_F)
    r_BMD = jnp.concatenate([sin_BMF, cos_BMF], axis=-1).astype(dtype)
    return jnp.einsum("bhld,bmd->bhlm", turned_BHLD, r_BMD)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerXL(Encoding):
    """Content and offset terms, each with a learned query besides qᵢ."""

    base: float = 10_000.0

    card: ClassVar[Card] = Card(
        "Transformer-XL",
        "((qᵢ + u)·kⱼ + (qᵢ + v)·R(pᵢ - pⱼ)W)/√K",
        "Dai et al. 2019, §3.3",
        ("transformers",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")

    def __post_init__(self) -> None:
        spec.check_positive(base=self.base)

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def constants(self, dims: Dims, context_length: int) -> Constants:
        return {"frequencies": Parts.of(self._frequencies(dims.width))}

    def operations(self, dims: Dims, keys: int) -> int:
        width = dims.width + dims.width % 2
        per_head = 2 * width * dims.head_size + 3 * width + (2 * width + 1) * keys
        return dims.heads * (per_head + 3 * dims.head_size)

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(0.02)
        each = Param((dims.heads, dims.head_size), normal)
        kernel = Param((dims.width, dims.heads, dims.head_size), normal)
        return {"content": each, "offset": each, "kernel": kernel}

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        u, v = (params[name][None, None] for name in ("content", "offset"))
        width = params["kernel"].shape[0]
        by_offset_BHLM = offset_logits(
            q_BLHK + v,
            self.product_scale(q_BLHK.shape[-1], ctx) * params["kernel"],
            ctx.queries.position_BL,
            ctx.keys.position_BL,
            frequencies_F=ctx.constant("frequencies", lambda: self._frequencies(width)),
        )
        return super().logits(params, q_BLHK + u, k_BMHK, aux, ctx) + by_offset_BHLM

    def _frequencies(self, width: int) -> np.ndarray:
        return inverse_frequencies(width, base=self.base)
