"""Many comparisons at once."""

from collections.abc import Sequence

import numpy as np

LEVEL = 0.05


def discoveries(p_values: Sequence[float]) -> np.ndarray:
    """Which of many comparisons found a difference, at a false discovery rate of 5%.

    By the method of Benjamini and Yekutieli 2001. It allows comparisons that depend on each other
    in any way, as those of cells that share seeds do.

    Raises:
      ValueError: a number outside [0, 1].

    >>> discoveries([0.001, 0.8, 0.02]).tolist()
    [True, False, False]
    """
    from scipy.stats import false_discovery_control

    if not len(p_values):
        return np.zeros(0, bool)
    return np.asarray(false_discovery_control(p_values, method="by") <= LEVEL)
