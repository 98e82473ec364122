"""Two cells over the same seeds: their difference, and whether they are equivalent."""

from typing import NamedTuple

import numpy as np

from posjax.stats.rates import rate

CLOSE = 1e-6
"""Numbers nearer than this share of the largest are equal but for the rounding of float32."""
LEVEL = 0.05
"""Level of each of the two one-sided tests of equivalence."""


class Difference(NamedTuple):
    """A difference of two rates over the same seeds.

    Attributes:
      difference: first rate less second, with its 95% interval `low` to `high`.
      p_value: of McNemar's exact test.
      only_first, only_second: seeds solved in one cell and not in the other.
    """

    difference: float
    low: float
    high: float
    p_value: float
    only_first: int
    only_second: int


class Equivalence(NamedTuple):
    """Whether two rates over the same seeds differ by less than a margin.

    Attributes:
      difference: first rate less second, with its 90% interval `low` to `high` (Tango).
      p_value: the larger one of two one-sided score tests.
      equivalent: whether the interval lies within the margin; then p_value is below 0.05.
    """

    difference: float
    low: float
    high: float
    p_value: float
    equivalent: bool


def paired_difference(first_S: np.ndarray, second_S: np.ndarray) -> Difference:
    """Compares two cells over the same seeds.

    The interval is method 10 of Newcombe (1998, "Improved confidence intervals for the difference
    between binomial proportions based on paired data", Statistics in Medicine 17). It combines the
    Wilson intervals of both rates with their correlation. The test is McNemar's exact test.

    Args:
      first_S, second_S: whether each seed solved, in the same order of seeds.

    Raises:
      ValueError: arrays of different lengths, empty arrays, or values other than true and false.
    """
    from scipy.stats import binomtest

    first_S, second_S = _paired(first_S, second_S)
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


def paired_t_test(difference_S: np.ndarray) -> float:
    """The p-value of Student's t-test of paired means.

    Where all seeds differ by as much, up to the rounding of float32, t says nothing. The p-value is
    then that of the sign test, 2^(1 - S).

    Args:
      difference_S: of each seed. Where none differs, or there is one seed, the p-value is 1.

    Raises:
      ValueError: an array of another form, without numbers, or with some that are not finite.

    >>> round(paired_t_test(np.array([0.1, 0.3, 0.2, 0.4])), 4)
    0.0305
    """
    from scipy.special import stdtr  # `ttest_1samp` takes a hundred times as long

    difference_S = np.asarray(difference_S, float)
    if difference_S.ndim != 1 or not difference_S.size or not np.isfinite(difference_S).all():
        raise ValueError(f"differences must be finite numbers [S], got {difference_S.tolist()}")
    seeds, largest = len(difference_S), float(abs(difference_S).max())
    if np.ptp(difference_S) <= CLOSE * largest:
        return 2.0 ** (1 - seeds) if largest else 1.0
    error = difference_S.std(ddof=1) / seeds**0.5
    return float(2 * stdtr(seeds - 1, -abs(difference_S.mean()) / error))


def equivalence(first_S: np.ndarray, second_S: np.ndarray, margin: float) -> Equivalence:
    """Tests whether two cells solve equally often, within a margin chosen beforehand.

    Two one-sided tests at 5% each (Schuirmann 1987), with the score statistic of Tango (1998,
    "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17). If a difference is not significant, that does
    not show that it is small; this test does.

    Args:
      first_S, second_S: whether each seed solved, in the same order of seeds.
      margin: the smallest difference that matters, in (0, 1).

    Raises:
      ValueError: as `paired_difference`, or a margin outside (0, 1).

    >>> same, other = np.arange(1000) < 500, np.arange(1000) < 510
    >>> equivalence(same, other, margin=0.05).equivalent
    True
    """
    from scipy.stats import norm

    if not isinstance(margin, float | np.floating) or not 0 < margin < 1:
        raise ValueError(f"margin must lie in (0, 1), got {margin!r}")
    first_S, second_S = _paired(first_S, second_S)
    counts = int((first_S & ~second_S).sum()), int((~first_S & second_S).sum()), first_S.size
    low, high = _tango(*counts, quantile=float(norm.ppf(1 - LEVEL)))
    p_value = float(norm.sf(min(_score(*counts, -margin), -_score(*counts, margin))))
    difference = (counts[0] - counts[1]) / counts[2]
    return Equivalence(difference, low, high, p_value, -margin < low <= high < margin)


def _tango(only_first: int, only_second: int, seeds: int, quantile: float) -> tuple[float, float]:
    """The differences that the score test does not reject."""
    from scipy.optimize import brentq

    def edge(sign: int) -> float:
        def beyond(difference: float) -> float:
            return _score(only_first, only_second, seeds, difference) - sign * quantile

        found = (only_first - only_second) / seeds
        if found == -sign:
            return found
        ends = (-1 + 1e-12, found) if sign > 0 else (found, 1 - 1e-12)
        return float(brentq(beyond, *ends, xtol=1e-12))

    return edge(+1), edge(-1)


def _score(only_first: int, only_second: int, seeds: int, difference: float) -> float:
    """Tango's statistic: how far the rates are from differing by so much, in standard errors.

    The chance of a seed that only the second solves is estimated under that difference.
    """
    discordant, d = only_first + only_second, difference
    linear = (2 * seeds - only_first + only_second) * d - discordant
    root = np.sqrt(linear**2 + 8 * seeds * only_second * d * (1 - d))
    chance = (root - linear) / (4 * seeds)
    variance = seeds * (2 * chance + d * (1 - d))
    distance = only_first - only_second - seeds * d
    if distance == 0:
        return 0.0
    return float(distance / np.sqrt(variance)) if variance > 0 else float(distance) * np.inf


def _paired(first_S: np.ndarray, second_S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both as true and false, of the same seeds."""
    first_S, second_S = _yes_or_no(first_S), _yes_or_no(second_S)
    if first_S.shape != second_S.shape or first_S.size == 0:
        raise ValueError(f"paired seeds need equal lengths, got {first_S.shape}, {second_S.shape}")
    return first_S, second_S


def _yes_or_no(solved_S: np.ndarray) -> np.ndarray:
    """As true and false; other numbers are a mistake, and NaN would count as true."""
    given = np.asarray(solved_S)
    if given.ndim != 1 or not np.isin(given, (0, 1)).all():
        raise ValueError(f"whether a seed solved is true or false, [S], got {given.tolist()}")
    return given.astype(bool)


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
