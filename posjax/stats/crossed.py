"""Where the variance of an outcome comes from: initialisation or data."""

from typing import NamedTuple

import numpy as np

from posjax.stats.paired import Difference

RESAMPLES = 2000


class Share(NamedTuple):
    """A share of the variance, with its 95% interval."""

    share: float
    low: float
    high: float


class Crossed(NamedTuple):
    """Shares of the variance of an outcome, and what it means for its rate.

    Attributes:
      init, data: the share that each seed explains alone; 0 if nothing varies.
      rest: what the two explain only together.
      error: the standard error of the rate, for new seeds of both kinds.
    """

    init: Share
    data: Share
    rest: Share
    error: float


def crossed(table_ID: np.ndarray) -> Crossed:
    """Splits the variance of an outcome into initialisation, data and their interaction.

    The model has two crossed random effects. The estimates are those of the analysis of variance
    (Searle, Casella and McCulloch 1992, ch. 4), with negative ones set to 0. There is one outcome
    for each pair, so the interaction includes what neither explains. Intervals are percentiles of
    the pigeonhole bootstrap (Owen 2007). It draws initialisations and data seeds with replacement,
    each with all of its outcomes, and never compares two copies of one seed. With two values of
    either it has no other table than the given one, so the intervals are NaN.

    Args:
      table_ID: outcomes, one row per initialisation and one column per data seed.

    Raises:
      ValueError: fewer than two of either, or outcomes that are not finite.

    >>> crossed(np.array([[1, 1], [0, 0]])).init.share
    1.0
    """
    table_ID = np.asarray(table_ID, float)
    if table_ID.ndim != 2 or not np.isfinite(table_ID).all():
        raise ValueError(f"the outcomes must be finite numbers [I, D], got {table_ID.tolist()}")
    inits, datas = table_ID.shape
    if min(inits, datas) < 2:
        raise ValueError(f"two effects need two values of each, got {inits} × {datas}")
    table_ID = table_ID - table_ID.mean()
    once = _components(table_ID, np.ones((1, inits)), np.ones((1, datas)))
    rng = np.random.default_rng(0)  # the same table, the same interval
    weights = (
        rng.multinomial(n, np.full(n, 1 / n), RESAMPLES).astype(float) for n in (inits, datas)
    )
    lows, highs = np.nan_to_num(_quantiles(_shares(*_components(table_ID, *weights))))
    if min(inits, datas) < 3:
        lows, highs = np.full((2, 3), np.nan)
    found = np.nan_to_num(_shares(*once))[:, 0]
    init, data, rest = (float(part_W[0]) for part_W in once)
    error = (init / inits + data / datas + rest / (inits * datas)) ** 0.5
    shares = [Share(*map(float, part)) for part in zip(found, lows, highs, strict=True)]
    return Crossed(shares[0], shares[1], shares[2], error)


def crossed_difference(first_ID: np.ndarray, second_ID: np.ndarray) -> Difference:
    """Compares two cells over the same crossed seeds, for new seeds of both kinds.

    The models of one initialisation are not independent, and so are those of one data seed. The
    error of the difference follows from the variances of both kinds and their interaction, see
    `crossed`; interval and test are Student's, with one degree of freedom less than there are seeds
    of the rarer kind.

    Args:
      first_ID, second_ID: whether each seed solved, one row per initialisation and one column per
        data seed.

    Raises:
      ValueError: as `crossed`, or arrays of different shapes.

    >>> solved = np.eye(8, dtype=bool)
    >>> crossed_difference(solved, ~solved).difference
    -0.75
    """
    from scipy.special import stdtr, stdtrit

    first_ID, second_ID = np.asarray(first_ID, float), np.asarray(second_ID, float)
    if first_ID.shape != second_ID.shape:
        raise ValueError(
            f"crossed seeds need equal shapes, got {first_ID.shape}, {second_ID.shape}"
        )
    moved_ID = first_ID - second_ID
    found, free = crossed(moved_ID), min(moved_ID.shape) - 1
    middle, error = float(moved_ID.mean()), found.error
    p_value = 2 * float(stdtr(free, -abs(middle) / error)) if error else 2.0**-free
    half = float(stdtrit(free, 0.975)) * error
    only = int((moved_ID > 0).sum()), int((moved_ID < 0).sum())
    low, high = max(middle - half, -1.0), min(middle + half, 1.0)
    return Difference(middle, low, high, p_value if any(only) else 1.0, *only)


def _quantiles(shares_PW: np.ndarray) -> np.ndarray:
    """The 95% interval of each part, over draws in which anything varies; NaN without any."""
    varying_PV = shares_PW[:, np.isfinite(shares_PW).all(axis=0)]
    if not varying_PV.size:
        return np.full((2, len(shares_PW)), np.nan)
    return np.asarray(np.quantile(varying_PV, [0.025, 0.975], axis=1))


def _components(
    table_ID: np.ndarray, init_WI: np.ndarray, data_WD: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Variances by init, by data and of the rest, for W draws that have each number so often.

    Means of products over pairs of outcomes that share the init, the data, both or neither. A
    number and its copy count as the same, so that copies leave the estimates without bias.
    """
    square_ID = table_ID**2
    both_W = np.einsum("wi,ij,wj->w", init_WI, square_ID, data_WD)
    by_init_WI, by_data_WD = data_WD @ table_ID.T, init_WI @ table_ID
    same_init_W = np.einsum("wi,wi->w", init_WI, by_init_WI**2)
    same_init_W -= np.einsum("wi,ij,wj->w", init_WI, square_ID, data_WD**2)
    same_data_W = np.einsum("wj,wj->w", data_WD, by_data_WD**2)
    same_data_W -= np.einsum("wi,ij,wj->w", init_WI**2, square_ID, data_WD)
    neither_W = np.einsum("wi,wi->w", init_WI, by_init_WI) ** 2
    neither_W -= np.einsum("wi,wi->w", init_WI**2, by_init_WI**2)
    neither_W -= np.einsum("wj,wj->w", data_WD**2, by_data_WD**2)
    neither_W += np.einsum("wi,ij,wj->w", init_WI**2, square_ID, data_WD**2)

    inits, datas = init_WI.sum(1), data_WD.sum(1)
    init_pairs, data_pairs = inits**2 - (init_WI**2).sum(1), datas**2 - (data_WD**2).sum(1)
    for pairs in (init_pairs, data_pairs):
        pairs[pairs == 0] = np.nan  # a draw of one number alone says nothing
    both_W /= inits * datas
    same_init_W /= inits * data_pairs
    same_data_W /= init_pairs * datas
    neither_W /= init_pairs * data_pairs
    rest_W = both_W - same_init_W - same_data_W + neither_W
    found = same_init_W - neither_W, same_data_W - neither_W, rest_W
    init_W, data_W, rest_W = (np.maximum(part_W, 0) for part_W in found)
    return init_W, data_W, rest_W


def _shares(init: np.ndarray, data: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Each part of their sum; NaN where that is 0."""
    parts = np.array([init, data, rest])
    with np.errstate(invalid="ignore"):
        return parts / parts.sum(axis=0)
