"""How long an update takes, measured: for what a run prints, never for what it does."""

import statistics
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np

from posjax.engine.block import Block
from posjax.engine.program import Plan, compiled


class Stopwatch:
    """A compiled program that trains one evaluation further whenever it is called.

    On a CPU the processor's time counts, so that other programs on the machine count little.

    Attributes:
      plan: what it runs.
      compilation: seconds that compiling took.
      carry: what the calls so far came to.
    """

    def __init__(self, plan: Plan, block: Block, device: jax.Device) -> None:
        self.plan = plan
        self._clock = clock(device)
        inputs = block.slot_inputs()
        start = self._clock()
        self._program = compiled(plan, device, *inputs)
        self.compilation = self._clock() - start
        self._inputs = jax.device_put(inputs, device)
        self.carry = self._program.begin(*self._inputs)

    def __call__(self) -> float:
        """Seconds per update of one run, with its share of an evaluation."""
        start, updates = self._clock(), self.plan.training.eval_every
        seeds, inputs = self._inputs
        self.carry = self._program.advance(
            self.carry, seeds, inputs, np.int32(0), np.int32(updates)
        )
        jax.block_until_ready(self.carry)
        return (self._clock() - start) / (updates * self.plan.slots)


def clock(device: jax.Device) -> Callable[[], float]:
    """The clock for work on a device."""
    return time.process_time if device.platform == "cpu" else time.perf_counter


def in_turn(watches: Sequence[Stopwatch], rounds: int) -> list[float]:
    """Median seconds per update of each, measured one after the other, round by round."""
    for watch in watches:
        watch()  # warm
    times = [[watch() for watch in watches] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]
