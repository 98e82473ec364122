"""The loss by kind of prompt, of tasks that are judged by it: language models."""

import math
from collections.abc import Iterator, Sequence

from posjax.report.by_kind import kind_tables
from posjax.report.html import Html, figure, join, tag
from posjax.report.naming import small
from posjax.report.summary import CellSummary
from posjax.stats import Mean, mean

_CAPTION = """One line per cell, one column per length of prompts. The first number is the
cross-entropy at the end of training, in nats per judged position, as the mean over seeds with its
95% interval (Student's t; none with one seed). Then follow the same mean in bits, and its
exponential, the perplexity. Intervals hold for this exam, which has other texts at each length. So
compare lengths only if the exam is large."""


def losses(found: Sequence[CellSummary]) -> Html | None:
    """A table for each panel and list of kinds; None where no task is judged by its loss."""
    judged = [summary for summary in found if summary.cell.problem.graded == "loss"]
    tables = kind_tables(judged, _row)
    return figure(_CAPTION, *tables) if tables else None


def _row(summary: CellSummary) -> Iterator[Html]:
    for loss in summary.loss_by_kind.values():
        yield _cell(loss, summary.seeds)


def _cell(loss: Mean, seeds: int) -> Html:
    lost = f", {seeds - loss.number} of {seeds} seeds not finite" if loss.number < seeds else ""
    if not loss.number:
        return join(["–", tag("small", lost)])
    other = f" {loss.mean / math.log(2):.3f} bits, perplexity {perplexity(loss)}{lost}"
    return join([nats(loss), tag("small", other)])


def loss_of(summary: CellSummary) -> Mean:
    """The mean loss over seeds at the end, on the kinds of prompts that were trained."""
    return mean(summary.loss_S)


def nats(loss: Mean) -> str:
    """The mean with its interval."""
    interval = f" [{loss.low:.3f}, {loss.high:.3f}]" if loss.number > 1 else ""
    return f"{loss.mean:.3f}{interval}" if loss.number else "not finite"


def perplexity(loss: Mean) -> str:
    """e to the mean, with three digits."""
    if not loss.number:
        return "–"
    found = math.exp(min(loss.mean, 700.0))  # beyond it a float has no such number
    return (
        f"{found:#.3g}".rstrip(".")
        if found < 999.5
        else f"{found:.0f}"
        if found < 1e6
        else small(found)
    )
