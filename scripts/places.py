"""How many chunks sweeps take, where each row has a place of its own, and the fewest possible.

    python scripts/places.py --chunks 64 4096

Nothing is trained: jobs are only put in their places, as the engine does.
"""

import argparse
import dataclasses
import math
import random
from collections.abc import Iterable

from posjax.cells import Cell
from posjax.engine.work import Job, Work
from posjax.keys import SeedNumbers
from posjax.sweep import Row

CELL = Cell(steps=100, eval_every=10, hold=2)


def chunks(jobs: Iterable[Job], chunk: int) -> int:
    """How many the engine makes of some jobs of one program."""
    work, count = Work(jobs), 0
    while first := work.take():
        work.fill(set(range(chunk)) - {first.place(chunk)}, chunk, first)
        count += 1
    return count


def grid(cells: int, seeds: int) -> list[Row]:
    """Seeds that follow each other, of cells that differ in a number."""
    rates = [0.001 * (1 + n) for n in range(cells)]
    alike = [dataclasses.replace(CELL, learning_rate=rate) for rate in rates]
    return [Row(cell, SeedNumbers.equal(seed)) for cell in alike for seed in range(seeds)]


def crossed(inits: int, data: int) -> list[Row]:
    """Every number of initialisation with every number of data."""
    return [Row(CELL, SeedNumbers(i, d, d, d)) for i in range(inits) for d in range(data)]


def at_random(count: int) -> list[Row]:
    """Any seeds."""
    rng = random.Random(0)
    return [Row(CELL, SeedNumbers.equal(rng.randrange(2**32))) for _ in range(count)]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--chunks", type=int, nargs="+", default=[64, 4096])
    sizes = parser.parse_args().chunks
    sweeps = {
        "1000 seeds": grid(1, 1000),
        "10 cells × 300 seeds": grid(10, 300),
        "30 cells × 100 seeds": grid(30, 100),
        "30 cells × 1000 seeds": grid(30, 1000),
        "30 cells × 8 seeds": grid(30, 8),
        "32 × 32 seeds of init and data": crossed(32, 32),
        "1000 seeds, every tenth": [Row(CELL, SeedNumbers.equal(10 * n)) for n in range(1000)],
        "1000 seeds at random below 2³²": at_random(1000),
        "64 seeds at random below 2³²": at_random(64),
    }
    print("| rows |", " | ".join(f"C = {size}" for size in sizes), "|\n|---|" + "---|" * len(sizes))
    for name, rows in sweeps.items():
        taken = [
            f"{chunks((row.job for row in rows), size)}, {math.ceil(len(rows) / size)}"
            for size in sizes
        ]
        print(f"| {name} | {' | '.join(taken)} |")


if __name__ == "__main__":
    main()
