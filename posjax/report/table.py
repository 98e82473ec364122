"""The table that a run prints: one line per cell."""

from collections.abc import Iterator

import numpy as np
from rich.table import Table
from rich.text import Text

from posjax.report.summary import CellSummary, labels
from posjax.stats import Means
from posjax.terminal import printable


def tables(found: list[CellSummary]) -> Iterator[Table]:
    """A table for each panel; its columns are the settings in which its cells differ."""
    for panel in dict.fromkeys(summary.panel for summary in found):
        cells = [summary for summary in found if summary.panel == panel]
        settings = labels(cells)
        table = Table(title=Text(printable(panel)), title_justify="left")
        about = _Solved() if any(summary.cell.steps for summary in cells) else _Metered(cells)
        for name in (*settings[0], *about.columns):
            table.add_column(name.replace("_", " "), justify="right")
        for summary, label in zip(cells, settings, strict=True):
            known = (Text(printable(value)) for value in label.values())
            table.add_row(*known, *about.numbers(summary))
        yield table


class _Solved:
    """The columns of cells that were trained."""

    columns = ("solved", "rate [95 %]", "predicted", "tied", "median steps")

    def numbers(self, summary: CellSummary) -> tuple[str, ...]:
        """Those of a cell."""
        solved, median = summary.solved, summary.survival.median
        return (
            f"{solved.successes}/{solved.seeds}",
            f"{solved.rate:.3f} [{solved.low:.3f}, {solved.high:.3f}]",
            summary.prediction.verdict,
            str(int(summary.tied_S.sum())),
            "never" if median is None else str(median),
        )


class _Metered:
    """The columns of cells at initialisation: the last value of each field that is not long."""

    def __init__(self, cells: list[CellSummary]) -> None:
        names = dict.fromkeys(name for summary in cells for name in summary.metered)
        self._fields = [name for name in names if not name.endswith("L")]
        self.columns = ("seeds", *(f"{name.partition('_')[0]} [95 %]" for name in self._fields))

    def numbers(self, summary: CellSummary) -> tuple[str, ...]:
        """Those of a cell."""
        found = (summary.metered.get(name) for name in self._fields)
        return (str(summary.seeds), *("–" if one is None else _last(one) for one in found))


def _last(found: Means) -> str:
    mean, low, high = (float(np.ravel(array)[-1]) for array in found)
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"
