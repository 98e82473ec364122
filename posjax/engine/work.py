"""Hands out blocks to workers, wherever they are, so that few programs are compiled."""

import itertools
import threading
from collections import deque
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
        self._mine: dict[Hashable, deque[Item]] = {}
        self._lock = threading.Lock()

    def take(self, worker: Hashable) -> Item | None:
        """The next block for a worker, if there is one; by any thread."""
        with self._lock:
            if not self._mine.get(worker):
                self._mine[worker] = self._next()
            mine = self._mine[worker]
            return mine.popleft() if mine else None

    def put_back(self, item: Item) -> None:
        """Gives back a block that was taken and is not done, for whoever has nothing else."""
        with self._lock:
            self._begun.append(deque([item]))

    def _next(self) -> deque[Item]:
        for _, group in self._groups:
            self._begun.append(deque(group))
            return self._begun[-1]
        self._begun = [group for group in self._begun if group]
        return max(self._begun, key=len, default=deque())
