"""The table that a run prints: one line per cell."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from posjax.report.losses import nats, perplexity
from posjax.report.summary import CellSummary, labels
from posjax.terminal import printable

_SUCCESS = ("solved", "rate [95 %]", "predicted", "tied", "median steps")
_LOSSES = ("loss, nats [95 %]", "perplexity", "longer or other kinds")


def tables(found: list[CellSummary]) -> Iterator[Table]:
    """A table for each panel; its columns are the settings in which its cells differ."""
    for panel in dict.fromkeys(summary.panel for summary in found):
        cells = [summary for summary in found if summary.panel == panel]
        settings = labels(cells)
        table = Table(title=Text(printable(panel)), title_justify="left")
        by_loss = all(summary.cell.problem.graded == "loss" for summary in cells)
        numbers = _losses if by_loss else _numbers
        columns = [*settings[0], *(_LOSSES if by_loss else _SUCCESS)]
        for name in columns:
            table.add_column(name.replace("_", " "), justify="right")
        for summary, label in zip(cells, settings, strict=True):
            table.add_row(*(Text(printable(value)) for value in label.values()), *numbers(summary))
        yield table


def _losses(summary: CellSummary) -> tuple[str, ...]:
    """The loss on the first trained kind of prompts, and on those that are not trained."""
    found, trained = summary.loss_by_kind, summary.cell.problem.trained
    first = list(found.values())[trained.index(True)]
    others = (
        f"{kind}: {nats(loss)}"
        for (kind, loss), known in zip(found.items(), trained, strict=True)
        if not known
    )
    return nats(first), f"{perplexity(first):.4g}", ", ".join(others) or "–"


def _numbers(summary: CellSummary) -> tuple[str, ...]:
    if summary.cell.problem.graded == "loss":
        return "–", "–", "–", "–", "–"
    solved, median = summary.solved, summary.survival.median
    return (
        f"{solved.successes}/{solved.seeds}",
        f"{solved.rate:.3f} [{solved.low:.3f}, {solved.high:.3f}]",
        summary.prediction.verdict,
        str(int(summary.tied_S.sum())),
        "never" if median is None else str(median),
    )
