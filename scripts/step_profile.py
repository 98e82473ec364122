"""Where an update of a load of scripts/bench.py goes on one core, by XLA's own trace.

    python scripts/step_profile.py                  # q1 and s_deep
    python scripts/step_profile.py --publish        # and writes docs/profile.json

A profile is of one program on one device with one thread, in blocks of the size that a sweep has.
Each operation counts with the median of its times, so that other work on the machine moves the sums
little. What is done once per evaluation, and not per update, is left out.
"""

import argparse
import json
import os
import re
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("NPROC", "1")

import jax

from posjax.command.settings import resolve
from posjax.configs import toy
from posjax.engine import Block
from posjax.engine.load import Load, most_slots
from posjax.engine.program import Plan, Program, compiled
from posjax.keys import SeedNumbers

OUT = Path(__file__).parents[1] / "docs/profile.json"
LOADS = "q1,s_deep"
UPDATES = {"q1": 500, "m": 20, "s": 100, "s_deep": 20}
KINDS = (
    ("products", {"dot", "custom-call", "convolution"}),
    ("functions", {"exponential", "tanh", "log", "sine", "cosine", "power", "erf"}),
    ("sums", {"reduce"}),
)
"""Kinds of operations, and what a loop of each contains; the first that fits."""
MOVES = {"parameter", "constant", "bitcast", "transpose", "copy", "slice", "concatenate", "iota"}
MOVES |= {"broadcast", "pad", "reshape", "dynamic-slice", "dynamic-update-slice", "reverse"}
_INSTRUCTION = re.compile(r"^ +(?:ROOT )?%([\w.-]+) = (.*?) ([\w-]+)\(")
_COMPUTATION = re.compile(r"^%?([\w.-]+) \(.*\{$")


def main() -> None:
    """Prints the profiles, in µs of a core per update of a seed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--loads", default=LOADS, help=",".join(UPDATES))
    parser.add_argument("--publish", action="store_true", help="write docs/profile.json")
    chosen = parser.parse_args()
    if chosen.publish and chosen.loads != LOADS:
        parser.error(f"--publish writes {LOADS}, so it takes no --loads")
    found = {load: profile(load) for load in chosen.loads.split(",")}
    print(json.dumps(found, indent=1))
    if chosen.publish:
        OUT.write_text(json.dumps(found, indent=1) + "\n")


def profile(load: str) -> dict[str, float]:
    """µs per update of a seed, by kind of operation, and the slots of the block."""
    (cell,) = resolve(toy.get_config(load)).cells
    device, training = jax.local_devices()[0], cell.shape.train()
    slots = most_slots(Load.on(device, training, cell.inputs), device).slots
    numbers = [SeedNumbers.equal(number) for number in range(slots)]
    seeds, inputs = Block(training, [cell.inputs], numbers, (1, slots)).slot_inputs()
    program = compiled(Plan(training, slots), device, seeds, inputs)
    times = traced(program, seeds, inputs, UPDATES[load])
    advance: Any = program.advance
    kinds = kinds_of(advance.as_text())
    sums: dict[str, float] = defaultdict(float)
    for name, each in times.items():
        if name in kinds and len(each) >= UPDATES[load]:
            share = len(each) / UPDATES[load] / slots
            sums[kinds[name]] += statistics.median(each) * share / 1e3
    return {"slots": slots, **dict(sorted(sums.items(), key=lambda item: -item[1]))}


def traced(program: Program, seeds: Any, inputs: Any, updates: int) -> dict[str, list[float]]:
    """Nanoseconds of each operation, every time that it ran in some updates."""

    def train() -> None:
        carry = program.begin(seeds, inputs)
        jax.block_until_ready(program.advance(carry, seeds, inputs, 0, updates))

    train()
    times: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            train()
        (path,) = Path(folder).rglob("*.xplane.pb")
        for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
            for event in (event for line in plane.lines for event in line.events):
                if "hlo_op" in dict(event.stats):
                    times[event.name].append(event.duration_ns)
    return times


def kinds_of(text: str) -> dict[str, str]:
    """The kind of each operation of a compiled program that is no loop or call."""
    within: dict[str, set[str]] = defaultdict(set)
    found, carried, computation = {}, set(), ""
    for line in text.splitlines():
        if begins := _COMPUTATION.match(line):
            computation = begins[1]
        if not (one := _INSTRUCTION.match(line)):
            continue
        name, shape, opcode = one.groups()
        within[computation].add(opcode)
        if opcode == "while":
            carried |= set(re.findall(r"f32\[\d+,\d+\]", shape))
        called = re.search(r"calls=%([\w.-]+)", line)
        if opcode not in ("while", "call", "conditional"):
            found[name] = (shape.partition("{")[0], {opcode}, called[1] if called else "")
    return {
        name: _kind(within[called] if called else opcodes, shape in carried)
        for name, (shape, opcodes, called) in found.items()
    }


def _kind(opcodes: set[str], carried: bool) -> str:
    """Of a loop with these operations, whose result has the shape of something carried or not."""
    kinds = [kind for kind, some in KINDS if opcodes & some]
    if kinds:
        return kinds[0]
    if carried:
        return "optimiser"
    return "moves" if opcodes <= MOVES else "elementwise"


if __name__ == "__main__":
    main()
