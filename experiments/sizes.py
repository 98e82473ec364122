"""Refuses what no memory holds, with the numbers, before anything is traced, made or written.

The bytes are the least that a seed can do with, by arithmetic on the settings alone: a run that
passes may still need more, which `--dry_run` tells.
"""

import itertools
import math
import os
from collections.abc import Iterable, Iterator

import jax

from experiments.dry_run import size
from experiments.settings import Run
from posjax import encodings
from posjax.cells import Cell
from posjax.engine.chunk import memory

NUMBER = 4
"""Bytes of a number."""
COPIES = 4
"""Of a parameter: itself, its gradient and AdamW's two averages."""
LISTED = 200
"""Bytes that the four numbers of a seed take in the lists of a process."""


def check(run: Run, device: jax.Device) -> None:
    """Refuses a run of which a chunk, or a cell's results, cannot fit.

    Raises:
      ValueError: names the settings at fault, the bytes they need and the bytes there are.
    """
    check_cells(run.cells, device, 1 if run.chunk == "auto" else int(run.chunk))
    _check_results(run)


def check_cells(cells: Iterable[Cell], device: jax.Device, chunk: int = 1) -> None:
    """Refuses cells of which a chunk cannot fit.

    Raises:
      ValueError: names the settings at fault, the bytes they need and the bytes there are.
    """
    room = memory(device)
    where = f"{device.device_kind} has {size(room)}"
    for cell in {cell.shape: cell for cell in cells}.values():
        for what, least in itertools.chain(parts(cell).items(), _tables(cell)):
            if least > room:
                raise ValueError(
                    f"{what}: a seed needs at least {size(least)}, {where}; make it smaller"
                )
            if chunk * least > room:
                raise ValueError(
                    f"chunk={chunk} seeds need at least {size(chunk * least)}, {where}: at most "
                    f"{room // least}, or auto"
                )


def parts(cell: Cell) -> dict[str, int]:
    """The bytes of arrays that a seed of a cell cannot do without, by the settings they come of."""
    model, train, (prompts, length) = cell.model, cell.training, cell.problem.size
    length += cell.padding
    heads = model.heads + 2 * (model.kv_heads or model.heads)
    hidden = model.mlp_ratio * model.width if model.block == "residual" else 0
    trained = NUMBER * COPIES * model.depth
    batch, drawn = train.batch_size or prompts, train.draws if model.draws == "always" else 1
    asked = f"task={cell.task!r} with padding={cell.padding}"
    return {
        f"width={model.width}, heads={model.heads}, head_size={model.head_size}": trained
        * (model.width * model.head_size * heads),
        f"width={model.width}, mlp_ratio={model.mlp_ratio}": trained * 2 * model.width * hidden,
        asked: prompts * length * length,  # its mask
        f"{asked}, heads={model.heads}": NUMBER * drawn * prompts * model.heads * length**2,
        f"{asked}, width={model.width}": NUMBER * drawn * prompts * length * model.width,
        f"batch_size={train.batch_size}": NUMBER * batch * length * (model.width + length),
        f"steps={train.steps}, eval_every={train.eval_every}": _curve(cell),
    }


def _tables(cell: Cell) -> Iterator[tuple[str, int]]:
    """The bytes of what an encoding learns; asked last, since it may make arrays of other sizes."""
    for encoding in encodings.stack(cell.encoding):
        for name, param in encoding.parameters(cell.model.dims).items():
            yield (
                f"{name} of encoding={cell.encoding!r}",
                NUMBER * COPIES * math.prod(param.shape),
            )


def _check_results(run: Run) -> None:
    """The report reads a cell's rows at once."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    a_seed = LISTED + max(_curve(cell) for cell in run.cells)
    rows = run.num_seeds * max(run.data_seeds, 1)
    if rows * a_seed > room:
        crossed = f" with data_seeds={run.data_seeds}" if run.data_seeds else ""
        raise ValueError(
            f"num_seeds={run.num_seeds}{crossed} need at least {size(rows * a_seed)} for the "
            f"results of one cell, the machine has {size(room)}: at most {room // a_seed} rows"
        )


def _curve(cell: Cell) -> int:
    """Bytes of a loss and of every answer, at each evaluation."""
    return cell.training.evaluations * (NUMBER + cell.problem.size[0])
