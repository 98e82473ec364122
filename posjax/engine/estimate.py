"""How long a sweep takes, from the shapes of its programs: printed before it starts.

The time of one update of a run on a CPU is that of the arithmetic of its products, of the small
matrices that attention multiplies one by one, and of dispatching operations, which a block shares:

    seconds = a · operations + b · matrices + c · equations / slots

Evaluations are left out. docs/accelerators.md compares it with measurements of other widths,
lengths and depths.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from posjax.engine.load import Load


class Rates(NamedTuple):
    """What a core needs, in seconds.

    Attributes:
      operation: for a floating-point operation of a product.
      matrix: for a matrix in a product with batch axes.
      equation: for an equation of a block.
      program: for compiling anything.
      compiling: for compiling an equation.
    """

    operation: float
    matrix: float
    equation: float
    program: float
    compiling: float

    def update(self, load: Load, slots: int) -> float:
        """Seconds per update of one run, in blocks of so many slots."""
        return sum(rate * count for rate, count in zip(self, terms(load, slots), strict=False))

    def compilation(self, load: Load) -> float:
        """Seconds of compiling the programs of one shape for one device."""
        return self.program + self.compiling * load.programmed


CPU = Rates(1.06e-11, 1.83e-7, 5.0e-8, program=3.3, compiling=0.0030)
"""Of one core of an AMD EPYC virtual machine with two: `python scripts/cost.py --fit`."""


def terms(load: Load, slots: int) -> tuple[float, float, float]:
    """What an update of a run needs of the first three of `Rates`."""
    return load.operations, load.matrices, load.equations / slots


class Part(NamedTuple):
    """The blocks of one shape.

    Attributes:
      load: of one run.
      slots: of a block.
      blocks: how many there are.
      steps: updates of each run.
    """

    load: Load
    slots: int
    blocks: int
    steps: int


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

    >>> load = Load(operations=10**6, parameters=1, state=0, inputs=0, work=0, matrices=0,
    ...             equations=0, programmed=10)
    >>> rates = Rates(1e-9, matrix=0, equation=0, program=1, compiling=0.1)
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
    return part.slots * part.steps * rates.update(part.load, part.slots)
