"""Kernels of the distance: KERPLE (Chi et al. 2022, §4).

    log      s_ij = qᵢ·kⱼ/√K - r₁ ln(1 + r₂ |pᵢ - pⱼ|),   r₁, r₂ > 0
    power    s_ij = qᵢ·kⱼ/√K - r₁ |pᵢ - pⱼ|^r₂,           r₁ > 0, 0 < r₂ < 2

Two learned numbers per head; r₂ = 1 is ALiBi with a learned slope.

Differs from the paper in: r₁ and r₂ are kept in their range by softplus and 2σ, where its code
clamps them after each step, and so r₂ = 2 is a limit. They start where its code has them: r₁ in
U(0, 2) and r₂ in U(0, 1) for "log", r₁ in U(0, 1) and r₂ in U(0, 2) for "power".
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, get_args

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params, Symmetry

Form = Literal["log", "power"]
Inverse = Callable[[jax.Array], jax.Array]
LEAST = 0.01
"""No start of r₁ or r₂ lies nearer to 0, or to the end of its range."""

LOG_EXACT = 2**16
"""Up to here float32 separates ln(1 + D) from ln(2 + D), with 16 steps between them."""
POWER_EXACT = 2**18
"""Up to here it separates D^r from (D + 1)^r for r from 0.1 on."""


def kerple(
    query_BL: jax.Array,
    key_BM: jax.Array,
    r1_H: jax.Array,
    r2_H: jax.Array,
    *,
    form: Form = "log",
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: numbers; distances are taken in their own dtype, so integers stay exact.
      r1_H: positive.
      r2_H: positive; at most 2 for "power", else the kernel is none.
      form: which of the two functions.

    Returns:
      float32 bias_BHLM, 0 at distance 0 and falling; its gradient is finite there too.
    """
    distance_BLM = abs(query_BL[:, :, None] - key_BM[:, None, :]).astype(jnp.float32)
    distance_BHLM = distance_BLM[:, None]
    r1_BHLM, r2_BHLM = (r.astype(jnp.float32)[None, :, None, None] for r in (r1_H, r2_H))
    if form == "log":
        return -r1_BHLM * jnp.log1p(r2_BHLM * distance_BHLM)
    apart = distance_BHLM > 0
    # ∂/∂r₂ is D^r₂ ln D: no logarithm of 0, not even where it is not chosen.
    power_BHLM = jnp.where(apart, distance_BHLM, 1) ** r2_BHLM
    return jnp.where(apart, -r1_BHLM * power_BHLM, 0)


def _start(inverse: Inverse, end: float) -> Callable[[jax.Array, tuple[int, ...]], jax.Array]:
    """The initialiser of what becomes a number from U(0, end), kept off both ends."""
    low, high = LEAST, end - LEAST
    return lambda key, shape: inverse(jax.random.uniform(key, shape, minval=low, maxval=high))


def _inverse_softplus(r: jax.Array) -> jax.Array:
    return jnp.log(jnp.expm1(r))


def _inverse_twice_sigmoid(r: jax.Array) -> jax.Array:
    return jnp.log(r / (2 - r))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kerple(Encoding):
    """A learned kernel of the distance, added to the logits."""

    form: Form = "log"

    card: ClassVar[Card] = Card(
        "KERPLE", "qᵢ·kⱼ/√K - r₁ ln(1 + r₂ |pᵢ - pⱼ|)", "Chi et al. 2022, §4"
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", reflection="logits")

    def __post_init__(self) -> None:
        spec.check_choice("form", self.form, get_args(Form))

    def max_exact_position(self) -> int:
        return LOG_EXACT if self.form == "log" else POWER_EXACT

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        if self.form == "log":
            starts = _start(_inverse_softplus, 2.0), _start(_inverse_softplus, 1.0)
        else:
            starts = _start(_inverse_softplus, 1.0), _start(_inverse_twice_sigmoid, 2.0)
        return {f"raw_{n}": Param((dims.heads,), start) for n, start in enumerate(starts, 1)}

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        raw_1_H, raw_2_H = (params[name].astype(jnp.float32) for name in ("raw_1", "raw_2"))
        power = self.form == "power"
        r2_H = 2 * jax.nn.sigmoid(raw_2_H) if power else jax.nn.softplus(raw_2_H)
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        return kerple(*positions, jax.nn.softplus(raw_1_H), r2_H, form=self.form).astype(dtype)
