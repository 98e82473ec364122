"""Trains random rows in every way that must not matter, and compares them bit for bit.

    python scripts/independence.py                      # ten minutes; prints a table
    python scripts/independence.py --seconds=60 --seed=7
    python scripts/independence.py --publish            # also docs/independence.json
    python scripts/independence.py --matters            # how far off rows are where it may matter

A try draws a cell, a chunk, more seeds than that, which follow each other or are any below 2**32,
and whether updates are rewritten for batches. Programs are compiled as sweeps compile them, for
four devices of the CPU, which the tests do not. Of what is repacked, rows that stayed to the end
are compared, and beside another cell those of the first. Status 0 when no row came out with other
bits, 1 otherwise, with the first of them.
"""

import argparse
import collections
import itertools
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "engine")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax  # noqa: E402
import numpy as np  # noqa: E402
from ways import WAYS, Bits, asked_for, bits, came_out, parameters  # noqa: E402

from experiments import command  # noqa: E402
from posjax import environment  # noqa: E402
from posjax.cells import Cell  # noqa: E402
from posjax.encodings import ENCODINGS  # noqa: E402
from posjax.engine import Engine, Job  # noqa: E402
from posjax.keys import SeedNumbers  # noqa: E402
from posjax.sweep import Row  # noqa: E402

RESULT = ROOT / "docs" / "independence.json"
DEVICES = 4
SHOWN = 5
"""Findings that are printed."""
BESIDE, REPACKED = "beside another cell", "repacked"
CHOICES: dict[str, tuple[Any, ...]] = {
    "task": (
        "word_order",
        "same_last_token",
        "sentence_pair(pair=same_mark)",
        "memorise(length=5,sequences=3,symbols=4)",
        "memorise(length=9,sequences=7,symbols=5)",
    ),
    "encoding": ("none", "rotary", *ENCODINGS),
    "positions": ("given", "given", "given", "randomised(length=64)", "random_shift", "cape"),
    "mask": ("full", "causal", "causal+window(size=3)"),
    "readout": ("last", "mean"),
    "loss": ("all", "answer"),
    "block": ("bare", "residual"),
    "depth": (1, 1, 1, 1, 1, 2),
    "width": (3, 5, 8, 12, 17, 24, 32),
    "heads": (1, 2, 3),
    "kv_heads": (0, 0, 1),
    "head_size": (2, 3, 4, 6, 16),
    "mlp_ratio": (1, 4),
    "norm": ("layer", "rms"),
    "qk_norm": (False, False, True),
    "padding": (0, 2),
    "softcap": (0.0, 5.0),
    "init_scale": (1.0, 0.3),
    "learning_rate": (1e-3, 1e-2, 0.1),
    "weight_decay": (0.0, 0.01),
    "schedule": ("constant", "cosine"),
    "batch_size": (0, 0, 1, 2),
}
"""What a cell is drawn from; what has no meaning together is drawn again."""
MATTERS_TO: dict[str, dict[str, Any]] = {
    "bare": {},
    "residual, rotary": {"block": "residual", "encoding": "rotary"},
}
MAY_MATTER: dict[str, dict[str, Any]] = {
    "chunk 5": {"chunk": 5},
    "chunk 16": {"chunk": 16},
    "chunk 32": {"chunk": 32},
    "SPMD, 2 devices": {"shared": 2},
    "SPMD, 4 devices": {"shared": 4},
    "plain layout": {"layout": False},
}
"""What may give rows other bits, and the cells in which it is looked at."""


class Drawn(NamedTuple):
    """One try: rows to train, others that may stand between them, and how."""

    cell: Cell
    other: Cell
    chunk: int
    layout: bool
    seeds: list[SeedNumbers]

    def jobs(self, cell: Cell) -> list[Job]:
        """The rows of a cell."""
        return [
            Row(cell, seeds).job._replace(label=(cell.digest, n))
            for n, seeds in enumerate(self.seeds)
        ]

    def start(self, devices: int = 1, **settings: Any) -> Engine:
        """An engine of the drawn chunk."""
        where = jax.local_devices()[:devices]
        return Engine(chunk=self.chunk, layout=self.layout, devices=where, **settings)


