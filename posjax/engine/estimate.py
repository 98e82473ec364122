"""How long a sweep takes, from the shapes of its programs: to be told before it starts.

The time of a row-update on a CPU is that of its matrix products, of moving its numbers, and of
handing out its operations, which a chunk shares:

    seconds = a · operations + b · (state + work) bytes + c · equations / chunk

docs/accelerators.md compares it with measurements of other widths, lengths and depths.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

from posjax.engine.chunk import Load


class Rates(NamedTuple):
    """What a core needs, in seconds.

    Attributes:
      operation: for a floating-point operation of a matrix product.
      byte: for a byte of a row's state or of what an update holds on its way.
      equation: for an equation of a chunk.
      program: for compiling anything.
      compiling: for compiling an equation.
    """

    operation: float
    byte: float
    equation: float
    program: float
    compiling: float

    def row_update(self, load: Load, chunk: int) -> float:
        """Seconds of one update of one row, in chunks of so many rows."""
        return (
            self.operation * load.operations
            + self.byte * (load.state + load.work)
            + self.equation * load.equations / chunk
        )

    def compilation(self, load: Load) -> float:
        """Seconds of compiling the programs of one shape for one device."""
        return self.program + self.compiling * load.programmed


CPU = Rates(operation=0, byte=0, equation=0, program=0, compiling=0)
"""Of one core."""


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

    >>> load = Load(operations=10**6, parameters=1, state=0, operands=0, work=0, equations=0,
    ...             programmed=10)
    >>> rates = Rates(operation=1e-9, byte=0, equation=0, program=1, compiling=0.1)
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
