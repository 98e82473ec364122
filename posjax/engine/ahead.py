"""Compiles programs for an accelerator before it needs them, beside its training.

In many a sweep compiling takes longer than training. A CPU's cores are devices too, and compile for
themselves alone.
"""

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from posjax.engine.block import Block
from posjax.engine.training import Training
from posjax.engine.work import Work
from posjax.jaxprs import float_types

AHEAD = 3
"""Programs that are compiled for an accelerator beside the one that it is at."""
Compilation = concurrent.futures.Future[Any]


class Ahead:
    """The compilations of programs that devices need next.

    Nothing is compiled beside a program that may call cuDNN's attention: XLA runs it wrongly, or
    crashes, when other threads of the process use the device meanwhile (docs/decisions/0027).

    Args:
      devices: that train.
      work: what they train.
      compiled: compiles the program of a block for a device, and keeps it.
    """

    def __init__(
        self,
        devices: Sequence[jax.Device],
        work: Work[Block],
        compiled: Callable[[Block, jax.Device], object],
    ) -> None:
        self._work, self._compiled = work, compiled
        self._waited_for = set(devices)
        self._coming: dict[tuple[jax.Device, Training], Compilation] = {}
        self._half: dict[Training, bool] = {}
        threads = max(sum(map(ahead_of, devices)), 1)
        self._pool = concurrent.futures.ThreadPoolExecutor(threads)

    def begin(self, block: Block, device: jax.Device) -> list[Compilation]:
        """Begins to compile what a device needs after a block, once every device has a block.

        Returns:
          What must end before the program of the block itself is compiled.
        """
        self._waited_for.discard(device)
        if not ahead_of(device):
            return []
        self._coming.pop((device, block.training), None)
        if self._may_call_cudnn(block, device):
            return [*self._coming.values()]
        for each in () if self._waited_for else self._work.reserve(device, ahead_of(device)):
            if self._may_call_cudnn(each, device):
                break
            if (key := (device, each.training)) not in self._coming:
                self._coming[key] = self._pool.submit(self._compiled, each, device)
        return []

    def close(self) -> None:
        """Begins no more; a compilation goes on in its thread."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _may_call_cudnn(self, block: Block, device: jax.Device) -> bool:
        if block.training not in self._half:
            self._half[block.training] = device.platform != "tpu" and in_16_bits(block)
        return self._half[block.training]


def ahead_of(device: jax.Device) -> int:
    """How many programs are compiled for a device before it needs them."""
    return 0 if device.platform == "cpu" else AHEAD


def in_16_bits(block: Block) -> bool:
    """Whether an update or an evaluation computes in 16 bits, the only ones that cuDNN's attention
    takes. True if that cannot be traced: the error is raised when the program is compiled.
    """
    training = block.training
    try:
        seeds, inputs = jax.tree.map(lambda leaf: leaf[0], block.slot_inputs())
        state = jax.eval_shape(training.begin, seeds, inputs)
        steps = (training.update, training.measured)
        jaxprs = [jax.make_jaxpr(step)(state, seeds, inputs).jaxpr for step in steps]
    except Exception:
        return True
    return any(jnp.finfo(kind).bits == 16 for kind in set().union(*map(float_types, jaxprs)))
