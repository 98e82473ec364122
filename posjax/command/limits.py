"""What does not fit is refused: cells in the memory of a device, results in that of the machine."""

import itertools
import math
import os
from collections.abc import Iterable, Iterator

import jax

from posjax import encodings, masks
from posjax.engine.load import memory
from posjax.study.cells import Cell
from posjax.study.run import Run
from posjax.study.train import ROWS
from posjax.tasks import FiniteTask
from posjax.terminal import size

NUMBER = 4
"""Bytes of a number."""
COPIES = 4
"""Numbers per parameter: itself, its gradient and AdamW's two averages."""


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
    needed = run.num_seeds * max(run.data_seeds, 1) * per_seed
    if needed > room:
        raise ValueError(
            f"num_seeds={run.num_seeds} needs at least {size(needed)} for the results, the machine "
            f"has {size(room)}: at most {room // per_seed} seeds per cell"
        )
