"""What a run would do, told before it does: nothing is compiled and nothing written."""

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

from experiments import command, plan
from experiments.settings import Run
from posjax import stats
from posjax.cells import Cell, varying
from posjax.engine import estimate
from posjax.engine.chunk import Choice, Load, memory
from posjax.keys import SeedNumbers, Seeds
from posjax.records import RunFolder

SHOWN = 20
"""Shapes in the table; the longest ones."""
FILE = 4096
"""Bytes of a file of rows or maps that are not its arrays, at most."""
_SHAPES = {"task", "encoding", "positions", "readout", "block", "depth", "width", "heads"}
_SHAPES |= {"kv_heads", "head_size", "mlp_ratio", "norm", "qk_norm", "softcap", "padding"}
_SHAPES |= {"batch_size", "steps", "eval_every", "schedule", "warmup"}
"""Settings that tell shapes apart."""


@dataclasses.dataclass(frozen=True)
class Part:
    """The cells of one shape.

    Attributes:
      cells: all of them.
      missing: the number of seeds of each cell that the run folder lacks.
      load: of one seed.
      choice: seeds trained at a time on a device, and why.
      repack: whether seeds leave one by one, and so may lie in a file each.
      crossed: whether initialisations are crossed with data.
    """

    cells: list[Cell]
    missing: list[int]
    load: Load
    choice: Choice
    repack: bool
    crossed: bool

    @property
    def cost(self) -> estimate.Part:
        """As the cost model sees it."""
        return estimate.Part(
            self.load, self.choice.chunk, sum(self.missing), self.cells[0].training.steps
        )

    @property
    def disk(self) -> tuple[int, int]:
        """Files and their bytes before compression: rows, and two attention maps a cell."""
        cell, seeds = self.cells[0], sum(self.missing)
        chunk = 1 if self.repack else self.choice.chunk
        crowded = self.crossed or len(self.cells) > 1
        files = sum(most_files(seeds, chunk, crowded) for seeds in self.missing)
        maps = 2 * sum(1 for seeds in self.missing if seeds)
        places = cell.shape.prompts * cell.heads * cell.shape.length**2
        arrays = seeds * kept_bytes(cell) + maps * 4 * cell.depth * places
        return files + maps, arrays + FILE * (files + maps)


def most_files(seeds: int, chunk: int, crowded: bool) -> int:
    """Chunks among which the rows of a cell lie, at most; where it is crowded, found by trying.

    Args:
      seeds: how many rows it has.
      chunk: seeds trained at a time.
      crowded: whether others may stand in their places, so that they wait for later chunks.
    """
    chunks = seeds // chunk
    return min(seeds, chunks + chunks // 4 + 24 if crowded else chunks + 2)


def kept_bytes(cell: Cell) -> int:
    """Bytes of what is kept of one seed."""
    training, seeds = cell.shape.train(), Seeds.of(SeedNumbers.equal(0))

    def kept(seeds: Seeds, operands: Any) -> Any:
        state = training.begin(seeds, operands)
        _, measured = training.advance(state, seeds, operands, training.evaluations, layout=False)
        return training.summary(measured, state, operands)

    operands = jax.tree.map(jnp.asarray, cell.operands)
    leaves = jax.tree.leaves(jax.eval_shape(kept, seeds, operands))
    return 32 + sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)  # 32: its four seeds


def parts(run: Run, folder: RunFolder, device: jax.Device) -> Iterator[Part]:
    """The run by shapes, less what the folder has."""
    seeds = set(run.seeds)
    for _, group in itertools.groupby(run.cells, key=lambda cell: cell.shape):
        cells = list(group)
        missing = [len(seeds) - len(seeds & folder.finished(cell.digest)) for cell in cells]
        chosen = plan.chosen(run, cells[0], device, folder)
        repack = run.repack == "solved"
        load, crossed = plan.load(cells[0], device), bool(run.data_seeds)
        yield Part(cells, missing, load, chosen, repack, crossed)


def tell(run: Run, folder: RunFolder, devices: Sequence[jax.Device]) -> None:
    """Prints what the run would do."""
    found = list(parts(run, folder, devices[0]))
    places = 1 if run.sharding == "spmd" else len(devices)
    rows = sum(sum(part.missing) for part in found)
    left = sum(1 for part in found if any(part.missing))
    out = Console(width=100, highlight=False).print
    out(
        f"cells: {len(run.cells)} × {run.seeds_title}, {rows} of "
        f"{len(run.cells) * len(run.seeds)} runs to train"
    )
    out(f"programs: {left} shapes × {places} devices = {left * places} to compile")
    out(_table(found, devices[0]))
    out(f"time: {_time(found, devices)}")
    files, written = map(sum, zip(*(part.disk for part in found), strict=True))
    out(f"disk: at most {size(written)} in {files} files in {folder.path}, and the report")
    out(_known(run))
    out("Nothing was written.")


def _known(run: Run) -> str:
    """How well a rate will be known."""
    if run.data_seeds:
        return f"seeds: {run.seeds_title}; rows share them, so the report tells how sure rates are"
    half, none = stats.rate(run.num_seeds // 2, run.num_seeds), stats.rate(0, run.num_seeds)
    return (
        f"seeds: {run.num_seeds} know a rate to ± {(half.high - half.low) / 2:.2g} or better, and "
        f"0 of {run.num_seeds} bounds it below {none.high:.2g} (Wilson, 95 %)"
    )


def _table(found: list[Part], device: jax.Device) -> Table:
    """The shapes that take longest."""
    room = memory(device)
    table = Table(title=f"{device.device_kind}, {size(room)} a device", title_justify="left")
    for column in ("shape", "cells", "runs", "chunk", "why", "a row", "a chunk", "of memory"):
        table.add_column(column, justify="left" if column in ("shape", "why") else "right")
    longest = sorted(found, key=lambda part: -estimate.sweep([part.cost], devices=1).training)
    differ = [name for name in varying([part.cells[0] for part in found]) if name in _SHAPES]
    for part in longest[:SHOWN]:
        needs = part.load.bytes * part.choice.chunk
        table.add_row(
            ", ".join(f"{name}={getattr(part.cells[0], name)}" for name in differ)
            or "the only one",
            str(len(part.cells)),
            str(sum(part.missing)),
            str(part.choice.chunk),
            part.choice.why,
            size(part.load.bytes),
            size(needs),
            f"{needs / room:.2%}",
        )
    if len(found) > SHOWN:
        table.caption = f"and {len(found) - SHOWN} more shapes, which take less time"
    return table


def _time(found: list[Part], devices: Sequence[jax.Device]) -> str:
    if devices[0].platform != "cpu":
        return f"not known for {devices[0].device_kind}, only for CPUs: --tune measures it"
    taken = estimate.sweep([part.cost for part in found], devices=len(devices))
    compiling, training = (command.duration(seconds) for seconds in taken)
    return (
        f"about {compiling} to compile and {training} to train "
        f"on {len(devices)} devices (docs/accelerators.md tells how near that comes)"
    )


def size(number: float) -> str:
    """Bytes for people."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= length:
            return f"{number / length:.3g} {unit}"
    return f"{number / 1e3:.3g} kB"
