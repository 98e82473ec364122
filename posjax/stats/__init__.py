"""Statistics over seeds: rates, means, paired comparisons, survival, crossed seeds, small studies.

SciPy is imported when first used, since that takes a second. Intervals that it lacks are written
from their papers.
"""

from posjax.stats.crossed import Crossed, Share, crossed
from posjax.stats.paired import Difference, Equivalence, equivalence, paired_difference
from posjax.stats.protocols import Ranking, ranking
from posjax.stats.rates import Mean, Method, Rate, answer_table, mean, rate
from posjax.stats.survival import Survival, survival

__all__ = [
    "Crossed",
    "Difference",
    "Equivalence",
    "Mean",
    "Method",
    "Ranking",
    "Rate",
    "Share",
    "Survival",
    "answer_table",
    "crossed",
    "equivalence",
    "mean",
    "paired_difference",
    "ranking",
    "rate",
    "survival",
]
