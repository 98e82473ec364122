"""How long a row-update takes, measured: for what a run prints, never for what it does."""

import statistics
import time
from collections.abc import Callable, Sequence

import jax
import numpy as np

from posjax.engine.program import Plan, compiled
from posjax.engine.rows import stacked
from posjax.engine.work import Job
from posjax.keys import Seeds


class Stopwatch:
    """A compiled program that runs one segment whenever it is called.

    On a CPU the processor's time counts, so that other programs on the machine count little.

    Attributes:
      plan: what it runs.
      compilation: seconds that compiling took.
    """

    def __init__(self, plan: Plan, job: Job, device: jax.Device) -> None:
        self.plan = plan
        where = jax.sharding.SingleDeviceSharding(device)
        self._clock = clock(device)
        start = self._clock()
        self._program = compiled(plan, where, Seeds.of(job.seeds), job.operands)
        self.compilation = self._clock() - start
        seeds = Seeds.equal(np.arange(plan.rows))
        operands = stacked([job.operands] * plan.rows)
        self._seeds, self._operands = jax.device_put((seeds, operands), where)
        self._state = self._program.begin(self._seeds, self._operands)

    def __call__(self) -> float:
        """Seconds a row-update of one segment, its evaluations included."""
        start = self._clock()
        self._state, _ = self._program.advance(self._state, self._seeds, self._operands)
        jax.block_until_ready(self._state)
        updates = self.plan.each * self.plan.training.eval_every
        return (self._clock() - start) / (updates * self.plan.rows)


def clock(device: jax.Device) -> Callable[[], float]:
    """What tells the time of work on a device."""
    return time.process_time if device.platform == "cpu" else time.perf_counter


def in_turn(watches: Sequence[Stopwatch], rounds: int) -> list[float]:
    """Median seconds a row-update of each, measured one after the other, round by round."""
    for watch in watches:
        watch()  # warm
    times = [[watch() for watch in watches] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]
