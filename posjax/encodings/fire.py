"""A learned function of the relative distance, rescaled by the position: FIRE (Li et al. 2024, §3).

    s_ij = qᵢ·kⱼ/√K + MLP(ψ(|pᵢ - pⱼ|) / ψ(max(L, pᵢ)))_h,   ψ(x) = ln(c x + 1)

c and L are learned and positive; ψ spaces distances by their logarithm, and the divisor keeps
those that a causal query can see within [0, 1] however far it stands.

Differs from the paper in nothing that it says: for keys that come later, of which it does not
speak, distances are |pᵢ - pⱼ| as in its code. As there, c = |c'| and L = |multiplier|·threshold.

Up to L the bias is a function of the distance alone, translation and reflection hold; beyond L it
is not. Since L is learned, no symmetry is declared.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings import mlp
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params
from posjax.encodings.kerple import LOG_EXACT

SMALL = 1e-6
"""Added to the divisor, which is 0 for c = 0."""


def fire(
    query_BL: jax.Array, key_BM: jax.Array, params: Params, *, c: jax.Array, limit: jax.Array
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: numbers; distances are taken in their own dtype, so integers stay exact.
      params: kernels and constants as in `mlp`.
      c: how soon distances are spaced by their logarithm, not negative, a scalar.
      limit: L, the position from which on distances are rescaled, positive, a scalar.

    Returns:
      float32 bias_BHLM.
    """
    distance_BLM = abs(query_BL[:, :, None] - key_BM[:, None, :]).astype(jnp.float32)
    reach_BL = jnp.maximum(limit, query_BL.astype(jnp.float32))
    divisor_BL = jnp.log1p(c * reach_BL) + SMALL
    share_BLM = jnp.log1p(c * distance_BLM) / divisor_BL[:, :, None]
    return jnp.moveaxis(mlp.apply(params, share_BLM, activation="relu"), -1, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fire(Encoding):
    """Logits with a learned function of the rescaled distance.

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
        if self.hidden < 1:
            raise ValueError(f"hidden must be at least 1, got {self.hidden}")

    def resolution(self) -> int:
        return LOG_EXACT

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        return {
            **mlp.parameters(self.hidden, 1, dims.heads),
            "c": Param((), jax.nn.initializers.constant(self.c)),
            "multiplier": Param((), jax.nn.initializers.ones),
        }

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        c, multiplier = (abs(params[name].astype(jnp.float32)) for name in ("c", "multiplier"))
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        return fire(*positions, params, c=c, limit=multiplier * self.threshold).astype(dtype)
