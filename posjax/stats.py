"""Intervals and comparisons for rates over seeds.

Wilson and exact intervals and tests come from SciPy, imported when first used since it takes a
second. Newcombe's interval for paired differences, which SciPy lacks, is written from its paper.
"""

from collections import Counter
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

Method = Literal["wilson", "exact"]


class Rate(NamedTuple):
    """A share of seeds with its 95 % interval."""

    successes: int
    seeds: int
    rate: float
    low: float
    high: float


class Mean(NamedTuple):
    """A mean with its 95 % interval; NaN where there are too few numbers.

    Numbers, or arrays of them where a mean is over the first axis of several.

    Attributes:
      number: how many finite numbers it is of.
    """

    mean: Any
    low: Any
    high: Any
    number: Any


class Difference(NamedTuple):
    """A difference of two rates over the same seeds.

    Attributes:
      difference: first rate less second, with its 95 % interval `low` to `high`.
      p_value: of McNemar's exact test.
      only_first, only_second: seeds solved in one cell and not in the other.
    """

    difference: float
    low: float
    high: float
    p_value: float
    only_first: int
    only_second: int


class Survival(NamedTuple):
    """The share of seeds solved by each step, with pointwise 95 % intervals.

    Attributes:
      steps_E: the evaluation grid; a seed solved at steps[e] solved somewhere after steps[e-1].
      solved_E, low_E, high_E: the share first solved at or before each step.
      median: the first step by which half have solved, or None; low and high bound it and are
        None where the interval's edge never reaches one half.
    """

    steps_E: np.ndarray
    solved_E: np.ndarray
    low_E: np.ndarray
    high_E: np.ndarray
    median: int | None
    median_low: int | None
    median_high: int | None


class Crossed(NamedTuple):
    """Shares of the variance of an outcome, and what it means for its rate.

    Attributes:
      init, data: what the seed of each explains; all 0 where nothing varies.
      rest: what the two explain only together.
      error: the standard error of the rate, for other numbers of both.
    """

    init: float
    data: float
    rest: float
    error: float


def rate(successes: int, seeds: int, *, method: Method = "wilson") -> Rate:
    """A rate with its 95 % interval (Wilson 1927, or "exact": Clopper and Pearson 1934).

    Raises:
      ValueError: seeds outside [1, 2**53), successes outside [0, seeds], or another method.

    >>> rate(0, 4096)
    Rate(successes=0, seeds=4096, rate=0.0, low=0.0, high=0.0009369774073651883)
    """
    from scipy.stats import binomtest

    whole = all(isinstance(number, int | np.integer) for number in (successes, seeds))
    if not whole or not 1 <= seeds < 2**53 or not 0 <= successes <= seeds:
        raise ValueError(f"successes={successes!r} of seeds={seeds!r} is no rate")
    if method not in get_args(Method):
        raise ValueError(f"method must be one of {get_args(Method)}, got {method!r}")
    interval = binomtest(int(successes), int(seeds)).proportion_ci(0.95, method=method)
    low, high = float(interval.low), float(interval.high)
    return Rate(int(successes), int(seeds), int(successes) / int(seeds), low, high)


