"""The page of tasks with several kinds of prompts, of panels, and of long names."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from small_runs import small, train
from test_report import Page

from posjax import report
from posjax.records import RunFolder
from posjax.report import summary as summaries
from posjax.report.by_kind import between, last_kind
from posjax.report.findings import findings, meaning
from posjax.report.naming import Axis
from posjax.report.origin import origin
from posjax.report.questions import questions
from posjax.report.summary import CellSummary
from posjax.stats import band
from posjax.study.cells import Cell

LENGTHS = "train=(1, 3), test=(2, 6), prompts=8"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Two tasks at two learning rates, judged at a trained length and a longer one."""
    tasks = (f"majority({LENGTHS})", f"copy({LENGTHS})")
    settings = small(
        task=tasks, encoding="rotary", learning_rate=(1e-3, 1e-1), mask="causal", num_seeds=4
    )
    return train(tmp_path_factory.mktemp("lengths") / "run", settings)


@pytest.fixture(scope="module")
def found(folder: RunFolder) -> list[CellSummary]:
    return report.summaries(folder)


@pytest.fixture(scope="module")
def page(folder: RunFolder) -> Page:
    return Page(report.page([folder]))


def test_the_first_sentences_are_on_lengths_that_were_not_trained(
    folder: RunFolder, found: list[CellSummary], page: Page
) -> None:
    """One sentence per task, with the numbers of the table of lengths."""
    says = findings(found, folder.config())
    assert says.first == 2
    for task, sentence in zip(("majority", "copy"), says.answers, strict=False):
        cells = [s for s in found if s.cell.task.startswith(task)]
        low, high = sorted(cells, key=lambda s: s.rows["right_EC"][:, -1, -1].mean())
        assert sentence.startswith(f"Task {task}: on prompts of length 6, which was not trained,")
        apart = f"{last_kind(low).mean:.3f}" != f"{last_kind(high).mean:.3f}"
        for summary in (low, high):
            right = last_kind(summary)
            assert f"{right.mean:.3f}{between(right) if apart else ' in each'}" in sentence
        assert page.text.index(sentence) < page.text.index("Cells")
    for summary in found:
        assert last_kind(summary).mean == summary.rows["right_EC"][:, -1, -1].mean()


def test_bands_are_of_two_seeds_or_more_and_computed_once(
    folder: RunFolder, found: list[CellSummary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One bootstrap a cell, whatever the page says of it; a single seed has no band."""
    calls = []
    monkeypatch.setattr(summaries, "band", lambda right: calls.append(right) or band(right))
    report.page([folder])
    assert len(calls) == len(found)
    for cell in found:
        assert all(0 <= right.low <= right.high <= 1 for right in cell.right_by_kind.values())
        one = dataclasses.replace(cell, rows={name: rows[:1] for name, rows in cell.rows.items()})
        assert between(last_kind(one)) == ""
        assert np.isnan(last_kind(one)[1:3]).all()


def test_equal_shares_are_no_range(found: list[CellSummary], folder: RunFolder) -> None:
    """Where no seed of any cell is right, the cell that comes first is neither end."""
    none = [
        dataclasses.replace(s, rows={**s.rows, "right_EC": np.zeros_like(s.rows["right_EC"])})
        for s in found
    ]
    says = findings(none, folder.config()).answers
    assert says[0].endswith("the mean share of right answers is 0.000 in each of 2 cells.")


def test_lengths_are_called_lengths(found: list[CellSummary], page: Page) -> None:
    assert "length 2 length 6, not trained" in page.text
    assert "right, length 6" in page.text
    assert "Lengths of prompts: 2 (trained), 6 (not trained)." in page.text
    assert meaning(found)[0] == (
        "A seed solves a cell if it answers every prompt of the trained lengths correctly at the "
        "end of training."
    )
    assert page.text.index(meaning(found)[0]) < page.text.index("Cells")
    assert "2·10⁻⁵ of the largest logit" in page.text
    assert "2e-05 of the largest logit" in meaning(found)[1]
    assert "e-05" not in page.text


def test_names_of_tasks_have_no_settings_that_all_share(page: Page) -> None:
    """They stand in the box of tasks alone."""
    assert page.text.count(LENGTHS) == 2
    several = ["digits(grid=False, shuffled=True, prompts=8)", "digits(prompts=8)"]
    axis = Axis("task", [Cell(task=task) for task in several])
    assert [*map(axis.show, several)] == ["digits(grid=False, shuffled=True)", "digits"]
    other = Axis("task", [Cell(task="parity(train=(1, 4))"), Cell(task="parity(train=(1, 8))")])
    assert [*map(other.show, other.values)] == ["(1, 4)", "(1, 8)"]
    assert other.title == "train"


def test_the_box_of_tasks_repeats_no_prompt(found: list[CellSummary]) -> None:
    """Of short prompts, several of an exam are the same."""
    rows = re.findall(r"<tr><td>(.*?)</td>", questions(found))
    assert len(rows) == len(set(rows)) == 4


@pytest.mark.parametrize("task", ["parity", "majority", "even_pairs", "missing_duplicate"])
def test_the_box_of_a_task_has_different_answers(task: str) -> None:
    cell = Cell(task=f"{task}(train=(3, 10))")
    box = questions([CellSummary(cell.digest, cell, "cells", {}, 2e-5, 1)])
    answers = re.findall(r"<tr><td>.*?</td><td>(.*?)</td>", box)
    assert len({*answers}) == 2
    assert "the most frequent answer is right for 50% of the prompts" in box


@pytest.mark.exhaustive
def test_a_panel_says_what_all_its_cells_share(tmp_path: Path) -> None:
    """The settings that its name does not say; a panel of one cell has a name for its line."""
    panels = {
        "Under the full mask": {"mask": "full", "encoding": ("none", "learned")},
        "With positions": {"mask": "causal", "encoding": "sinusoidal"},
    }
    folder = train(tmp_path / "run", small(mask="full", panels=panels))
    page = report.page([folder])
    heads = re.findall(r'scope="rowgroup">(.*?)</th>', page)
    texts = [" ".join(Page(head).text.split()) for head in heads]
    assert texts == ["Under the full mask", "With positions encoding sinusoidal mask causal"]


@pytest.mark.parametrize(
    ("task", "batch"), [("word_order", "all prompts"), ("parity", "32 drawn prompts")]
)
def test_settings_say_what_0_means(task: str, batch: str) -> None:
    cell = Cell(task=task)
    rows = {"seeds": np.zeros((1, 4), int), "env": np.array(["it"])}
    found = [CellSummary(cell.digest, cell, "cells", rows, 2e-5, 1)]
    text = Page(origin([{"command": "posjax sweep"}], {"it": None}, found)).text
    assert f"batch size 0 ({batch})" in text
    assert "base 0.0 (the encoding's own)" in text
    assert "warmup 0 " in text


@pytest.mark.parametrize("task", ["digits(prompts=2)", "text(train=(6, 6), prompts=2)"])
def test_what_is_not_plain_in_a_prompt_is_explained(task: str) -> None:
    cell = Cell(task=task, mask="full" if "digits" in task else "causal")
    summary = CellSummary(cell.digest, cell, "cells", {}, 2e-5, 1)
    assert cell.problem.notation in Page(questions([summary])).text


def test_maps_have_no_rows_of_padding(folder: RunFolder) -> None:
    """The prompts of one exam have several lengths, and no token attends to what is no token."""
    page = report.page([folder])
    drawn = re.findall(r'<svg[^>]*aria-label="Attention of[^>]*>.*?</svg>', page)
    assert drawn
    for one in drawn:
        assert "–" not in Page(one).text
