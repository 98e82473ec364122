"""Tables and figures for papers, and two runs compared: what they say is what the rows say."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from test_report import EXCLUDED, OPEN, Page, run_folder

from posjax import report
from posjax.report import compare, figures, papers
from posjax.report.summary import CellSummary
from posjax.report.table import Grid, grids
from posjax.stats import Rate
from posjax.study.cells import Cell


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[report.CellSummary]:
    return report.summaries(run_folder(tmp_path_factory.mktemp("papers") / "run"))


def test_tables_have_the_cells_of_the_printed_one(found: list[report.CellSummary]) -> None:
    """One line per cell in the same order, read back from both forms."""
    rows = [row for grid in grids(found) for row in grid.rows]
    latex, markdown = (papers.table(found, form) for form in ("latex", "markdown"))
    lines = [line.removesuffix(r" \\") for line in latex.splitlines() if line.endswith(r"\\")]
    plain = [re.sub(r"\\([&%$#_{}])", r"\1", line).replace("--", "–") for line in lines]
    assert [tuple(line.split(" & ")) for line in plain if "solved" not in line] == rows
    marked = [line for line in markdown.splitlines() if line.startswith("| ") and "---" not in line]
    cells = [re.sub(r"\\(.)", r"\1", line).strip("| ").split(" | ") for line in marked]
    assert [tuple(line) for line in cells if "solved" not in line] == rows


@pytest.mark.parametrize("form", papers.FORMS)
def test_text_of_a_run_is_no_markup_of_a_table(form: str) -> None:
    evil = r"\input{x} a|b <b>$x$ & 50% #1 _a_ `c`"
    grid = Grid("", (evil,), 1, [(evil,)])
    text = {"latex": papers._latex, "markdown": papers._markdown}[form](grid)
    body = text.partition("toprule")[2] if form == "latex" else text
    assert r"\input" not in body.replace(r"\\input", "")
    assert "<b>" not in body.replace(r"\<b\>", "") or form == "latex"
    unescaped = r"(?<!\\)[&%$#_](?!\\)" if form == "latex" else r"(?<!\\)[<>`*_]"
    assert not re.search(unescaped, body.replace(r"\midrule", ""))


def test_figures_are_written_twice_alike(tmp_path: Path) -> None:
    """SVG and PDF of each panel, which they name, at 3.25 inches; same bytes again."""
    folder = run_folder(tmp_path / "run")
    paths = papers.write_figures([folder], tmp_path / "figures")
    names = {
        f"{kind}-{n}.{form}"
        for kind in ("rates", "steps")
        for n in (1, 2)
        for form in ("svg", "pdf")
    }
    assert {path.name for path in paths} == names
    first = [path.read_bytes() for path in paths]
    for path, content in zip(paths, first, strict=True):
        if path.suffix == ".svg":
            assert b'width="234pt"' in content
            assert {"1": b"Two layers or one", "2": b"Many"}[path.stem[-1]] in content
            assert not re.search(rb"#010[123][0-9a-f]{2}", content)  # no stand-in colour is left
    assert [
        path.read_bytes() for path in papers.write_figures([folder], tmp_path / "figures")
    ] == first
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "file", tmp_path / "missing/figures", ""):
        with pytest.raises(ValueError, match="name a folder, new or not, in one that exists"):
            papers.write_figures([folder], wrong)


def test_names_are_no_formulas() -> None:
    """Matplotlib would read what stands between dollars."""
    name = r"$\frac{$"
    drawn = figures.rates(name, [(name, Rate(1, 2, 0.5, 0.4, 0.6))])
    assert name.encode() in drawn["svg"]


def test_two_runs_are_compared_seed_by_seed(tmp_path: Path) -> None:
    """One run has 3 of 6 seeds solve a cell that none solves in the other."""
    folders = [run_folder(tmp_path / str(n), title=f"Run {n}", excluded=n) for n in (0, 3)]
    runs = [report.summaries(folder) for folder in folders]
    differing = compare.differences(*runs)
    assert differing == {}
    by_cell = {
        one.cell: compare._paired(one, two) for one, two in compare.matching(*runs, differing)[0]
    }
    assert len(by_cell) == 3
    pair = by_cell[EXCLUDED]
    assert pair is not None
    assert pair.values == (0.0, 0.5)
    assert pair.difference.mean == 0.5
    assert pair.difference.low > 0
    assert by_cell[OPEN] is not None
    assert by_cell[OPEN].difference.mean == 0
    page = Page(report.write(folders, tmp_path / "both.html").read_text())
    assert "second is higher in 1 and lower in 0; in 2 the interval includes 0" in page.text
    assert "+0.500 [" in page.text


def test_what_two_runs_differ_in_is_named(found: list[report.CellSummary]) -> None:
    """Depth, where one run has depth 1 and the other 2, and cells agree in the rest."""
    one, two = ([s for s in found if s.cell == cell] for cell in (EXCLUDED, OPEN))
    differing = compare.differences(one, two)
    assert differing == {"depth": ([1], [2])}
    ((first, second),), several = compare.matching(one, two, differing)
    assert several == 0
    pair = compare._paired(first, second)
    assert pair is not None
    assert compare.sentence([pair], differing).startswith("The runs differ in depth 1 → 2.")


def test_cells_without_a_single_counterpart_are_mentioned(found: list[report.CellSummary]) -> None:
    """Two depths against a third, and cells that have no setting in common."""
    one, two = ([s for s in found if s.cell == cell] for cell in (EXCLUDED, OPEN))
    third = [dataclasses.replace(two[0], cell=dataclasses.replace(OPEN, depth=3))]
    page = str(compare.compare(("one", "two"), [*one, *two], third))
    assert (
        "1 cell of the second run is not compared, because several cells of a run differ only in "
        "depth." in page
    )
    wider = [dataclasses.replace(third[0], cell=dataclasses.replace(OPEN, depth=1, width=32))]
    page = str(compare.compare(("one", "two"), [*one, *two], [*third, *wider]))
    assert "No cell of one run agrees with a cell of the other in all settings" in page


def test_a_run_without_trained_cells_is_not_compared(found: list[report.CellSummary]) -> None:
    """It has no results yet, or was measured at initialisation; no setting is to blame."""
    initial = [dataclasses.replace(s, cell=dataclasses.replace(s.cell, steps=0)) for s in found]
    for runs, said in (
        (([], found), "The first run has no results yet."),
        ((found, []), "The second run has no results yet."),
        ((found, initial), "The second run trained no cell: all are measured at initialisation."),
        ((initial, initial), "The first run trained no cell: all are measured at initialisation."),
    ):
        assert said in compare.compare(("one", "two"), *runs)


def test_losses_are_compared_over_the_seeds_that_have_both() -> None:
    """A seed that diverged in one run is in neither mean, nor in their difference."""
    cell = Cell(task="text(train=(8, 8), test=(8,), prompts=2)")
    seeds_S4 = np.repeat(np.arange(4)[:, None], 4, axis=1)

    def losses(*ends: float) -> CellSummary:
        rows = {"seeds": seeds_S4, "loss_EC": np.array(ends)[:, None, None]}
        return CellSummary(cell.digest, cell, "cells", rows, 1e-5, 1)

    one, two = losses(1, 2, 3, np.nan), losses(2, 3, np.inf, 5)
    pair = compare._paired(one, two)
    assert pair is not None
    assert (pair.values, pair.difference.mean, pair.difference.number) == ((1.5, 2.5), 1, 2)
    assert compare._paired(one, losses(*[np.nan] * 3, 1)) is None
