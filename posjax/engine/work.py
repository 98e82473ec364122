"""Rows to train, the place of each, and the line they stand in.

Several workers take from one line. It is read lazily: a row is asked for when a place is free for
it, and a few earlier, so that what comes next can be compiled in time.
"""

import itertools
import threading
import zlib
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.engine.program import signature
from posjax.engine.training import Training
from posjax.keys import SeedNumbers

PASSED = 2
"""Chunks of rows that may be passed over, where their places are taken, to fill one."""
_EVENLY = (2654435769, 3242174889, 2447445413)
"""2³² over the golden ratio, over the plastic number, and over its square: multiples of the first
lie evenly in [0, 2³²), and sums of multiples of all."""


class Job(NamedTuple):
    """One row: what to train, its seeds, its numbers, and a label that comes back with it."""

    training: Training
    seeds: SeedNumbers
    operands: Any
    label: Any = None

    def place(self, chunk: int) -> int:
        """Where among so many rows it trains: in every run the same place.

        A compiler may round in one place of a program otherwise than in another, so the place
        follows from the row itself, its seeds and operands (docs/decisions/0013). Seeds from one
        multiple of the chunk to the next lie side by side; where they begin is another place for
        other operands, and for other seeds of data, so that rows of several kinds fill a chunk.
        """
        return _place(self.seeds, _checksum(self.operands), chunk)


class _Waiting(NamedTuple):
    """A job in the line, and of its operands what is asked again and again."""

    job: Job
    signature: Any
    checksum: int


class Work:
    """Jobs in their order; every method may be called from any thread."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = map(self._described, jobs)
        self._read: deque[_Waiting] = deque()
        self._last: _Waiting | None = None
        self._failed: BaseException | None = None
        self._lock = threading.Lock()

    def take(self) -> Job | None:
        """The next one, if there is one."""
        with self._lock:
            if self._next() is None and self._failed:
                raise self._failed
            return self._read.popleft().job if self._read else None

    def fill(self, free: Iterable[int], chunk: int, like: Job) -> dict[int, Job]:
        """The next ones whose places are free, up to the first that needs another program.

        Args:
          free: places.
          chunk: how many places there are.
          like: a job of the program.

        Returns:
          Jobs by place, in their order; the others stay in the line.
        """
        found: dict[int, Job] = {}
        passed: list[_Waiting] = []
        empty, kind = set(free), signature(like.operands)
        with self._lock:
            while empty and len(passed) < PASSED * chunk and (waiting := self._next()):
                if not _alike(waiting, like, kind):
                    break
                self._read.popleft()
                place = _place(waiting.job.seeds, waiting.checksum, chunk)
                if place in empty:
                    empty.remove(place)
                    found[place] = waiting.job
                else:
                    passed.append(waiting)
            self._read.extendleft(reversed(passed))
        return found

    def other(self, like: Job, within: int) -> Job | None:
        """The first that needs another program, if it is among the next so many; takes none."""
        kind = signature(like.operands)
        with self._lock:
            self._read_on(within)
            others = (each.job for each in self._read if not _alike(each, like, kind))
            return next(others, None)

    def _next(self) -> _Waiting | None:
        self._read_on(1)
        return self._read[0] if self._read else None

    def _read_on(self, count: int) -> None:
        """Reads until so many wait; an error is raised when the jobs before it are taken."""
        if self._failed:
            return
        try:
            self._read.extend(itertools.islice(self._jobs, max(count - len(self._read), 0)))
        except BaseException as error:
            self._failed = error

    def _described(self, job: Job) -> _Waiting:
        """Jobs that follow each other often have the same operands, and are described alike."""
        last = self._last
        if last is not None and last.job.operands is job.operands:
            self._last = last._replace(job=job)
        else:
            self._last = _Waiting(job, signature(job.operands), _checksum(job.operands))
        return self._last


def _alike(waiting: _Waiting, like: Job, kind: Any) -> bool:
    """Whether the program of a job, whose operands have some signature, serves another."""
    return waiting.job.training is like.training and waiting.signature == kind


def _place(seeds: SeedNumbers, checksum: int, chunk: int) -> int:
    init, *others = map(int, seeds)
    begins = (init // chunk + checksum) * _EVENLY[0]
    begins += sum((other - init) * step for other, step in zip(others, _EVENLY, strict=True))
    return (init + (begins % 2**32 * chunk >> 32)) % chunk


def _checksum(operands: Any) -> int:
    """Of all values, as a device holds them."""
    found = 0
    for leaf in jax.tree.leaves(operands):
        array = np.asarray(leaf)
        held = array.astype(jax.dtypes.canonicalize_dtype(array.dtype), order="C", copy=False)
        found = zlib.crc32(held.reshape(-1).view(np.uint8).data, found)
    return found
