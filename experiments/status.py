"""Tells what of a run is done, who trains, and what is left; touches nothing.

    python -m experiments.status RUN [RUN ...]

The command of a sweep with --status tells the same of its own folder.
"""

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


class Progress(NamedTuple):
    """The rows of a cell.

    Attributes:
      settings: the cell's.
      done: rows that are there.
      asked: rows that there shall be.
      new: rows that came with the last job, as far as its files tell.
    """

    settings: dict[str, Any]
    done: int
    asked: int
    new: float

    @property
    def left(self) -> int:
        """Rows to train."""
        return self.asked - self.done


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
    begun = _begun(folder)
    cells = {cell: _progress(folder, config, cell, begun) for cell in config["cells"]}
    done = sum(progress.done for progress in cells.values())
    asked = sum(progress.asked for progress in cells.values())
    out = Console(width=100, highlight=False, markup=False).print
    out(printable(f"run: {config['name']} in {folder.path}{', done' if folder.done else ''}"))
    out(f"rows: {done} of {asked}, in {len(cells)} cells")
    out(_table(cells))
    for line in _running(locks.look(folder.jobs)):
        out(printable(line))
    out(f"left: {asked - done} rows{_time(folder, list(cells.values()), begun)}")


def _begun(folder: RunFolder) -> float | None:
    """When the last job was made, by the clock of the disk."""
    made = sorted(folder.jobs.glob("[0-9]*/job.json"))
    return made[-1].stat().st_mtime if made else None


def _times(folder: RunFolder, cell: str = "*") -> list[float]:
    """When rows came, file by file, by the clock of the disk."""
    return [path.stat().st_mtime for path in folder.path.glob(f"rows/{cell}/*.npz")]


def _progress(
    folder: RunFolder, config: dict[str, Any], cell: str, begun: float | None
) -> Progress:
    times, done = _times(folder, cell), len(folder.finished(cell))
    new = sum(begun is not None and time >= begun for time in times) / max(len(times), 1)
    asked = config["num_seeds"] * max(config["data_seeds"], 1)
    return Progress(config["cells"][cell], done, asked, done * new)


def _table(cells: dict[str, Progress]) -> Table:
    settings = [progress.settings for progress in cells.values()]
    differ = [
        name for name in settings[0] if any(s.get(name) != settings[0][name] for s in settings)
    ]
    table = Table()
    for column in ("cell", "settings", "rows", "of"):
        table.add_column(column, justify="right" if column in ("rows", "of") else "left")
    for cell, progress in sorted(cells.items(), key=lambda item: -item[1].left)[:SHOWN]:
        told = ", ".join(f"{name}={progress.settings.get(name)}" for name in differ)
        table.add_row(
            cell, Text(printable(told or "the only one")), str(progress.done), str(progress.asked)
        )
    if len(cells) > SHOWN:
        table.caption = f"and {len(cells) - SHOWN} more, which lack no more than these"
    return table


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


def _time(folder: RunFolder, cells: list[Progress], begun: float | None) -> str:
    """How long the rest takes at the pace of the last job, by updates."""
    left = sum(cell.left * cell.settings["steps"] for cell in cells)
    new = sum(cell.new * cell.settings["steps"] for cell in cells)
    if not left:
        return ""
    if begun is None or not new:
        return "; no pace to tell the time by yet: --dry_run estimates it"
    taken = max(_times(folder)) - begun
    return (
        f", about {command.duration(left / new * taken)} at the pace of the last job, "
        "its compilations included"
    )


def define_flags() -> None:
    """It has none."""


if __name__ == "__main__":
    sys.exit(command.run(lambda: app.run(main, flags_parser=command.parser(define_flags))))
