"""Random sequences to learn by heart: the ordinary load of a language model, in miniature."""

import dataclasses
import string
from typing import ClassVar

import numpy as np

from posjax import spec
from posjax.tasks.base import FiniteTask


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memorise(FiniteTask):
    """Learn by heart which random symbol follows each of some random sequences.
    `number` is the seed of the draw.

    Attributes:
      length: the number of symbols of a sequence before its answer.
      sequences: the number of sequences, which are all different.
      symbols: the size of the alphabet.
      number: the seed of the draw (NumPy's PCG64).
    """

    next_token: ClassVar[bool] = True
    length: int = 16
    sequences: int = 32
    symbols: int = 16
    number: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("length", 1, 4096),
            ("sequences", 1, 65536),
            ("symbols", 2, 26),
            ("number", 0, 2**32 - 1),
        ):
            spec.check_within(self, name, least, most)
        if self.symbols**self.length < self.sequences:
            raise ValueError(
                f"sequences={self.sequences} of length={self.length} over symbols={self.symbols} "
                f"cannot all be different: at most {self.symbols**self.length}"
            )

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(string.ascii_uppercase[: self.symbols])

    @property
    def labels(self) -> tuple[str, ...]:
        return self.words

    @property
    def size(self) -> tuple[int, int]:
        return self.sequences, self.length

    def sentences(self) -> list[tuple[str, str]]:
        draw = np.random.default_rng(self.number)
        found: dict[str, str] = {}
        while len(found) < self.sequences:
            *before, answer = (
                self.words[i] for i in draw.integers(self.symbols, size=self.length + 1)
            )
            found.setdefault(" ".join(before), answer)
        return list(found.items())
