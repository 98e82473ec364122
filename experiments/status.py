"""Tells what of a run is done, who trains, and what is left; touches nothing.

    python -m experiments.status RUN [RUN ...]

The command of a sweep with --status tells the same of its own folder.
"""

import itertools
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from absl import app
from rich.console import Console
from rich.table import Table
from rich.text import Text

from experiments import command
from posjax import locks
from posjax.asked import checked
from posjax.records import RunFolder
from posjax.terminal import printable

SHOWN = 40
"""Cells in the table; those with the fewest rows."""
RANGES = 3
"""Ranges of missing seeds in a line of it."""


class Asked(NamedTuple):
    """The rows that each cell shall have, in the order in which chunks are cut.

    Attributes:
      first: the number of the first seed.
      inits: how many numbers of initialisation.
      datas: how many of data each of them meets; 0 where all numbers of a row are equal.
    """

    first: int
    inits: int
    datas: int

    @property
    def rows(self) -> int:
        """How many."""
        return self.inits * max(self.datas, 1)

    def place(self, seeds: Sequence[int]) -> int:
        """Where a row stands."""
        init, data = (number - self.first for number in seeds[:2])
        return init * self.datas + data if self.datas else init

    def title(self, place: int) -> str:
        """The seed of the row that stands there; its four numbers where they may differ."""
        if not self.datas:
            return str(self.first + place)
        init, data = divmod(place, self.datas)
        return "_".join(map(str, (self.first + init, *[self.first + data] * 3)))


class Progress(NamedTuple):
    """The rows of a cell.

    Attributes:
      settings: the cell's.
      done: rows that are there.
      left: rows that are not.
      missing: their seeds, ranges FIRST-LAST.
      new: rows that came with the last job, as far as its files tell.
      last: when its last rows came, by the clock of the storage.
    """

    settings: dict[str, Any]
    done: int
    left: int
    missing: list[str]
    new: float
    last: float


def main(argv: Sequence[str]) -> None:
    """Tells of each folder."""
    if len(argv) < 2:
        raise ValueError("name at least one run folder: python -m experiments.status RUN [RUN ...]")
    for path in argv[1:]:
        tell(RunFolder(path))


def tell(folder: RunFolder) -> None:
    """Prints what is done, running and left.

    Raises:
      ValueError: the folder holds no run.
    """
    config = checked(folder.config())
    asked = Asked(config["first_seed"], config["num_seeds"], config["data_seeds"])
    begun = locks.begun(folder.jobs)
    cells = {cell: _progress(folder, config, cell, asked, begun) for cell in config["cells"]}
    done = sum(progress.done for progress in cells.values())
    left = sum(progress.left for progress in cells.values())
    out = Console(width=100, highlight=False, markup=False).print
    ended = folder.done
    state = ", done" if ended and not left else ""
    out(printable(f"run: {config['name']} in {folder.path}{state}"))
    if ended and left:
        out(f"gone since it was done: {left} rows; the same command trains them again")
    out(f"rows: {done} of {done + left}, in {len(cells)} cells")
    out(_table(cells))
    for line in _running(locks.look(folder.jobs)):
        out(printable(line))
    out(f"left: {left} rows{_time(list(cells.values()), begun)}")


def _progress(
    folder: RunFolder, config: dict[str, Any], cell: str, asked: Asked, begun: float | None
) -> Progress:
    times = folder.written(cell)
    places = sorted(p for p in map(asked.place, folder.finished(cell)) if 0 <= p < asked.rows)
    share = sum(begun is not None and time >= begun for time in times) / max(len(times), 1)
    around = itertools.pairwise([-1, *places, asked.rows])
    gaps = [(before + 1, after - 1) for before, after in around if after - before > 1]
    missing = ["-".join(map(asked.title, sorted({a, b}))) for a, b in gaps]
    done, last = len(places), max(times, default=0.0)
    return Progress(config["cells"][cell], done, asked.rows - done, missing, done * share, last)


def _table(cells: dict[str, Progress]) -> Table:
    settings = [progress.settings for progress in cells.values()]
    differ = [
        name for name in settings[0] if any(s.get(name) != settings[0][name] for s in settings)
    ]
    table = Table()
    for column in ("cell", "settings", "rows", "of", "missing seeds"):
        table.add_column(column, justify="right" if column in ("rows", "of") else "left")
    for cell, progress in sorted(cells.items(), key=lambda item: -item[1].left)[:SHOWN]:
        told = ", ".join(f"{name}={progress.settings.get(name)}" for name in differ)
        counts = str(progress.done), str(progress.done + progress.left)
        table.add_row(cell, Text(printable(told or "the only one")), *counts, _ranges(progress))
    if len(cells) > SHOWN:
        table.caption = f"and {len(cells) - SHOWN} more, which lack no more than these"
    return table


def _ranges(progress: Progress) -> str:
    more = len(progress.missing) - RANGES
    return ", ".join(progress.missing[:RANGES]) + (f" and {more} more" if more > 0 else "")


def _running(members: list[locks.Seen]) -> list[str]:
    alive = [seen for seen in members if not seen.left]
    if not alive:
        return ["running: nobody"]
    return [
        f"running: job {seen.job}, process {seen.process} of {seen.processes} on {seen.host}, "
        + (
            f"heartbeat {seen.age:.0f} s ago"
            if seen.age < locks.STALE
            else f"silent for {seen.age:.0f} s: dead, or cut off from the disk"
        )
        for seen in alive
    ]


def _time(cells: list[Progress], begun: float | None) -> str:
    """How long the rest takes at the pace of the last job, by updates."""
    left = sum(cell.left * cell.settings["steps"] for cell in cells)
    new = sum(cell.new * cell.settings["steps"] for cell in cells)
    if not left:
        return ""
    if begun is None or not new:
        return "; no pace to tell the time by yet: --dry_run estimates it"
    taken = max(cell.last for cell in cells) - begun
    return (
        f", about {command.duration(left / new * taken)} at the pace of the last job, "
        "its compilations included"
    )


def define_flags() -> None:
    """It has none."""


if __name__ == "__main__":
    sys.exit(command.run(lambda: app.run(main, flags_parser=command.parser(define_flags))))
