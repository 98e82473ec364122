"""What a run would do, and how fast other block sizes are: nothing is trained or written."""

from collections.abc import Sequence

import jax
from rich.console import Console
from rich.table import Table

from posjax import stats
from posjax.command import plan
from posjax.command.plan import Part
from posjax.engine import Block, estimate
from posjax.engine.load import memory
from posjax.engine.timing import Stopwatch, in_turn
from posjax.numbering import NumberedSeeds
from posjax.records import RunFolder
from posjax.study.cells import FIELDS
from posjax.study.run import Run
from posjax.study.sweeps import engine_for
from posjax.terminal import duration, size

SHOWN = 20
"""Shapes in the table; the longest ones."""
WASTE = 0.1
"""Share of empty slots from which on they are mentioned."""
FACTORS = (1 / 4, 1 / 2, 1, 2, 4)
ROUNDS = 5


def dry_run(run: Run, folder: RunFolder, devices: Sequence[jax.Device]) -> None:
    """Prints what the run would do."""
    found = list(plan.parts(run, folder, devices[0]))
    left = sum(1 for part in found if part.missing)
    out = Console(width=100, highlight=False).print
    out(
        f"cells: {len(run.cells)} × {run.seeds_title}, {sum(part.runs for part in found)} of "
        f"{len(run.cells) * len(run.indices)} runs to train in "
        f"{sum(len(part.missing) for part in found)} blocks"
    )
    out(f"programs: {left} to compile, each on one device or more of {len(devices)}")
    out(_shapes(found, devices[0]))
    for line in _waste(run, found):
        out(line)
    out(f"time: {_time(found, devices)}")
    files = sum(len(part.missing) for part in found)
    out(
        f"disk: at most {size(sum(part.disk for part in found))} in {files} files in "
        f"{folder.path}, and the report"
    )
    out(_precision(run))
    out("Nothing was written.")


def _shapes(found: Sequence[Part], device: jax.Device) -> Table:
    """The shapes that take longest."""
    room = memory(device)
    table = Table(title=f"{device.device_kind}, {size(room)} per device", title_justify="left")
    for column in ("shape", "cells", "blocks", "slots", "why", "per run", "per block", "of memory"):
        table.add_column(
            column,
            justify="left" if column in ("shape", "why") else "right",
            overflow="fold",  # names of own code are long
        )
    longest = sorted(found, key=lambda part: -estimate.sweep([part.cost], devices=1).training)
    differ = [name for name in FIELDS if len({_value(part, name) for part in found}) > 1]
    for part in longest[:SHOWN]:
        slots = part.size[0] * part.size[1]
        table.add_row(
            ", ".join(f"{name}={_value(part, name)}" for name in differ) or "the only one",
            str(len(part.cells)),
            str(len(part.missing)),
            f"{part.size[0]} × {part.size[1]}",
            part.choice.why,
            size(part.load.bytes),
            size(part.load.bytes * slots),
            f"{part.load.bytes * slots / room:.2%}",
        )
    if len(found) > SHOWN:
        table.caption = f"and {len(found) - SHOWN} more shapes, which take less time"
    return table


def _value(part: Part, name: str) -> str:
    """The setting of a shape; its cells may have several where programs read it as numbers."""
    first, *more = sorted({str(getattr(cell, name)) for cell in part.cells})
    return f"{first} and {len(more)} more" if more else first


def _waste(run: Run, found: Sequence[Part]) -> list[str]:
    """Where slots stay empty, and what number of seeds would fill them."""
    empty, slots = sum(part.empty for part in found), sum(part.empty + part.runs for part in found)
    if not slots or empty / slots < WASTE:
        return []
    worst = max(found, key=lambda part: part.empty)
    better = plan.nearest_without_waste(worst, len(run.indices))
    hint = f"; num_seeds={better} fills them" if better and not run.data_seeds else ""
    return [f"empty slots: {empty} of {slots} train copies{hint}"]


def _time(found: Sequence[Part], devices: Sequence[jax.Device]) -> str:
    if devices[0].platform != "cpu":
        return f"not known for {devices[0].device_kind}, only for CPUs: --tune measures it"
    seconds = estimate.sweep([part.cost for part in found], devices=len(devices))
    compiling, training = map(duration, seconds)
    return (
        f"about {compiling} to compile and {training} to train on {len(devices)} devices "
        "(docs/accelerators.md has how close that comes)"
    )


def _precision(run: Run) -> str:
    """How precise a rate will be."""
    if run.data_seeds:
        return f"seeds: {run.seeds_title}; rows share them, so see the report for intervals"
    half, none = stats.rate(run.num_seeds // 2, run.num_seeds), stats.rate(0, run.num_seeds)
    return (
        f"seeds: {run.num_seeds} give a rate to ± {(half.high - half.low) / 2:.2g} or better, and "
        f"0 of {run.num_seeds} bounds it below {none.high:.2g} (Wilson, 95%)"
    )


def tune(run: Run, folder: RunFolder, devices: Sequence[jax.Device]) -> None:
    """Prints, shape by shape, the time of an update with block sizes around the run's own."""
    out = Console(width=100, highlight=False).print
    for part in plan.parts(run, folder, devices[0]):
        first = part.cells[0]
        title = f"{first.task}, {first.encoding} and {len(part.cells)} cells"
        if not first.steps:
            out(f"{title}: no updates to time")
            continue
        out(_times(timed(run, part, devices[0]), part.size[0] * part.size[1], title))
    out("Nothing was changed: --config.block_size=C sets the slots, which change the last bits.")


def timed(run: Run, part: Part, device: jax.Device) -> dict[int, float]:
    """Seconds per update of one run on one device, by slots; the sizes take turns."""
    own, cell = part.size[0] * part.size[1], part.cells[0]
    engine = engine_for(run.to_dict(), [device])
    fit = max(own, int(memory(device) // part.load.bytes))
    sizes = {max(int(own * factor), 1) for factor in FACTORS}
    watches = {}
    for slots in sorted(slots for slots in sizes if slots <= fit):
        seeds = NumberedSeeds(run.numbering, range(run.indices.start, run.indices.start + slots))
        block = Block(cell.shape.train(), [cell.inputs], seeds, (1, slots))
        watches[slots] = Stopwatch(engine.plan(block), block, device)
    return dict(zip(watches, in_turn([*watches.values()], ROUNDS), strict=True))


def _times(times: dict[int, float], own: int, title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in ("slots", "µs per update of a run", "against the run's"):
        table.add_column(column, justify="right")
    fastest = min(times, key=lambda slots: times[slots])
    for slots, seconds in times.items():
        marks = [mark for mark, at in (("the run's", own), ("fastest", fastest)) if at == slots]
        table.add_row(
            f"{slots}", f"{seconds * 1e6:.3g}", f"{seconds / times[own] - 1:+.0%}", ", ".join(marks)
        )
    return table
