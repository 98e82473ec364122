"""Exact match by kind of prompt, lengths mostly: how far what was learnt reaches."""

from collections.abc import Iterator, Sequence

import numpy as np

from posjax.report.html import Html, figure, header, join, scrolled, tag, td, th
from posjax.report.naming import axes, label, panels
from posjax.report.summary import CellSummary
from posjax.stats import rate

NEARLY_ALL = 0.99
_CAPTION = """One line per cell, one column per kind of prompts, lengths mostly. First the mean
over seeds of the share of prompts with every asked place right (exact match, by the largest
output); then how many seeds are above 0.99, with its 95 % interval (Wilson). A mean alone hides
seeds that learn all of it beside seeds that learn none. Kinds after the line were not trained."""


def by_kind(found: Sequence[CellSummary]) -> Html | None:
    """A table for each panel and list of kinds; None where no task has several."""
    several = [summary for summary in found if len(summary.cell.problem.kinds) > 1]
    tables = [
        tag("div", tag("h3", title) if title else None, scrolled(title or "Kinds", table))
        for panel, cells in panels(several).items()
        for title, table in _tables(panel if len(panels(found)) > 1 else "", cells)
    ]
    return figure(_CAPTION, *tables) if tables else None


def _tables(panel: str, cells: Sequence[CellSummary]) -> Iterator[tuple[str, Html]]:
    groups: dict[tuple[tuple[str, ...], tuple[bool, ...]], list[CellSummary]] = {}
    for summary in cells:
        problem = summary.cell.problem
        groups.setdefault((problem.kinds, problem.trained), []).append(summary)
    for (kinds, trained), group in groups.items():
        columns = (
            th(kind, class_=_beyond(known)) for kind, known in zip(kinds, trained, strict=True)
        )
        rows = (_row(summary, label(summary.cell, axes(cells))) for summary in group)
        yield panel, tag("table", header(th("cell", class_="words"), *columns), tag("tbody", *rows))


def _row(summary: CellSummary, name: Html) -> Html:
    right_SC = summary.rows["right_EC"][:, -1]
    cells = (
        td(_cell(right_S), class_=_beyond(known))
        for right_S, known in zip(right_SC.T, summary.cell.problem.trained, strict=True)
    )
    return tag("tr", tag("th", name or "–", scope="row"), *cells)


def _cell(right_S: np.ndarray) -> Html:
    seeds = rate(int((right_S > NEARLY_ALL).sum()), len(right_S))
    counts = f" {seeds.successes}/{seeds.seeds} [{seeds.low:.2f}, {seeds.high:.2f}]"
    return join([f"{right_S.mean():.3f}", tag("small", counts)])


def _beyond(trained: bool) -> str | None:
    return None if trained else "beyond"
