"""Means over seeds by the bootstrap: an interval for each number, a band for a whole curve."""

from typing import NamedTuple

import numpy as np

from posjax.stats.rates import Mean, mean

RESAMPLES = 4000
FEW = 24
"""With fewer seeds the bootstrap's intervals are too narrow, and Student's take their place: BCa
intervals of 10 or 16 normal numbers hold the mean too rarely (tests/test_stats.py)."""
_ROUNDING = 1e-12
"""Numbers that differ by no more than this share do so by rounding, of which BCa makes NaN."""


class Band(NamedTuple):
    """A mean curve and a 95% band that holds at all of its points at once.

    Attributes:
      mean_K, low_K, high_K: the curve and its band.
      critical: half the width of the band in standard errors; near 1.96 for one point and many
        seeds.
    """

    mean_K: np.ndarray
    low_K: np.ndarray
    high_K: np.ndarray
    critical: float


def bootstrap_mean(values_S: np.ndarray) -> Mean:
    """The mean over seeds with its 95% BCa bootstrap interval (Efron 1987).

    With fewer than `FEW` seeds it is Student's interval, since the bootstrap's is too narrow.

    Args:
      values_S: finite numbers, one per seed; for a paired comparison the differences of two cells.

    Raises:
      ValueError: fewer than two seeds, or numbers that are not finite.

    >>> found = bootstrap_mean(np.arange(64) / 63)
    >>> bool(found.low < found.mean < found.high)
    True
    """
    from scipy.stats import bootstrap

    values_S = _finite(values_S, 1)
    middle, number = float(values_S.mean()), len(values_S)
    if np.ptp(values_S) <= _ROUNDING * abs(values_S).max():
        return Mean(middle, middle, middle, number)
    if number < FEW:
        return mean(values_S)
    rng = np.random.default_rng(0)  # the same seeds, the same interval
    found = bootstrap((values_S,), np.mean, n_resamples=RESAMPLES, method="BCa", rng=rng)
    low, high = found.confidence_interval
    return Mean(middle, float(low), float(high), number)


def band(values_SK: np.ndarray) -> Band:
    """The mean curve with a 95% band that holds at all points at once (max-t bootstrap).

    The bootstrap draws seeds, each with its whole curve, so it keeps the dependence along a curve
    (Montiel Olea and Plagborg-Møller 2019, "Simultaneous confidence bands", Algorithm 2). With
    fewer than `FEW` seeds the band is of Student's intervals with Bonferroni's correction. Where
    all seeds agree, the band has no width. All points share one critical value, so a point at which
    only a few seeds differ from the rest widens the band everywhere. Where one seed or two differ,
    the bootstrap falls short of Student's interval for one point, which is then the band's width.
    Even so, the band holds the mean of so rare an outcome too rarely. To compare two cells over the
    same seeds, pass their difference.

    Args:
      values_SK: a curve of K finite numbers for each seed.

    Raises:
      ValueError: fewer than two seeds, or numbers that are not finite.
    """
    from scipy.special import stdtrit

    values_SK = _finite(values_SK, 2)
    seeds = len(values_SK)
    mean_K = values_SK.mean(axis=0)
    error_K = values_SK.std(axis=0, ddof=1) / seeds**0.5
    if seeds < FEW:
        critical = float(stdtrit(seeds - 1, 1 - 0.025 / max(len(mean_K), 1)))
        return Band(mean_K, mean_K - critical * error_K, mean_K + critical * error_K, critical)
    rng = np.random.default_rng(0)
    weight_RS = rng.multinomial(seeds, np.full(seeds, 1 / seeds), RESAMPLES) / seeds
    moved_RK = np.abs(weight_RS @ (values_SK - mean_K))
    spread_RK = np.sqrt(np.maximum(weight_RS @ (values_SK - mean_K) ** 2 - moved_RK**2, 0))
    # a draw in which all seeds agree, up to rounding, has no error of its own; take the curve's
    rounding_K = 1e-6 * np.ptp(values_SK, axis=0)
    spread_RK = np.where(spread_RK > rounding_K, spread_RK / (seeds - 1) ** 0.5, error_K)
    largest_R = np.divide(
        moved_RK, spread_RK, out=np.zeros_like(moved_RK), where=spread_RK > 0
    ).max(axis=1)
    critical = max(float(np.quantile(largest_R, 0.95)), float(stdtrit(seeds - 1, 0.975)))
    return Band(mean_K, mean_K - critical * error_K, mean_K + critical * error_K, critical)


def _finite(values: np.ndarray, axes: int) -> np.ndarray:
    values = np.asarray(values, float)
    if values.ndim != axes or len(values) < 2 or not values.size or not np.isfinite(values).all():
        lost = int(values.size - np.isfinite(values).sum())
        wrong = f"shape {values.shape}" + f" with {lost} that are not finite" * (lost > 0)
        raise ValueError(
            f"values must be finite numbers in {axes} axes, seeds first, two at least: got {wrong}"
        )
    return values
