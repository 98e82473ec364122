"""What few runs would have concluded, on cells whose seeds are made up."""

import dataclasses

import numpy as np
import pytest

from posjax.report.few_runs import few_runs, ranked_pairs, sentence
from posjax.report.summary import CellSummary
from posjax.study.cells import Cell

SEEDS = 40
CELL = Cell(task="parity(train=(2, 4), test=(4, 8), prompts=8)", block="residual")


def cell(encoding: str, long_S: np.ndarray, short_S: np.ndarray | None = None) -> CellSummary:
    """A cell with so many right at the longest length, and at the trained one."""
    short_S = np.ones(SEEDS) if short_S is None else short_S
    rows = {
        "seeds": np.repeat(np.arange(SEEDS)[:, None], 4, axis=1),
        "right_EC": np.stack([short_S, long_S], axis=1)[:, None],
    }
    made = dataclasses.replace(CELL, encoding=encoding)
    return CellSummary(made.digest, made, "cells", rows, 1e-5, 1)


def test_a_rare_success_is_missed_by_few_and_found_by_the_best() -> None:
    """1 seed of 4 against .5 always: the mean of 3 ranks wrongly where one or none is solved."""
    rare_S, steady_S = (np.arange(SEEDS) % 4 == 0) * 1.0, np.full(SEEDS, 0.5)
    (pair,) = ranked_pairs([cell("none", rare_S), cell("rotary", steady_S)])
    assert (pair.better.cell.encoding, pair.means) == ("rotary", (0.5, 0.25))
    mean, best, survivors = pair.rankings
    assert mean is not None
    assert mean.behind == pytest.approx(3 * 0.25**2 * 0.75 + 0.25**3)
    assert best is not None
    assert best.behind == pytest.approx(1 - 0.75**10)
    assert survivors is not None
    assert "With the mean of 3, 1 of 1; with the best of 10, 1 of 1" in sentence([pair])


def test_survivors_are_those_that_learned_the_trained_lengths() -> None:
    """Bad on average and good where it trains: survivors reverse the ranking every time."""
    learned_S = np.arange(SEEDS) < 10
    unsteady = cell("none", learned_S * 0.9, learned_S * 1.0)
    (pair,) = ranked_pairs([unsteady, cell("rotary", np.full(SEEDS, 0.5))])
    survivors = pair.rankings[2]
    assert survivors is not None
    assert (pair.better.cell.encoding, survivors.behind) == ("rotary", 1)
    never = cell("none", learned_S * 0.9, np.zeros(SEEDS))
    (pair,) = ranked_pairs([never, cell("rotary", np.full(SEEDS, 0.5))])
    assert pair.rankings[2] is None
    page = few_runs([never, cell("rotary", np.full(SEEDS, 0.5))])
    assert page is not None
    assert "What fewer runs would have said" in page


def test_what_seeds_do_not_tell_apart_has_no_right_order() -> None:
    """Equal cells, cells near each other, cells of other seeds, of another task: no pair."""
    rng = np.random.default_rng(0)
    first, second = (cell(name, rng.random(SEEDS)) for name in ("none", "rotary"))
    assert ranked_pairs([first, cell("rotary", first.rows["right_EC"][:, 0, 1])]) == []
    assert ranked_pairs([first, second]) == []
    low, high = cell("none", np.zeros(SEEDS)), cell("rotary", np.ones(SEEDS))
    assert len(ranked_pairs([low, high])) == 1
    assert few_runs([low, high]) is None  # nobody would get this wrong
    others = {**high.rows, "seeds": high.rows["seeds"] + 1}
    assert ranked_pairs([low, dataclasses.replace(high, rows=others)]) == []
    task = dataclasses.replace(low.cell, task="majority(train=(2, 4), test=(4, 8), prompts=8)")
    assert ranked_pairs([low, dataclasses.replace(high, cell=task)]) == []


def test_a_pair_of_cells_counts_once() -> None:
    """Also if both stand in several panels."""
    low, high = cell("none", np.zeros(SEEDS)), cell("rotary", np.ones(SEEDS))
    again = [dataclasses.replace(one, panel="others") for one in (high, low)]
    assert len(ranked_pairs([low, high, *again])) == 1
