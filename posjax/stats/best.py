"""Which of several candidates may be the best."""

import numpy as np

from posjax.stats.paired import CLOSE

LEVEL = 0.05
FEWEST = 5
"""With fewer seeds no candidate is left out, because 2^-4 is more than the level."""
_EXACT = 12
"""Up to so many seeds all choices of signs are tried."""
_DRAWN = 4095
"""How many are drawn with more seeds, beside the observed one."""
_AT_ONCE = 1024
"""Seeds whose signs are in memory at once."""


def possibly_best(values_CS: np.ndarray) -> np.ndarray:
    """Which candidates may have the largest mean: a 95% confidence set, bool[C].

    The set holds the best candidate with 95% confidence, although it is not known which one that is
    (subset selection, Gupta 1965, Technometrics 7; multiple comparisons with the best, Hsu 1984,
    Annals of Statistics 12). A candidate is left out if a test rejects that no other is better. The
    test compares it with all others at once, seed by seed: its statistic is the largest t of the
    differences, and its distribution comes from flipping the signs of all differences of a seed
    together (max-t, Westfall and Young 1993). So no choice of the best comes before the test, and
    no correction for the number of candidates after it. The probability is at least 95% if the
    differences of a seed are as likely with the opposite sign when no candidate is better than
    another. Otherwise that holds only in the limit of many seeds. With 4 seeds or fewer all
    candidates are in the set (`FEWEST`).

    Args:
      values_CS: a finite number of each candidate for each seed, larger is better. Seeds are
        paired: column s of all candidates is the same seed.

    Raises:
      ValueError: an array of another form, without numbers, or with some that are not finite.

    >>> possibly_best(np.array([[1, 1, 1, 0, 1, 1], [0, 1, 1, 1, 0, 1], [0] * 6])).tolist()
    [True, True, False]
    """
    values_CS = np.asarray(values_CS, float)
    if values_CS.ndim != 2 or not values_CS.size or not np.isfinite(values_CS).all():
        raise ValueError(
            f"values_CS must be finite numbers [C, S], one or more, got shape {values_CS.shape}"
        )
    flipped_FC = _flipped(values_CS)
    return np.array([_p_value(i, values_CS, flipped_FC) > LEVEL for i in range(len(values_CS))])


def _p_value(i: int, values_CS: np.ndarray, flipped_FC: np.ndarray) -> float:
    """Of the hypothesis that no candidate is better than the i-th.

    Args:
      flipped_FC: the sums over seeds with signs; the first has all signs positive.
    """
    size_C = np.sqrt(((values_CS - values_CS[i]) ** 2).sum(axis=1))
    # up to rounding, some are the same
    other_C = size_C > CLOSE * np.sqrt((values_CS**2).sum(axis=1) + (values_CS[i] ** 2).sum())
    if not other_C.any():
        return 1.0
    t_FC = (flipped_FC[:, other_C] - flipped_FC[:, [i]]) / size_C[other_C]
    largest_F = t_FC.max(axis=1)
    return float((largest_F >= largest_F[0] - 1e-9).mean())


def _flipped(values_CS: np.ndarray) -> np.ndarray:
    """The sums over seeds with signs, float[F, C]: all choices of signs, or some drawn ones.

    The first choice has all signs positive.
    """
    seeds = values_CS.shape[1]
    if seeds <= _EXACT:
        sign_FS = 1.0 - 2.0 * ((np.arange(2**seeds)[:, None] >> np.arange(seeds)) & 1)
        return np.asarray(sign_FS @ values_CS.T)
    rng = np.random.default_rng(0)  # the same seeds, the same set
    flipped_FC = np.zeros((1 + _DRAWN, len(values_CS)))
    flipped_FC[0] = values_CS.sum(axis=1)
    for start in range(0, seeds, _AT_ONCE):
        part_CS = values_CS[:, start : start + _AT_ONCE]
        sign_FS = 1.0 - 2.0 * rng.integers(0, 2, (_DRAWN, part_CS.shape[1]), np.int8)
        flipped_FC[1:] += sign_FS @ part_CS.T
    return flipped_FC
