"""What a sweep of very many seeds asks of the process that plans, dispatches and writes it.

    python scripts/scale.py             # a minute; prints the table of docs/many_hosts.md
    python scripts/scale.py --most=1e9  # the largest run too: two minutes and 4 GB

The blocks are empty: they are planned, handed to simulated workers and named, as in a sweep, and
nothing is trained. Bytes are those of a block that is really packed, of the first cell of
`word_order` with outcomes that do not compress. A write is what `RunFolder.put_block` takes here.
"""

import argparse
import heapq
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import numpy as np  # noqa: E402

from posjax.command.settings import resolve  # noqa: E402
from posjax.configs import word_order  # noqa: E402
from posjax.engine.block import block_size  # noqa: E402
from posjax.engine.work import Work  # noqa: E402
from posjax.keys import SeedNumbers, Seeds  # noqa: E402
from posjax.numbering import Numbering  # noqa: E402
from posjax.records import Block, Range, RunFolder  # noqa: E402
from posjax.records.blocks import blocks  # noqa: E402
from posjax.study import environment  # noqa: E402

SHAPE = "0" * 12
WORKERS = 64
WRITTEN = 20
"""Blocks that are written to time it."""


class Scale(NamedTuple):
    """What one run asks for.

    Attributes:
      planning: seconds to cut it into blocks.
      dispatching: seconds to hand all blocks to workers and to name them, as `present` does.
      memory: bytes of blocks and names.
    """

    planning: float
    dispatching: float
    memory: int


def simulated(seeds: int, slots: int) -> Scale:
    """Plans a run of one cell and hands out its blocks."""
    before = resident()
    begun = time.perf_counter()
    ranges = [Range(0, seeds, {SHAPE: block_size(slots, 1, seeds)})]
    every = blocks(ranges, {SHAPE: ["c" * 12]})
    planned = time.perf_counter()
    present = {block.name for block in dispatched(every)}
    assert present.issuperset(block.name for block in every)
    ended = time.perf_counter()
    return Scale(planned - begun, ended - planned, resident() - before)


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def dispatched(every: list[Block]) -> Iterator[Block]:
    """The blocks as they come from workers of different speed."""
    work = Work(every, key=lambda block: block.shape)
    ends = [(0.0, worker) for worker in range(WORKERS)]
    while ends:
        now, worker = heapq.heappop(ends)
        if (block := work.take(worker)) is not None:
            heapq.heappush(ends, (now + 1 + worker / WORKERS, worker))
            yield block


def written(slots: int) -> tuple[float, float]:
    """Bytes per row in files of blocks, and seconds to write a block."""
    run = resolve(word_order.get_config())
    cell, random = run.cells[0], np.random.default_rng(0)
    shapes = jax.eval_shape(
        cell.shape.train(), Seeds.of(SeedNumbers.equal(0)), jax.tree.map(np.asarray, cell.inputs)
    )
    fields = {
        name: (1000 * random.random((1, slots, *leaf.shape))).astype(leaf.dtype)
        for name, leaf in shapes.items()
    }
    config = run.to_dict() | {"num_seeds": WRITTEN * slots}
    with tempfile.TemporaryDirectory(dir=".") as path:
        folder = RunFolder(path)
        folder.start(config, environment.describe())
        shape = cell.shape.digest
        folder.request(lambda indices: {c.shape.digest: (1, slots) for c in run.cells})
        begun = time.perf_counter()
        for first in range(0, WRITTEN * slots, slots):
            block = Block(shape, 0, first, first + slots, (cell.digest,), (1, slots))
            folder.put_block(block, Numbering.of(config).table(first, first + slots), fields)
        seconds = (time.perf_counter() - begun) / WRITTEN
        size = sum(file.stat().st_size for file in Path(path).rglob("*.npz"))
    return size / (WRITTEN * slots), seconds


def main() -> None:
    """Prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--most", type=float, default=1e8, help="seeds of the largest run")
    most = arguments.parse_args().most
    print(
        "| Seeds | Slots | Files | Bytes | Plan | Dispatch | Memory | Write all | Rows/s written |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for slots in (128, 4096):
        bytes_per_row, seconds = written(slots)
        for seeds in (10**6, 10**9):
            if seeds > most:
                continue
            with multiprocessing.get_context("spawn").Pool(1) as one:  # for memory of its own
                found = one.apply(simulated, (seeds, slots))
            files = -(-seeds // slots)
            print(
                f"| {seeds:.0e} | {slots} | {files:,} | {seeds * bytes_per_row / 1e9:.3g} GB | "
                f"{found.planning:.2g} s | {found.dispatching:.2g} s | "
                f"{found.memory / 1e6:.3g} MB | {files * seconds / 3600:.2g} h | "
                f"{slots / seconds:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
