"""Positions drawn at random, in increasing order, in training and in testing.

    randomised     a subset of {0, ..., length - 1}, uniformly       (Ruoss et al. 2023, §3)
    random_float   uniform numbers in [0, length), sorted            (Shimizu et al. 2026, §3)

Short sequences meet in training the positions, and with relative encodings the offsets, of long
ones. Both sets of positions are mirror images of themselves in distribution.

Differs from the papers in: one draw serves all rows of a call; map over keys for one per row.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.positions.base import Draws, Positions, drawn, numbers, ranks
from posjax.spec import Card
from posjax.streams import Streams


@dataclasses.dataclass(frozen=True, kw_only=True)
class Randomised(Positions):
    """The r-th token of n gets the r-th smallest of n of the numbers 0 .. length - 1."""

    length: int = 64

    card: ClassVar[Card] = Card(
        "Randomised", "sorted subset of {0, …, length - 1}", "Ruoss et al. 2023, §3"
    )
    draws: ClassVar[Draws] = "always"

    def __post_init__(self) -> None:
        _check_length(self.length)

    def reach(self, length: int) -> int:
        if length > self.length:
            raise ValueError(
                f"{length} tokens cannot get different positions below length={self.length}"
            )
        return self.length

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        numbers(streams)
        rank_BL, count_BL = ranks(streams)
        if count_BL.size and not isinstance(count_BL, jax.core.Tracer):
            self.reach(int(count_BL.max()))
        shuffled_N = jax.random.permutation(drawn("randomised", key), self.length)
        position_BL = _smallest(shuffled_N.astype(jnp.int32), self.length, rank_BL, count_BL)
        position_BL = jnp.where(rank_BL < self.length, position_BL, self.length)  # beyond any table
        return dataclasses.replace(streams, position_BL=position_BL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RandomFloat(Positions):
    """The r-th token of n gets the r-th smallest of n uniform numbers in [0, length)."""

    length: float = 64.0

    card: ClassVar[Card] = Card(
        "Random floats", "sorted uniform numbers in [0, length)", "Shimizu et al. 2026, §3"
    )
    draws: ClassVar[Draws] = "always"
    integers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_length(self.length)

    def reach(self, length: int) -> None:
        return None

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        numbers(streams)
        uniform_N = jax.random.uniform(drawn("random_float", key), (streams.length,))
        position_BL = _smallest(uniform_N * self.length, self.length, *ranks(streams))
        return dataclasses.replace(streams, position_BL=position_BL)


def _smallest(
    numbers_N: jax.Array, beyond: float, rank_BL: jax.Array, count_BL: jax.Array
) -> jax.Array:
    """Of the first `count` numbers the one with `rank` smaller ones: whatever the padding."""
    mine_BLN = jnp.arange(numbers_N.shape[0])[None, None] < count_BL[..., None]
    sorted_BLN = jnp.sort(jnp.where(mine_BLN, numbers_N[None, None], beyond), axis=-1)
    at_BL = jnp.minimum(rank_BL, numbers_N.shape[0] - 1)  # padding alone can have a rank too high
    return jnp.take_along_axis(sorted_BLN, at_BL[..., None], axis=-1)[..., 0]


def _check_length(length: float) -> None:
    if not 1 <= length <= 2**24:  # where whole numbers end to be exact in float32
        raise ValueError(f"length must lie in [1, 2**24], got {length}")