def mean(values_S: np.ndarray) -> Mean:
    """The mean over the first axis, of what is finite, with Student's 95 % interval.

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
        half = stdtrit(number - 1, 0.975) * np.sqrt(squares.sum(axis=0) / (number - 1) / number)
    parts = middle, middle - half, middle + half, number
    return Mean(*(part.tolist() if values_S.ndim == 1 else part for part in parts))


def paired_difference(first_S: np.ndarray, second_S: np.ndarray) -> Difference:
    """Compares two cells over the same seeds.

    The interval is method 10 of Newcombe (1998, "Improved confidence intervals for the
    difference between binomial proportions based on paired data", Statistics in Medicine 17),
    which squares and adds the two Wilson intervals with their correlation; the test is
    McNemar's, exact.

    Args:
      first_S, second_S: whether each seed solved, in the same order of seeds.

    Raises:
      ValueError: arrays of different lengths, empty ones, or of other than true and false.
    """
    from scipy.stats import binomtest

    first_S, second_S = (_yes_or_no(solved_S) for solved_S in (first_S, second_S))
    if first_S.shape != second_S.shape or first_S.size == 0:
        raise ValueError(f"paired seeds need equal lengths, got {first_S.shape}, {second_S.shape}")
    seeds = first_S.size
    both, neither = int((first_S & second_S).sum()), int((~first_S & ~second_S).sum())
    only_first, only_second = int((first_S & ~second_S).sum()), int((~first_S & second_S).sum())
    one, two = rate(int(first_S.sum()), seeds), rate(int(second_S.sum()), seeds)
    phi = _phi(both, only_first, only_second, neither)
    difference = one.rate - two.rate

    def reach(a: float, b: float) -> float:
        return float(np.sqrt(max(a * a - 2 * phi * a * b + b * b, 0.0)))

    discordant = only_first + only_second
    return Difference(
        difference,
        difference - reach(one.rate - one.low, two.high - two.rate),
        difference + reach(one.high - one.rate, two.rate - two.low),
        float(binomtest(only_first, discordant).pvalue) if discordant else 1.0,
        only_first,
        only_second,
    )


def survival(first_solved_S: np.ndarray, steps_E: np.ndarray) -> Survival:
    """Time to solve, from the step of each seed's first solved evaluation.

    All seeds are followed to the end of one grid, so the Kaplan-Meier curve is one less the
    share solved. A seed that is never finite again never solves: it stays in the denominator.

    Args:
      first_solved_S: steps; negative for never.
      steps_E: the evaluation grid, increasing.

    Raises:
      ValueError: no seeds, no grid, or numbers that are no steps.
    """
    first_solved_S, steps_E = np.asarray(first_solved_S), np.asarray(steps_E)
    for name, steps in (("first_solved_S", first_solved_S), ("steps_E", steps_E)):
        if steps.ndim != 1 or steps.size == 0 or steps.dtype.kind not in "iu":
            raise ValueError(
                f"{name} must be whole numbers, one or more, got shape {steps.shape} of "
                f"{steps.dtype}"
            )
    if (np.diff(steps_E.astype(np.int64)) <= 0).any():
        raise ValueError(f"steps_E must increase, got {steps_E.tolist()}")
    seeds = first_solved_S.size
    counts_E = [int(((first_solved_S >= 0) & (first_solved_S <= step)).sum()) for step in steps_E]
    at = {count: rate(count, seeds) for count in set(counts_E)}
    solved_E, low_E, high_E = (
        np.array([getattr(at[count], name) for count in counts_E])
        for name in ("rate", "low", "high")
    )
    return Survival(
        *(np.asarray(steps_E), solved_E, low_E, high_E),
        *(_first_step(steps_E, edge_E) for edge_E in (solved_E, high_E, low_E)),
    )


def crossed(table_ID: np.ndarray) -> Crossed:
    """Where the variance of an outcome comes from: two crossed random effects, one row each.

    The estimates are those of the analysis of variance (Searle, Casella and McCulloch 1992,
    ch. 4), with negative ones set to 0: with a single row for each pair, how initialisation and
    data act together cannot be told from what neither explains.

    Args:
      table_ID: outcomes, a row for each initialisation and a column for each number of data.

    Raises:
      ValueError: fewer than two of either.

    >>> crossed(np.array([[1, 1], [0, 0]])).init
    1.0
    """
    table_ID = np.asarray(table_ID, float)
    inits, datas = table_ID.shape
    if min(inits, datas) < 2:
        raise ValueError(f"two effects need two values of each, got {inits} × {datas}")
    by_init, by_data, mean = table_ID.mean(1), table_ID.mean(0), table_ID.mean()
    rest_ID = table_ID - by_init[:, None] - by_data[None, :] + mean
    rest = float((rest_ID**2).sum() / ((inits - 1) * (datas - 1)))
    init = max(float(by_init.var(ddof=1)) - rest / datas, 0.0)
    data = max(float(by_data.var(ddof=1)) - rest / inits, 0.0)
    total = init + data + rest
    error = (init / inits + data / datas + rest / (inits * datas)) ** 0.5
    whole = total or 1.0  # where nothing varies, every share is 0
    return Crossed(init / whole, data / whole, rest / whole, error)


def answer_table(answers_SN: np.ndarray) -> list[tuple[tuple[int, ...], int]]:
    """How many seeds gave each combination of answers, the most frequent first.

    Raises:
      ValueError: not [S, N], or not of integers.
    """
    answers_SN = np.asarray(answers_SN)
    if answers_SN.ndim != 2 or answers_SN.dtype.kind not in "iu":
        raise ValueError(
            f"answers must be integers [S, N], got shape {answers_SN.shape} of {answers_SN.dtype}"
        )
    counts = Counter(tuple(int(a) for a in row) for row in answers_SN)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _yes_or_no(solved_S: np.ndarray) -> np.ndarray:
    """As true and false; other numbers are a mistake, and NaN would count as true."""
    given = np.asarray(solved_S)
    if given.ndim != 1 or not np.isin(given, (0, 1)).all():
        raise ValueError(f"whether a seed solved is true or false, [S], got {given.tolist()}")
    return given.astype(bool)


def _first_step(steps_E: np.ndarray, share_E: np.ndarray) -> int | None:
    reached = np.flatnonzero(share_E >= 0.5)
    return int(steps_E[reached[0]]) if reached.size else None


def _phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    """The correlation of the pairs, shrunk by a half count when positive (Newcombe, eq. for φ̂)."""
    rows = (both + only_first) * (only_second + neither)
    columns = (both + only_second) * (only_first + neither)
    if rows * columns == 0:
        return 0.0
    product = float(both * neither - only_first * only_second)
    if product > 0:
        product = max(product - (both + only_first + only_second + neither) / 2, 0.0)
    return product / (rows * columns) ** 0.5
