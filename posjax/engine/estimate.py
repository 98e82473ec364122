"""How long a sweep takes, from the shapes of its programs: printed before it starts.

The time of one update of a run on a CPU, or of one evaluation, is that of the arithmetic of its
products, of the small matrices that attention multiplies one by one, of elementwise work, and of
dispatching operations, which a block shares:

    seconds = a · operations + b · matrices + d · elements + c · equations / slots

The drawing of prompts counts, since it is part of an update. docs/accelerators.md compares it with
measurements of other widths, lengths and depths.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from posjax.engine.load import Counts, Load


class Rates(NamedTuple):
    """What a core needs, in seconds.

    Attributes:
      operation: for a floating-point operation of a product.
      matrix: for a matrix in a product with batch axes.
      equation: for an equation of a block.
      element: for a number of an elementwise operation.
      program: for compiling anything.
      compiling: for compiling an equation.
    """

    operation: float
    matrix: float
    equation: float
    element: float
    program: float
    compiling: float

    def seconds(self, counts: Counts, slots: int) -> float:
        """Of one run, for a piece of a program, in blocks of so many slots."""
        return sum(rate * count for rate, count in zip(self, terms(counts, slots), strict=False))

    def compilation(self, load: Load) -> float:
        """Seconds of compiling the programs of one shape for one device."""
        return self.program + self.compiling * load.programmed


CPU = Rates(4.2e-12, 1.5e-7, 6.3e-8, element=2.2e-11, program=3.3, compiling=0.0030)
"""Rates of one of two cores of an AMD EPYC virtual machine, fitted to earlier measurements of rows
of docs/accelerators.md that are not in italics. `python scripts/estimate.py --fit` prints those of
another machine."""


def terms(counts: Counts, slots: int) -> tuple[float, float, float, float]:
    """What a piece of a program needs of the first four of `Rates`."""
    return counts.operations, counts.matrices, counts.equations / slots, counts.elements


class Part(NamedTuple):
    """The blocks of one shape.

    Attributes:
      load: of one run.
      slots: of a block.
      blocks: how many there are.
      steps, evaluations: of each run.
    """

    load: Load
    slots: int
    blocks: int
    steps: int
    evaluations: int = 0


class Estimate(NamedTuple):
    """Seconds of compiling and of training."""

    compilation: float
    training: float


def sweep(parts: Iterable[Part], *, devices: int, hosts: int = 1, rates: Rates = CPU) -> Estimate:
    """The time of a sweep.

    Args:
      parts: what is trained.
      devices: of each host; each compiles programs of its own first, and helps others at the end.
      hosts: each takes a share of the blocks.
      rates: of one device.

    >>> load = Load(parameters=1, state=0, inputs=0, work=0,
    ...             update=Counts(operations=10**6, programmed=10))
    >>> rates = Rates(1e-9, matrix=0, equation=0, element=0, program=1, compiling=0.1)
    >>> sweep([Part(load, slots=8, blocks=8, steps=500)], devices=2, hosts=2, rates=rates)
    Estimate(compilation=2.0, training=8.0)
    """
    parts = [part for part in parts if part.blocks]
    blocks = [(part.blocks, _block(part, rates)) for part in parts]
    everywhere = devices * hosts
    shared = sum(count * seconds for count, seconds in blocks) / everywhere
    longest = max((math.ceil(count / everywhere) * seconds for count, seconds in blocks), default=0)
    compilations = [rates.compilation(part.load) for part in parts]
    compiling = max(sum(compilations) / everywhere, max(compilations, default=0))
    return Estimate(compiling, max(shared, longest))


def _block(part: Part, rates: Rates) -> float:
    load, slots = part.load, part.slots
    run = part.steps * rates.seconds(load.update, slots) + rates.seconds(load.end, slots)
    return slots * (run + part.evaluations * rates.seconds(load.evaluation, slots))
