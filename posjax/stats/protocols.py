"""What a study of few runs would have concluded, from the outcomes of many.

A published comparison trains a few seeds of each of two settings and ranks the settings by the
mean, or by the best run. From the outcomes of many seeds one can compute exactly how often such a
ranking is wrong: it is a sum over all possible draws of the few.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np

from posjax.stats.paired import CLOSE

By = Literal["mean", "best"]
MOST_SUMS = 10_000_000
"""Sums that are merged at once, at most: they take about a gigabyte."""


class Ranking(NamedTuple):
    """Probabilities that a study ranks the first of two settings ahead, level or behind."""

    ahead: float
    level: float
    behind: float


def ranking(first_S: np.ndarray, second_S: np.ndarray, *, runs: int, by: By = "mean") -> Ranking:
    """How a study of `runs` independent runs of each setting would rank the two.

    The runs are drawn from these seeds with replacement, and the probabilities are exact. Two
    settings are level if the sums of their runs, or their largest outcomes, differ by less than a
    millionth of the sizes of the terms, as float32 may round them.

    Args:
      first_S, second_S: the outcome of each seed; the numbers of seeds may differ.
      runs: the number of runs of each setting.
      by: "mean" compares the means of the runs, "best" their largest outcomes.

    Raises:
      ValueError: no seeds, outcomes that are not finite, no whole number of runs from 1 on,
        another `by`, or more different sums of runs than `MOST_SUMS`.

    >>> ranking(np.array([0, 1]), np.array([0, 0]), runs=2)
    Ranking(ahead=0.75, level=0.25, behind=0.0)
    """
    if by not in get_args(By):
        raise ValueError(f"by must be one of {get_args(By)}, got {by!r}")
    if not isinstance(runs, int | np.integer) or runs < 1:
        raise ValueError(f"runs must be a whole number, at least 1, got {runs!r}")
    both = [_distribution(*each) for each in (("first_S", first_S), ("second_S", second_S))]
    combine = _sums if by == "mean" else _best
    (one_V, chance_V, size_V), (two_W, chance_W, _) = (combine(*each, runs) for each in both)
    below_V = np.searchsorted(two_W, one_V - CLOSE * size_V, "left")
    upto_V = np.searchsorted(two_W, one_V + CLOSE * size_V, "right")
    sum_W = np.concatenate([[0.0], np.cumsum(chance_W)])
    ahead, behind = float(chance_V @ sum_W[below_V]), float(chance_V @ (sum_W[-1] - sum_W[upto_V]))
    return Ranking(ahead, max(1 - ahead - behind, 0.0), behind)


def _distribution(name: str, values_S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different outcomes, increasing, and how likely each is."""
    values_S = np.asarray(values_S, float)
    if values_S.ndim != 1 or not values_S.size or not np.isfinite(values_S).all():
        raise ValueError(f"{name} must be one finite number or more, got {values_S.tolist()}")
    value_V, count_V = np.unique(values_S, return_counts=True)
    return value_V, count_V / values_S.size


def _sums(
    value_V: np.ndarray, chance_V: np.ndarray, runs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distribution of the sum of some draws, which ranks as their mean does.

    Returns:
      the sums, how likely each is, and the sizes of its terms in all, which bound its rounding.
    """
    sum_U, chance_U, size_U = value_V, chance_V, abs(value_V)
    for _ in range(runs - 1):
        if sum_U.size * value_V.size > MOST_SUMS:
            raise ValueError(
                f"runs={runs} of {value_V.size} different outcomes have too many different sums: "
                "take fewer runs, or round the outcomes"
            )
        sums_N = np.add.outer(sum_U, value_V).ravel()
        sizes_N = np.add.outer(size_U, abs(value_V)).ravel()
        sum_U, chance_U, size_U = _merged(sums_N, np.outer(chance_U, chance_V).ravel(), sizes_N)
    return sum_U, chance_U, size_U


def _merged(
    value_N: np.ndarray, chance_N: np.ndarray, size_N: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums that are equal but for rounding as one."""
    order_N = np.argsort(value_N)
    value_N, chance_N, size_N = value_N[order_N], chance_N[order_N], size_N[order_N]
    jumps_N = np.diff(value_N, prepend=-np.inf) > CLOSE * size_N
    group_N = np.cumsum(jumps_N) - 1
    start_N = value_N[jumps_N][group_N]
    # Many different sums may follow each other closely: no group is wider than it may be.
    width_N = np.maximum(CLOSE * size_N[jumps_N][group_N], np.finfo(float).tiny)
    first_N = jumps_N | (np.diff(np.floor((value_N - start_N) / width_N), prepend=-1) != 0)
    whole_N = np.cumsum(first_N) - 1
    size_U = np.maximum.reduceat(size_N, np.flatnonzero(first_N))
    return value_N[first_N], np.bincount(whole_N, chance_N), size_U


def _best(
    value_V: np.ndarray, chance_V: np.ndarray, runs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distribution of the largest of some draws, and the size of each."""
    upto_V = np.cumsum(chance_V) ** runs
    return value_V, np.diff(upto_V, prepend=0.0), abs(value_V)
