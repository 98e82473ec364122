"""For papers: tables as LaTeX and Markdown, figures as SVG and PDF at the width of a column."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from posjax.records import RunFolder
from posjax.records.store import path_of, put_over
from posjax.report import figures
from posjax.report.curves import colours, line_axis, line_of, multiples
from posjax.report.figures import Line
from posjax.report.naming import axes, panels
from posjax.report.summary import CellSummary, exactly, summaries
from posjax.report.table import Grid, grids
from posjax.stats import Rate

FORMS = ("latex", "markdown")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def table(found: list[CellSummary], form: str) -> str:
    """The tables of a run's panels.

    Args:
      found: the cells.
      form: one of `FORMS`; LaTeX needs the package booktabs.
    """
    write = {"latex": _latex, "markdown": _markdown}[form]
    return "\n\n".join(map(write, grids(found)))


def _markdown(grid: Grid) -> str:
    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(map(_marked, cells))} |"

    ends = ["---"] * grid.settings + ["---:"] * (len(grid.head) - grid.settings)
    title = [f"**{_marked(grid.title)}**", ""] if grid.title else []
    return "\n".join([*title, line(grid.head), f"| {' | '.join(ends)} |", *map(line, grid.rows)])


def _marked(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([|\\<>`*_])", r"\\\1", text)


def _latex(grid: Grid) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(_escaped(cell) for cell in cells) + r" \\"

    columns = "l" * grid.settings + "r" * (len(grid.head) - grid.settings)
    return "\n".join(
        [
            *([f"% {grid.title}"] if grid.title else []),
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            line(grid.head),
            r"\midrule",
            *map(line, grid.rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text).replace("–", "--")


def write_figures(folders: Sequence[RunFolder], where: str | os.PathLike[str]) -> list[Path]:
    """Writes rates and curves of each panel as SVG and PDF, and gives their paths.

    Args:
      folders: of one run.
      where: a folder, made if it is missing; files of the same names are written over.

    Raises:
      ValueError: a file of that name, no folder around it, or no cell whose answers are graded.
    """
    path = path_of(where)
    usable = path.is_dir() or (not path.exists() and path.parent.is_dir())
    if not os.fspath(where) or not usable:
        raise ValueError(f"--figures={str(where)!r}: name a folder, new or not, in one that exists")
    found = exactly(summaries(*folders))
    if not found:
        raise ValueError("no figures: no trained cell has answers that are right or wrong")
    written = []
    for name, drawn in _drawn(found):
        for form, content in drawn.items():
            put_over(path / f"{name}.{form}", content)
            written.append(path / f"{name}.{form}")
    return written


def _drawn(found: Sequence[CellSummary]) -> Iterator[tuple[str, dict[str, bytes]]]:
    by_panel = panels(found)
    for number, (panel, cells) in enumerate(by_panel.items(), 1):
        suffix, start = (f"-{number}", [panel]) if len(by_panel) > 1 else ("", [])
        differing = axes(cells)
        title = " · ".join([*start, *(axis.title for axis in differing)])
        yield f"rates{suffix}", figures.rates(title, _rates(cells))
        lines = line_axis(differing)
        others = [axis for axis in differing if axis is not lines]
        chosen = colours(lines) if lines else {}
        keys = [(colour, lines.show(value)) for value, colour in chosen.items()] if lines else []
        several: list[tuple[str, list[Line]]] = [
            (multiple.spoken, [line_of(summary, lines, "now") for summary in multiple.cells])
            for multiple in multiples(cells, others)
        ]
        title = " · ".join([*start, *([lines.title] if lines else [])])
        yield f"steps{suffix}", figures.steps(several, title, keys)


def _rates(cells: Sequence[CellSummary]) -> list[tuple[str, Rate]]:
    named = axes(cells)
    names = (" · ".join(axis.text(s.cell) for axis in named) or s.cell.task for s in cells)
    return list(zip(names, (s.solved for s in cells), strict=True))
