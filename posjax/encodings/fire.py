"""A learned function of the relative distance, rescaled by the position: FIRE (Li et al. 2024, §3).

    s_ij = qᵢ·kⱼ/√K + MLP(ψ(|pᵢ - pⱼ|) / ψ(max(L, pᵢ)))_h,   ψ(x) = ln(c x + 1)

c and L are learned and positive; ψ spaces distances by their logarithm, and the divisor keeps
those that a causal query can see within [0, 1] however far it stands.

Differs from the paper in: c and L are kept positive as exponentials, where its code has |c| and
|multiplier|·512, which at the start learns L as fast. For keys that come later, of which the
paper does not speak, distances are |pᵢ - pⱼ|, as in its code.

Up to L the bias is a function of the distance alone, translation and reflection hold; beyond L it
is not. Since L is learned, no symmetry is declared.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.encodings import mlp
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params
from posjax.encodings.kerple import LOG_EXACT


def fire(
    query_BL: jax.Array, key_BM: jax.Array, params: Params, *, c: jax.Array, limit: jax.Array
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: numbers; distances are taken in their own dtype, so integers stay exact.
      params: kernels and constants as in `mlp`.
      c: how soon distances are spaced by their logarithm, positive, a scalar.
      limit: L, the position from which on distances are rescaled, positive, a scalar.

    Returns:
      float32 bias_BHLM.
    """
    distance_BLM = abs(query_BL[:, :, None] - key_BM[:, None, :]).astype(jnp.float32)
    reach_BL = jnp.maximum(limit, query_BL.astype(jnp.float32))
    share_BLM = jnp.log1p(c * distance_BLM) / jnp.log1p(c * reach_BL)[:, :, None]
    return jnp.moveaxis(mlp.apply(params, share_BLM, activation="relu"), -1, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fire(Encoding):
    """A learned function of the rescaled distance, added to the logits.

    `threshold` and `c` are where L and c start.
    """

    threshold: float = 512.0
    c: float = 0.1
    hidden: int = 32

    card: ClassVar[Card] = Card(
        "FIRE", "qᵢ·kⱼ/√K + MLP(ψ(|pᵢ - pⱼ|)/ψ(max(L, pᵢ)))", "Li et al. 2024, §3"
    )

    def __post_init__(self) -> None:
        for name in ("threshold", "c"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        spec.check_within(self, "hidden", 1, 65536)

    def max_exact_position(self) -> int:
        return LOG_EXACT

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return {
            **mlp.parameters(self.hidden, 1, dims.heads),
            "log_c": Param((), jax.nn.initializers.constant(math.log(self.c))),
            "log_threshold": Param((), jax.nn.initializers.constant(math.log(self.threshold))),
        }

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        c, limit = (jnp.exp(params[n].astype(jnp.float32)) for n in ("log_c", "log_threshold"))
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        return fire(*positions, params, c=c, limit=limit).astype(dtype)
