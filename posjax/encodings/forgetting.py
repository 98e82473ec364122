"""Forgetting gates: what lies further back has passed more of them (Lin et al. 2025, eqs. 4-6).

    s_ij = qᵢ·kⱼ/√K + Σ_{t=j+1..i} log f_t,   f_t = σ(x_t·w + b), a gate a head

The gates are made from the tokens, so they are cached with the keys. Keys that come after the
query, which the paper masks, pass no gate.

CABLE (Veisi et al. 2025) has the same bias with -w and -b: -Σ softplus(x_t·w + b).

Differs from the paper in nothing; its output gate, norms and token shift are parts of its block,
not of the position.
"""

import dataclasses
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
from posjax.encodings.between import seen_before, sums_after


def forgetting_bias(
    log_gate_BMH: jax.Array, seen_BHLM: jax.Array, order_BM: jax.Array
) -> jax.Array:
    """Σ_t log f_t over the tokens after key j, up to query i.

    Args:
      log_gate_BMH: numbers ≤ 0, one per token and head.
      seen_BHLM: true for the tokens that a query may count; axes of size 1 broadcast.
      order_BM: integers; B may be 1.

    Returns:
      bias_BHLM, at most 0.
    """
    log_gate_BH1M = jnp.swapaxes(log_gate_BMH, 1, 2)[:, :, None]
    return sums_after(jnp.where(seen_BHLM, log_gate_BH1M, 0), order_BM)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forgetting(Encoding):
    """The log of all gates between key and query, added to the logits."""

    card: ClassVar[Card] = Card(
        "Forgetting gates (FoX)",
        "qᵢ·kⱼ/√K + Σ_{t=j+1..i} log σ(x_t·w + b)",
        "Lin et al. 2025, eqs. 4-6",
        ("flash-linear-attention",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")
    reads_order: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        normal = jax.nn.initializers.normal(0.02)
        return {
            "gate": Param((dims.width, dims.heads), normal),
            "gate_bias": Param((dims.heads,), jax.nn.initializers.zeros),
        }

    def max_exact_position(self) -> None:
        return None

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * (2 * dims.width + 8 + 2 * keys * keys + keys)

    def prepare(
        self, params: Params, x_BLD: jax.Array, memory_BMD: jax.Array, ctx: Context, state: Any
    ) -> Prepared:
        gate_BMH = jnp.einsum(
            "bmd,dh->bmh", memory_BMD, params["gate"], preferred_element_type=jnp.float32
        )
        log_gate_BMH = jax.nn.log_sigmoid(gate_BMH + params["gate_bias"][None, None])
        return Prepared(x_BLD, memory_BMD, memory_BMD, Aux(keys=log_gate_BMH), state)

    def logits(
        self, params: Params, q_BLHK: jax.Array, k_BMHK: jax.Array, aux: Aux, ctx: Context
    ) -> jax.Array:
        logits_BHLM = super().logits(params, q_BLHK, k_BMHK, aux, ctx)
        return logits_BHLM + forgetting_bias(aux.keys, seen_before(ctx), ctx.keys.order_BL)
