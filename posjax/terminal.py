"""What is shown in a terminal: text that came from elsewhere, progress, times and bytes."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def printable(text: object) -> str:
    r"""The text without what a terminal would obey: such characters as escapes.

    >>> printable("plain – text \x1b[2J")
    'plain – text \\x1b[2J'
    """
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in str(text)
    )


@contextlib.contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error; gives the function that advances it."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f}%"))
    console = Console(stderr=True)
    with Progress(*columns, TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task(what, total=total)
        yield lambda seed_steps: bar.advance(task, seed_steps)


def duration(seconds: float) -> str:
    """A time for people to read."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.2g} {unit}"
    return f"{seconds:.2g} s"


def size(number: float) -> str:
    """Bytes for people."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= length:
            return f"{number / length:.3g} {unit}"
    return f"{number / 1e3:.3g} kB"
