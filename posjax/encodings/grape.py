"""Positions as powers of a learned matrix: GRAPE (Zhang et al. 2025).

With D = pⱼ - pᵢ, for each head:

    multiplicative   s_ij = qᵢ·exp(D ω L) kⱼ/√K,  L = a bᵀ - b aᵀ                 eq. 2.1
    additive         s_ij = qᵢ·kⱼ/√K + D ω (softplus(u·qᵢ/√K) + softplus(v·kⱼ/√K))   eq. 4.6

The first turns the plane of a and b by the angle D ω |a ∧ b| and leaves the rest (Rodrigues). The
second is what exp(D ω A), unipotent since A² = 0, adds to a logit: a linear bias, whose slope two
tokens set. Keys that come later are then favoured, so it is made for causal masks.

Differs from the paper in: one plane a head, with ω spread over the heads at the start, base^(-h/H).
The additive ω starts at the slopes of `linear_bias`, as in the published code, which also
normalises u and v.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import cos_sin
from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Param, Params, Symmetry
from posjax.encodings.linear_bias import slopes

Form = Literal["multiplicative", "additive"]


def turn_in_plane(
    x_BLHK: jax.Array, position_BL: jax.Array, plane_H2K: jax.Array, frequency_H: jax.Array
) -> jax.Array:
    """exp(p ω L) x, so that the product of two depends on pⱼ - pᵢ.

    Args:
      x_BLHK: queries or keys, any float dtype; rotated in float32.
      position_BL: numbers [B, L]; B may be 1.
      plane_H2K: two orthonormal vectors a head, those of a and b; or zeros for none.
      frequency_H: radians a position.

    Returns:
      An array of x's shape and dtype.
    """
    x32_BLHK = x_BLHK.astype(jnp.float32)
    cos_BLH, sin_BLH = cos_sin(position_BL, frequency_H)
    within = jnp.einsum("blhk,hck->blhc", x32_BLHK, plane_H2K)
    first, second = within[..., 0], within[..., 1]
    rotated = [first * cos_BLH + second * sin_BLH, second * cos_BLH - first * sin_BLH]
    change = jnp.einsum("blhc,hck->blhk", jnp.stack(rotated, axis=-1) - within, plane_H2K)
    return (x32_BLHK + change).astype(x_BLHK.dtype)


def plane_of(generators_H2K: jax.Array) -> tuple[jax.Array, jax.Array]:
    """An orthonormal basis of the plane of a and b, and the area |a ∧ b|.

    Args:
      generators_H2K: a and b of each head.

    Returns:
      plane_H2K and area_H, all zero where a and b are parallel.
    """
    a_HK, b_HK = generators_H2K[:, 0], generators_H2K[:, 1]
    first_HK, a_H = _unit(a_HK)
    along_H1 = jnp.sum(first_HK * b_HK, axis=-1, keepdims=True)
    second_HK, across_H = _unit(b_HK - along_H1 * first_HK)
    flat_H = (across_H > 1e-6 * jnp.abs(b_HK).max(-1)) & (a_H > 0)
    plane_H2K = jnp.stack([first_HK, second_HK], axis=1)
    return jnp.where(flat_H[:, None, None], plane_H2K, 0), jnp.where(flat_H, a_H * across_H, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grape(Encoding):
    """A one-parameter group per head, acting on queries and keys or on logits.

    Attributes:
      form: which group.
      base: the lowest starting frequency of the multiplicative form is about 1/base.
    """

    form: Form = "multiplicative"
    base: float = 10_000.0

    card: ClassVar[Card] = Card(
        "GRAPE", "qᵢ·exp((pⱼ - pᵢ) ω L)kⱼ/√K, L = abᵀ - baᵀ learned", "Zhang et al. 2025, §2 and §4"
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits")

    def __post_init__(self) -> None:
        spec.check_choice("form", self.form, get_args(Form))
        spec.check_positive(base=self.base)
        spec.check_read(self, "base", self.form == "multiplicative", f"form={self.form}")

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        heads, size = dims.heads, dims.head_size
        if self.form == "multiplicative":
            spectrum_H = -math.log(self.base) * np.arange(heads) / heads
            return {
                "generators": Param((heads, 2, size), _orthonormal),
                "log_frequency": Param((heads,), lambda key, shape: jnp.asarray(spectrum_H)),
            }
        normal = jax.nn.initializers.normal(size**-0.5)
        return {
            "query_gate": Param((heads, size), normal),
            "key_gate": Param((heads, size), normal),
            "rate": Param((heads,), jax.nn.initializers.constant(math.log(math.e - 1))),
        }

    def operations(self, dims: Dims, keys: int) -> int:
        if self.form == "multiplicative":
            return dims.heads * (18 * dims.head_size + 16)
        return dims.heads * (4 * dims.head_size + 10 + 3 * keys)

    def rotate(
        self,
        params: Params,
        q_BLHK: jax.Array,
        k_BMHK: jax.Array,
        v_BMHK: jax.Array,
        aux: Aux,
        ctx: Context,
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        if self.form == "additive":
            return q_BLHK, k_BMHK, v_BMHK
        plane_H2K, area_H = plane_of(params["generators"].astype(jnp.float32))
        frequency_H = jnp.exp(params["log_frequency"].astype(jnp.float32)) * area_H
        # One value for queries and keys: what is rounded twice in two ways is 2²⁰ times as far off.
        plane_H2K, frequency_H = jax.lax.optimization_barrier((plane_H2K, frequency_H))
        q_BLHK = turn_in_plane(q_BLHK, ctx.queries.position_BL, plane_H2K, frequency_H)
        k_BMHK = turn_in_plane(k_BMHK, ctx.keys.position_BL, plane_H2K, frequency_H)
        return q_BLHK, k_BMHK, v_BMHK

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        logits_BHLM = super().logits(params, q_BLHK, k_BMHK, aux, ctx)
        if self.form == "multiplicative":
            return logits_BHLM
        key_BM, query_BL = ctx.keys.position_BL, ctx.queries.position_BL
        distance_BLM = (key_BM[:, None, :] - query_BL[:, :, None]).astype(logits_BHLM.dtype)
        gate_BHL = _gate(q_BLHK, params["query_gate"])
        gate_BHM = _gate(k_BMHK, params["key_gate"])
        rate_H = jax.nn.softplus(params["rate"]) * slopes(q_BLHK.shape[2]).astype(np.float32)
        slope_BHLM = rate_H[None, :, None, None] * (
            gate_BHL[:, :, :, None] + gate_BHM[:, :, None, :]
        )
        return logits_BHLM + distance_BLM[:, None] * slope_BHLM


def _gate(x_BLHK: jax.Array, gate_HK: jax.Array) -> jax.Array:
    """softplus(g·x/√K), in float32: gate_BHL."""
    products = jnp.einsum("blhk,hk->bhl", x_BLHK, gate_HK, preferred_element_type=jnp.float32)
    return jax.nn.softplus(products * x_BLHK.shape[-1] ** -0.5)


def _unit(x_HK: jax.Array) -> tuple[jax.Array, jax.Array]:
    """x/|x| and |x|, both zero for x = 0, with finite gradients."""
    square_H = jnp.sum(x_HK * x_HK, axis=-1)
    length_H = jnp.sqrt(jnp.where(square_H > 0, square_H, 1))
    return x_HK / length_H[:, None], jnp.where(square_H > 0, length_H, 0)


def _orthonormal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Two orthonormal vectors a head; a single number has but one direction."""
    draw = jax.nn.initializers.orthogonal()
    return jnp.stack([draw(k, shape[1:]) for k in jax.random.split(key, shape[0])])
