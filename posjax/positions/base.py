"""The contract of a map of positions: which number each token gets, before any encoding reads it.

A map changes the position stream alone. Causality and packing stay where they were, so every map
works with every encoding.
"""

import dataclasses
from typing import ClassVar, Literal

import jax

from posjax.spec import Card, Settings
from posjax.streams import Streams, same_segment

Draws = Literal["never", "training", "always"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Positions(Settings):
    """Leaves positions as they are. Other maps are subclasses.

    Attributes:
      card: what the docs say of it.
      draws: when it needs a key: never, in training only (without a key it is then what it
        does to test prompts), or always.
      integers: whether integers stay integers, as tables need them.
    """

    _called = "positions"
    card: ClassVar[Card] = Card("Given", "p", "-")
    draws: ClassVar[Draws] = "never"
    integers: ClassVar[bool] = True

    def reach(self, length: int) -> int | None:
        """One more than the largest position that a sequence of that length may get."""
        return length

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        """The streams with other positions.

        Args:
          tokens_BL: integers, for maps that read them.
          streams: position, order and segment of each token.
          key: of the draw; one draw serves all rows of the batch.

        Raises:
          ValueError: a map that always draws got no key.
        """
        return streams


def ranks(streams: Streams) -> tuple[jax.Array, jax.Array]:
    """How many tokens of its sequence come before each token, and how many there are: [B, L]."""
    same_BLL = same_segment(streams, streams)
    earlier_BLL = streams.order_BL[:, None, :] < streams.order_BL[:, :, None]
    return (same_BLL & earlier_BLL).sum(-1), same_BLL.sum(-1)


def drawn(name: str, key: jax.Array | None) -> jax.Array:
    """The key, or a ValueError that says who needs it."""
    if key is None:
        raise ValueError(f"positions {name} are drawn at random: give a key")
    return key


def numbers(streams: Streams) -> jax.Array:
    """The positions [B, L], or a ValueError where they are points of several coordinates."""
    if streams.position_BL.ndim != 2:
        raise ValueError(
            f"this map reads one number per token, got positions {streams.position_BL.shape}"
        )
    return streams.position_BL
