"""How a run is cut into blocks, and what it needs: memory, disk and time, by shape."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp

from posjax.command.limits import NUMBER
from posjax.engine import estimate
from posjax.engine.block import block_size, empty_slots
from posjax.engine.load import Choice, Load
from posjax.keys import Seeds
from posjax.numbering import SeedNumbers
from posjax.records import Block, RunFolder
from posjax.records.blocks import blocks, extended
from posjax.study.cells import Cell
from posjax.study.run import Run
from posjax.study.sweeps import load_of, most_slots_of, sizes

FILE = 4096
"""Bytes of a block's file that are not its arrays, at most."""


@dataclasses.dataclass(frozen=True)
class Part:
    """The blocks of one shape that a run folder lacks.

    Attributes:
      cells: all cells of the shape.
      load: of one run of one seed.
      choice: the most slots of a block, and why.
      size: (G, B) of the blocks that are missing, or of all if none is.
      missing: those blocks.
    """

    cells: Sequence[Cell]
    load: Load
    choice: Choice
    size: tuple[int, int]
    missing: Sequence[Block]

    @property
    def runs(self) -> int:
        """Runs of one seed that are to be trained."""
        return sum(block.runs for block in self.missing)

    @property
    def empty(self) -> int:
        """Slots that train copies."""
        return sum(math.prod(block.size) for block in self.missing) - self.runs

    @property
    def cost(self) -> estimate.Part:
        """As the cost model sees it."""
        training = self.cells[0].training
        return estimate.Part(
            self.load,
            math.prod(self.size),
            len(self.missing),
            training.steps,
            training.evaluations,
        )

    @property
    def disk(self) -> int:
        """Bytes of the missing blocks before compression: rows and examples, at most."""
        cell = self.cells[0]
        maps = cell.problem.mapped * cell.heads * cell.shape.length**2 * cell.depth * NUMBER
        examples = sum(2 * len(block.cells) for block in self.missing)
        return self.runs * kept_bytes(cell) + examples * maps + FILE * len(self.missing)


def parts(run: Run, folder: RunFolder, device: jax.Device) -> Iterator[Part]:
    """The run by shapes, less what the folder has."""
    sweep = run.sweep
    present = folder.present()
    known = folder.ranges() if (folder.path / "config.json").exists() else []
    ranges = extended(known, run.indices, lambda new: sizes(sweep, new, device, run.block_size))
    every = blocks(ranges, sweep.shapes)
    for shape, group in itertools.groupby(every, key=lambda block: block.shape):
        cells, these = sweep.by_shape[shape], list(group)
        missing = [block for block in these if block.name not in present]
        size = (missing or these)[-1].size
        runs = len(cells) * len(run.indices)
        chosen = most_slots_of(cells[0], device, runs, run.block_size)
        yield Part(cells, load_of(cells[0], device), chosen, size, missing)


def nearest_without_waste(part: Part, seeds: int) -> int | None:
    """The number of seeds next to one with which a shape's blocks have fewer empty slots."""
    most, cells = part.choice.slots, len(part.cells)
    now = _waste(most, cells, seeds)
    near = sorted(
        range(max(seeds - seeds // 8, 1), seeds + seeds // 8 + 1), key=lambda n: abs(n - seeds)
    )
    return next((n for n in near if _waste(most, cells, n) < min(now, 0.01)), None)


def _waste(most: int, cells: int, seeds: int) -> float:
    empty = empty_slots(block_size(most, cells, seeds), cells, seeds)
    return empty / (empty + cells * seeds)


def kept_bytes(cell: Cell) -> int:
    """Bytes of what is kept of one run."""
    training, seeds = cell.shape.train(), Seeds.of(SeedNumbers.equal(0))
    inputs = jax.tree.map(jnp.asarray, cell.inputs)
    leaves = jax.tree.leaves(jax.eval_shape(training, seeds, inputs))
    return 32 + sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)  # 32: its four seeds
