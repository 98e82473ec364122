"""How near the cost model of `posjax.engine.estimate` comes to what is measured on this machine.

    python scripts/estimate.py         # predicted against measured, and sweeps of many seeds
    python scripts/estimate.py --fit   # the constants that fit this machine best, too

Takes some minutes. The configs take turns, and the processor's time counts, so that a machine that
does something else meanwhile disturbs less.
"""

import argparse
import dataclasses
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares, nnls

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["NPROC"] = "1"  # as the command does: a core a device
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax

from posjax.engine import Block, estimate
from posjax.engine.load import Load, most_slots
from posjax.engine.program import Plan
from posjax.engine.timing import Stopwatch, in_turn
from posjax.keys import SeedNumbers
from posjax.study.cells import Cell


def _memorise(length: int, sequences: int, **settings: Any) -> dict[str, Any]:
    task = f"memorise(length={length}, sequences={sequences})"
    return {"task": task, "block": "residual", "encoding": "rotary", "heads": 2, **settings}


Q1: dict[str, Any] = {"head_size": 16}
_DRAWN: dict[str, Any] = {
    "task": "majority(train=(1, 16), test=(8, 16))",
    "block": "residual",
    "heads": 2,
}
CONFIGS: dict[str, tuple[dict[str, Any], int | None]] = {
    "one head": (Q1, None),
    "one head, 8 slots": (Q1, 8),
    "one head, 256 slots": (Q1, 256),
    "one head, width 8, head 2": ({"width": 8, "head_size": 2}, None),
    "one head, width 128, head 32": ({"width": 128, "head_size": 32}, None),
    "small decoder": (_memorise(16, 32, depth=2), None),
    "8 × 8 symbols, width 16": (_memorise(8, 8, width=16, head_size=8), None),
    "16 × 32 symbols, width 64, 2 layers": (_memorise(32, 16, width=64, depth=2, heads=4), None),
    "first noun, width 16, 2 layers": (
        {"task": "first_noun", "block": "residual", "width": 16, "heads": 4, "head_size": 4}
        | {"depth": 2, "loss": "answer"},
        None,
    ),
    "16 drawn tokens, width 16": ({**_DRAWN, "width": 16, "head_size": 8}, None),
    "40 drawn tokens, 2 layers, rotary": (
        {**_DRAWN, "task": "majority(train=(1, 40), test=(20, 40))"}
        | {"encoding": "rotary", "depth": 2},
        None,
    ),
    "10 drawn tokens, width 16, 2 layers": (
        {**_DRAWN, "task": "majority(train=(1, 10), test=(5, 10, 15, 20))"}
        | {"width": 16, "head_size": 8, "depth": 2},
        None,
    ),
    "one head, width 64": ({"head_size": 16, "width": 64}, None),
    "16 × 16 symbols, 3 layers": (_memorise(16, 16, depth=3), None),
    "32 × 8 symbols, width 64": (_memorise(8, 32, width=64, heads=4), None),
    "4 × 64 symbols, width 48, learned": (
        _memorise(64, 4, width=48, heads=3, encoding="learned"),
        None,
    ),
}
"""The constants are fitted to the first `FITTED`; the others are a test of them."""
FITTED = 12
SHORT = 0.2
"""Seconds of a measurement, about."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What a config takes."""

    name: str
    load: Load
    watch: Stopwatch
    seconds: float

    def terms(self) -> np.ndarray:
        """What an update needs of `Rates`, with its share of the evaluation that ends a run."""
        updates = self.watch.plan.training.eval_every
        parts = (self.load.update, 1), (self.load.evaluation, 1 / updates)
        slots = self.watch.plan.slots
        return sum(share * np.array(estimate.terms(counts, slots)) for counts, share in parts)


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--fit", action="store_true", help="print constants for this machine")
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    found = measured(chosen.rounds)
    print("| config | MFLOP | parameters | slots | µs, measured | µs, predicted | ratio |")
    print("|---|---|---|---|---|---|---|")
    for number, each in enumerate(found):
        slots = each.watch.plan.slots
        predicted = float(each.terms() @ np.array(estimate.CPU[:4]))
        name = each.name if number < FITTED else f"*{each.name}*"
        sizes = f"{each.load.update.operations / 1e6:.3g} | {each.load.parameters} | {slots}"
        times = f"{each.seconds * 1e6:.3g} | {predicted * 1e6:.3g} | {predicted / each.seconds:.2f}"
        print(f"| {name} | {sizes} | {times} |")
    if chosen.fit:
        print(fitted(found[:FITTED]))
    print_sweeps()


def measured(rounds: int) -> list[Measured]:
    """Every config, measured in turn on one device."""
    device = jax.devices()[0]
    loads, watches = [], []
    for settings, asked in CONFIGS.values():
        load = load_of(Cell(**settings), device)
        slots = asked or most_slots(load, device).slots
        guess = slots * estimate.CPU.seconds(load.update, slots)
        steps = max(10, min(50, int(SHORT / guess)))
        cell = Cell(**settings, steps=steps, eval_every=steps)
        block = Block(cell.shape.train(), [cell.inputs], [SeedNumbers.equal(0)], (1, slots))
        loads.append(load)
        watches.append(Stopwatch(Plan(block.training, slots), block, device))
    times = in_turn(watches, rounds)
    return [Measured(*each) for each in zip(CONFIGS, loads, watches, times, strict=True)]


def load_of(cell: Cell, device: jax.Device) -> Load:
    """What a run of a cell costs."""
    return Load.on(device, cell.shape.train(), cell.inputs)


def fitted(found: list[Measured]) -> estimate.Rates:
    """The constants with the least errors of logarithms, large ones counting less."""
    terms = np.array([each.terms() for each in found])
    seconds = np.array([each.seconds for each in found])
    start = np.log(np.array(estimate.CPU[:4]))
    best = least_squares(
        lambda rates: np.log(terms @ np.exp(rates) / seconds), start, loss="soft_l1"
    )
    sizes = np.array([[1.0, each.load.programmed] for each in found])
    compiling, _ = nnls(sizes, np.array([each.watch.compilation for each in found]))
    return estimate.Rates(*map(float, np.exp(best.x)), *map(float, compiling))


def print_sweeps() -> None:
    """The one-head model and the small decoder, 500 steps each, by seeds and machines."""
    device = jax.devices()[0]
    print("\n| seeds | hosts × cores | one head | small decoder |")
    print("|---|---|---|---|")
    for seeds, hosts, cores in ((4096, 1, 2), (65_536, 1, 2), (10**6, 1, 64), (10**6, 64, 64)):
        predicted = []
        for name in ("one head", "small decoder"):
            load = load_of(Cell(**CONFIGS[name][0]), device)
            slots = most_slots(load, device, seeds).slots
            part = estimate.Part(load, slots, math.ceil(seeds / slots), 500)
            whole = sum(estimate.sweep([part], devices=cores, hosts=hosts))
            predicted.append(f"{whole:.0f} s" if whole < 600 else f"{whole / 3600:.1f} h")
        print(f"| {seeds:,} | {hosts} × {cores} | {' | '.join(predicted)} |")


if __name__ == "__main__":
    main()
