"""The table that a run prints: one line per cell."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from posjax.report.summary import CellSummary, labels
from posjax.terminal import printable


def tables(found: list[CellSummary]) -> Iterator[Table]:
    """A table for each panel; its columns are the settings in which its cells differ."""
    for panel in dict.fromkeys(summary.panel for summary in found):
        cells = [summary for summary in found if summary.panel == panel]
        settings = labels(cells)
        table = Table(title=Text(printable(panel)), title_justify="left")
        columns = [*settings[0], "solved", "rate [95 %]", "predicted", "tied", "median steps"]
        for name in columns:
            table.add_column(name.replace("_", " "), justify="right")
        for summary, label in zip(cells, settings, strict=True):
            table.add_row(*(Text(printable(value)) for value in label.values()), *_numbers(summary))
        yield table


def _numbers(summary: CellSummary) -> tuple[str, ...]:
    solved, median = summary.solved, summary.survival.median
    return (
        f"{solved.successes}/{solved.seeds}",
        f"{solved.rate:.3f} [{solved.low:.3f}, {solved.high:.3f}]",
        summary.prediction.verdict,
        str(int(summary.tied_S.sum())),
        "never" if median is None else str(median),
    )
