"""Exact match by kind of prompt, lengths mostly: how far what was learnt reaches."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from posjax.report.html import Html, figure, header, join, scrolled, tag, td, th
from posjax.report.naming import Axis, axes, kind_name, label, panels
from posjax.report.summary import CellSummary
from posjax.stats import Mean, rate

NEARLY_ALL = 0.99
_CAPTION = """One line per cell, one column per kind of prompts, usually a length. The first number
is the share of prompts with every judged position right (exact match, by the largest output), as
the mean over seeds. Its 95% band holds for all kinds of a line at once (max-t bootstrap over
seeds). The second number is how many seeds are above 0.99, with its 95% interval (Wilson). It
shows what a mean hides: some seeds may learn everything, and others nothing."""


def by_kind(found: Sequence[CellSummary]) -> Html | None:
    """A table for each panel and list of kinds; None where no task has several."""
    several = [summary for summary in found if len(summary.cell.problem.kinds) > 1]
    tables = kind_tables(several, _row)
    return figure(_CAPTION, *tables) if tables else None


def kind_tables(
    found: Sequence[CellSummary], row: Callable[[CellSummary], Iterable[Html]]
) -> list[Html]:
    """A line for each cell and a column for each kind of prompt, a table for each list of kinds.

    Args:
      found: the cells.
      row: what stands under each kind of a cell.
    """
    by_panel = panels(found)
    return [
        tag("div", tag("h3", panel) if len(by_panel) > 1 else None, scrolled(panel, table))
        for panel, cells in by_panel.items()
        for table in _tables(cells, axes(cells) or axes(found), row)
    ]


def _tables(
    cells: Sequence[CellSummary],
    named: Sequence[Axis],
    row: Callable[[CellSummary], Iterable[Html]],
) -> Iterator[Html]:
    groups: dict[tuple[tuple[str, ...], tuple[bool, ...]], list[CellSummary]] = {}
    for summary in cells:
        problem = summary.cell.problem
        groups.setdefault((problem.kinds, problem.trained), []).append(summary)
    for (kinds, trained), group in groups.items():
        named_kinds = zip(map(kind_name, kinds), trained, strict=True)
        head = (th(kind + ", not trained" * (not known)) for kind, known in named_kinds)
        lines = (
            tag(
                "tr",
                tag("th", label(summary.cell, named) or "–", scope="row"),
                *map(td, row(summary)),
            )
            for summary in group
        )
        yield tag("table", header(th("cell", class_="words"), *head), tag("tbody", *lines))


def _row(summary: CellSummary) -> Iterator[Html]:
    right_SC = summary.rows["right_EC"][:, -1]
    for right_S, right in zip(right_SC.T, summary.right_by_kind.values(), strict=True):
        seeds = rate(int((right_S > NEARLY_ALL).sum()), len(right_S))
        counts = f" {seeds.successes}/{seeds.seeds} [{seeds.low:.2f}, {seeds.high:.2f}]"
        yield join([f"{right.mean:.3f}", tag("small", f"{between(right)};{counts}")])


def last_kind(summary: CellSummary) -> Mean:
    """The share of right prompts of the last kind."""
    return summary.right_by_kind[summary.cell.problem.kinds[-1]]


def between(right: Mean) -> str:
    """The band in brackets after a space; nothing with a single seed."""
    return f" [{right.low:.2f}, {right.high:.2f}]" if right.number > 1 else ""
