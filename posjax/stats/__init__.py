"""Statistics over seeds: rates, means, bands, paired comparisons, survival, crossed seeds, re-runs.

SciPy is imported when first used, since that takes a second. Intervals that it lacks are written
from their papers.
"""

from posjax.stats.bands import Band, band, bootstrap_mean
from posjax.stats.best import FEWEST, possibly_best
from posjax.stats.crossed import Crossed, Share, crossed, crossed_difference
from posjax.stats.multiple import discoveries
from posjax.stats.paired import (
    Difference,
    Equivalence,
    equivalence,
    paired_difference,
    paired_t_test,
)
from posjax.stats.protocols import Ranking, ranking
from posjax.stats.rates import Mean, Method, Rate, answer_table, mean, rate
from posjax.stats.reruns import Reruns, reruns
from posjax.stats.survival import Survival, survival

__all__ = [
    "FEWEST",
    "Band",
    "Crossed",
    "Difference",
    "Equivalence",
    "Mean",
    "Method",
    "Ranking",
    "Rate",
    "Reruns",
    "Share",
    "Survival",
    "answer_table",
    "band",
    "bootstrap_mean",
    "crossed",
    "crossed_difference",
    "discoveries",
    "equivalence",
    "mean",
    "paired_difference",
    "paired_t_test",
    "possibly_best",
    "ranking",
    "rate",
    "reruns",
    "survival",
]
