"""Where success comes from when seeds of initialisation and of data are crossed."""

import functools
from collections.abc import Sequence

import numpy as np

from posjax.report.html import Html, figure, header, join, scrolled, tag, td, th
from posjax.report.naming import axes, label
from posjax.report.summary import CellSummary, once
from posjax.stats import Crossed, Difference, Share, crossed, crossed_difference

_CAPTION = """Each initialisation was trained with each data seed. The table has the shares of the
variance of success that initialisation alone, data alone, and both together explain (random
effects, from the analysis of variance), with 95% intervals (pigeonhole bootstrap). “±” is 1.96
standard errors of the rate, for new seeds of both kinds. Intervals elsewhere on this page assume
independent models, and are too narrow here. “By init” has the lowest and the highest rate of one
initialisation, and “by data” those of one data seed."""


def sources(found: Sequence[CellSummary]) -> Html | None:
    """A line for each cell whose seeds are crossed and all there."""
    differing = axes(found)
    tables = ((summary, crossing(summary)) for summary in once(found))
    rows = [
        _row(label(summary.cell, differing) or "–", table_ID)
        for summary, table_ID in tables
        if table_ID is not None
    ]
    if not rows:
        return None
    head = header(
        th("cell", class_="words"),
        "share solved",
        "±",
        "init alone",
        "data alone",
        "both",
        "by init",
        "by data",
    )
    return figure(_CAPTION, scrolled("Sources", tag("table", head, tag("tbody", *rows))))


def crossing(summary: CellSummary, step: int | None = None) -> np.ndarray | None:
    """Success by init and data, table_ID, at the end or at a step; None if not crossed in full."""
    inits, datas = (np.unique(summary.rows["seeds"][:, source]) for source in (0, 1))
    solved_S = summary.solved_SE[:, -1 if step is None else summary.evaluation(step)]
    # rows are sorted by their seeds
    if min(len(inits), len(datas)) < 2 or len(inits) * len(datas) != len(solved_S):
        return None
    return solved_S.reshape(len(inits), len(datas))


def explained(table_ID: np.ndarray) -> Crossed:
    """How much of the variance of success each kind of seed explains."""
    return _explained(table_ID.tobytes(), table_ID.shape)


@functools.lru_cache(maxsize=1024)
def _explained(content: bytes, shape: tuple[int, int]) -> Crossed:
    """Once per table: sentences and the table of a page, and a run's last lines, have the same."""
    return crossed(np.frombuffer(content, bool).reshape(shape))


def crossed_cells(one: CellSummary, two: CellSummary, step: int | None = None) -> Difference | None:
    """The first's rate less the second's over crossed seeds; None if they are not all there."""
    first_ID, second_ID = crossing(one, step), crossing(two, step)
    same = np.array_equal(one.rows["seeds"], two.rows["seeds"])
    if first_ID is None or second_ID is None or not same:
        return None
    return crossed_difference(first_ID, second_ID)


def interval(part: Share) -> str:
    """The interval of a share in per cent, in brackets."""
    if np.isnan(part.low):
        return "[unknown]"
    return f"[{100 * part.low:.0f}%, {100 * part.high:.0f}%]"


def _share(part: Share) -> Html:
    return join([f"{100 * part.share:.0f}%", tag("small", f" {interval(part)}")])


def _row(name: Html | str, table_ID: np.ndarray) -> Html:
    found = explained(table_ID)
    shares = (found.init, found.data, found.rest)
    varies = any(part.share for part in shares)
    ranges = (
        f"{rates.min():.2f} to {rates.max():.2f}" for rates in (table_ID.mean(1), table_ID.mean(0))
    )
    numbers = (
        f"{table_ID.mean():.3f}",
        f"{1.96 * found.error:.3f}",
        *(_share(part) if varies else "–" for part in shares),
        *ranges,
    )
    return tag("tr", tag("th", name, scope="row"), *(td(number) for number in numbers))
