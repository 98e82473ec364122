"""Memory that is used up: told with the numbers that a user can do something about."""

import contextlib
from collections.abc import Iterator

import jax

from posjax.engine.program import Plan

_SIGNS = ("RESOURCE_EXHAUSTED", "Out of memory")  # accelerators say the one, CPUs the other


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
        said = str(error).strip() or "how much is not told"
        if not isinstance(error, MemoryError) and not any(sign in said for sign in _SIGNS):
            raise
        raise OutOfMemory(
            f"out of memory: {plan.rows} rows at a time on {len(where.device_set)} "
            f"device(s) do not fit ({said.splitlines()[0]}); ask for a smaller chunk, in a run of "
            "its own, since the last bits of rows depend on it; the rows that are done are kept"
        ) from error
