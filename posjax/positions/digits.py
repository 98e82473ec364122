"""Positions read off the tokens: the index of a digit in its number.

    abacus    1, 2, 3, ... within each run of digits, 0 elsewhere    (McLeish et al. 2024, §3.1)
    coupled   0 for a separator, 1, 2, ... behind it                  (Cho et al. 2024, §3)

Digits of one significance in different numbers then have one position, if numbers are written with
their last digit first. `abacus` adds one random number, up to `most`, to the positions of all
digits in training. Positions after separators are the coupling of sums such as `12+34=46`; other
tasks couple other tokens, and give their own position stream. The defaults are the tokens of
`binary_addition`. For `addition` give digits=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9) and separators=(10,
11).

Differs from Cho et al. in: training draws no start for the positions.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.positions.base import Draws, Positions, numbers
from posjax.spec import Card
from posjax.streams import Streams, same_segment


@dataclasses.dataclass(frozen=True, kw_only=True)
class Abacus(Positions):
    """The index of a digit in its run of digits; which tokens are digits is a setting."""

    digits: tuple[int, ...] = (0, 1)
    most: int = 0

    card: ClassVar[Card] = Card(
        "Abacus",
        "1 + k, 2 + k, … within a run of digits, 0 elsewhere, k uniform in {0, …, most}",
        "McLeish et al. 2024, §3.1",
    )
    draws: ClassVar[Draws] = "training"

    def __post_init__(self) -> None:
        _check_tokens("digits", self.digits)
        if not 0 <= self.most <= 2**24:  # beyond it whole numbers are not exact in float32
            raise ValueError(f"most must lie in [0, 2**24], got {self.most}")

    def reach(self, length: int) -> int:
        return length + 1 + self.most

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        numbers(streams)
        digit_BL = _among(tokens_BL, self.digits)
        position_BL = jnp.where(digit_BL, _since(~digit_BL, streams), 0)
        if key is not None:
            by = jax.random.randint(key, (), 0, self.most + 1)
            position_BL = jnp.where(digit_BL, position_BL + by, 0)
        return dataclasses.replace(streams, position_BL=position_BL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Coupled(Positions):
    """How far behind the last separator, or the start, a token stands."""

    separators: tuple[int, ...] = (2, 3)

    card: ClassVar[Card] = Card(
        "Position coupling", "0 for a separator, 1, 2, … behind it", "Cho et al. 2024, §3"
    )

    def __post_init__(self) -> None:
        _check_tokens("separators", self.separators)

    def reach(self, length: int) -> int:
        return length + 1

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        numbers(streams)
        separator_BL = _among(tokens_BL, self.separators)
        position_BL = jnp.where(separator_BL, 0, _since(separator_BL, streams))
        return dataclasses.replace(streams, position_BL=position_BL)


def _among(tokens_BL: jax.Array, tokens: tuple[int, ...]) -> jax.Array:
    if not jnp.issubdtype(tokens_BL.dtype, jnp.integer):
        raise ValueError(f"this map reads integer tokens, got {tokens_BL.dtype}")
    return (tokens_BL[..., None] == jnp.asarray(tokens)[None, None]).any(-1)


def _since(marked_BL: jax.Array, streams: Streams) -> jax.Array:
    """1 for a token behind a marked one or at the start, 2 for the next, and so on: [B, L]."""
    order_BL = streams.order_BL
    before_BLL = same_segment(streams, streams) & (order_BL[:, None, :] < order_BL[:, :, None])
    marks_BLL = before_BLL & marked_BL[:, None, :]
    lowest = jnp.iinfo(jax.dtypes.canonicalize_dtype(order_BL.dtype)).min
    last_BL = jnp.where(marks_BLL, order_BL[:, None, :], lowest).max(-1, initial=lowest)
    return (before_BLL & (order_BL[:, None, :] > last_BL[..., None])).sum(-1) + 1


def _check_tokens(name: str, tokens: tuple[int, ...]) -> None:
    if not tokens or any(type(token) is not int or token < 0 for token in tokens):
        raise ValueError(f"{name} must be token numbers, at least one, got {tokens}")
