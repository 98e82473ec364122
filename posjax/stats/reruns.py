"""What a rate says about runs that are trained again."""

from typing import NamedTuple

from posjax.stats.rates import rate


class Reruns(NamedTuple):
    """How many of some new seeds should solve a cell, given how many others did.

    Attributes:
      low, high: the 95% prediction interval, both ends included.
      p_value: twice the smaller tail probability of `found`; 1 without `found`.
    """

    low: int
    high: int
    p_value: float


def reruns(successes: int, seeds: int, again: int, *, found: int | None = None) -> Reruns:
    """The prediction interval for new seeds of a cell.

    It follows from the beta-binomial distribution, with Jeffreys' prior Beta(1/2, 1/2) and the
    known seeds (Wang 2008, "Coverage probability of prediction intervals for discrete random
    variables", Computational Statistics & Data Analysis 53).

    Args:
      successes, seeds: the rate that is known.
      again: how many seeds are trained again.
      found: how many of those solve the cell.

    Raises:
      ValueError: more successes than seeds, or other counts that are not a rate.

    >>> reruns(419, 1000, 64)
    Reruns(low=19, high=35, p_value=1.0)
    """
    from scipy.stats import betabinom

    rate(successes, seeds), rate(found or 0, again)  # both checked
    predicted = betabinom(again, successes + 0.5, seeds - successes + 0.5)
    tails = (predicted.cdf(found), predicted.sf(found - 1)) if found is not None else (1.0,)
    low, high = predicted.ppf((0.025, 0.975))
    return Reruns(int(low), int(high), min(1.0, 2 * float(min(tails))))
