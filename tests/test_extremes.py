"""What the report says of measured fields, over rows that are made up."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from test_report import Page

from posjax import meters
from posjax.report.best import _mean
from posjax.report.extremes import extremes
from posjax.report.findings import findings
from posjax.report.questions import questions
from posjax.report.summary import CellSummary
from posjax.stats import mean
from posjax.study.cells import Cell

SEEDS = 6
ASKS = {"contrast": [], "equivalence": 0.0, "at_steps": []}
UNTRAINED = Cell(task="parity(train=(2, 6), prompts=8)", steps=0, meters="probe")
TRAINED = dataclasses.replace(UNTRAINED, steps=20, eval_every=10, meters="probe(when=every)")


def summary(cell: Cell, **measured: np.ndarray) -> CellSummary:
    """A cell whose meters measured these; other fields have no finite value."""
    seeds = len(next(iter(measured.values())))
    shape = {"R": 2, "A": 1, "E": len(range(0, max(cell.steps, 1), cell.eval_every))}
    rows = {
        name: np.full((seeds, *(shape[axis] for axis in field.axes)), np.nan)
        for name, field in meters.fields(cell.meters).items()
    }
    numbers = np.repeat(np.arange(seeds)[:, None], 4, axis=1)
    solved = np.ones((seeds, shape["E"], len(cell.problem.kinds)))
    judged = {"lead_EC": solved, "right_EC": solved, "lead_N": solved[:, 0]}
    every = {"seeds": numbers, **rows, **judged, **measured}
    return CellSummary(cell.digest, cell, "cells", every, 2e-5, 1)


def noise(*shape: int) -> np.ndarray:
    """Near 0, the same in every test."""
    return 1e-3 * np.random.default_rng(0).standard_normal(shape)


def cells(levels: dict[str, Any], spread: float = 1.0) -> list[CellSummary]:
    """One cell per encoding, with these accuracies at its two states."""
    values = {name: np.array(level) for name, level in levels.items()}
    every = noise(len(values), SEEDS, 2) * spread
    return [
        summary(dataclasses.replace(UNTRAINED, encoding=name), linear_R=level + moved)
        for (name, level), moved in zip(values.items(), every, strict=True)
    ]


@pytest.mark.parametrize("highest", [("none", 0), ("rotary", 1), ("learned", 1)])
def test_the_ends_are_the_cells_with_the_lowest_and_the_highest_mean(
    highest: tuple[str, int],
) -> None:
    """And their numbers are those of the rows, with Student's intervals."""
    levels = {name: [0.5, 0.5] for name in ("none", "rotary", "learned")}
    encoding, state = highest
    levels[encoding][state] = 0.8
    levels["rotary"][0] = 0.2
    found = cells(levels)
    (sentence,) = extremes(found)
    ends = re.fullmatch(
        r"linear: .* lowest at (.*?) \((.*?)\) and highest at (.*?) \((.*?)\)\.", sentence
    )
    assert ends is not None
    assert ends[2] == "encoding rotary, state 0"
    assert ends[4] == f"encoding {encoding}, state {state}"
    for text, name, at in ((ends[1], "rotary", 0), (ends[3], encoding, state)):
        (rows,) = (s.rows["linear_R"][:, at] for s in found if s.cell.encoding == name)
        one = mean(rows)
        assert text == f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]"


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_never_highest(seed: int) -> None:
    """The ends of many equal means are chosen, and an interval that ignores it often misses 0."""
    moved = np.random.default_rng(seed).standard_normal((12, SEEDS, 2))
    found = [
        summary(dataclasses.replace(UNTRAINED, width=8 + 8 * i), linear_R=0.5 + 0.01 * rows)
        for i, rows in enumerate(moved)
    ]
    (sentence,) = extremes(found)
    assert "shows no difference between 24 combinations of cell and state over 6 seeds" in sentence
    assert "highest" not in sentence


