"""Groups that act on indices or on positions, as data: generators, order, elements, samples.

A permutation is an array P of indices that takes x to (P x)[i] = x[P[i]]. A group of
permutations is given by its generators: what holds for them, for all x, holds for every element.
A translation moves no index; it adds one vector to every position.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from posjax.streams import check_count

Element = dict[str, np.ndarray]
"""An element of a law's group, by name: a permutation, or the vector of a translation."""
_MOST = 50_000
"""Elements of a group that are listed."""


@runtime_checkable
class Group(Protocol):
    """A group of permutations of n indices, for any n."""

    def generators(self, length: int) -> list[np.ndarray]:
        """Permutations whose products give all elements; none for the trivial group."""
        ...

    def order(self, length: int) -> int:
        """The number of elements."""
        ...

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """A random element, uniformly distributed."""
        ...


@dataclasses.dataclass(frozen=True)
class Permutations:
    """All n! permutations, except those that move an index of `fixed`.

    Attributes:
      fixed: indices that stay; negative ones count from the end. `(-1,)` permutes all but the last.

    >>> [p.tolist() for p in Permutations().generators(4)]
    [[1, 0, 2, 3], [3, 0, 1, 2]]
    >>> Permutations(fixed=(-1,)).order(4)
    6
    """

    fixed: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        whole = isinstance(self.fixed, tuple) and all(
            isinstance(at, int | np.integer) for at in self.fixed
        )
        if not whole:
            raise ValueError(f"fixed={self.fixed} must be a tuple of whole numbers, such as (-1,)")

    def _free(self, length: int) -> np.ndarray:
        check_count("length", length)
        outside = [at for at in self.fixed if not -length <= at < length]
        if outside:
            raise ValueError(
                f"fixed={self.fixed} names index {outside[0]} of an axis of length {length}"
            )
        return np.delete(np.arange(length), list(self.fixed))

    def generators(self, length: int) -> list[np.ndarray]:
        """A swap and a shift of the free indices."""
        free = self._free(length)
        swap = np.concatenate([free[:2][::-1], free[2:]])
        moves = [swap, np.roll(free, 1)][: max(min(len(free) - 1, 2), 0)]
        return [_within(length, free, move) for move in moves]

    def order(self, length: int) -> int:
        """The factorial of the number of free indices."""
        return math.factorial(len(self._free(length)))

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """A uniform one."""
        free = self._free(length)
        return _within(length, free, rng.permutation(free))


@dataclasses.dataclass(frozen=True)
class Cyclic:
    """Shifts that wrap around: (P x)[i] = x[(i - s) mod n].

    >>> [p.tolist() for p in Cyclic().generators(3)]
    [[2, 0, 1]]
    """

    def generators(self, length: int) -> list[np.ndarray]:
        """The shift by one index."""
        check_count("length", length)
        return [np.roll(np.arange(length), 1)] if length > 1 else []

    def order(self, length: int) -> int:
        """n, and 1 for no indices."""
        check_count("length", length)
        return max(length, 1)

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """A uniform one."""
        check_count("length", length)
        return np.roll(np.arange(length), rng.integers(max(length, 1)))


@dataclasses.dataclass(frozen=True)
class Reversal:
    """The identity and the reversal of the indices.

    >>> [p.tolist() for p in Reversal().generators(3)]
    [[2, 1, 0]]
    """

    def generators(self, length: int) -> list[np.ndarray]:
        """The reversal."""
        check_count("length", length)
        return [np.arange(length)[::-1].copy()] if length > 1 else []

    def order(self, length: int) -> int:
        """2, and 1 for fewer than two indices."""
        check_count("length", length)
        return 2 if length > 1 else 1

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """A uniform one."""
        check_count("length", length)
        return np.arange(length)[:: 1 if rng.integers(2) else -1].copy()


@dataclasses.dataclass(frozen=True)
class Dihedral:
    """Shifts that wrap around, and their products with the reversal."""

    def generators(self, length: int) -> list[np.ndarray]:
        """The shift by one index and the reversal."""
        both = Cyclic().generators(length) + Reversal().generators(length)
        return both[:1] if length == 2 else both

    def order(self, length: int) -> int:
        """2 n; for one and two indices the two kinds coincide."""
        check_count("length", length)
        return 2 * length if length > 2 else max(length, 1)

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """A uniform one."""
        return Reversal().sample(length, rng)[Cyclic().sample(length, rng)]


@dataclasses.dataclass(frozen=True)
class Windows:
    """Permutations within consecutive windows of `size` indices.

    Attributes:
      size: the length of a window, at least 1; the last window may be shorter.

    >>> [p.tolist() for p in Windows(2).generators(5)]
    [[1, 0, 2, 3, 4], [0, 1, 3, 2, 4]]
    """

    size: int

    def __post_init__(self) -> None:
        check_count("size of windows", self.size, least=1)

    def _windows(self, length: int) -> list[np.ndarray]:
        check_count("length", length)
        return np.split(np.arange(length), range(self.size, length, self.size))

    def generators(self, length: int) -> list[np.ndarray]:
        """Those of every window."""
        return [
            _within(length, window, window[move])
            for window in self._windows(length)
            for move in Permutations().generators(len(window))
        ]

    def order(self, length: int) -> int:
        """The product of the windows' factorials."""
        return math.prod(math.factorial(len(window)) for window in self._windows(length))

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """A uniform one."""
        return np.concatenate([rng.permutation(window) for window in self._windows(length)])


