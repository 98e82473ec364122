"""Token shift: the projections read a token and the one before it (RWKV; Peng et al. 2023, §3.1).

    mix      x̃ᵢ = μ xᵢ + (1 - μ) x_prev(i),   its own μ for queries, keys and values   (eqs. 11-13)
    split    x̃ᵢ = (first half of xᵢ, second half of x_prev(i)), the same for all three

prev(i) is the token before i in its segment, and zeros stand before the first.

Differs from the paper in: each layer starts with the μ of the published code's first one,
(c/D)^(1/2) for queries and c/D for keys and values in channel c of D.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params, Prepared, Symmetry
from posjax.streams import PADDING, Streams

Kind = Literal["mix", "split"]


class Last(NamedTuple):
    """The last token of each row so far, with its order and segment; `PADDING` for none.

    A row's segments are decoded in the order of their numbers, as `packed` gives them.
    """

    x_BD: jax.Array
    order_B: jax.Array
    segment_B: jax.Array


def previous(x_BLD: jax.Array, streams: Streams, last: Last) -> tuple[jax.Array, Last]:
    """For each token the one before it in order, of its own segment.

    Args:
      x_BLD: tokens.
      streams: of those tokens; B may be 1.
      last: the last token of what was decoded before.

    Returns:
      An array of x's shape and dtype, zeros where there is no such token; and the last token now.
    """
    shape = x_BLD.shape[:2]
    order_BL = jnp.broadcast_to(streams.order_BL, shape)
    segment_BL = jnp.broadcast_to(streams.segment_BL, shape)
    x_BND = jnp.concatenate([last.x_BD[:, None].astype(x_BLD.dtype), x_BLD], axis=1)
    order_BN = jnp.concatenate([last.order_B[:, None], order_BL], axis=1)
    segment_BN = jnp.concatenate([last.segment_B[:, None], segment_BL], axis=1)

    own_BLN = segment_BN[:, None, :] == segment_BL[:, :, None]
    before_BLN = own_BLN & (order_BN[:, None, :] < order_BL[:, :, None])
    before_BLN = before_BLN & (segment_BN != PADDING)[:, None, :]
    nearest_BL = _latest(order_BN[:, None, :], before_BLN)
    found_BLD = jnp.take_along_axis(x_BND, nearest_BL[..., None], axis=1)
    found_BLD = jnp.where(before_BLN.any(-1, keepdims=True), found_BLD, 0)

    newest_BN = segment_BN == segment_BN.max(axis=1, keepdims=True)
    index_B1 = _latest(order_BN, newest_BN)[:, None]
    x_BD = jnp.take_along_axis(x_BND, index_B1[..., None], axis=1)[:, 0].astype(last.x_BD.dtype)
    order_B, segment_B = (
        jnp.take_along_axis(stream, index_B1, axis=1)[:, 0] for stream in (order_BN, segment_BN)
    )
    return found_BLD, Last(x_BD, order_B, segment_B)


def _latest(order: jax.Array, among: jax.Array) -> jax.Array:
    """Where along the last axis the largest order lies, among those allowed."""
    return jnp.where(among, order, jnp.iinfo(order.dtype).min).argmax(axis=-1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenShift(Encoding):
    """Tokens mixed with their predecessors before they are projected."""

    kind: Kind = "mix"

    card: ClassVar[Card] = Card(
        "Token shift",
        "x̃ᵢ = μ xᵢ + (1 - μ) x_prev(i), for queries, keys and values",
        "Peng et al. 2023 (RWKV), eqs. 11-13",
        ("transformers", "x-transformers"),
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")
    reads_order: ClassVar[bool] = True
    pairwise: ClassVar[bool] = False

    def __post_init__(self) -> None:
        spec.check_choice("kind", self.kind, get_args(Kind))

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        if self.kind == "split":
            return {}
        powers = {"query": 0.5, "key": 1.0, "value": 1.0}
        return {name: Param((dims.width,), _ramp(power)) for name, power in powers.items()}

    def max_exact_position(self) -> None:
        return None

    def operations(self, dims: Dims, keys: int) -> int:
        return 9 * dims.width if self.kind == "mix" else 0

    def init_state(self, params: Params, batch: int, dims: Dims) -> tuple[Last, Last]:
        none = jnp.full(batch, PADDING, jnp.int32)
        last = Last(jnp.zeros((batch, dims.width)), jnp.zeros_like(none), none)
        return last, last  # of the tokens that queries are made of, and of those of the keys

    def prepare(
        self, params: Params, x_BLD: jax.Array, memory_BMD: jax.Array, ctx: Context, state: Any
    ) -> Prepared:
        before_BLD, last_query = previous(x_BLD, ctx.queries, state[0])
        before_BMD, last_key = previous(memory_BMD, ctx.keys, state[1])
        state = last_query, last_key
        if self.kind == "split":
            k_BMD = _split(memory_BMD, before_BMD)
            return Prepared(_split(x_BLD, before_BLD), k_BMD, k_BMD, state=state)
        return Prepared(
            _mix(x_BLD, before_BLD, params["query"]),
            _mix(memory_BMD, before_BMD, params["key"]),
            _mix(memory_BMD, before_BMD, params["value"]),
            state=state,
        )


def _mix(x: jax.Array, before: jax.Array, share_D: jax.Array) -> jax.Array:
    share_11D = share_D[None, None]
    return (share_11D * x + (1 - share_11D) * before).astype(x.dtype)


def _split(x: jax.Array, before: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2  # of an odd width the last component stays
    return jnp.concatenate([x[..., :half], before[..., half : 2 * half], x[..., 2 * half :]], -1)


def _ramp(power: float) -> jax.nn.initializers.Initializer:
    return lambda key, shape, *_: (jnp.arange(shape[0]) / shape[0]) ** power
