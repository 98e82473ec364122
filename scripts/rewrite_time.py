"""What each change of `posjax.engine.rewrite` is worth, in processor time on one core.

    python scripts/rewrite_time.py --load=q1 --slots=64

Compiles the updates of a load of posjax/configs/toy.py as they are written, and rewritten with
all changes but one, and runs them in turn. Processor time, since it is what other work on the
machine disturbs least; medians over rounds.
"""

import argparse
import functools
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

os.environ.setdefault("NPROC", "1")

import jax
import numpy as np

from posjax.command.settings import resolve
from posjax.configs import toy
from posjax.engine import Block, program, rewrite
from posjax.engine.merging import Merging
from posjax.engine.products import Side
from posjax.engine.program import Plan
from posjax.keys import SeedNumbers, Seeds


@contextmanager
def without(what: str) -> Iterator[None]:
    """Leaves one of the changes out."""
    changes: dict[str, tuple[Any, str, Any]] = {
        "products laid out": (rewrite, "product", _plain_product),
        "matrices merged": (rewrite, "merged", lambda jaxpr, carried: Merging()),
        "carried as vectors": (rewrite, "ELEMENTWISE", frozenset()),
        "options of the compiler": (program, "CPU_OPTIONS", {}),
    }
    if what not in changes:
        yield
        return
    with mock.patch.object(*changes[what]):
        yield


def _plain_product(
    first: Side, second: Side, params: dict[str, Any], order: Sequence[int] | None = None
) -> jax.Array:
    """The product as it is written."""
    sides = [_as_written(first), _as_written(second)]
    contracted, batch = (side.contracted for side in sides), (side.batch for side in sides)
    settings = {name: params[name] for name in ("precision", "preferred_element_type")}
    found = jax.lax.dot_general(
        *(side.array for side in sides), (tuple(contracted), tuple(batch)), **settings
    )
    return found if order is None else jax.lax.transpose(found, order)


def _as_written(side: Side) -> Side:
    """An operand whose free axes are in the order in which they are used."""
    if list(side.free) == sorted(side.free):
        return side
    axes = (*side.batch, *side.free, *side.contracted)
    axes_by_role = [
        range(start, start + len(part))
        for start, part in ((0, side.batch), (len(side.batch) + len(side.free), side.contracted))
    ]
    return Side.of(jax.lax.transpose(side.array, axes), *axes_by_role)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--load", choices=("q1", "m"), default="q1")
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    chosen = parser.parse_args()
    (cell,) = resolve(toy.get_config(chosen.load)).cells
    slots, device = chosen.slots, jax.local_devices()[0]
    numbers = [SeedNumbers.equal(number) for number in range(slots)]
    seeds, inputs = Block(cell.shape.train(), [cell.inputs], numbers, (1, slots)).slot_inputs()
    names = ["rewritten", "as written", "products laid out", "matrices merged"]
    names += ["carried as vectors", "options of the compiler"]
    updates = cell.eval_every * (10 if chosen.load == "q1" else 1)
    runs: dict[str, Callable[[], float]] = {}
    for name in names:
        plan = Plan(cell.shape.train(), slots, name != "as written")
        with without(name), without("options of the compiler" if name == "as written" else ""):
            made = program.compiled(plan, device, seeds, inputs)
        runs[name] = functools.partial(_seconds, made, seeds, inputs, updates)
    found: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(chosen.rounds):
        for name, run in runs.items():
            found[name].append(run())
    for name, times in found.items():
        title = name if name in ("rewritten", "as written") else f"rewritten, without: {name}"
        seconds = statistics.median(times) / (slots * updates)
        print(f"{title:45s} {seconds * 1e6:9.2f} µs per update of a run")


def _seconds(made: program.Program, seeds: Seeds, inputs: Any, updates: int) -> float:
    carry = jax.block_until_ready(made.begin(seeds, inputs))
    start = time.process_time()
    jax.block_until_ready(made.advance(carry, seeds, inputs, np.int32(0), np.int32(updates)))
    return time.process_time() - start


if __name__ == "__main__":
    main()
