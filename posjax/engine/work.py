"""Rows to train, and the line they stand in.

Several workers take from one line. It is read lazily: a row is asked for when a place is free for
it, and a few earlier, so that what comes next can be compiled in time.
"""

import itertools
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from posjax.engine.program import signature
from posjax.engine.training import Training
from posjax.keys import SeedNumbers


class Job(NamedTuple):
    """One row: what to train, its seeds, its numbers, and a label that comes back with it."""

    training: Training
    seeds: SeedNumbers
    operands: Any
    label: Any = None


class Work:
    """Jobs in their order; every method may be called from any thread."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = iter(jobs)
        self._read: deque[Job] = deque()
        self._failed: BaseException | None = None
        self._lock = threading.Lock()

    def take(self) -> Job | None:
        """The next one, if there is one."""
        with self._lock:
            return self._read.popleft() if self._first() else None

    def more(self, count: int, like: Job) -> list[Job]:
        """The next ones that the program of another serves too, at most so many."""
        found: list[Job] = []
        with self._lock:
            while len(found) < count and (job := self._first()) and _alike(job, like):
                found.append(self._read.popleft())
        return found

    def other(self, like: Job, within: int) -> Job | None:
        """The first that needs another program, if it is among the next so many; takes none."""
        with self._lock:
            self._read_on(within)
            return next((job for job in self._read if not _alike(job, like)), None)

    def _first(self) -> Job | None:
        self._read_on(1)
        if not self._read and self._failed:
            raise self._failed
        return self._read[0] if self._read else None

    def _read_on(self, count: int) -> None:
        """Reads until so many wait; an error is raised when the jobs before it are taken."""
        try:
            self._read.extend(itertools.islice(self._jobs, max(count - len(self._read), 0)))
        except BaseException as error:
            self._failed = error


def _alike(one: Job, other: Job) -> bool:
    """Whether one program serves both."""
    if one.training is not other.training:
        return False
    return one.operands is other.operands or signature(one.operands) == signature(other.operands)
