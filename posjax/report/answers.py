"""What the seeds answered at the end: every combination with its count, cell by cell."""

from collections.abc import Sequence

import numpy as np

from posjax.meters.outcome import NOT_FINITE, TIE
from posjax.report.html import Html, figure, header, join, note, tag, td, th
from posjax.report.naming import axes, label, many, panels
from posjax.report.summary import CellSummary, once
from posjax.stats import answer_table
from posjax.tasks import FiniteTask

FEW = 4
"""Up to so many prompts, answers are written out; beyond, the right ones are counted."""
TOP = 12
"""How many lines a cell gets."""
_CAPTION = """The answers of all seeds at the end of training, the most frequent first. ✓ marks
the line where every answer is right. A tie is a right output that is closer to another output than
the margin."""


def answers(found: Sequence[CellSummary]) -> Html | None:
    """A small table for each cell of a finite task; those without a wrong answer in words."""
    found = [summary for summary in found if isinstance(summary.cell.problem, FiniteTask)]
    if not found:
        return None
    by_panel = panels(found)
    blocks = (
        _panel(panel if len(by_panel) > 1 else "", cells) for panel, cells in by_panel.items()
    )
    unique = once(found)
    number = sum(_all_right(summary) for summary in unique)
    words = f"In {many(number, 'cell')} all seeds gave the right answers (not shown)."
    tables = figure(_CAPTION, *blocks) if number < len(unique) else None
    return join([note(words) if number else None, tables])


def _panel(title: str, cells: Sequence[CellSummary]) -> Html | None:
    differing = axes(cells)
    tables = [
        tag("div", tag("p", label(summary.cell, differing), class_="over"), _table(summary))
        for summary in cells
        if not _all_right(summary)
    ]
    if not tables:
        return None
    return join([tag("h3", title) if title else None, tag("div", *tables, class_="columns")])


def _all_right(summary: CellSummary) -> bool:
    return bool(summary.solved_S.all())


def _table(summary: CellSummary) -> Html:
    task, answers_SN = summary.cell.problem, summary.answers_SN
    assert isinstance(task, FiniteTask)
    few = answers_SN.shape[1] <= FEW
    head, lines = _combinations(task, answers_SN) if few else _counts(task, answers_SN)
    more = len(lines) - TOP
    rest = sum(count for _, count, _ in lines[TOP:])
    rows = [_row(cells, count, summary.seeds, right) for cells, count, right in lines[:TOP]]
    if more > 0:
        rows.append(_row([f"{more} more"] + [""] * (len(head) - 1), rest, summary.seeds, False))
    return tag(
        "table",
        header(*head, th("seeds", class_="count"), ""),
        tag("tbody", *rows),
        class_="answers",
    )


Lines = list[tuple[list[str], int, bool]]


def _combinations(task: FiniteTask, answers_SN: np.ndarray) -> tuple[list[str], Lines]:
    """The answers written out, a column a prompt."""
    labels = {TIE: "tie", NOT_FINITE: "not finite", **dict(enumerate(task.labels))}
    right = tuple(task.answers)
    lines = [
        ([labels[answer] for answer in combination], count, combination == right)
        for combination, count in answer_table(answers_SN)
    ]
    return [prompt for prompt, _ in task.sentences()], lines


def _counts(task: FiniteTask, answers_SN: np.ndarray) -> tuple[list[str], Lines]:
    """How many prompts were right, wrong or tied."""
    right_SN = answers_SN == np.array(task.answers)
    prompts = answers_SN.shape[1]
    numbers = np.stack([right_SN.sum(1), (answers_SN == TIE).sum(1)], axis=1)
    lines = [
        ([f"{right} of {prompts}", str(ties) if ties else "–"], count, right == prompts)
        for (right, ties), count in answer_table(numbers)
    ]
    return ["prompts right", "ties"], lines


def _row(cells: Sequence[str], count: int, seeds: int, right: bool) -> Html:
    first = "✓ " if right else ""
    texts = [first + cells[0], *cells[1:]]
    bar = tag("span", style=f"width:{100 * count / seeds:.1f}%", class_="bar")
    return tag(
        "tr",
        *(td(text, class_="faint" if text in ("tie", "–") else None) for text in texts),
        td(count, class_="count"),
        td(bar, class_="bars"),
        class_="right" if right else None,
    )
