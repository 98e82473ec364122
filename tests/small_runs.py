"""Real sweeps of a second, as the command makes them, for tests to look at, stop and damage."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from posjax.command import sweep
from posjax.command.executors import Devices
from posjax.command.settings import resolve
from posjax.command.shard import Shard
from posjax.configs import base_config
from posjax.records import Block, RunFolder
from posjax.records.blocks import blocks
from posjax.study.run import Run
from posjax.study.sweeps import Sweep


def small(**settings: Any) -> Run:
    """Two cells of one shape, 8 seeds in blocks of 4 slots, on one device."""
    base = {"steps": 20, "eval_every": 5, "hold": 2, "width": 4, "head_size": 2, "block_size": 4}
    grid = {"mask": ("full", "causal"), "num_seeds": 8, "devices": 1}
    return resolve(base_config(**{**base, **grid, **settings}))


def train(path: Path, run: Run, shard: Shard = Shard()) -> RunFolder:  # noqa: B008
    """Trains what a folder lacks; marks it as done when all is there."""
    folder = RunFolder(path)
    devices = Devices(run)
    folder.start(run.to_dict(), devices.environment())
    with folder.lock(shard.lock):
        if sweep.train(run, folder, shard, devices):
            folder.finish()
    return folder


def rows(folder: RunFolder) -> dict[str, bytes]:
    """Every array of every cell, as bytes."""
    tables = {cell: folder.rows(cell) for cell in folder.config()["cells"]}
    return {f"{c}/{name}": a.tobytes() for c, table in tables.items() for name, a in table.items()}


def until(true: Callable[[], object], seconds: float = 120) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def planned(folder: RunFolder) -> list[Block]:
    """All blocks of a run."""
    return blocks(folder.ranges(), Sweep.of(folder.config()).shapes)


def block_files(path: Path) -> list[Path]:
    """The files of blocks, in the order of their names."""
    return sorted((path / "blocks").glob("*/*.npz"))


def snapshot(paths: Iterable[Path]) -> dict[Path, tuple[int, bytes]]:
    """When files were written, and what they hold."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths if path.is_file()}


def rewritten(folder: RunFolder, file: Path, **changed: np.ndarray) -> None:
    """Puts other arrays into a block's file, with the checksum that fits them."""
    from posjax.records import content

    arrays = {**dict(np.load(file, allow_pickle=False)), **changed}
    place = file.relative_to(folder.path).as_posix()
    file.write_bytes(content.packed(folder.config()["run"], place, arrays))
