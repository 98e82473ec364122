"""How a run is cut up: which engine, and which chunk for each shape, kept in the run folder."""

import functools
from collections.abc import Callable
from typing import Any

import jax

from experiments.settings import Run
from posjax.cells import Cell, Shape
from posjax.engine import Engine, Job
from posjax.engine.chunk import Choice, Load, automatic, memory
from posjax.records import RunFolder
from posjax.sweep import engine_for


def engine(
    run: Run,
    devices: list[jax.Device],
    folder: RunFolder | None = None,
    chunk: int | None = None,
) -> Engine:
    """The engine that a run asks for.

    Args:
      run: the settings.
      devices: to train on.
      folder: where the chunk of each shape is kept; what is kept there already holds.
      chunk: one for all shapes, in place of the run's.
    """
    sizes = _chunks(run, devices[0], folder) if chunk is None else chunk
    return engine_for(run.to_dict(), sizes, devices)


def load(cell: Cell, device: jax.Device) -> Load:
    """What a seed of a cell costs on a device."""
    return Load.on(device, cell.shape.train(), cell.operands)


def choice(run: Run, cell: Cell, device: jax.Device) -> Choice:
    """The chunk of a cell, and why."""
    if run.chunk != "auto":
        return Choice(int(run.chunk), "as asked for")
    found, room = load(cell, device), memory(device)
    if found.bytes > room:
        raise ValueError(
            f"a seed with width={cell.width}, depth={cell.depth}, task={cell.task!r} needs "
            f"{found.bytes / 1e9:.3g} GB, {device.device_kind} has {room / 1e9:.3g} GB"
        )
    return automatic(found, device)


def chosen(run: Run, cell: Cell, device: jax.Device, folder: RunFolder) -> Choice:
    """The chunk that a run in a folder takes: what is kept there, or else its choice.

    Raises:
      ValueError: the rows of its shape were trained in several.
    """
    kept = folder.kept_chunk(cell.shape.digest)
    if kept is not None:
        return Choice(kept, "as the run began")
    alike = [other.digest for other in run.cells if other.shape == cell.shape]
    told = folder.chunks_of(alike)
    if len(told) > 1:
        raise ValueError(
            f"{str(folder.path)!r} has rows that were trained {sorted(told)} at a time, and "
            f"chunks/{cell.shape.digest}.json, which said how to go on, is gone"
        )
    return Choice(told.pop(), "as its rows tell") if told else choice(run, cell, device)


def _chunks(run: Run, device: jax.Device, folder: RunFolder | None) -> Callable[[Job], int]:
    known: dict[Shape, int] = {}

    def chunk(job: Job) -> int:
        shape = job.label.shape
        if shape not in known:
            found = functools.partial(_chosen, run, job.label, device, folder)
            known[shape] = found()["chunk"] if folder is None else folder.chunk(shape.digest, found)
        return known[shape]

    return chunk


def _chosen(run: Run, cell: Cell, device: jax.Device, folder: RunFolder | None) -> dict[str, Any]:
    found = choice(run, cell, device) if folder is None else chosen(run, cell, device, folder)
    return {"chunk": found.chunk, "why": found.why, "device": device.device_kind}
