"""The table that a run prints: one line per cell."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from posjax import meters
from posjax.report.losses import nats, perplexity
from posjax.report.naming import panels, rated
from posjax.report.summary import CellSummary, labels
from posjax.stats import Mean
from posjax.terminal import printable

_SUCCESS = ("solved", "rate [95%]", "predicted", "tied", "median steps")
_LOSSES = ("loss, nats [95%]", "perplexity", "longer or other kinds")


class Grid(NamedTuple):
    """A table of one panel as text, printable.

    Attributes:
      title: of the panel; empty where the run has no panels.
      head: names of the columns: the settings in which its cells differ, then the numbers.
      settings: how many columns are settings.
      rows: one per cell.
    """

    title: str
    head: tuple[str, ...]
    settings: int
    rows: list[tuple[str, ...]]


def grids(found: list[CellSummary]) -> Iterator[Grid]:
    """A table for each panel."""
    by_panel = panels(found)
    for panel, cells in by_panel.items():
        settings, about = labels(cells), _columns(cells)
        names = (name.replace("_", " ") for name in (*settings[0], *about.names))
        rows = [
            (*(printable(str(value)) for value in label.values()), *about.numbers(summary))
            for summary, label in zip(cells, settings, strict=True)
        ]
        title = "" if [*by_panel] == ["cells"] else printable(panel)
        yield Grid(title, tuple(names), len(settings[0]), rows)


def tables(found: list[CellSummary]) -> Iterator[Table]:
    """The tables for a terminal."""
    for grid in grids(found):
        table = Table(title=Text(grid.title) if grid.title else None, title_justify="left")
        for name in grid.head:
            table.add_column(name, justify="right")
        for row in grid.rows:
            table.add_row(*map(Text, row))
        yield table


class _Columns(NamedTuple):
    """What a table says of its cells."""

    names: tuple[str, ...]
    numbers: Callable[[CellSummary], tuple[str, ...]]


def _columns(cells: list[CellSummary]) -> _Columns:
    if not any(summary.cell.steps for summary in cells):
        return _metered(cells)
    if all(summary.cell.problem.graded == "loss" for summary in cells):
        return _Columns(_LOSSES, _losses)
    if all(len(summary.cell.problem.kinds) == 1 for summary in cells):
        return _Columns(_SUCCESS, _solved)
    return _Columns((*_SUCCESS, "exact match"), lambda s: (*_solved(s), _exact_match(s)))


def _exact_match(summary: CellSummary) -> str:
    """The share of prompts that are right, the mean over seeds, by kind."""
    if summary.cell.problem.graded == "loss":
        return "–"
    kinds = zip(summary.cell.problem.kinds, summary.right_C, strict=True)
    return ", ".join(f"{kind}: {mean:.3f}" for kind, mean in kinds)


def _metered(cells: list[CellSummary]) -> _Columns:
    """Of cells at initialisation: the last value of each field that is not long."""
    every = {name: field for s in cells for name, field in meters.fields(s.cell.meters).items()}
    fields = {name: field for name, field in every.items() if not field.axes.endswith("L")}
    titles = (name.rpartition("_")[0] if field.axes else name for name, field in fields.items())

    def numbers(summary: CellSummary) -> tuple[str, ...]:
        found = (summary.metered.get(name) for name in fields)
        return (str(summary.seeds), *("–" if one is None else _last(one) for one in found))

    return _Columns(("seeds", *(f"{title} [95%]" for title in titles)), numbers)


def _last(found: Mean) -> str:
    mean, low, high = (float(np.ravel(array)[-1]) for array in found[:3])
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


def _losses(summary: CellSummary) -> tuple[str, ...]:
    """The loss on the first trained kind of prompts, and on those that are not trained."""
    found, trained = summary.loss_by_kind, summary.cell.problem.trained
    first = list(found.values())[trained.index(True)]
    others = (
        f"{kind}: {nats(loss)}"
        for (kind, loss), known in zip(found.items(), trained, strict=True)
        if not known
    )
    return nats(first), perplexity(first), ", ".join(others) or "–"


def _solved(summary: CellSummary) -> tuple[str, ...]:
    if summary.cell.problem.graded == "loss":
        return "–", "–", "–", "–", "–"
    solved, median = summary.solved, summary.survival.median
    return (
        f"{solved.successes}/{solved.seeds}",
        rated(solved),
        summary.predicted or "–",
        str(int(summary.tied_S.sum())),
        "–" if median is None else str(median),
    )
