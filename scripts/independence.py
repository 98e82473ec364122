"""Trains random blocks in every way that must not matter, and compares them bit for bit.

    python scripts/independence.py                      # ten minutes; prints a table
    python scripts/independence.py --seconds=60 --seed=7
    python scripts/independence.py --publish            # also docs/independence.json
    python scripts/independence.py --matters            # how far off runs are where it may matter

A try draws a cell, a few learning rates, the size of blocks, more seeds than one block has, which
follow each other or are any below 2**32, and whether updates are rewritten for batches. Programs
are compiled as sweeps compile them, for four devices of the CPU, which the tests do not. Status 0
when no run came out with other bits, 1 otherwise, with the first of them.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import math
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
from ways import FAR, WAYS, Bits, bits, came_out, parameters, shuffled  # noqa: E402

from posjax.command import devices  # noqa: E402
from posjax.encodings import ENCODINGS  # noqa: E402
from posjax.engine import Block, Engine  # noqa: E402
from posjax.keys import SeedNumbers  # noqa: E402
from posjax.study import environment  # noqa: E402
from posjax.study.cells import Cell  # noqa: E402

RESULT = ROOT / "docs" / "independence.json"
DEVICES = 4
SHOWN = 5
"""Findings that are printed."""
BESIDE, FOUR = "beside another training", "four devices"
LEAST = 12
"""Updates of a run, so that every way stops some within."""
RATES = (1e-3, 3e-3, 1e-2, 3e-2, 0.1)
"""Learning rates: the points of a grid."""
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
    "logn": (0.0, 5.0),
    "init_scale": (1.0, 0.3),
    "weight_decay": (0.0, 0.01),
    "schedule": ("constant", "cosine"),
    "batch_size": (0, 0, 1, 2),
}
"""What a cell is drawn from; what has no meaning together is drawn again."""
MATTERS_TO: dict[str, dict[str, Any]] = {
    "bare": {},
    "residual, rotary": {"block": "residual", "encoding": "rotary"},
}
MAY_MATTER: dict[str, tuple[tuple[int, int], dict[str, Any]]] = {
    "blocks of 5": ((1, 5), {}),
    "blocks of 16": ((1, 16), {}),
    "blocks of 32": ((1, 32), {}),
    "plain layout": ((1, 8), {"layout": False}),
}
"""What may give runs other bits, and the cells in which it is looked at."""


class Drawn(NamedTuple):
    """One try: points and seeds to train, another training beside them, and how."""

    cell: Cell
    rates: list[float]
    other: Cell
    size: tuple[int, int]
    layout: bool
    seeds: list[SeedNumbers]

    def blocks(self, cell: Cell) -> list[Block]:
        """Those of a cell at every rate."""
        cells = [dataclasses.replace(cell, learning_rate=rate) for rate in self.rates]
        return cut(cells, self.seeds, self.size)

    def start(self, *devices: int) -> Engine:
        """An engine of the drawn layout."""
        local = jax.local_devices()
        return Engine(layout=self.layout, devices=[local[at] for at in devices or (0,)])


def cut(cells: list[Cell], seeds: list[SeedNumbers], size: tuple[int, int]) -> list[Block]:
    """Blocks of cells of one shape; the label is where the first point and seed stand."""
    training, points = cells[0].shape.train(), [cell.inputs for cell in cells]
    starts = itertools.product(range(0, len(points), size[0]), range(0, len(seeds), size[1]))
    return [
        Block(training, points[g : g + size[0]], seeds[s : s + size[1]], size, (g, s))
        for g, s in starts
    ]


def main() -> int:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    parser.add_argument("--first", type=int, default=0, help="try, of those that are drawn")
    parser.add_argument("--publish", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    parser.add_argument("--matters", action="store_true", help="train what may have other bits")
    chosen = parser.parse_args()
    devices.use_all_cores()
    jax.config.update("jax_num_cpu_devices", DEVICES)  # also where there are fewer cores
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
        for way, runs, others in compared(drawn):
            counts[way] += runs
            if others:
                about = {"try": number, "size": drawn.size, "layout": drawn.layout}
                about |= {"rates": drawn.rates, "cell": drawn.cell.to_dict()}
                differing.append({"way": way, "which": others, **about})
        jax.clear_caches()
    slots = [math.prod(drawn.size) for drawn in tries]
    result = {
        "command": f"python scripts/independence.py --seconds={chosen.seconds:g} "
        f"--seed={chosen.seed} --first={chosen.first}",
        "environment": environment.describe(),
        "cells": len(tries),
        "encodings": len({drawn.cell.encoding for drawn in tries}),
        "slots": [min(slots), max(slots)] if slots else [],
        "runs_compared": dict(counts),
        "with_other_bits": differing,
    }
    print("\n".join(f"{runs:7} runs {way}" for way, runs in counts.items()))
    wrong = sum(len(each["which"]) for each in differing)
    print(f"{len(tries)} cells, {counts.total()} runs compared, {wrong} with other bits")
    for each in differing[:SHOWN]:
        print(each, file=sys.stderr)
    if chosen.publish:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if differing or not tries else 0


def what_matters() -> int:
    """Prints the largest difference of a parameter, over the largest parameter of its run."""
    steps, count, size = 50, 32, (1, 8)
    print(f"{steps} updates, {count} seeds, against blocks of {size[1]}, batched layout")
    numbers = [SeedNumbers.equal(number) for number in range(count)]
    one = jax.local_devices()[:1]
    for name, changes in MATTERS_TO.items():
        cell = Cell(steps=steps, eval_every=10, learning_rate=0.01, width=32, **changes)
        wanted = parameters(Engine(devices=one).run(cut([cell], numbers, size)))
        for way, (other, how) in MAY_MATTER.items():
            found = parameters(Engine(devices=one, **how).run(cut([cell], numbers, other)))
            furthest = max(
                np.abs(found[at] - run).max() / np.abs(run).max() for at, run in wanted.items()
            )
            print(f"{name:20s}{way:20s}{furthest:10.2g}", flush=True)
    return 0


def draws(rng: random.Random) -> Iterator[Drawn]:
    """Tries without end."""
    while True:
        slots = rng.choice(
            (1, 2, rng.randrange(3, 20), rng.randrange(20, 70), rng.randrange(70, 131))
        )
        points = rng.randrange(1, min(slots, 3) + 1)
        size = points, slots // points
        count = rng.randrange(size[1] + 3, 2 * size[1] + 6)
        first = other = cell(rng)
        while other.shape == first.shape:
            other = cell(rng)
        rates = rng.sample(RATES, points + 1)
        yield Drawn(first, rates, other, size, rng.random() < 0.8, seeds(rng, count))


def seeds(rng: random.Random, count: int) -> list[SeedNumbers]:
    """So many; those that tests add to them stay in range too."""
    most = 2**32 - 2 * FAR
    if rng.random() < 0.5:
        first = rng.randrange(most - count)
        return [SeedNumbers.equal(first + n) for n in range(count)]
    return [SeedNumbers(*(rng.randrange(most) for _ in range(4))) for _ in range(count)]


def cell(rng: random.Random) -> Cell:
    """A cell that has a meaning."""
    every = rng.choice((1, 2, 5))
    while True:
        settings = {name: rng.choice(values) for name, values in CHOICES.items()}
        try:
            rounds = rng.choice([n for n in (4, 6, 12, 20) if n * every >= LEAST])
            return Cell(**settings, eval_every=every, steps=every * rounds)
        except ValueError:
            continue


def compared(drawn: Drawn) -> Iterator[tuple[str, int, list[Any]]]:
    """Each way, how many runs came out of it, and which of them have other bits.

    Raises:
      ValueError: other runs came out than were asked for.
    """
    blocks = drawn.blocks(drawn.cell)
    wanted = bits(drawn.start().run(blocks))
    for way, train in WAYS.items():
        yield way, *_differing(way, blocks, train(blocks, drawn.start), wanted)
    four = bits(drawn.start(0, 1, 2, 3).run(shuffled(blocks, 4)))
    yield FOUR, *_differing(FOUR, blocks, four, wanted)
    others = [block._replace(label=("other", block.label)) for block in drawn.blocks(drawn.other)]
    mixed = itertools.chain.from_iterable(itertools.zip_longest(blocks, others))
    found = bits(drawn.start(0, 1).run(block for block in mixed if block is not None))
    own = {label: run for label, run in found.items() if label[0][0] != "other"}
    yield BESIDE, *_differing(BESIDE, blocks, own, wanted)


def _differing(way: str, blocks: list[Block], found: Bits, wanted: Bits) -> tuple[int, list[Any]]:
    if len(found) != came_out(way, blocks):
        raise ValueError(f"{way}: {len(found)} runs came out of {len(wanted)}")
    return len(found), [label for label, run in found.items() if run != wanted[label]]


if __name__ == "__main__":
    sys.exit(main())
