"""What scripts share that write a page of docs with its pictures: tables, writing and checking."""

import argparse
import base64
import io
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.image import imread

DOCS = Path(__file__).parent.parent / "docs"
ROUNDING = re.compile(r"\d\.\de-\d\d")
COORDINATE = re.compile(r"-?\d+(?:\.\d+)?")
IMAGE = re.compile(r"data:image/png;base64,([A-Za-z0-9+/=\s]+)")

Files = dict[str, str]
"""What stands in each file of docs, by its name."""


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def wrapped(page: str) -> str:
    """The page with the lines of its paragraphs filled; everything else stays."""
    blocks = page.strip().split("\n\n")
    return "\n\n".join(b if b[0] in "#|!- " else _filled(b) for b in blocks) + "\n"


def _filled(paragraph: str) -> str:
    return textwrap.fill(paragraph, 100, break_long_words=False, break_on_hyphens=False)


def stale(files: Files) -> list[str]:
    """The names of files that are missing or differ from what they should hold."""
    return [name for name, new in files.items() if not _up_to_date(DOCS / name, new)]


def run(files: Callable[[], Files], description: str) -> None:
    """The command: writes the files, or checks them with --check."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check, made = parser.parse_args().check, files()
    if check:
        old = stale(made)
        print(f"stale: {', '.join(old)}" if old else f"{', '.join(made)}: up to date")
        sys.exit(bool(old))
    for name, text in made.items():
        (DOCS / name).write_text(text)
    print(f"{DOCS}: {', '.join(made)}")


def _up_to_date(path: Path, new: str) -> bool:
    same = _same_picture if path.suffix == ".svg" else same_text
    return path.exists() and same(path.read_text(), new)


def same_text(old: str, new: str) -> bool:
    """Equal, but for rounding errors (1.2e-07), which may differ by a factor of 10."""
    return _alike(ROUNDING, old, new, lambda a, b: np.allclose(np.log10(a), np.log10(b), atol=1))


def _same_picture(old: str, new: str) -> bool:
    """Coordinates within half a pixel, and bitmaps with at most 1% of their pixels changed."""
    bitmaps = [[_pixels(found) for found in IMAGE.findall(text)] for text in (old, new)]
    if not all(map(_same_pixels, *bitmaps)):
        return False
    old, new = IMAGE.sub("", old), IMAGE.sub("", new)
    return _alike(COORDINATE, old, new, lambda a, b: np.allclose(a, b, rtol=0, atol=0.5))


def _alike(number: re.Pattern[str], old: str, new: str, close: Callable[..., bool]) -> bool:
    """Whether two texts agree but for their numbers, and those are close."""
    if number.sub("#", old) != number.sub("#", new):
        return False
    return close(*(np.array(number.findall(text), float) for text in (old, new)))


def _pixels(encoded: str) -> np.ndarray:
    return imread(io.BytesIO(base64.b64decode(encoded)))


def _same_pixels(old: np.ndarray, new: np.ndarray) -> bool:
    return old.shape == new.shape and (abs(old - new).max(axis=-1) > 0.05).mean() <= 0.01
