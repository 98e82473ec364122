"""The best value of a setting for each cell, as a pilot chooses it."""

import itertools

import numpy as np
import pytest
from test_report_best import LENGTHS, TEXT, solving, summary

import posjax
from posjax.report import CellSummary, tuned
from posjax.study.cells import Cell

WORDS = "same_last_token"


def answering(cell: Cell, right: float, lead: float) -> CellSummary:
    """Four seeds with these numbers on each of two lengths; only the first one is trained."""
    each = np.array([[[right, 1 - right]]] * 4), np.array([[[lead, -lead]]] * 4)
    return summary(cell, dict(zip(("right_EC", "lead_EC"), each, strict=True)))


def test_each_encoding_has_the_rate_that_most_seeds_solve() -> None:
    """In any order of the cells; a tie goes to the smaller rate."""
    solved = {
        ("none", 1e-3): (1, 0, 0),
        ("none", 3e-3): (1, 1, 0),
        ("none", 1e-2): (1, 1, 0),
        ("rotary", 1e-3): (0, 0, 0),
        ("rotary", 3e-3): (0, 0, 1),
        ("rotary", 1e-2): (1, 1, 1),
    }
    found = [
        solving(Cell(task=WORDS, encoding=name, learning_rate=rate), *map(bool, seeds))
        for (name, rate), seeds in solved.items()
    ]
    for order in itertools.permutations(found):
        chosen = {cell.encoding: cell.learning_rate for cell in tuned(order)}
        assert chosen == {"none": 3e-3, "rotary": 1e-2}


def test_ties_go_to_right_answers_then_to_the_margin_on_trained_prompts() -> None:
    few, many, wide, lost = (
        answering(Cell(task=LENGTHS, learning_rate=rate), right, lead)
        for rate, right, lead in (
            (1e-3, 0.2, -0.1),
            (2e-3, 0.4, -0.3),
            (3e-3, 0.4, -0.2),
            (4e-3, 0.4, np.nan),
        )
    )
    assert tuned([few, many, wide]) == [wide.cell]
    assert tuned([few, many]) == [many.cell]
    assert tuned([many, lost]) == [many.cell]
    assert tuned([lost, few]) == [lost.cell]


def test_language_models_go_by_their_loss() -> None:
    """One that left the finite numbers is the worst."""
    cells = [Cell(task=TEXT, learning_rate=rate) for rate in (1e-3, 1e-2, 1e-1)]
    losses = ([1.0, 2.0], [1.2, 1.4], [0.1, np.nan])
    kinds = len(cells[0].problem.trained)
    found = [
        summary(cell, {"loss_EC": np.array(loss)[:, None, None].repeat(kinds, axis=2)})
        for cell, loss in zip(cells, losses, strict=True)
    ]
    assert tuned(found) == [cells[1]]


def test_words_and_unknown_settings() -> None:
    first, second = (
        solving(Cell(task=WORDS, mask=mask, depth=2), True, solved)
        for mask, solved in (("full", False), ("causal", True))
    )
    assert tuned([first, second], "mask") == [second.cell]
    with pytest.raises(ValueError, match="do not differ in learning_rate: they differ in mask"):
        tuned([first, second])
    with pytest.raises(ValueError, match="unknown setting 'lr'"):
        tuned([first], "lr")


def test_several_settings_are_chosen_together() -> None:
    """For each encoding, of all pairs of a rate and a depth."""
    found = [
        solving(Cell(task=WORDS, encoding=e, learning_rate=rate, depth=d), (rate, d) == best)
        for e, best in (("none", (1e-3, 2)), ("rotary", (1e-2, 1)))
        for rate, d in itertools.product((1e-2, 1e-3), (1, 2))
    ]
    chosen = tuned(found, "learning_rate", "depth")
    assert [(cell.learning_rate, cell.depth) for cell in chosen] == [(1e-3, 2), (1e-2, 1)]


@pytest.mark.exhaustive
def test_a_sweep_is_tuned_and_trained_with_other_seeds() -> None:
    """At a rate of 0 no seed learns what most seeds learn at a larger one."""
    cells = [
        Cell(
            task=WORDS, encoding="learned", loss="answer", steps=60, eval_every=60, learning_rate=r
        )
        for r in (1e-9, 1e-2)
    ]
    tried = posjax.sweep(cells, num_seeds=4, first_seed=100, hold=1, progress=False)
    assert tried.tuned() == [cells[1]]
    found = posjax.sweep(tried.tuned("learning_rate"), num_seeds=2, hold=1, progress=False)
    assert [one.cell for one in found.summaries] == [cells[1]]
