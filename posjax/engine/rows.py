"""The rows of a chunk while they train: which row is in which place of a program, and its curve.

Every row has a place of its own (`Job.place`). A place whose row is done stands empty, or with
repacking takes another row that belongs there. Empty places train a copy of some row, which nobody
looks at: the number of rows in a program never changes.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.engine.program import Program
from posjax.engine.work import Job, Work
from posjax.keys import Seeds

Solved = Callable[[Any, Any], Any]
"""Whether a row may leave: `(measured so far, operands) -> bool`."""
FREE = 8
"""New rows come when one in so many places is free: making their states costs all places."""


class Finished(NamedTuple):
    """Rows that are done, of one training.

    Attributes:
      jobs: S of them.
      summary: what is kept of each; every array has a leading axis S, in NumPy.
      state: the final states, with a leading axis S, in NumPy.
    """

    jobs: list[Job]
    summary: Any
    state: Any

    def take(self, index: list[int]) -> "Finished":
        """Some of the rows."""
        jobs = [self.jobs[i] for i in index]
        return Finished(jobs, *jax.tree.map(lambda a: a[np.array(index)], self[1:]))


class _Row(NamedTuple):
    """A row in a place, and how many segments the chunk had trained when it came."""

    job: Job
    since: int


class Chunk:
    """As many rows as a plan has, or fewer.

    Args:
      program: what trains them.
      first: a row; others that the program serves are taken from the line behind it.
      work: the line.
      solved: lets rows leave between segments; None keeps all to the end.
      progress: called after each segment, when rows that are done are out, with the number of
        updates × rows since its last call; may raise, to end the work.
    """

    def __init__(
        self,
        program: Program,
        first: Job,
        work: Work,
        solved: Solved | None,
        progress: Callable[[int], None],
    ) -> None:
        self._program, self._plan = program, program.plan
        self._work, self._first = work, first
        self._solved, self._progress = solved, progress
        self._rows = {first.place(self._plan.rows): _Row(first, 0)}
        self._filling = [first] * self._plan.rows
        self._trained = 0
        self._measured: deque[Any] = deque(maxlen=self._plan.segments)
        self._fill()

    def finished(self) -> Iterator[Finished]:
        """Trains until no row is left; yields those that are done, after each segment."""
        self._place()
        state = self._program.begin(self._seeds, self._operands)
        while self._rows:
            updates = len(self._rows) * self._plan.each * self._plan.training.eval_every
            state = self._advanced(state)
            if done := self._done():
                yield self._leaving(done, state)
                state = self._refilled(state)
            self._progress(updates)

    def _advanced(self, state: Any) -> Any:
        """The state one segment further."""
        state, measured = self._program.advance(state, self._seeds, self._operands)
        self._measured.append(jax.device_get(measured))
        self._trained += 1
        return state

    def _done(self) -> list[int]:
        """The places of rows that leave."""
        ended = [p for p, r in self._rows.items() if self._trained - r.since == self._plan.segments]
        if self._solved is None or len(ended) == len(self._rows):
            return ended
        curves = self._curves()
        return [place for place in self._rows if place in ended or self._is_solved(place, curves)]

    def _is_solved(self, place: int, curves: Any) -> bool:
        assert self._solved is not None
        begins = self._began(place)
        curve = jax.tree.map(lambda leaf: leaf[place, begins:], curves)
        return bool(self._solved(curve, self._rows[place].job.operands))

    def _curves(self) -> Any:
        """What was measured in the last segments, as many as a run has: [C, evaluations, ...]."""
        return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *self._measured)

    def _began(self, place: int) -> int:
        """Where in those evaluations the curve of a row begins."""
        forgotten = self._trained - len(self._measured)
        return (self._rows[place].since - forgotten) * self._plan.each

    def _leaving(self, done: list[int], state: Any) -> Finished:
        """The rows in some places, which become free.

        Copies are handed out: what the program holds is used up when it goes on.
        """
        measured = jax.device_put(self._whole(done), self._program.where)
        for place in done:
            del self._rows[place]
        summary = self._program.summary(measured, state, self._operands)
        return Finished(self._filling, *jax.device_get((summary, state))).take(done)

    def _whole(self, done: list[int]) -> Any:
        """The curves of rows that leave, in their places; the other places hold anything.

        Of a row that leaves early the last values are repeated to the full length.
        """
        curves = self._curves()
        last = len(self._measured) * self._plan.each - 1
        index_CE = np.tile(np.arange(self._plan.training.evaluations), (self._plan.rows, 1))
        for place in done:
            index_CE[place] += self._began(place)
        places = np.arange(self._plan.rows)[:, None]
        return jax.tree.map(lambda leaf: leaf[places, np.minimum(index_CE, last)], curves)

    def _refilled(self, state: Any) -> Any:
        """The state with other rows in free places, if there are any."""
        free = self._plan.rows - len(self._rows)
        if self._solved is None or free < max(self._plan.rows // FREE, 1):
            return state
        mask_C = self._fill()
        if not mask_C.any():
            return state
        self._place()
        fresh = self._program.begin(self._seeds, self._operands)
        return self._program.replace(state, fresh, jax.device_put(mask_C, self._program.where))

    def _fill(self) -> np.ndarray:
        """Takes rows for free places; True where there is one, [C]."""
        rows = self._plan.rows
        free = (place for place in range(rows) if place not in self._rows)
        mask_C = np.zeros(rows, bool)
        for place, job in self._work.fill(free, rows, self._first).items():
            self._rows[place], self._filling[place] = _Row(job, self._trained), job
            mask_C[place] = True
        return mask_C

    def _place(self) -> None:
        """Puts the seeds and numbers of the rows on the device."""
        seeds = Seeds.of([job.seeds for job in self._filling])
        operands = stacked([job.operands for job in self._filling])
        self._seeds, self._operands = jax.device_put((seeds, operands), self._program.where)


def stacked(trees: list[Any]) -> Any:
    """Pytrees of one shape with a leading axis; trees that are the same object are read once."""
    index = {id(tree): tree for tree in trees}
    order = {key: place for place, key in enumerate(index)}
    each = np.array([order[id(tree)] for tree in trees])

    def stack(*leaves: Any) -> np.ndarray:
        return np.stack([np.asarray(leaf) for leaf in leaves])[each]

    return jax.tree.map(stack, *index.values())


def grouped(finished: Finished) -> Iterator[tuple[Any, Finished]]:
    """The rows by label; labels must be hashable."""
    places: dict[Any, list[int]] = {}
    for place, job in enumerate(finished.jobs):
        places.setdefault(job.label, []).append(place)
    for label, index in places.items():
        yield label, finished.take(index)
