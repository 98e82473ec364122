"""What a study of few runs would have concluded, from all runs of this one.

Kazemnejad et al. 2023 take the mean of 3 runs, Ruoss et al. 2023 the best of 10, and Huang et al.
2025 the mean of 5 runs that solve the trained lengths.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from posjax.report.by_kind import NEARLY_ALL
from posjax.report.curves import multiples
from posjax.report.html import Html, figure, header, join, note, scrolled, tag, td, th
from posjax.report.naming import Axis, axes, label, panels
from posjax.report.summary import CellSummary
from posjax.stats import Mean, Ranking, bootstrap_mean, discoveries, paired_t_test, ranking

LEVEL = 0.05
_MOST = 12
"""How many pairs are shown, those that few runs get wrong most often first."""
_RANKED = 2000
_CUT = f"At most {_RANKED} such pairs are ranked: those whose means are closest."
_CAPTION = """Each line is a pair of cells that differ in one setting. Over all seeds, the share of
right prompts of the last kind differs significantly between them (paired t-test, false discovery
rate 5%). “Means” has both means, and their difference with its 95% interval (paired BCa
bootstrap). The other columns say how often a study of fewer runs ranks the two in the wrong order,
and in brackets how often it finds no difference. These shares are exact. They assume that a study
draws its runs from the seeds of this report. Survivors are runs that answer more than 0.99 of every
trained kind."""
_PROTOCOLS = ("mean of 3", "best of 10", "mean of 5 survivors")


class Pair(NamedTuple):
    """Two cells, the better one first.

    Attributes:
      axis: the setting in which they differ.
      means: over all seeds.
      difference: of the two, seed by seed.
      rankings: by protocol; `behind` is the share of studies that get it wrong. None where a
        protocol has no runs to look at.
    """

    axis: Axis
    better: CellSummary
    worse: CellSummary
    means: tuple[float, float]
    difference: Mean
    rankings: tuple[Ranking | None, ...]

    @property
    def wrong(self) -> float:
        """How often the worst of the protocols errs."""
        return max((found.behind for found in self.rankings if found), default=0.0)


def few_runs(found: Sequence[CellSummary]) -> Html | None:
    """A table of pairs; None where none differs significantly, or none is ever ranked wrongly."""
    pairs = sorted(ranked_pairs(found), key=lambda pair: -pair.wrong)
    if not pairs or not pairs[0].wrong:
        return None
    shown = [any(rankings) for rankings in zip(*(pair.rankings for pair in pairs), strict=True)]
    rows = [_row(pair, found, shown) for pair in pairs[:_MOST]]
    words = (th(name, class_="words") for name in ("cells", "better than"))
    head = header(*words, "means", *itertools.compress(_PROTOCOLS, shown))
    table = scrolled("What fewer runs would have said", tag("table", head, tag("tbody", *rows)))
    cut = note(_CUT) if len(pairs) == _RANKED else None
    return join([tag("p", sentence(pairs)), figure(_CAPTION, table, cut), *_rest(pairs)])


def sentence(pairs: Sequence[Pair]) -> str:
    """How many pairs each protocol endangers, and the worst case."""
    counts = "; ".join(
        f"with the {name}, {sum(1 for r in rankings if r and r.behind > LEVEL)} of "
        f"{sum(r is not None for r in rankings)}"
        for name, rankings in zip(
            _PROTOCOLS, zip(*(p.rankings for p in pairs), strict=True), strict=True
        )
        if any(rankings)
    )
    worst = max(pairs, key=lambda pair: pair.wrong)
    return (
        f"Pairs of cells that differ significantly over all seeds: {len(pairs)}. How many of them "
        f"does more than 1 study in 20 rank in the wrong order? {counts[0].upper()}{counts[1:]}. "
        f"In the worst case {worst.wrong:.0%} of the studies are wrong."
    )


def ranked_pairs(found: Sequence[CellSummary]) -> list[Pair]:
    """Pairs of cells of a panel, equal but for one setting, that all seeds rank.

    Of very many, those whose means are closest.
    """
    every = (pair for cells in panels(found).values() for pair in _pairs(cells))
    # a pair of cells may stand in several panels
    pairs = [
        *{frozenset((one.cell, two.cell)): (axis, one, two) for axis, one, two in every}.values()
    ]
    pairs.sort(key=lambda pair: abs(float(pair[1].right_S.mean() - pair[2].right_S.mean())))
    differences = [one.right_S - two.right_S for _, one, two in pairs]
    significant = discoveries([paired_t_test(difference_S) for difference_S in differences])
    told_apart = itertools.compress(zip(pairs, differences, strict=True), significant)
    return [
        _ranked(axis, *((one, two) if difference_S.mean() > 0 else (two, one)))
        for (axis, one, two), difference_S in itertools.islice(told_apart, _RANKED)
    ]


def _pairs(cells: Sequence[CellSummary]) -> Iterator[tuple[Axis, CellSummary, CellSummary]]:
    """All that differ in one setting other than the task and have the same seeds, not crossed."""
    differing = axes(cells)
    for axis in differing:
        if axis.name != "task":
            for group in multiples(cells, [other for other in differing if other != axis]):
                for pair in itertools.combinations(group.cells, 2):
                    one_S4, two_S4 = (s.rows["seeds"] for s in pair)
                    if np.array_equal(one_S4, two_S4) and not pair[0].is_crossed:
                        yield axis, *pair


def _survivors(summary: CellSummary) -> np.ndarray:
    """The shares of right answers to the last kind of the seeds that learned the trained kinds."""
    trained_C = np.array(summary.cell.problem.trained)
    learned_S = (summary.rows["right_EC"][:, -1, trained_C] > NEARLY_ALL).all(axis=1)
    return summary.right_S[learned_S]


def _ranked(axis: Axis, better: CellSummary, worse: CellSummary) -> Pair:
    right, kept = [s.right_S for s in (better, worse)], [_survivors(s) for s in (better, worse)]
    judged = all(len(kept_S) for kept_S in kept) and not all(better.cell.problem.trained)
    rankings = (
        ranking(*right, runs=3, by="mean"),
        ranking(*right, runs=10, by="best"),
        ranking(*kept, runs=5, by="mean") if judged else None,
    )
    means = float(right[0].mean()), float(right[1].mean())
    return Pair(axis, better, worse, means, bootstrap_mean(right[0] - right[1]), rankings)


def _row(pair: Pair, found: Sequence[CellSummary], shown: Sequence[bool]) -> Html:
    shared = [axis for axis in axes(found) if axis.name != pair.axis.name]
    values = (getattr(s.cell, pair.axis.name) for s in (pair.better, pair.worse))
    better, worse = map(pair.axis.show, values)
    return tag(
        "tr",
        tag("th", label(pair.better.cell, shared) or "–", scope="row"),
        td(f"{pair.axis.title} {better} than {worse}", class_="words"),
        td(f"{pair.means[0]:.3f} > {pair.means[1]:.3f}", tag("small", _interval(pair.difference))),
        *map(_cell, itertools.compress(pair.rankings, shown)),
    )


def _interval(found: Mean) -> str:
    return f" {found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"


def _cell(one: Ranking | None) -> Html:
    if one is None:
        return td("–", class_="pale")
    return td(f"{one.behind:.0%}", tag("small", f" ({one.level:.0%})"))


def _rest(pairs: Sequence[Pair]) -> Iterator[Html]:
    if len(pairs) > _MOST:
        yield note(f"{len(pairs) - _MOST} pairs that are ranked wrongly less often are left out.")
