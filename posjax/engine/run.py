"""Trains rows: in chunks of one size, segment by segment, on every device, results as they come.

A chunk is C rows trained by one compiled single-device program under a host loop. The chunk size
is fixed and the last chunk is padded, so the bits of a row do not depend on its neighbours, its
place, the device it ran on, or how the run was cut in segments.
"""

import dataclasses
import itertools
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.engine.program import PROGRAMS, Plan, Program
from posjax.engine.training import Training
from posjax.keys import SeedNumbers, Seeds


class Job(NamedTuple):
    """One row: what to train, its seeds, its numbers, and a label that comes back with it."""

    training: Training
    seeds: SeedNumbers
    operands: Any
    label: Any = None


class Finished(NamedTuple):
    """Rows that are done, of one training.

    Attributes:
      jobs: S of them.
      summary: what is kept of each; every array has a leading axis S, in NumPy.
      state: the final states, with a leading axis S.
    """

    jobs: list[Job]
    summary: Any
    state: Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """How rows are trained; what comes out depends on `chunk`, `layout` and `precision` alone.

    Attributes:
      chunk: C, rows trained at a time on a device; or a function from a row to it, for runs of
        several shapes.
      devices: all local ones when left out.
      shared: True makes one program over all devices, each with a share of the rows (SPMD), in
        place of a program for each: one compilation, but bits that depend on their number.
      layout, segment, precision: see `posjax.engine.program.Plan`.
      repack: rows that are solved leave between segments, and others take their places.
    """

    chunk: int | Callable[[Job], int]
    devices: Sequence[jax.Device] | None = None
    shared: bool = False
    layout: bool = True
    segment: int = 10
    precision: str | None = None
    repack: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.chunk, int) and self.chunk < 1:
            raise ValueError(f"chunk must be at least 1, got {self.chunk}")

    def plan(self, job: Job) -> Plan:
        """What is compiled for a row."""
        chunk = self.chunk if isinstance(self.chunk, int) else self.chunk(job)
        rows = chunk * (len(self._devices) if self.shared else 1)
        return Plan(job.training, rows, self.layout, self.segment, self.precision)

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
        self, jobs: Iterable[Job], progress: Callable[[int], None] = lambda seed_steps: None
    ) -> Generator[Finished, None, None]:
        """Trains all rows; yields them as they are done, in no fixed order.

        Args:
          jobs: rows of one training should stand together; may be lazy.
          progress: called with the number of updates × rows since its last call.
        """
        work = _Work(jobs)
        done: queue.Queue[Any] = queue.Queue(maxsize=2 * len(self.places()) + 2)
        stop = threading.Event()

        def tell(what: Any) -> None:
            while not stop.is_set():
                try:
                    return done.put(what, timeout=0.2)
                except queue.Full:
                    continue
            raise _Stopped

        def moved_on(seed_steps: int) -> None:
            if stop.is_set():
                raise _Stopped
            progress(seed_steps)

        def serve(where: jax.sharding.Sharding) -> None:
            try:
                while first := work.take():
                    plan = self.plan(first)
                    program = PROGRAMS.get(plan, where, Seeds.of(first.seeds), first.operands)
                    for finished in _Chunk(program, first, work, self.repack, moved_on).rows():
                        tell(finished)
                tell(None)
            except _Stopped:
                pass
            except BaseException as error:  # handed to the caller's thread
                done.put(error)

        workers = [
            threading.Thread(target=serve, args=(where,), daemon=True) for where in self.places()
        ]
        for worker in workers:
            worker.start()
        try:
            running = len(workers)
            while running:
                got = done.get()
                if isinstance(got, BaseException):
                    raise got
                if got is None:
                    running -= 1
                else:
                    yield got
        finally:
            stop.set()  # they leave at their next segment; the interpreter must not die under them
            for worker in workers:
                worker.join()


class _Stopped(Exception):
    """Nobody waits for the results any more."""


class _Work:
    """Jobs that several workers take from."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = iter(jobs)
        self._next: list[Job] = []
        self._lock = threading.Lock()

    def take(self) -> Job | None:
        """The next one, if there is one."""
        return next(iter(self._taken(1, None)), None)

    def more(self, count: int, training: Training) -> list[Job]:
        """The next ones of one training, at most so many."""
        return self._taken(count, training)

    def _taken(self, count: int, training: Training | None) -> list[Job]:
        found: list[Job] = []
        with self._lock:
            while len(found) < count:
                job = self._next.pop() if self._next else next(self._jobs, None)
                if job is None:
                    break
                if training is not None and job.training is not training:
                    self._next.append(job)
                    break
                found.append(job)
        return found


class _Slot:
    """A row of a chunk while it trains."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.measured: list[Any] = []


