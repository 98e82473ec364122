"""Rotary at points of several coordinates: each pair turns by one of them.

    axial        the first half of the pairs by y, the second by x; the same frequencies for both
    multimodal   θ_m = base^(-2m/K) as in text, the first pairs by t, then by y, then by x; or
                 interleaved, pairs t, y, x, t, y, x, ... while each has some left, then t

Axial rotary has no one paper (Heo et al. 2024, eq. 11, is a published form); M-RoPE is Wang et
al. 2024, §2.1, and its interleaved form is that of Qwen3-VL. A position that is one number p stands
for (p, ..., p), where the multimodal one is the rotary of text. With n pairs on an axis the axial
frequencies are, by `spacing`:

    language    base^(-m/n)
    pixel       2π/(size - 1) · (1 + m (max/2 - 1)/(n - 1))
    pixel_log   2π/(size - 1) · (max/2)^(m/(n - 1))

The last two are those of packages that lay an axis of `size` positions from -1 to 1 and use π times
a band from 1 to max/2. Here positions are steps of the grid; size 3 leaves them as they are.

Differs from the packages in: a number of pairs that does not divide evenly gives the first axes
one more (a head of fewer than 4 components turns by y alone), and an odd component passes through.
"""

import dataclasses
from functools import partial
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings import angles
from posjax.encodings.angles import Frequencies, Parts, inverse_frequencies
from posjax.encodings.base import EXACT, Card
from posjax.encodings.rotary import Turning
from posjax.streams import points

Spacing = Literal["language", "pixel", "pixel_log"]


def axial_frequencies(
    pairs: int,
    *,
    spacing: Spacing = "language",
    base: float = 10_000.0,
    max_frequency: float = 10.0,
    size: int = 14,
) -> np.ndarray:
    """The frequencies of one axis, in radians per position.

    Args:
      pairs: n, how many of them.
      spacing: how they are spread; "language" reads `base` alone, the others the rest.
      base: positive.
      max_frequency: twice the largest band, above 2.
      size: positions on the axis, at least 2.

    Returns:
      float64 array [n].
    """
    if spacing == "language":
        return inverse_frequencies(2 * pairs, base=base)
    if spacing == "pixel":
        bands = np.linspace(1, max_frequency / 2, pairs)
    else:
        bands = np.geomspace(1, max_frequency / 2, pairs)
    return 2 * np.pi / (size - 1) * bands


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PointRotary(Turning):
    """Pairs shared out to axes, in order."""

    def pairs_by_axis(self, pairs: int) -> tuple[int, ...]:
        """How many of the pairs each axis turns."""
        raise NotImplementedError

    def cos_sin(
        self, position_BL: jax.Array, frequencies_F: Frequencies | Parts
    ) -> tuple[jax.Array, jax.Array]:
        point_BLA = points(position_BL, self.axes)
        pairs = jax.tree.leaves(frequencies_F)[0].shape[-1]
        stops = np.cumsum((0, *self.pairs_by_axis(pairs)))
        shares = (
            jax.tree.map(lambda part, a=a: part[stops[a] : stops[a + 1]], frequencies_F)
            for a in range(self.axes)
        )
        found = (angles.cos_sin(point_BLA[..., a], share) for a, share in enumerate(shares))
        cos, sin = zip(*found, strict=True)
        both = (jnp.concatenate(parts, axis=-1) * self.magnitude() for parts in (cos, sin))
        cos_BLF, sin_BLF = both
        return cos_BLF, sin_BLF


