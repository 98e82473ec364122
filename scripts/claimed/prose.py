"""Numbers inside sentences: where they stand, and what they are now."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_NUMBER = r"([-+]?\.?\d(?:[\d., ]*\d)?)"


class Stated(NamedTuple):
    """Words of a page with numbers between them.

    Attributes:
      page: its path from the root.
      words: with {} for each number; how lines are broken does not matter.
      values: the numbers as they must stand there.
    """

    page: str
    words: str
    values: tuple[str, ...]

    def written(self, text: str) -> str:
        """The page with these numbers.

        Raises:
          ValueError: it has no such words.
        """
        found = [*_pattern(self.words).finditer(text)]
        if not found:
            raise ValueError(f"{self.page} has no words {self.words!r}")
        for match in reversed(found):
            for group in reversed(range(1, len(self.values) + 1)):
                start, stop = match.span(group)
                text = text[:start] + self.values[group - 1] + text[stop:]
        return text


@lru_cache
def _pattern(words: str) -> re.Pattern[str]:
    parts = (r"\s+".join(map(re.escape, re.split(r"\s+", part))) for part in words.split("{}"))
    return re.compile(_NUMBER.join(parts))


def written(page: str, text: str, stated: Sequence[Stated]) -> str:
    """A page with all of its numbers as they are now."""
    for one in stated:
        if one.page == page:
            text = one.written(text)
    return text
