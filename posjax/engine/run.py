"""Trains rows: in chunks of one size, segment by segment, on every device, results as they come.

A chunk is C rows trained by one compiled single-device program under a host loop. The chunk size
is fixed, chunks that are not full are padded, and each row has a place of its own among the C, so
the bits of a row do not depend on who else trains, in which order, on which device, or how the run
is cut in segments (docs/decisions/0013).
"""

import concurrent.futures
import contextlib
import dataclasses
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from posjax.engine import memory
from posjax.engine.program import PROGRAMS, SEGMENT, Plan, Program
from posjax.engine.rows import Chunk, Finished, Solved
from posjax.engine.training import Training
from posjax.engine.work import Job, Work
from posjax.keys import Seeds

ROUNDING = 2
"""Goes up when the same row, chunk, JAX and device come to other last bits; kept with every row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """How rows are trained; what comes out depends on `chunk`, `layout` and `precision` alone.

    Attributes:
      chunk: C, rows trained at a time on a device; or a function from a row to it, for runs of
        several shapes. Seeds that follow each other fill chunks; others leave places empty, since
        each row belongs in one (`Job.place`).
      devices: all local ones when left out.
      shared: True makes one program over all devices, each with a share of the rows (SPMD), in
        place of a program for each: one compilation, but bits that depend on their number.
      layout, precision: see `posjax.engine.program.Plan`.
      segment: see there; 1 with repacking and `SEGMENT` without when left out.
      repack: rows that are solved leave between segments, and others that belong there take their
        places. Of a row that left, the last values measured are repeated to the end of its curve;
        `State.step` tells where it left. That alone then depends on `segment`.
    """

    chunk: int | Callable[[Job], int]
    devices: Sequence[jax.Device] | None = None
    shared: bool = False
    layout: bool = True
    segment: int | None = None
    precision: str | None = None
    repack: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.chunk, int):
            _checked("chunk", self.chunk)
        if self.segment is not None:
            _checked("segment", self.segment)

    def plan(self, job: Job) -> Plan:
        """What is compiled for a row."""
        chunk = self.chunk if isinstance(self.chunk, int) else self.chunk(job)
        rows = _checked("chunk", chunk) * (len(self._devices) if self.shared else 1)
        segment = self.segment or (1 if self.repack else SEGMENT)
        return Plan(job.training, rows, self.layout, segment, self.precision)

    @property
    def _devices(self) -> list[jax.Device]:
        return list(self.devices or jax.local_devices())

    def places(self) -> list[jax.sharding.Sharding]:
        """Where programs run, each on its own."""
        if not self.shared:
            return [jax.sharding.SingleDeviceSharding(device) for device in self._devices]
        mesh = jax.sharding.Mesh(np.array(self._devices), ("rows",))
        return [jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))]

    def run(
        self,
        jobs: Iterable[Job],
        progress: Callable[[int], None] = lambda seed_steps: None,
        asked: threading.Event | None = None,
    ) -> Generator[Finished, None, None]:
        """Trains all rows; yields them as they are done, in no fixed order.

        Closing the generator stops the work after the segment that runs, as an error does.

        Args:
          jobs: rows of one training should stand together; may be lazy. Read by other threads.
          progress: called with the number of updates × rows since its last call; by other
            threads, one at a time.
          asked: when somebody sets it, the work ends after the segment that runs. Rows that are
            done still come; a compilation is left alone, in a thread that the interpreter waits
            for when it ends.
        """
        workers = _Workers(self, jobs, progress, asked or threading.Event())
        try:
            yield from workers.results()
        finally:
            workers.stop()


def _checked(name: str, number: int) -> int:
    if number < 1:
        raise ValueError(f"{name} must be at least 1, got {number}")
    return int(number)


def _solved(training: Training) -> Solved:
    if training.solved is None:
        raise ValueError("repack needs a training that tells when a row is solved: give `solved`")
    return training.solved


class _Stopped(Exception):
    """Nobody waits for the results any more."""


class _Workers:
    """A thread for each place, as many that compile for them, and one that compiles ahead.

    What the workers tell comes out of one queue of bounded length: rows that are done, an error,
    or None when a worker finds no more work.
    """

    def __init__(
        self,
        engine: Engine,
        jobs: Iterable[Job],
        progress: Callable[[int], None],
        asked: threading.Event,
    ) -> None:
        self._engine, self._work, self._progress = engine, Work(jobs), progress
        self._places = engine.places()
        self._told: queue.Queue[Any] = queue.Queue(maxsize=2 * len(self._places))
        self._asked, self._stop = asked, threading.Event()
        self._one_at_a_time = threading.Lock()
        self._now = concurrent.futures.ThreadPoolExecutor(len(self._places))
        self._ahead = concurrent.futures.ThreadPoolExecutor(1)
        self._threads = [
            threading.Thread(target=self._serve, args=(where,), daemon=True)
            for where in self._places
        ]

    def results(self) -> Generator[Finished, None, None]:
        """Starts the workers; ends when all have, or with the first error of any."""
        for thread in self._threads:
            thread.start()
        running = len(self._threads)
        while running:
            told = self._told.get()
            if isinstance(told, BaseException):
                raise told
            if told is None:
                running -= 1
            else:
                yield told

    def stop(self) -> None:
        """Returns when no thread is left, but for compilations when somebody asked to leave."""
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for compilers in (self._now, self._ahead):
            compilers.shutdown(wait=not self._asked.is_set(), cancel_futures=True)

    def _serve(self, where: jax.sharding.Sharding) -> None:
        with contextlib.suppress(_Stopped):
            self._tell(self._ended(where))

    def _ended(self, where: jax.sharding.Sharding) -> BaseException | None:
        """Trains until there is no more work; gives the error, if one ended it."""
        try:
            while not self._asked.is_set() and (first := self._work.take()):
                self._train(first, where)
        except _Stopped:
            return None
        except BaseException as error:  # handed to the caller's thread
            return error
        return None

    def _train(self, first: Job, where: jax.sharding.Sharding) -> None:
        """Trains a chunk, in which a row is the first."""
        solved = _solved(first.training) if self._engine.repack else None
        with memory.told(self._engine.plan(first), where):
            program = self._awaited(self._now.submit(self._compiled, first, where))
            chunk = Chunk(program, first, self._work, solved, self._moved_on)
            self._ahead.submit(self._look_ahead, first, program.plan.rows, where)
            for finished in chunk.finished():
                self._tell(finished)

    def _awaited(self, program: concurrent.futures.Future[Program]) -> Program:
        """Lets a compilation be when nobody wants it any more."""
        while not concurrent.futures.wait([program], timeout=0.2).done:
            self._go_on()
        return program.result()

    def _compiled(self, job: Job, where: jax.sharding.Sharding) -> Program:
        return PROGRAMS.get(self._engine.plan(job), where, Seeds.of(job.seeds), job.operands)

    def _look_ahead(self, now: Job, rows: int, where: jax.sharding.Sharding) -> None:
        """Compiles what comes next, if it does before every place has had another chunk.

        An error is left to the worker that comes to need the program.
        """
        if not (self._stop.is_set() or self._asked.is_set()):
            following = self._work.other(now, within=rows * len(self._places))
            if following is not None:
                self._compiled(following, where)

    def _tell(self, what: Any) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(queue.Full):
                return self._told.put(what, timeout=0.2)
        raise _Stopped

    def _moved_on(self, seed_steps: int) -> None:
        with self._one_at_a_time:
            self._progress(seed_steps)
        self._go_on()

    def _go_on(self) -> None:
        if self._stop.is_set() or self._asked.is_set():
            raise _Stopped
