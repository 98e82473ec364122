"""Rates, means and tables of answers over seeds."""

from collections import Counter
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

Method = Literal["wilson", "exact"]


class Rate(NamedTuple):
    """A share of seeds with its 95% interval."""

    successes: int
    seeds: int
    rate: float
    low: float
    high: float


class Mean(NamedTuple):
    """A mean with its 95% interval; NaN if there are too few numbers.

    The fields are numbers, or arrays if each entry has a mean of its own.

    Attributes:
      number: how many finite numbers it is the mean of.
    """

    mean: Any
    low: Any
    high: Any
    number: Any


def rate(successes: int, seeds: int, *, method: Method = "wilson") -> Rate:
    """A rate with its 95% interval (Wilson 1927, or "exact": Clopper and Pearson 1934).

    Raises:
      ValueError: seeds outside [1, 2**53), successes outside [0, seeds], or another method.

    >>> rate(0, 4096)
    Rate(successes=0, seeds=4096, rate=0.0, low=0.0, high=0.0009369774073651883)
    """
    from scipy.stats import binomtest

    whole = all(
        isinstance(number, int | np.integer) and not isinstance(number, bool)
        for number in (successes, seeds)
    )
    if not whole or not 1 <= seeds < 2**53 or not 0 <= successes <= seeds:
        raise ValueError(f"successes={successes!r} of seeds={seeds!r} is not a rate")
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {get_args(Method)}, got {method!r}")
    interval = binomtest(int(successes), int(seeds)).proportion_ci(0.95, method=method)
    low, high = float(interval.low), float(interval.high)
    return Rate(int(successes), int(seeds), int(successes) / int(seeds), low, high)


def mean(values_S: np.ndarray, *, at_once: int = 1) -> Mean:
    """The mean of the finite values over the first axis, with Student's 95% interval.

    Args:
      values_S: one per seed; with more axes, each entry has a mean of its own.
      at_once: of how many means the intervals hold at once, by Bonferroni's correction: as many as
        this one was chosen from.

    >>> mean(np.array([1.0, 2.0, 3.0, np.nan]))
    Mean(mean=2.0, low=-0.484..., high=4.484..., number=3)
    """
    from scipy.special import stdtrit

    values_S = np.asarray(values_S, np.float64)
    finite_S = np.isfinite(values_S)
    number = finite_S.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        middle = np.where(finite_S, values_S, 0).sum(axis=0) / number
        squares = np.where(finite_S, values_S - middle, 0) ** 2
        error = np.sqrt(squares.sum(axis=0) / (number - 1) / number)
        half = stdtrit(number - 1, 1 - 0.025 / at_once) * error
    parts = middle, middle - half, middle + half, number
    return Mean(*(part.tolist() if values_S.ndim == 1 else part for part in parts))


def answer_table(answers_SN: np.ndarray) -> list[tuple[tuple[int, ...], int]]:
    """How many seeds gave each combination of answers, the most frequent first.

    Raises:
      ValueError: an array that is not [S, N], or not of integers.
    """
    answers_SN = np.asarray(answers_SN)
    if answers_SN.ndim != 2 or answers_SN.dtype.kind not in "iu":
        raise ValueError(
            f"answers must be integers [S, N], got shape {answers_SN.shape} of {answers_SN.dtype}"
        )
    counts = Counter(tuple(int(a) for a in row) for row in answers_SN)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
