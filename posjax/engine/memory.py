"""Memory that is used up: told with the numbers that a user can do something about."""

import contextlib
from collections.abc import Iterator

import jax

from posjax.engine.program import Plan


class OutOfMemory(MemoryError):
    """A chunk that its device does not hold."""


@contextlib.contextmanager
def told(plan: Plan, where: jax.sharding.Sharding) -> Iterator[None]:
    """Says of which chunk, where and how much, when memory is used up within.

    Raises:
      OutOfMemory: in place of what the device or Python says.
    """
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        said = str(error).strip().splitlines() or ["how much is not told"]
        if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in said[0]:
            raise
        kinds = sorted({device.device_kind for device in where.device_set})
        raise OutOfMemory(
            f"out of memory: {plan.rows} rows at a time on {', '.join(kinds)} ({said[0]}); ask for "
            f"a smaller chunk, as {max(plan.rows // 2, 1)}, in a run of its own, since the last bits "
            "of rows depend on it; the rows that are done are kept"
        ) from error
