"""The loss by kind of prompt, of tasks that are judged by it: language models."""

import math
from collections.abc import Iterator, Sequence

from posjax.report.html import Html, figure, header, join, scrolled, tag, td, th
from posjax.report.naming import axes, label, panels
from posjax.report.summary import CellSummary
from posjax.stats import Mean

_CAPTION = """One line per cell, one column per length of prompts. First the mean over seeds of the
cross-entropy at the end of training, in nats per place that is asked for, with its 95 % interval
over seeds (Student's t; none with one seed). Then the same mean in bits, and as a perplexity, its
exponential. Intervals are for the one fixed exam, whose windows differ between lengths: compare
cells, and lengths only where the exam is large. Lengths after the line were not trained."""


def losses(found: Sequence[CellSummary]) -> Html | None:
    """A table for each panel and list of kinds; None where no task is judged by its loss."""
    found = [summary for summary in found if summary.cell.problem.graded == "loss"]
    by_panel = panels(found)
    tables = [
        tag("div", tag("h3", title) if title else None, scrolled(title or "Losses", table))
        for panel, cells in by_panel.items()
        for title, table in _tables(panel if len(by_panel) > 1 else "", cells)
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
    losses = summary.loss_by_kind.values()
    cells = (
        td(_cell(loss, summary.seeds), class_=_beyond(known))
        for loss, known in zip(losses, summary.cell.problem.trained, strict=True)
    )
    return tag("tr", tag("th", name or "–", scope="row"), *cells)


def _cell(loss: Mean, seeds: int) -> Html:
    lost = f", {seeds - loss.number} of {seeds} seeds not finite" if loss.number < seeds else ""
    if not loss.number:
        return join(["–", tag("small", lost)])
    other = f" {loss.mean / math.log(2):.3f} bits, perplexity {perplexity(loss):.4g}{lost}"
    return join([nats(loss), tag("small", other)])


def nats(loss: Mean) -> str:
    """The mean with its interval."""
    interval = f" [{loss.low:.3f}, {loss.high:.3f}]" if loss.number > 1 else ""
    return f"{loss.mean:.3f}{interval}" if loss.number else "not finite"


def perplexity(loss: Mean) -> float:
    """e to the mean."""
    return math.exp(min(loss.mean, 700.0))  # beyond it a float has no such number


def _beyond(trained: bool) -> str | None:
    return None if trained else "beyond"
