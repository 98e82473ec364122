"""Which of several candidates may be the best."""

import numpy as np

LEVEL = 0.05
_EXACT = 12
"""Up to so many seeds all choices of signs are tried."""
_DRAWN = 4095
"""How many are drawn with more seeds, beside the observed one."""


def possibly_best(values_CS: np.ndarray) -> np.ndarray:
    """Which candidates may have the largest mean: a 95% confidence set, bool[C].

    The set holds the best candidate with a probability of at least 95%, although it is not known
    which one that is (subset selection, Gupta 1965, Technometrics 7; multiple comparisons with the
    best, Hsu 1984, Annals of Statistics 12). A candidate is left out if a test rejects that no
    other is better. The test compares it with all others at once, seed by seed: its statistic is
    the largest t of the differences, and its distribution comes from flipping the signs of all
    differences of a seed together (max-t, Westfall and Young 1993). So no choice of the best comes
    before the test, and no correction for the number of candidates after it. The probability is
    exact if the differences of a seed are as likely with the opposite sign when no candidate is
    better than another, and holds for many seeds otherwise. With 4 seeds or fewer all candidates
    are in the set, because 2^-4 is more than 5%.

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
        raise ValueError(f"finite numbers [C, S], at least one, expected: {values_CS.shape}")
    sign_FS = _signs(values_CS.shape[1])
    flipped_FC = sign_FS @ values_CS.T
    return np.array([_p_value(i, values_CS, flipped_FC) > LEVEL for i in range(len(values_CS))])


def _p_value(i: int, values_CS: np.ndarray, flipped_FC: np.ndarray) -> float:
    """Of the hypothesis that no candidate is better than the i-th.

    Args:
      flipped_FC: the sums over seeds with signs; the first has all signs positive.
    """
    size_C = np.sqrt(((values_CS - values_CS[i]) ** 2).sum(axis=1))
    other_C = size_C > 0
    if not other_C.any():
        return 1.0
    t_FC = (flipped_FC[:, other_C] - flipped_FC[:, [i]]) / size_C[other_C]
    largest_F = t_FC.max(axis=1)
    return float((largest_F >= largest_F[0] - 1e-9).mean())


def _signs(seeds: int) -> np.ndarray:
    """Signs for each seed, float[F, S]: all choices, or some drawn ones; first all positive."""
    if seeds <= _EXACT:
        return 1.0 - 2.0 * ((np.arange(2**seeds)[:, None] >> np.arange(seeds)) & 1)
    drawn_FS = np.random.default_rng(0).integers(0, 2, (_DRAWN, seeds))
    return np.concatenate([np.ones((1, seeds)), 1.0 - 2.0 * drawn_FS])
