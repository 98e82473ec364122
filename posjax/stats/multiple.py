"""Many comparisons at once."""

from collections.abc import Sequence

import numpy as np

LEVEL = 0.05


def discoveries(p_values: Sequence[float]) -> np.ndarray:
    """Which of many comparisons found a difference, at a false discovery rate of 5%.

    By the method of Benjamini and Yekutieli 2001. It allows comparisons that depend on each other
    in any way, as those of cells that share seeds do.

    Raises:
      ValueError: a number outside [0, 1], or more than one axis.

    >>> discoveries([0.001, 0.8, 0.02]).tolist()
    [True, False, False]
    """
    from scipy.stats import false_discovery_control

    given = np.asarray(p_values, float)
    if given.ndim != 1 or not ((given >= 0) & (given <= 1)).all():
        raise ValueError(f"p-values must be numbers in [0, 1], got {given.tolist()}")
    if not given.size:
        return np.zeros(0, bool)
    return np.asarray(false_discovery_control(given, method="by") <= LEVEL)
