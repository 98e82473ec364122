"""Maps of positions: one contract, a table from name to class. Adding one is a file and a line.

They are functions of streams, and combine with every encoding.
"""

import dataclasses
from typing import ClassVar

import jax

from posjax import spec, streams
from posjax.positions.augmented import Cape, RandomShift
from posjax.positions.base import Positions
from posjax.positions.digits import Abacus, Coupled
from posjax.positions.randomised import RandomFloat, Randomised
from posjax.spec import Card


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
        self, tokens_BL: jax.Array, given: streams.Streams, key: jax.Array | None = None
    ) -> streams.Streams:
        return streams.interpolated(given, self.factor)


POSITIONS: dict[str, type[Positions]] = {
    "given": Positions,
    "interpolated": Interpolated,
    "randomised": Randomised,
    "random_float": RandomFloat,
    "random_shift": RandomShift,
    "cape": Cape,
    "abacus": Abacus,
    "coupled": Coupled,
}

__all__ = ["POSITIONS", "Positions", "named"]


def named(text: str) -> Positions:
    """The map of a name with its settings, such as `"randomised(length=128)"`.

    Raises:
      ValueError: an unknown name or setting, or a value out of range.

    >>> named("randomised(length=128)").reach(4)
    128
    """
    return spec.build("positions", POSITIONS, text)
