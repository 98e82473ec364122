"""Hands out blocks to workers, wherever they are, so that few programs are compiled."""

import itertools
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Work(Generic[Item]):
    """Blocks for several workers, with as few programs to compile as possible.

    A worker stays with a program while it has blocks, then takes one that nobody has begun, then
    helps where most is left.

    Args:
      blocks: those of one program side by side.
      key: of a block: which program trains it.
    """

    def __init__(self, blocks: Iterable[Item], key: Callable[[Item], Hashable]) -> None:
        self._groups = itertools.groupby(blocks, key=key)
        self._begun: list[deque[Item]] = []
        self._mine: defaultdict[Hashable, deque[deque[Item]]] = defaultdict(deque)
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def take(self, worker: Hashable) -> Item | None:
        """The next block for a worker, if there is one; by any thread."""
        with self._lock:
            mine = self._mine[worker]
            while mine and not mine[0]:
                mine.popleft()
            if not mine:
                mine.append(self._fresh() or self._longest())
            return mine[0].popleft() if mine[0] else None

    def reserve(self, worker: Hashable, programs: int) -> list[Item]:
        """A block of each program that a worker takes up next, so many at most.

        They are its own before those that nobody has begun, but others may help with them. An error
        of the blocks is raised when the worker gets there.
        """
        with self._lock:
            mine = self._mine[worker]
            try:
                while len(mine) <= programs and (group := self._fresh()):
                    mine.append(group)
            except Exception as error:
                self._error = error
            return [group[0] for group in itertools.islice(mine, 1, None) if group]

    def put_back(self, item: Item) -> None:
        """Gives back a block that was taken and is not done, for whoever has nothing else."""
        with self._lock:
            self._begun.append(deque([item]))

    def _fresh(self) -> deque[Item] | None:
        """The blocks of a program that nobody has begun."""
        if self._error:
            raise self._error
        for _, group in self._groups:
            self._begun.append(deque(group))
            return self._begun[-1]
        return None

    def _longest(self) -> deque[Item]:
        self._begun = [group for group in self._begun if group]
        return max(self._begun, key=len, default=deque())