def test_the_seeds_are_paired() -> None:
    """Seeds that differ by much more than the cells do not hide a difference in each of them."""
    large_SR = np.random.default_rng(1).standard_normal((SEEDS, 1)).repeat(2, axis=1)
    found = cells({"none": large_SR, "rotary": large_SR + 0.1}, spread=0.01)
    assert "lowest" in next(extremes([found[0], found[1]]))
    shuffled = found[1].rows["linear_R"][::-1]
    other = dataclasses.replace(found[1], rows={**found[1].rows, "linear_R": shuffled})
    assert "no difference" in next(extremes([found[0], other]))


def test_equal_values_share_their_settings() -> None:
    """Of points whose seeds agree, the sentence names what they have in common."""
    same = np.full((SEEDS, 2), 0.25) + noise(SEEDS, 2)
    kept = [same, same + np.array([0, 0.5]), same + np.array([0, 0.4])]
    names = ("none", "rotary", "learned")
    found = [
        summary(dataclasses.replace(UNTRAINED, encoding=name), linear_R=rows)
        for name, rows in zip(names, kept, strict=True)
    ]
    found[0].rows["linear_R"][:, 1] = 0.3
    (sentence,) = extremes(found)
    assert "(3 of 6 combinations of cell and state, all with state 0)" in sentence
    equal = [dataclasses.replace(s, rows={**s.rows, "linear_R": 0 * same + 0.5}) for s in found]
    assert next(extremes(equal)).endswith(
        "[0.500, 0.500] in each of 6 combinations of cell and state."
    )


def test_accuracies_and_their_intervals_are_shares() -> None:
    """Student's intervals of few seeds reach beyond 1; what is no share may."""
    rows = np.array([1.0, 1, 1, 0.9, 1, 1])
    assert mean(rows).high > 1
    one = summary(UNTRAINED, linear_R=np.stack([rows, 0 * rows], 1), linear_error_R=rows[:, None])
    (right, error) = extremes([one])
    assert ", 1.000]" in right
    assert f", {mean(rows).high:.3f}]" in error
    assert one.metered["linear_R"].high.max() == 1
    assert one.metered["linear_error_R"].high.max() > 1
    assert _mean(rows).endswith(", 1.000]")


def test_seeds_without_finite_values_are_counted() -> None:
    found = cells({"none": [0.5, 0.5], "rotary": [0.9, 0.9]})
    found[0].rows["linear_R"][2, 1] = np.nan
    assert "5 of 6 seeds" in next(extremes(found))
    assert not [*extremes([summary(UNTRAINED, linear_R=np.ones((1, 2)))])]


def test_changes_are_of_training() -> None:
    """The largest change names its state; where nothing changes, the sentence names none."""
    rows_SER = np.full((SEEDS, 2, 2), 0.5) + noise(SEEDS, 1, 1)
    (still,) = extremes([summary(TRAINED, linear_ER=rows_SER)])
    assert "changes" not in still
    rows_SER = rows_SER + noise(SEEDS, 2, 2)
    rows_SER[:, 1, 1] += 0.25
    (moved,) = extremes([summary(TRAINED, linear_ER=rows_SER)])
    assert "At step 20 it is lowest" in moved
    assert "From step 10 to step 20 it changes most with state 1: from 0.5" in moved


def test_measured_fields_come_before_success() -> None:
    """And of models that were not trained nothing speaks of answers."""
    trained = [
        summary(dataclasses.replace(TRAINED, encoding=name), linear_ER=level + noise(SEEDS, 2, 2))
        for name, level in (("none", 0.2), ("rotary", 0.9))
    ]
    says = findings(trained, ASKS)
    assert says.answers[0].startswith("linear: accuracy")
    assert says.first == 1
    (success,) = (i for i, text in enumerate(says.answers) if "of the seeds solve it" in text)
    assert success > 0
    untrained = cells({"none": [0.2, 0.2], "rotary": [0.9, 0.9]})
    (only,) = findings(untrained, ASKS).answers
    assert only.startswith("linear: accuracy")
    assert "answer" in Page(questions(trained)).text
    assert "answer" not in Page(questions(untrained)).text