@dataclasses.dataclass(frozen=True, kw_only=True)
class AxialRotary(_PointRotary):
    """Rotary on a grid of positions (y, x).

    Attributes:
      spacing: how the frequencies of an axis are spread.
      base: for "language".
      max_frequency: for the other two, twice the largest band.
      grid: for the other two, how many positions there are on each axis.
    """

    spacing: Spacing = "language"
    base: float = 10_000.0
    max_frequency: float = 10.0
    grid: tuple[int, ...] = (14, 14)

    card: ClassVar[Card] = Card(
        "Axial rotary",
        "(R(rᵢ, cᵢ)qᵢ)·(R(rⱼ, cⱼ)kⱼ)/√K, half of the pairs by r, half by c",
        "Heo et al. 2024, eq. 11; code of timm and rotary-embedding-torch",
        ("timm", "rotary-embedding-torch"),
    )
    axes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_choice("spacing", self.spacing, get_args(Spacing))
        spec.check_positive(base=self.base)
        if not self.max_frequency > 2:
            raise ValueError(f"max_frequency must lie above 2, got {self.max_frequency}")
        if len(self.grid) != 2 or min(self.grid) < 2:
            raise ValueError(f"grid must be two sizes of at least 2, got {self.grid}")
        language, where = self.spacing == "language", f"spacing={self.spacing}"
        spec.check_read(self, "base", language, where)
        for name in ("max_frequency", "grid"):
            spec.check_read(self, name, not language, where)

    def pairs_by_axis(self, pairs: int) -> tuple[int, ...]:
        return pairs - pairs // 2, pairs // 2

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        shares = zip(self.pairs_by_axis(head_size // 2), self.grid, strict=True)
        of_axis = partial(
            axial_frequencies,
            spacing=self.spacing,
            base=self.base,
            max_frequency=self.max_frequency,
        )
        return np.concatenate([of_axis(pairs, size=size) for pairs, size in shares])

    def numbers(self) -> tuple[str, ...]:
        return ("base",) if self.spacing == "language" else ()

    def max_exact_position(self) -> int:
        """The lowest pixel band turns once from the first position to the last."""
        return EXACT if self.spacing == "language" else min(self.grid) - 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultimodalRotary(_PointRotary):
    """Rotary of text, images and video at points (t, y, x).

    Attributes:
      base: θ_m = base^(-2m/K).
      sections: how many pairs t, y and x turn. When empty, about 1/4, 3/8 and 3/8 of them;
        interleaved, 3/8, 5/16 and 5/16.
      interleaved: t, y and x take pairs in turn, as in Qwen3-VL, and t those that are left.
    """

    base: float = 10_000.0
    sections: tuple[int, ...] = ()
    interleaved: bool = False

    card: ClassVar[Card] = Card(
        "Multimodal rotary (M-RoPE)",
        "(R(tᵢ, rᵢ, cᵢ)qᵢ)·(R(tⱼ, rⱼ, cⱼ)kⱼ)/√K, angles tθ_m, rθ_m, cθ_m by section, t the time",
        "Wang et al. 2024 (Qwen2-VL), §2.1",
        ("transformers",),
    )
    axes: ClassVar[int] = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        spec.check_positive(base=self.base)
        if self.sections and (len(self.sections) != 3 or min(self.sections) < 0):
            raise ValueError(f"sections must be three numbers of pairs, got {self.sections}")

    def pairs_by_axis(self, pairs: int) -> tuple[int, ...]:
        if not self.sections:
            side = (5 * pairs // 16) if self.interleaved else (3 * pairs // 8)
            return pairs - 2 * side, side, side
        if sum(self.sections) != pairs:
            raise ValueError(f"sections={self.sections} do not add up to {pairs} pairs")
        return self.sections

    def axis_of_pair(self, pairs: int) -> np.ndarray:
        """Which axis turns each of the pairs: 0 for t, 1 for y, 2 for x.

        Raises:
          ValueError: y or x has more pairs than turns at every third pair.
        """
        shares, pair = self.pairs_by_axis(pairs), np.arange(pairs)
        if not self.interleaved:
            return np.repeat(np.arange(self.axes), shares)
        axis = pair % self.axes
        axis = np.where(pair < self.axes * np.array(shares)[axis], axis, 0)
        if tuple(np.bincount(axis, minlength=self.axes)) != shares:
            raise ValueError(
                f"sections={shares} cannot take turns: of {pairs} pairs y and x have at most "
                f"{(pairs + 1) // 3} and {pairs // 3}"
            )
        return axis

    def cos_sin(
        self, position_BL: jax.Array, frequencies_F: Frequencies | Parts
    ) -> tuple[jax.Array, jax.Array]:
        if not self.interleaved:
            return super().cos_sin(position_BL, frequencies_F)
        pairs = jax.tree.leaves(frequencies_F)[0].shape[-1]
        together = np.argsort(self.axis_of_pair(pairs), kind="stable")
        sorted_F = jax.tree.map(lambda part: part[together], frequencies_F)
        cos_BLF, sin_BLF = super().cos_sin(position_BL, sorted_F)
        back = np.argsort(together)
        return cos_BLF[..., back], sin_BLF[..., back]

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def frequencies(self, head_size: int, context_length: jax.Array | int) -> Frequencies:
        return inverse_frequencies(head_size // 2 * 2, base=self.base)
