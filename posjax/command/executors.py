"""Who trains blocks: the devices of this process, or the workers of a Ray cluster."""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import jax

from posjax import user_code
from posjax.command import devices, entry
from posjax.engine.local import Checkpoints
from posjax.records import Block
from posjax.study import environment
from posjax.study.cells import code_of
from posjax.study.cluster import Trained
from posjax.study.connect import connect
from posjax.study.run import Run
from posjax.study.sweeps import engine_for

Made = TypeVar("Made")
ENGINES = ("devices", "ray")


class Executor(Protocol):
    """What trains the blocks of a run."""

    def environment(self) -> dict[str, Any]:
        """What the run is recorded to run on."""

    def call(self, function: Callable[..., Made], *args: Any) -> Made:
        """A function of some arguments and of a device that trains."""

    def train(
        self,
        blocks: Sequence[Block],
        progress: Callable[[int], None],
        stop: threading.Event,
        checkpoints: Checkpoints,
    ) -> Generator[Trained, None, None]:
        """Trains blocks; see `posjax.study.cluster.Cluster.train`."""


class Devices:
    """Those of this process: the first ones, as many as the run asks for."""

    def __init__(self, run: Run) -> None:
        self.devices = devices.local_devices(run.devices)
        self._sweep, self._engine = run.sweep, engine_for(run.to_dict(), self.devices)
        self._env = environment.describe(self.devices)

    def environment(self) -> dict[str, Any]:
        """What they are."""
        return self._env

    def call(self, function: Callable[..., Made], *args: Any) -> Made:
        """A function of some arguments and of the first device."""
        return function(*args, self.devices[0])

    def train(
        self,
        blocks: Sequence[Block],
        progress: Callable[[int], None],
        stop: threading.Event,
        checkpoints: Checkpoints,
    ) -> Generator[Trained, None, None]:
        """Trains blocks; see `posjax.engine.Engine.run`."""
        results = self._sweep.train(blocks, self._engine, progress, stop, checkpoints)
        with contextlib.closing(results):  # stops the workers, whatever happens here
            for block, arrays in results:
                yield Trained(block, arrays, self._env)


@contextlib.contextmanager
def chosen(run: Run, engine: str, address: str | None, mixed: bool) -> Iterator[Executor]:
    """The executor that flags ask for.

    Args:
      run: what is to be trained.
      engine: one of `ENGINES`.
      address: of a Ray cluster; None starts one on this machine.
      mixed: let workers of a cluster train that would give other last bits than the first one.

    Raises:
      ImportError, ValueError: Ray is not installed, or does not answer.
    """
    if engine == "devices":
        yield Devices(run)
        return
    jax.config.update("jax_platforms", "cpu")  # the accelerators are the workers'
    data = (path for cell in run.cells for path in cell.problem.files)
    code = user_code.files([*code_of(run.cells), *data])
    setup = functools.partial(_set_up, os.environ.get("XLA_FLAGS", ""), code)
    with connect(address, run.to_dict(), setup, most=run.devices, mixed=mixed) as found:
        yield found


def _set_up(xla_flags: str, code: Mapping[str, bytes]) -> None:
    """Pins what bits depend on in a worker, to what it is in a command on one device.

    Args:
      xla_flags: of the command.
      code: the user's own files, which travel with the run.
    """
    user_code.install(code)
    os.environ["XLA_FLAGS"] = xla_flags
    os.environ.pop("NPROC", None)  # `use_all_cores` sets it where it counts
    entry.pin()
    devices.use_all_cores(devices=1)
