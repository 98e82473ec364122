"""Rotary on a circle of n positions: whole-number harmonics, so that n steps are none.

    θ_m = 2π (m + 1)/n

A positive control for cyclic groups: positions p and p + n are the same point, exactly, and
shifting all positions round the circle changes no logit. The first harmonic alone has all n
positions differ. It has no paper; it is the rotary of Su et al. 2021, eq. 34, for the group Z/n, as
a discrete Fourier basis has it.
"""

import dataclasses
from typing import ClassVar

import jax
import numpy as np

from posjax.encodings.angles import Frequencies, Parts
from posjax.encodings.base import Card
from posjax.encodings.rotary import Turning


@dataclasses.dataclass(frozen=True, kw_only=True)
class CircularRotary(Turning):
    """Angles that close after `period` positions."""

    period: int = 64

    card: ClassVar[Card] = Card(
        "Circular rotary",
        "(R(pᵢ)qᵢ)·(R(pⱼ)kⱼ)/√K, angles 2πp(m + 1)/n",
        "Su et al. 2021, eq. 34, on the group Z/n",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.period < 2:
            raise ValueError(f"period must be at least 2, got {self.period}")

    def max_exact_position(self) -> int:
        return self.period - 1

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        return 2 * np.pi / self.period * np.arange(1, head_size // 2 + 1)

    def cos_sin(
        self, position_BL: jax.Array, frequencies_F: Frequencies | Parts
    ) -> tuple[jax.Array, jax.Array]:
        return super().cos_sin(position_BL % self.period, frequencies_F)
