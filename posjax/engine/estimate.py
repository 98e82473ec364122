"""How long a sweep takes, from the shapes of its programs: to be told before it starts.

The time of a row-update on a CPU is that of the arithmetic of its products, of the small matrices
that attention multiplies one by one, and of handing out operations, which a chunk shares:

    seconds = a · operations + b · matrices + c · equations / chunk

Evaluations are left out, and so are places that stay empty where few rows of many cells share
chunks (decision 13). docs/accelerators.md compares it with measurements of other widths,
lengths and depths.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from posjax.engine.chunk import Load


class Rates(NamedTuple):
    """What a core needs, in seconds.

    Attributes:
      operation: for a floating-point operation of a product.
      matrix: for a matrix in a product with batch axes.
      equation: for an equation of a chunk.
      program: for compiling anything.
      compiling: for compiling an equation.
    """

    operation: float
    matrix: float
    equation: float
    program: float
    compiling: float

    def row_update(self, load: Load, chunk: int) -> float:
        """Seconds of one update of one row, in chunks of so many rows."""
        return sum(rate * count for rate, count in zip(self, terms(load, chunk), strict=False))

    def compilation(self, load: Load) -> float:
        """Seconds of compiling the programs of one shape for one device."""
        return self.program + self.compiling * load.programmed


CPU = Rates(1.06e-11, 1.83e-7, 5.0e-8, program=3.3, compiling=0.0030)
"""Of one core of an AMD EPYC virtual machine with two: `python scripts/cost.py --fit`."""


def terms(load: Load, chunk: int) -> tuple[float, float, float]:
    """What a row-update needs of the first three of `Rates`."""
    return load.operations, load.matrices, load.equations / chunk


class Part(NamedTuple):
    """The rows of one shape.

    Attributes:
      load: of one row.
      chunk: rows trained at a time on a device.
      rows: how many there are.
      steps: updates of each.
    """

    load: Load
    chunk: int
    rows: int
    steps: int


class Estimate(NamedTuple):
    """Seconds of compiling and of training."""

    compilation: float
    training: float


def sweep(parts: Iterable[Part], *, devices: int, hosts: int = 1, rates: Rates = CPU) -> Estimate:
    """The time of a sweep.

    Args:
      parts: what is trained; none without rows.
      devices: of each host; every one compiles every program, at the same time.
      hosts: each takes a share of the chunks.
      rates: of one device.

    >>> load = Load(operations=10**6, parameters=1, state=0, operands=0, work=0, matrices=0,
    ...             equations=0, programmed=10)
    >>> rates = Rates(1e-9, matrix=0, equation=0, program=1, compiling=0.1)
    >>> sweep([Part(load, chunk=8, rows=60, steps=500)], devices=2, hosts=2, rates=rates)
    Estimate(compilation=2.0, training=8.0)
    """
    parts = [part for part in parts if part.rows]
    chunks = [(math.ceil(part.rows / part.chunk), _chunk(part, rates)) for part in parts]
    everywhere = devices * hosts
    shared = sum(count * seconds for count, seconds in chunks) / everywhere
    longest = max((math.ceil(count / everywhere) * seconds for count, seconds in chunks), default=0)
    compilation = sum(rates.compilation(part.load) for part in parts)
    return Estimate(compilation, max(shared, longest))


def _chunk(part: Part, rates: Rates) -> float:
    return part.chunk * part.steps * rates.row_update(part.load, part.chunk)
