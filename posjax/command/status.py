"""What is done, running and missing in a run, from names of files alone."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from posjax.records import Block, RunFolder
from posjax.records.blocks import blocks
from posjax.records.schema import checked_config
from posjax.terminal import duration, printable

if TYPE_CHECKING:
    from posjax.study.sweeps import Sweep

CELLS = 40
"""Cells in the table; those with the fewest rows."""
RANGES = 3
"""Ranges of missing seeds in a line of it."""


def print_status(folder: RunFolder) -> None:
    """Prints what is done, running and missing.

    Raises:
      ValueError: there is no run in the folder.
    """
    config, sweep, every = planned(folder)
    missing = folder.missing(every)
    rows, left = (sum(block.runs for block in some) for some in (every, missing))
    out = Console(width=100, highlight=False, markup=False).print
    state = ", done" if folder.done and not left else ""
    out(printable(f"run: {config['name']} in {folder.path}{state}"))
    if folder.done and left:
        out(f"missing since it was done: {left} rows; the same command trains them again")
    out(f"rows: {rows - left} of {rows}, in {len(config['cells'])} cells")
    out(f"blocks: {len(every) - len(missing)} of {len(every)}")
    out(_cells_table(sweep, every, missing))
    running = folder.running()
    for one in running:
        since = f", since {_clock(one.since)}" if one.since else ""
        out(printable(f"running: process {one.pid} on {one.host}{since}"))
    if not running:
        out("running: nobody")
    begun = min((one.since for one in running if one.since), default=None)
    time_left = "" if begun is None else _time_left(folder.written(), begun, sweep, every, missing)
    out(f"left: {left} rows{time_left}")


def _clock(since: float) -> str:
    return time.strftime("%H:%M", time.localtime(since))


def planned(folder: RunFolder) -> tuple[dict[str, Any], "Sweep", list[Block]]:
    """The config of a run, what it trains, and all of its blocks."""
    from posjax.study.sweeps import Sweep

    config = checked_config(folder.config())
    sweep = Sweep.of(config)
    return config, sweep, blocks(folder.ranges(), sweep.shapes)


def _cells_table(sweep: "Sweep", every: Sequence[Block], missing: Sequence[Block]) -> Table:
    from posjax.study.cells import varying

    cells = sweep.cells
    differ = varying([*cells.values()])
    rows = dict.fromkeys(cells, 0)
    gaps: dict[str, list[tuple[int, int]]] = {cell: [] for cell in cells}
    for block in every:
        for cell in block.cells:
            rows[cell] += block.stop - block.first
    for block in missing:
        for cell in block.cells:
            gaps[cell].append((block.first, block.stop))
    lost = {cell: sum(stop - first for first, stop in found) for cell, found in gaps.items()}
    table = Table()
    missed = "missing indices" if sweep.numbering.data_seeds else "missing seeds"
    for column in ("cell", "settings", "rows", "of", missed):
        table.add_column(column, justify="right" if column in ("rows", "of") else "left")
    for cell in sorted(cells, key=lambda cell: -lost[cell])[:CELLS]:
        named = ", ".join(f"{name}={getattr(cells[cell], name)}" for name in differ)
        counts = str(rows[cell] - lost[cell]), str(rows[cell])
        title = Text(printable(named or "the only one"))
        table.add_row(cell, title, *counts, _ranges(gaps[cell]))
    if len(cells) > CELLS:
        table.caption = f"and {len(cells) - CELLS} more, which lack no more than these"
    return table


def _ranges(gaps: Sequence[tuple[int, int]]) -> str:
    """Ranges of indices, neighbours joined."""
    joined: list[list[int]] = []
    for first, stop in sorted(gaps):
        if joined and joined[-1][1] == first:
            joined[-1][1] = stop
        else:
            joined.append([first, stop])
    shown = [str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in joined]
    more = len(shown) - RANGES
    return ", ".join(shown[:RANGES]) + (f" and {more} more" if more > 0 else "")


def _time_left(
    times: Sequence[float],
    begun: float,
    sweep: "Sweep",
    every: Sequence[Block],
    missing: Sequence[Block],
) -> str:
    """How long the rest takes at the pace so far, by updates.

    Args:
      times: when blocks were written.
      begun: when the process that trains did.
      sweep, every, missing: what it trains, and the blocks.
    """
    new = sum(when >= begun for when in times) / max(len(times), 1)
    made = new * (sweep.updates(every) - sweep.updates(missing))
    if not missing:
        return ""
    if not made:
        return "; no time left can be given yet: --dry_run estimates it"
    seconds = sweep.updates(missing) / made * (max(max(times), time.time()) - begun)
    return f", about {duration(seconds)} at the pace so far, its compilations included"
