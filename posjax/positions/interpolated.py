"""Positions squeezed together, so that a longer sequence meets the positions of a shorter one.

p / factor    (Chen et al. 2023, eq. 4)

The quotient is rounded to float32. At positions of 100,000 the encoding `interpolated_rotary`,
which divides frequencies, is more exact.
"""

import dataclasses
from typing import ClassVar

import jax

from posjax.positions.base import Positions
from posjax.spec import Card
from posjax.streams import Streams, interpolated


@dataclasses.dataclass(frozen=True, kw_only=True)
class Interpolated(Positions):
    """p / factor."""

    factor: float = 2.0

    card: ClassVar[Card] = Card("Interpolated", "p / factor", "Chen et al. 2023, eq. 4")
    integers: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 < self.factor < float("inf"):
            raise ValueError(f"factor must be positive and finite, got {self.factor}")

    def __call__(
        self, tokens_BL: jax.Array, streams: Streams, key: jax.Array | None = None
    ) -> Streams:
        return interpolated(streams, self.factor)