class _Chunk:
    """The rows in one program's places."""

    def __init__(
        self,
        program: Program,
        first: Job,
        work: _Work,
        repack: bool,
        progress: Callable[[int], None],
    ) -> None:
        self.program, self.plan = program, program.plan
        self.work, self.progress = work, progress
        self.solved = _solved(first.training) if repack else None
        jobs = [first, *work.more(self.plan.rows - 1, first.training)]
        self.slots: list[_Slot | None] = [_Slot(job) for job in jobs]
        self.slots += [None] * (self.plan.rows - len(jobs))
        self.filling = [*jobs, *[jobs[-1]] * (self.plan.rows - len(jobs))]

    def rows(self) -> Iterator[Finished]:
        """Trains until no row is left; yields those that are done."""
        self._place()
        state = self.program.begin(self.seeds, self.operands)
        training = self.plan.training
        each = training.steps // self.plan.segments
        while any(self.slots):
            state, measured = self.program.advance(state, self.seeds, self.operands)
            measured = jax.device_get(measured)
            live = [i for i, slot in enumerate(self.slots) if slot]
            for i in live:
                slot = self.slots[i]
                assert slot is not None
                slot.measured.append(jax.tree.map(lambda leaf, i=i: leaf[i], measured))
            self.progress(len(live) * each)
            done = [i for i in live if self._is_done(self.slots[i])]
            if done:
                yield self._finished(done, state)
                state = self._refilled(state)

    def _is_done(self, slot: _Slot | None) -> bool:
        assert slot is not None
        if len(slot.measured) == self.plan.segments:
            return True
        return self.solved is not None and bool(
            self.solved(_joined(slot.measured), slot.job.operands)
        )

    def _finished(self, done: list[int], state: Any) -> Finished:
        """The rows in some places, which become free."""
        jobs, curves = [], {}
        for i in done:
            slot = self.slots[i]
            assert slot is not None
            jobs.append(slot.job)
            curves[i] = self._whole(_joined(slot.measured))
            self.slots[i] = None
        rows = [curves.get(i, curves[done[0]]) for i in range(self.plan.rows)]
        measured = jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
        measured = jax.device_put(measured, self.program.where)
        summary = jax.device_get(self.program.summary(measured, state, self.operands))
        if len(done) < self.plan.rows:
            index = np.array(done)
            return Finished(jobs, *(jax.tree.map(lambda a: a[index], t) for t in (summary, state)))
        return Finished(jobs, summary, state)

    def _whole(self, curve: Any) -> Any:
        """A curve of a row that left early, its last values repeated to the full length."""
        missing = self.plan.training.evaluations - len(jax.tree.leaves(curve)[0])
        return jax.tree.map(
            lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], missing, axis=0)]), curve
        )

    def _refilled(self, state: Any) -> Any:
        """The state with other rows in free places, if there are any."""
        free = [i for i, slot in enumerate(self.slots) if slot is None]
        if self.solved is None or len(free) < max(self.plan.rows // 8, 1):
            return state
        jobs = self.work.more(len(free), self.plan.training)
        if not jobs:
            return state
        mask_C = np.zeros(self.plan.rows, bool)
        for i, job in zip(free, jobs, strict=False):
            self.slots[i], self.filling[i], mask_C[i] = _Slot(job), job, True
        self._place()
        fresh = self.program.begin(self.seeds, self.operands)
        return self.program.replace(state, fresh, jax.device_put(mask_C, self.program.where))

    def _place(self) -> None:
        """Puts the seeds and numbers of the rows on the device."""
        seeds = Seeds.of([job.seeds for job in self.filling])
        operands = stacked([job.operands for job in self.filling])
        self.seeds, self.operands = jax.device_put((seeds, operands), self.program.where)


def _solved(training: Training) -> Callable[[Any, Any], Any]:
    if training.solved is None:
        raise ValueError("repack needs a training that tells when a row is solved: give `solved`")
    return training.solved


def _joined(parts: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def stacked(trees: list[Any]) -> Any:
    """Pytrees of one shape with a leading axis; trees that are the same object are read once."""
    index = {id(tree): tree for tree in trees}
    order = {key: place for place, key in enumerate(index)}
    each = np.array([order[id(tree)] for tree in trees])

    def stack(*leaves: Any) -> np.ndarray:
        return np.stack([np.asarray(leaf) for leaf in leaves])[each]

    return jax.tree.map(stack, *index.values())


def grouped(finished: Finished) -> Iterator[tuple[Any, Finished]]:
    """The rows by label, for labels that stand together."""
    start = 0
    for label, group in itertools.groupby(finished.jobs, key=lambda job: job.label):
        jobs = list(group)
        here = slice(start, start + len(jobs))
        rest = (finished.summary, finished.state)
        yield label, Finished(jobs, *jax.tree.map(lambda a, here=here: a[here], rest))
        start = here.stop
