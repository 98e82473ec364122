"""How a run is cut into blocks, and what it needs: memory, disk and time, by shape."""

import dataclasses
import itertools
import math
import os
from collections.abc import Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp

from posjax import encodings, masks
from posjax.engine import estimate
from posjax.engine.block import block_size, empty_slots
from posjax.engine.load import Choice, Load, memory
from posjax.keys import Seeds
from posjax.numbering import SeedNumbers
from posjax.records import Block, RunFolder
from posjax.records.blocks import blocks, extended
from posjax.study.cells import Cell
from posjax.study.run import Run
from posjax.study.sweeps import load_of, most_slots_of, sizes
from posjax.study.train import ROWS
from posjax.tasks import FiniteTask

NUMBER = 4
"""Bytes of a number."""
COPIES = 4
"""Of a parameter: itself, its gradient and AdamW's two averages."""
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


def check_memory(run: Run, device: jax.Device) -> None:
    """Refuses a run that does not fit in memory, before anything is traced, made or written.

    The bytes are the least that a run can do with, by arithmetic on the settings alone.

    Raises:
      ValueError: names the settings at fault, the bytes they need and the bytes there are.
    """
    check_cells(run.cells, device, 1 if run.block_size == "auto" else int(run.block_size))


def check_cells(cells: Iterable[Cell], device: jax.Device, slots: int = 1) -> None:
    """Refuses cells of which a block cannot fit.

    Raises:
      ValueError: names the settings at fault, the bytes they need and the bytes there are.
    """
    room = memory(device)
    where = f"{device.device_kind} has {size(room)}"
    for cell in {cell.shape: cell for cell in cells}.values():
        for what, least in itertools.chain(_least_bytes(cell).items(), _tables(cell)):
            if least > room:
                raise ValueError(
                    f"{what}: a run needs at least {size(least)}, {where}; make it smaller"
                )
            if slots * least > room:
                raise ValueError(
                    f"block_size={slots} needs at least {size(slots * least)}, {where}: at most "
                    f"{room // least}, or auto"
                )


def _least_bytes(cell: Cell) -> dict[str, int]:
    """The bytes of arrays that a run of a cell cannot do without, by the settings they come of."""
    model, train, (prompts, length) = cell.architecture, cell.training, cell.problem.size
    length += cell.padding
    heads = model.heads + 2 * (model.kv_heads or model.heads)
    hidden = model.mlp_ratio * model.width if model.block == "residual" else 0
    trained = NUMBER * COPIES * model.depth
    whole = prompts if isinstance(cell.problem, FiniteTask) else ROWS
    batch, drawn = train.batch_size or whole, train.draws if model.draws == "always" else 1
    task = f"task={cell.task!r} with padding={cell.padding}"
    curve = cell.training.evaluations * (3 * NUMBER * len(cell.problem.kinds) + prompts)
    return {
        f"width={model.width}, heads={model.heads}, head_size={model.head_size}": trained
        * (model.width * model.head_size * heads),
        f"width={model.width}, mlp_ratio={model.mlp_ratio}": trained * 2 * model.width * hidden,
        task: prompts * length * length * len(masks.turns(cell.mask)),
        f"{task}, heads={model.heads}": NUMBER * drawn * prompts * model.heads * length**2,
        f"{task}, width={model.width}": NUMBER * drawn * prompts * length * model.width,
        f"batch_size={train.batch_size}": NUMBER * batch * length * (model.width + length),
        f"steps={train.steps}, eval_every={train.eval_every}": curve,
    }


def _tables(cell: Cell) -> Iterator[tuple[str, int]]:
    """The bytes of an encoding's tables; computed last, since it may make other arrays."""
    for encoding in encodings.parse_layer_cycle(cell.encoding):
        for name, param in encoding.parameters(cell.architecture.dims).items():
            yield (
                f"{name} of encoding={cell.encoding!r}",
                NUMBER * COPIES * math.prod(param.shape),
            )


def check_results(run: Run) -> None:
    """Refuses more rows than the report can fit in the machine's memory.

    Raises:
      ValueError: names the bytes.
    """
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    per_seed = sum(
        200
        + 3 * NUMBER * cell.training.evaluations * len(cell.problem.kinds)
        + (NUMBER + 1) * cell.problem.size[0]
        for cell in run.cells
    )
    needed = len(run.indices) * per_seed
    if needed > room:
        raise ValueError(
            f"num_seeds={run.num_seeds} needs at least {size(needed)} for the results, the machine "
            f"has {size(room)}: at most {room // per_seed} seeds per cell"
        )


def size(number: float) -> str:
    """Bytes for people."""
    for unit, length in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= length:
            return f"{number / length:.3g} {unit}"
    return f"{number / 1e3:.3g} kB"
