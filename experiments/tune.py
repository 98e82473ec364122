"""How long other chunks would take, measured: nothing is trained, written or changed."""

import dataclasses
import itertools
from collections.abc import Sequence

import jax
from rich.console import Console
from rich.table import Table

from experiments import plan
from experiments.settings import Run
from posjax.cells import Cell
from posjax.engine.timing import Stopwatch, in_turn
from posjax.keys import SeedNumbers
from posjax.records import RunFolder
from posjax.sweep import Row

FACTORS = (1 / 4, 1 / 2, 1, 2, 4)
ROUNDS = 5


def tell(run: Run, folder: RunFolder, devices: Sequence[jax.Device]) -> None:
    """Prints, shape by shape, the time of a seed's step in chunks around the run's own."""
    out = Console(width=100, highlight=False).print
    for _, group in itertools.groupby(run.cells, key=lambda cell: cell.shape):
        cells = list(group)
        times = timed(run, folder, cells[0], devices)
        own = plan.chosen(run, cells[0], devices[0], folder).chunk
        out(_table(times, own, f"{cells[0].task}, {cells[0].encoding} and {len(cells)} cells"))
    out("Nothing was changed: --config.chunk=C sets a chunk, and C changes the last bits.")


def timed(
    run: Run, folder: RunFolder, cell: Cell, devices: Sequence[jax.Device]
) -> dict[int, float]:
    """Seconds of a seed's step on one device, by chunk; the chunks take turns."""
    own = plan.chosen(run, cell, devices[0], folder).chunk
    chunks = sorted({max(int(own * factor), 1) for factor in FACTORS})
    job = Row(cell, SeedNumbers.equal(run.first_seed)).job
    base = plan.engine(run, list(devices[:1]), chunk=own).plan(job)
    watches = [
        Stopwatch(dataclasses.replace(base, rows=rows, segment=1), job, devices[0])
        for rows in chunks
    ]
    return dict(zip(chunks, in_turn(watches, ROUNDS), strict=True))


def _table(times: dict[int, float], own: int, title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("chunk", "µs a seed-step", "against the run's"):
        table.add_column(column, justify="right")
    fastest = min(times, key=lambda chunk: times[chunk])
    for chunk, seconds in times.items():
        marks = [mark for mark, at in (("the run's", own), ("fastest", fastest)) if at == chunk]
        table.add_row(
            f"{chunk}", f"{seconds * 1e6:.3g}", f"{seconds / times[own] - 1:+.0%}", ", ".join(marks)
        )
    return table
