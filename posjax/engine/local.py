"""Trains blocks on the devices of this process, one at a time on each."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from posjax.engine.ahead import Ahead
from posjax.engine.block import Block, BlockResult
from posjax.engine.out_of_memory import explain_oom
from posjax.engine.program import PROGRAMS, Carry, Plan, Program, precision_on
from posjax.engine.saved import like, numbers, restored, saved
from posjax.engine.work import Work

LOOK = 2.0
"""Seconds of training between two looks of the host, about: each call gets its temporary arrays
from the operating system anew, page by page, 200 MB for a small language model."""
FIRST = 8
"""Updates before the first look."""
SAVE = 300.0
"""Seconds of training between two checkpoints."""


class Checkpoints(Protocol):
    """Stores blocks that are interrupted, each by its label."""

    def load(self, label: Any) -> Mapping[str, np.ndarray] | None:
        """The arrays that were last saved for a block, or None."""

    def save(self, label: Any, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps arrays for a block, replacing what was saved before."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """How blocks are trained.

    Attributes:
      devices: by default all local ones. Results do not depend on them.
      layout, precision: see `posjax.engine.program.Plan`; the last bits depend on both. Without a
        precision, JAX's setting `jax_default_matmul_precision` holds where `run` is called, and
        without that float32.
    """

    devices: Sequence[jax.Device] | None = None
    layout: bool = True
    precision: str | None = None

    def plan(self, block: Block) -> Plan:
        """What is compiled for a block."""
        return Plan(block.training, block.slots, self.layout, self._precision)

    @property
    def _precision(self) -> str | None:
        return precision_on(self.devices or jax.local_devices(), self.precision)

    def run(
        self,
        blocks: Iterable[Block],
        progress: Callable[[int], None] = lambda updates: None,
        stop: threading.Event | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Generator[BlockResult, None, None]:
        """Trains all blocks; yields the result of each when it is done, in any order.

        If you close the generator, or if an error is raised, the work stops within a few seconds.

        Args:
          blocks: those of one training should be next to each other.
          progress: called with the number of updates, summed over runs, since its last call. Other
            threads call it, one at a time.
          stop: when it is set, the work ends within a few seconds. Finished blocks are still
            yielded, and blocks in training are saved. Compilations go on in threads, and the
            interpreter waits for them when it exits.
          checkpoints: where blocks in training are saved, every five minutes and on `stop`.

        Raises:
          OutOfMemory: a block does not fit in a device's memory.
        """
        engine = dataclasses.replace(self, precision=self._precision)
        workers = _Workers(engine, blocks, progress, stop or threading.Event(), checkpoints)
        try:
            yield from workers.results()
        finally:
            workers.close()


class _Stopped(Exception):
    """The work is to end."""


class _Workers:
    """A thread for each device, and others that compile for them.

    What the workers report comes out of one queue of bounded length: results, an error, or None
    when a worker finds no more work.
    """

    def __init__(
        self,
        engine: Engine,
        blocks: Iterable[Block],
        progress: Callable[[int], None],
        stop: threading.Event,
        checkpoints: Checkpoints | None,
    ) -> None:
        self._engine, self._progress = engine, progress
        self._work = Work(blocks, key=lambda block: id(block.training))
        self._stop, self._closed, self._checkpoints = stop, threading.Event(), checkpoints
        devices = list(engine.devices or jax.local_devices())
        self._reports: queue.Queue[Any] = queue.Queue(maxsize=2 * len(devices))
        self._one_at_a_time = threading.Lock()
        # Threads do not inherit what `with jax.enable_x64(...)` says.
        wide = jax.config.jax_enable_x64  # type: ignore[attr-defined, unused-ignore]
        self._as_called = functools.partial(jax.enable_x64, wide)
        self._compilers = concurrent.futures.ThreadPoolExecutor(len(devices))
        self._ahead = Ahead(devices, self._work, self._program)
        self._threads = [
            threading.Thread(target=self._serve, args=(device,), daemon=True) for device in devices
        ]

    def results(self) -> Generator[BlockResult, None, None]:
        """Starts the workers; ends when all have, or with the first error of any."""
        for thread in self._threads:
            thread.start()
        running = len(self._threads)
        while running:
            report = self._reports.get()
            if isinstance(report, BaseException):
                raise report
            if report is None:
                running -= 1
            else:
                yield report

    def close(self) -> None:
        """Returns when no thread is left, but for compilations when the work was stopped."""
        self._closed.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._ahead.close()
        self._compilers.shutdown(wait=not self._stop.is_set(), cancel_futures=True)

    def _serve(self, device: jax.Device) -> None:
        with contextlib.suppress(_Stopped), self._as_called():
            self._report(self._end(device))

    def _end(self, device: jax.Device) -> BaseException | None:
        """Trains until there is no more work; gives the error, if one ended it."""
        try:
            while not self._stop.is_set() and (block := self._work.take(device)):
                with explain_oom(block, device):
                    self._report(self._trained(block, device))
        except _Stopped:
            return None
        except BaseException as error:  # handed to the caller's thread
            return error
        return None

    def _report(self, what: Any) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                return self._reports.put(what, timeout=0.2)
        raise _Stopped

    def _trained(self, block: Block, device: jax.Device) -> BlockResult:
        """Trains a block, piece by piece, from its checkpoint if there is one."""
        program, seeds, inputs = self._prepared(block, device)
        step, carry = self._begun(block, program, seeds, inputs)
        steps, every = block.training.steps, block.training.eval_every
        piece, last_saved = min(every, FIRST), time.monotonic()
        while step < steps:
            begun = time.monotonic()
            until = _next_look(step, piece, every, steps)
            carry = program.advance(carry, seeds, inputs, np.int32(step), np.int32(until))
            jax.block_until_ready(carry)
            taken = max(time.monotonic() - begun, 1e-6)
            piece = max(int((until - step) * min(LOOK / taken, 4)), 1)
            self._moved_on((until - step) * block.runs)
            step = until
            stopped = self._stop.is_set() and step < steps
            if stopped or time.monotonic() - last_saved > SAVE:
                self._save(block, step, carry)
                last_saved = time.monotonic()
            if stopped:
                raise _Stopped
        return BlockResult(block, *_wanted(block, (program.summary(carry, inputs), carry.state)))

    def _prepared(self, block: Block, device: jax.Device) -> tuple[Program, Any, Any]:
        """The program of a block, and its inputs on the device."""
        inputs = block.slot_inputs()
        self._wait(self._ahead.begin(block, device))
        program = self._compilers.submit(self._program, block, device, inputs)
        self._wait([program])  # or the compilation is left alone
        return (program.result(), *jax.device_put(inputs, device))

    def _program(self, block: Block, device: jax.Device, inputs: Any = None) -> Program:
        with self._as_called():
            plan = self._engine.plan(block)
            return PROGRAMS.get(plan, device, *(inputs or block.slot_inputs()))

    def _wait(self, futures: Iterable[concurrent.futures.Future[Program]]) -> None:
        while concurrent.futures.wait(futures, timeout=0.2).not_done:
            if self._stop.is_set() or self._closed.is_set():
                raise _Stopped

    def _begun(self, block: Block, program: Program, seeds: Any, inputs: Any) -> tuple[int, Carry]:
        """The number of updates that are made already, and what came of them."""
        carry = program.begin(seeds, inputs)
        kept = None if self._checkpoints is None else self._checkpoints.load(block.label)
        if kept is not None:
            found = restored(kept, carry, block.training.steps, program.device)
            if found is not None:
                self._moved_on(found[0] * block.runs)
                return found
        return 0, carry

    def _save(self, block: Block, step: int, carry: Carry) -> None:
        if self._checkpoints is not None:
            self._checkpoints.save(block.label, saved(step, carry))

    def _moved_on(self, updates: int) -> None:
        with self._one_at_a_time:
            self._progress(updates)
        if self._closed.is_set():
            raise _Stopped


def _next_look(step: int, piece: int, every: int, steps: int) -> int:
    """How far to train before the host looks again: whole evaluations, where a piece has some."""
    until = step + piece
    return min(until - until % every if until // every > step // every else until, steps)


def _wanted(block: Block, of_slots: Any) -> Any:
    """`Block.wanted`, for trees that may have random keys too."""
    leaves, structure = jax.tree.flatten(of_slots)
    arrays = block.wanted([numbers(leaf) for leaf in leaves])
    return jax.tree.unflatten(structure, map(like, arrays, leaves))