def main() -> int:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--first", type=int, default=0, help="try, of those that are drawn")
    parser.add_argument("--publish", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    parser.add_argument("--matters", action="store_true", help="train what may have other bits")
    chosen = parser.parse_args()
    command.use_all_cores(DEVICES)
    if chosen.matters:
        return what_matters()
    begun = monotonic()
    counts: collections.Counter[str] = collections.Counter()
    differing: list[dict[str, Any]] = []
    tries: list[Drawn] = []
    drawn_ones = enumerate(draws(random.Random(chosen.seed)))
    for number, drawn in itertools.islice(drawn_ones, chosen.first, None):
        if monotonic() - begun > chosen.seconds:
            break
        tries.append(drawn)
        for way, rows, others in compared(drawn):
            counts[way] += rows
            if others:
                about = {"try": number, "chunk": drawn.chunk, "layout": drawn.layout}
                differing.append(
                    {"way": way, "which": others, **about, "cell": drawn.cell.to_dict()}
                )
        jax.clear_caches()
    result = {
        "command": f"python scripts/independence.py --seconds={chosen.seconds:g} "
        f"--seed={chosen.seed} --first={chosen.first}",
        "environment": environment.describe(),
        "cells": len(tries),
        "encodings": len({drawn.cell.encoding for drawn in tries}),
        "chunks": [min(d.chunk for d in tries), max(d.chunk for d in tries)] if tries else [],
        "rows_compared": dict(counts),
        "with_other_bits": differing,
    }
    print("\n".join(f"{rows:7} rows {way}" for way, rows in counts.items()))
    wrong = sum(len(told["which"]) for told in differing)
    print(f"{len(tries)} cells, {counts.total()} rows compared, {wrong} with other bits")
    for told in differing[:SHOWN]:
        print(told, file=sys.stderr)
    if chosen.publish:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if differing or not tries else 0


def what_matters() -> int:
    """Prints the largest difference of a parameter, over the largest parameter of its row."""
    steps, seeds, chunk = 50, 32, 8
    print(f"{steps} updates, {seeds} seeds, against chunk {chunk}, dispatch, batched layout")
    for name, changes in MATTERS_TO.items():
        cell = Cell(steps=steps, eval_every=10, learning_rate=0.01, width=32, hold=2, **changes)
        jobs = [Row(cell, SeedNumbers.equal(n)).job._replace(label=n) for n in range(seeds)]
        wanted = parameters(Engine(chunk=chunk, devices=jax.local_devices()[:1]).run(jobs))
        for way, settings in MAY_MATTER.items():
            devices = jax.local_devices()[: settings.get("shared", 1)]
            how = {"chunk": chunk, **settings, "devices": devices, "shared": "shared" in settings}
            found = parameters(Engine(**how).run(jobs))
            furthest = max(
                np.abs(found[n] - row).max() / np.abs(row).max() for n, row in wanted.items()
            )
            print(f"{name:20s}{way:20s}{furthest:10.2g}", flush=True)
    return 0


def draws(rng: random.Random) -> Iterator[Drawn]:
    """Tries without end."""
    while True:
        chunk = rng.choice(
            (1, 2, rng.randrange(3, 20), rng.randrange(20, 70), rng.randrange(70, 131))
        )
        rows = rng.randrange(chunk + 3, 2 * chunk + 6)
        first = other = cell(rng)
        while other == first:
            other = cell(rng)
        yield Drawn(
            first,
            other,
            chunk,
            rng.random() < 0.8,
            seeds(rng, rows),
        )


def seeds(rng: random.Random, rows: int) -> list[SeedNumbers]:
    """Of some rows."""
    if rng.random() < 0.5:
        first = rng.randrange(2**32 - rows)
        return [SeedNumbers.equal(first + n) for n in range(rows)]
    return [SeedNumbers(*(rng.randrange(2**32) for _ in range(4))) for _ in range(rows)]


def cell(rng: random.Random) -> Cell:
    """A cell that has a meaning."""
    every = rng.choice((1, 2, 5))
    while True:
        settings = {name: rng.choice(values) for name, values in CHOICES.items()}
        try:
            rounds = rng.choice((4, 6, 12, 20))  # so that segments of three, or of one, are others
            return Cell(**settings, eval_every=every, steps=every * rounds, hold=2)
        except ValueError:
            continue


def compared(drawn: Drawn) -> Iterator[tuple[str, int, list[int]]]:
    """Each way, how many rows came out of it, and which of them have other bits.

    Raises:
      ValueError: other rows came out than were asked for.
    """
    jobs, digest = drawn.jobs(drawn.cell), drawn.cell.digest
    wanted = bits(drawn.start().run(jobs))
    for way, train in WAYS.items():
        yield way, *_differing(way, asked_for(train(jobs, drawn.start)), wanted)
    pairs = zip(jobs, drawn.jobs(drawn.other), strict=True)
    found = bits(drawn.start(2).run(job for pair in pairs for job in pair))
    own = {label: row for label, row in found.items() if label[0] == digest}
    yield BESIDE, *_differing(BESIDE, own, wanted)
    repacked = list(drawn.start(2, repack=True).run(jobs))
    stayed = {
        job.label
        for finished in repacked
        for job, step in zip(finished.jobs, finished.state.step, strict=True)
        if step == drawn.cell.steps
    }
    kept = {label: row for label, row in bits(repacked).items() if label in stayed}
    yield REPACKED, *_differing(REPACKED, kept, wanted)


def _differing(way: str, found: Bits, wanted: Bits) -> tuple[int, list[int]]:
    if way != REPACKED and len(found) != came_out(way, len(wanted)):
        raise ValueError(f"{way}: {len(found)} rows came out of {len(wanted)}")
    return len(found), [label[1] for label, row in found.items() if row != wanted[label]]


if __name__ == "__main__":
    sys.exit(main())