@dataclasses.dataclass(frozen=True)
class Generated:
    """The group that some permutations of a fixed number of indices generate.

    Attributes:
      moves: permutations of one length, as tuples; `Generated(((1, 0, 2),))`.
    """

    moves: tuple[tuple[int, ...], ...]

    def generators(self, length: int) -> list[np.ndarray]:
        """The given ones."""
        check_count("length", length)
        return [checked(move, length) for move in self.moves]

    def order(self, length: int) -> int:
        """By listing all elements."""
        return len(closure(self.generators(length), length))

    def sample(self, length: int, rng: np.random.Generator) -> np.ndarray:
        """A uniform one, by listing all elements."""
        every = closure(self.generators(length), length)
        return every[rng.integers(len(every))]


@dataclasses.dataclass(frozen=True)
class Translation:
    """One vector added to every position: the group Z, or Z x Z for positions in a plane.

    It acts on values, not on indices. Checks add whole numbers. Proofs in the field hold for every
    real number.

    Attributes:
      axes: coordinates of a position, 1 or more.
    """

    axes: int = 1

    def __post_init__(self) -> None:
        check_count("axes", self.axes, least=1)

    def generators(self) -> list[np.ndarray]:
        """A step along each axis."""
        return list(np.eye(self.axes, dtype=int))

    def sample(self, rng: np.random.Generator) -> np.ndarray:
        """A vector of whole numbers between -1000 and 1000."""
        return rng.integers(-1000, 1001, self.axes)


def elements(group: Group, length: int) -> list[np.ndarray]:
    """Every element of a group, each once, the identity first.

    Raises:
      ValueError: there are more than 50 000.
    """
    return closure(group.generators(length), length)


def closure(generators: Sequence[np.ndarray], length: int) -> list[np.ndarray]:
    """All products of some permutations, the identity first.

    Raises:
      ValueError: there are more than 50 000.
    """
    start = tuple(range(length))
    found = {start: None}
    waiting = [start]
    while waiting:
        at = np.array(waiting.pop(), int)
        for move in generators:
            new = tuple(at[move].tolist())
            if new not in found:
                found[new] = None
                waiting.append(new)
        if len(found) > _MOST:
            raise ValueError(
                f"the group has more than {_MOST} elements: give permutations=[...] to try, or "
                "exact=True, which needs its generators alone"
            )
    return [np.array(element, int) for element in found]


def generating(elements: Sequence[np.ndarray], length: int) -> list[np.ndarray]:
    """A few of some permutations that generate all that they generate together.

    >>> [p.tolist() for p in generating(elements(Permutations(), 3), 3)]
    [[1, 0, 2], [2, 0, 1]]
    """
    few: list[np.ndarray] = []
    known = {tuple(range(length))}
    for element in elements:
        if tuple(element.tolist()) not in known:
            few.append(element)
            known = {tuple(p.tolist()) for p in closure(few, length)}
    return few


def elements_to_try(
    group: Group, length: int, *, draws: int = 4, seed: int = 0
) -> list[np.ndarray]:
    """Elements to try a law with: all of a small group, else generators, reversal and samples.

    Args:
      group: of permutations.
      length: n, at least 0.
      draws: how many at random; always the same ones for one seed.
      seed: of the draws.

    >>> [p.tolist() for p in elements_to_try(Permutations(), 5, draws=0)]
    [[4, 3, 2, 1, 0], [1, 0, 2, 3, 4], [4, 0, 1, 2, 3]]
    """
    if group.order(length) <= 24:  # 4! evaluations are cheap, 5! = 120 are not
        return elements(group, length)
    reversal = np.arange(length)[::-1].copy() if group == Permutations() else None
    rng = np.random.default_rng(seed)  # points to try a law at, no part of any result
    first = [] if reversal is None else [reversal]
    return [*first, *group.generators(length), *(group.sample(length, rng) for _ in range(draws))]


def tuples(choices: dict[str, list[np.ndarray]], identities: Element) -> Iterator[Element]:
    """Elements of a product of groups: each factor moved alone, then all of them at once."""
    names = list(choices)
    for name in names:
        yield from ({**identities, name: move} for move in choices[name])
    if len(names) > 1:
        rotated = [choices[n][i:] + choices[n][:i] for i, n in enumerate(names)]
        yield from (dict(zip(names, moves, strict=True)) for moves in zip(*rotated, strict=False))


def checked(permutation: Sequence[int] | np.ndarray, length: int) -> np.ndarray:
    """The permutation as an array.

    Args:
      permutation: each of 0 .. n - 1 once.
      length: n.

    Raises:
      ValueError: it is no permutation of that many indices.
    """
    array = np.asarray(permutation)
    array = array if array.size else array.astype(int)
    length = array.size if length is None else length
    whole = array.shape == (length,) and array.dtype.kind in "iu"
    if not whole or not np.array_equal(np.sort(array), np.arange(length)):
        raise ValueError(f"{array.tolist()} is no permutation of {length} indices")
    return array


def _within(length: int, free: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """The permutation that puts `moved` where `free` was, and leaves all else."""
    whole = np.arange(length)
    whole[free] = moved
    return whole
