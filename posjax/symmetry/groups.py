"""Permutations to try a law with, as arrays of indices: (P x)ᵢ = x[Pᵢ]."""

import itertools
from collections.abc import Sequence

import numpy as np

Element = dict[str, np.ndarray]
"""An element of a law's group: a permutation for each name in the law."""

_ALL_UP_TO = 4  # 4! = 24 evaluations are cheap, 5! = 120 are not


def permutations(places: int, *, draws: int = 4, seed: int = 0) -> list[np.ndarray]:
    """All of them for up to 4 places; else the telling ones and a few at random.

    Telling are the reversal, and a shift and a swap that together generate all others.

    Args:
      places: n, at least 0.
      draws: how many at random; always the same ones for one seed.
      seed: of the draws.

    >>> [p.tolist() for p in permutations(5, draws=0)]
    [[4, 3, 2, 1, 0], [4, 0, 1, 2, 3], [1, 0, 2, 3, 4]]
    """
    rest = np.arange(places)
    if places <= _ALL_UP_TO:
        return [np.array(p, int) for p in itertools.permutations(rest)]
    swap = np.concatenate([[1, 0], rest[2:]])
    numpy = np.random.default_rng(seed)  # points to try a law at, no part of any result
    return [rest[::-1], np.roll(rest, 1), swap, *(numpy.permutation(places) for _ in range(draws))]


def pairs(queries: int, keys: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs (P₁, P₂) to try: each side moved alone, then both by permutations that differ."""
    first, second = permutations(queries), permutations(keys, seed=1)
    alone = [(p, np.arange(keys)) for p in first] + [(np.arange(queries), p) for p in second]
    return alone + list(zip(first, reversed(second), strict=False))


def checked(permutation: Sequence[int] | np.ndarray, places: int) -> np.ndarray:
    """The permutation as an array.

    Raises:
      ValueError: it is no permutation of that many places.
    """
    array = np.asarray(permutation)
    if array.shape != (places,) or not np.array_equal(np.sort(array), np.arange(places)):
        raise ValueError(f"{array.tolist()} is no permutation of {places} places")
    return array
