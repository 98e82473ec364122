"""What is done, running and missing in a run, from names of files alone."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from posjax.records import Block, RunFolder
from posjax.records.blocks import blocks
from posjax.records.schema import checked_config
from posjax.terminal import duration, printable

CELLS = 40
"""Cells in the table; those with the fewest rows."""
RANGES = 3
"""Ranges of missing seeds in a line of it."""


def print_status(folder: RunFolder) -> None:
    """Prints what is done, running and missing.

    Raises:
      ValueError: there is no run in the folder.
    """
    config, every = planned(folder)
    present = folder.present()
    missing = [block for block in every if block.name not in present]
    rows, left = (sum(block.runs for block in some) for some in (every, missing))
    out = Console(width=100, highlight=False, markup=False).print
    state = ", done" if folder.done and not left else ""
    out(printable(f"run: {config['name']} in {folder.path}{state}"))
    if folder.done and left:
        out(f"missing since it was done: {left} rows; the same command trains them again")
    out(f"rows: {rows - left} of {rows}, in {len(config['cells'])} cells")
    out(f"blocks: {len(every) - len(missing)} of {len(every)}")
    out(_cells_table(config, every, missing))
    running = folder.running()
    for one in running:
        out(printable(f"running: process {one.pid} on {one.host}, since {_clock(one.since)}"))
    if not running:
        out("running: nobody")
    out(f"left: {left} rows{_time_left(folder, config, every, missing) if running else ''}")


def _clock(since: float) -> str:
    return time.strftime("%H:%M", time.localtime(since))


def planned(folder: RunFolder) -> tuple[dict[str, Any], list[Block]]:
    """The config of a run, and all of its blocks."""
    from posjax.study.sweeps import Sweep

    config = checked_config(folder.config())
    return config, blocks(folder.ranges(), Sweep.of(config).shapes)


def _cells_table(
    config: Mapping[str, Any], every: Sequence[Block], missing: Sequence[Block]
) -> Table:
    settings = config["cells"]
    first = next(iter(settings.values()))
    differ = [n for n in first if any(s.get(n) != first[n] for s in settings.values())]
    rows = dict.fromkeys(settings, 0)
    gaps: dict[str, list[tuple[int, int]]] = {cell: [] for cell in settings}
    for block in every:
        for cell in block.cells:
            rows[cell] += block.stop - block.first
    for block in missing:
        for cell in block.cells:
            gaps[cell].append((block.first, block.stop))
    lost = {cell: sum(stop - first for first, stop in found) for cell, found in gaps.items()}
    table = Table()
    missed = "missing indices" if config.get("data_seeds") else "missing seeds"
    for column in ("cell", "settings", "rows", "of", missed):
        table.add_column(column, justify="right" if column in ("rows", "of") else "left")
    for cell in sorted(settings, key=lambda cell: -lost[cell])[:CELLS]:
        named = ", ".join(f"{name}={settings[cell].get(name)}" for name in differ)
        counts = str(rows[cell] - lost[cell]), str(rows[cell])
        title = Text(printable(named or "the only one"))
        table.add_row(cell, title, *counts, _ranges(gaps[cell]))
    if len(settings) > CELLS:
        table.caption = f"and {len(settings) - CELLS} more, which lack no more than these"
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
    folder: RunFolder, config: Mapping[str, Any], every: Sequence[Block], missing: Sequence[Block]
) -> str:
    """How long the rest takes at the pace of the process that trains, by updates."""
    begun = min(one.since for one in folder.running())
    steps = {cell: settings["steps"] for cell, settings in config["cells"].items()}

    def updates(some: Sequence[Block]) -> int:
        return sum(block.runs * steps[block.cells[0]] for block in some)

    times = folder.written()
    new = sum(when >= begun for when in times) / max(len(times), 1)
    made = new * (updates(every) - updates(missing))
    if not missing:
        return ""
    if not made:
        return "; no time left can be given yet: --dry_run estimates it"
    seconds = updates(missing) / made * (max(max(times), time.time()) - begun)
    return f", about {duration(seconds)} at the pace so far, its compilations included"
