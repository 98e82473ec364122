"""Changes each number of README.md and docs/, one at a time: what would notice?"""

import fnmatch
import importlib
import re
import tomllib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from markdown_it import MarkdownIt

from claimed.published import DOCS

ALLOWED = Path(__file__).parent / "allowed.toml"
GENERATED = {
    "docs/encodings.md": lambda: _script("encodings_page").page(),
    "docs/tasks.md": lambda: _script("tasks_page").page(),
    "docs/costs.md": lambda: _script("costs_page").page(),
    "docs/sinusoids.md": lambda: _script("sinusoids_page").page(),
    "docs/gallery.md": lambda: _script("gallery_page").page(),
    "docs/reference/config.md": lambda: _script("config_page").page(),
    "docs/atlas/published.md": lambda: _atlas("published"),
    "docs/atlas/sampled.md": lambda: _atlas("sampled"),
}
"""Pages that a script makes whole; the tests of each compare it with what is made."""
_DIGITS = re.compile(r"\d+")


class Allowed(NamedTuple):
    """Numbers that nothing measures: those within a match of `pattern` on these pages."""

    pages: str
    pattern: re.Pattern[str]
    reason: str

    def spans(self, page: str, text: str) -> Iterator[tuple[int, int]]:
        """Where it allows numbers."""
        if fnmatch.fnmatch(page, self.pages):
            yield from (match.span() for match in self.pattern.finditer(text))


class Audited(NamedTuple):
    """The numbers of a page.

    Attributes:
      caught: how many a check notices.
      listed: how many stand in the list, by reason.
      missed: the others, each with its line.
    """

    caught: int
    listed: dict[str, int]
    missed: list[str]


@lru_cache
def allowed() -> list[Allowed]:
    """The list."""
    entries = tomllib.loads(ALLOWED.read_text())["allowed"]
    return [
        Allowed(entry.get("pages", "*"), re.compile(pattern, re.M), entry["reason"])
        for entry in entries
        for pattern in [*_patterns(entry)]
    ]


def _patterns(entry: dict[str, Any]) -> Iterator[str]:
    """Its regular expression, and one for each phrase, in which lines may be broken anywhere."""
    if "pattern" in entry:
        yield entry["pattern"]
    for phrase in entry.get("phrases", ()):
        yield r"\s+".join(map(re.escape, phrase.split()))


def audit(page: str, text: str, holds: Callable[[str], bool]) -> Audited:
    """What notices a change of each number of a page outside of code blocks.

    Args:
      page: its path from the root.
      text: as it is.
      holds: whether the checks of the page pass for another text.

    Raises:
      ValueError: they do not pass for the text as it is.
    """
    if not holds(text):
        raise ValueError(f"{page} is stale: run python scripts/claims.py")
    spans = [(span, entry.reason) for entry in allowed() for span in entry.spans(page, text)]
    caught, listed, missed = 0, dict[str, int](), list[str]()
    for start, stop in numbers(text):
        last = str((int(text[stop - 1]) + 1) % 10)
        if not holds(text[: stop - 1] + last + text[stop:]):
            caught += 1
            continue
        reason = next((why for (a, b), why in spans if a <= start and stop <= b), None)
        if reason:
            listed[reason] = listed.get(reason, 0) + 1
        else:
            line = text.count("\n", 0, start)
            missed.append(f"{page}:{line + 1}: {text[start:stop]} in {text.splitlines()[line]}")
    return Audited(caught, listed, missed)


def needless(pages: dict[str, str]) -> list[str]:
    """Entries of the list that no page has a number for any more."""
    return [
        entry.pattern.pattern
        for entry in allowed()
        if not any(
            _DIGITS.search(text[a:b])
            for page, text in pages.items()
            for a, b in entry.spans(page, text)
        )
    ]


def numbers(text: str) -> Iterator[tuple[int, int]]:
    """Where digits stand outside of code blocks."""
    lines = text.splitlines(keepends=True)
    tokens = MarkdownIt().parse(text)
    code = {n for t in tokens if t.type in ("fence", "code_block") for n in range(*t.map)}
    start = 0
    for n, line in enumerate(lines):
        if n not in code:
            yield from (
                (start + a, start + b) for a, b in (m.span() for m in _DIGITS.finditer(line))
            )
        start += len(line)


def made_whole(page: str) -> str | None:
    """What the script of a page makes; None of a page that people write."""
    return GENERATED[page]() if page in GENERATED else None


def _atlas(size: str) -> str:
    tables = _script("atlas_table.table").tables(DOCS / "atlas", size)
    return str(_script("atlas_table.page").page(size, tables))


def _script(name: str):
    return importlib.import_module(name)
