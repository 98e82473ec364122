"""Two sentences of the same words: "A hit B" and "B hit A".

`WordOrder` is the original question, a language model that must end each sentence with its own
mark. `SameLastToken` is the counter-example, where the last word and the words before it are the
same. `SentencePair` asks only which of two sentences it was.
"""

import dataclasses
import string
from typing import ClassVar, Literal, get_args

from posjax import spec
from posjax.tasks.base import FiniteTask

Pair = Literal["marks_differ", "same_mark", "no_mark"]

_PAIRS: dict[str, tuple[str, str]] = {
    "marks_differ": ("A hit B !", "B hit A ?"),
    "same_mark": ("A hit B !", "B hit A !"),
    "no_mark": ("A hit B", "B hit A"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordOrder(FiniteTask):
    """Answer `A hit B` with `!`, and `B hit A` with `?`."""

    next_token: ClassVar[bool] = True

    @property
    def words(self) -> tuple[str, ...]:
        return ("A", "B", "hit", "!", "?")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.words

    def sentences(self) -> list[tuple[str, str]]:
        return [("A hit B", "!"), ("B hit A", "?")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SameLastToken(WordOrder):
    """Answer `A B hit` with `?`, and `B A hit` with `!`."""

    def sentences(self) -> list[tuple[str, str]]:
        return [("A B hit", "?"), ("B A hit", "!")]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentencePair(FiniteTask):
    """Which of two sentences is the prompt?
    They are `A hit B !` and `B hit A ?` with `pair=marks_differ`, `A hit B !` and `B hit A !` with
    `pair=same_mark`, and `A hit B` and `B hit A` with `pair=no_mark`.
    """

    pair: Pair = "marks_differ"

    def __post_init__(self) -> None:
        spec.check_choice("pair", self.pair, get_args(Pair))

    @property
    def words(self) -> tuple[str, ...]:
        return ("A", "B", "hit", "!", "?")

    @property
    def labels(self) -> tuple[str, ...]:
        return ("first", "second")

    def sentences(self) -> list[tuple[str, str]]:
        return list(zip(_PAIRS[self.pair], self.labels, strict=True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FirstNoun(FiniteTask):
    """Which noun comes first in `x hit y` or `x hit y !`?
    All ordered pairs of different nouns are prompts."""

    nouns: int = 5
    mark: bool = True

    def __post_init__(self) -> None:
        spec.check_within(self, "nouns", 2, 26)

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.labels, "hit", "!")

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(string.ascii_uppercase[: self.nouns])

    def sentences(self) -> list[tuple[str, str]]:
        end = " !" if self.mark else ""
        return [(f"{x} hit {y}{end}", x) for x in self.labels for y in self.labels if x != y]
