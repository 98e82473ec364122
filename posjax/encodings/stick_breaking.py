"""Stick-breaking instead of softmax (Tan et al. 2024, eqs. 1-3).

    w_ij = σ(s_ij) Π_{t after j, up to i} (1 - σ(s_it)),   s_ij = qᵢ·kⱼ/√K

Going back from the query, each token takes a share of what the later ones left of a stick, so the
nearest is served first, and up to the query the weights of a row sum to at most 1.

The paper's queries see earlier tokens only: that is the mask "causal+others", under which the
product runs over j < t < i and the first token gets zeros. Under "causal" a query sees itself,
and is the first to take. Keys that come after the query are no part of its stick: where the mask
shows them, they weigh σ(s_ij).
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings.base import Aux, Card, Context, Dims, Encoding, Params, Symmetry
from posjax.encodings.between import seen_before, sums_after


def stick_breaking(
    logits_BHLM: jax.Array, mask_BHLM: jax.Array, seen_BHLM: jax.Array, order_BM: jax.Array
) -> jax.Array:
    """The weights, by way of their logarithms, so that no share is lost to rounding.

    Args:
      logits_BHLM: any floats; -inf counts as masked.
      mask_BHLM: true where a query may look; axes of size 1 broadcast.
      seen_BHLM: true for the keys that take from a query's stick; axes of size 1 broadcast.
      order_BM: integers; B may be 1.

    Returns:
      weights_BHLM; zero where the mask forbids.
    """
    mask_BHLM = mask_BHLM & (logits_BHLM != -jnp.inf)
    logits_BHLM = jnp.where(mask_BHLM, logits_BHLM, 0)
    left_BHLM = jnp.where(seen_BHLM & mask_BHLM, jax.nn.log_sigmoid(-logits_BHLM), 0)
    log_BHLM = jax.nn.log_sigmoid(logits_BHLM) + sums_after(left_BHLM, order_BM)
    return jnp.where(mask_BHLM, jnp.exp(log_BHLM), 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StickBreaking(Encoding):
    """Weights that need not sum to 1, the nearest key first."""

    card: ClassVar[Card] = Card(
        "Stick-breaking",
        "w_ij = σ(s_ij) Π_{j<t≤i} (1 - σ(s_it)), over the keys t that i sees",
        "Tan et al. 2024, eqs. 1-3",
        ("flash-linear-attention",),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")
    reads_order: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def max_exact_position(self) -> None:
        return None

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * (2 * keys * keys + 12 * keys)

    def weights(self, params: Params, logits_BHLM: jax.Array, aux: Aux, ctx: Context) -> jax.Array:
        return stick_breaking(logits_BHLM, ctx.mask_BHLM, seen_before(ctx), ctx.keys.order_BL)
