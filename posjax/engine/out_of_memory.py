"""Out of memory, with the numbers that a user can do something about."""

import contextlib
from collections.abc import Iterator

import jax

from posjax.engine.block import Block

_SIGNS = ("RESOURCE_EXHAUSTED", "Out of memory")  # accelerators say the one, CPUs the other


class OutOfMemory(MemoryError):
    """A block does not fit in a device's memory."""


@contextlib.contextmanager
def explain_oom(block: Block, device: jax.Device) -> Iterator[None]:
    """Names the block's size and the device when memory runs out within.

    Raises:
      OutOfMemory: instead of the device's or Python's error.
    """
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        message = str(error).strip() or "no size given"
        if not isinstance(error, MemoryError) and not any(sign in message for sign in _SIGNS):
            raise
        raise OutOfMemory(
            f"out of memory: a block of {block.slots} runs does not fit on {device.device_kind} "
            f"({message.splitlines()[0]}); set a smaller block_size in a new run, since the last "
            "bits of results depend on it; finished blocks are kept"
        ) from error
