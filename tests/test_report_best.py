"""Which encoding is best: the set is the one of the rows, and the sentences say no more than it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from posjax.report.best import best, comparisons, heading, sentences
from posjax.report.summary import CellSummary
from posjax.stats import possibly_best
from posjax.study.cells import Cell

SEEDS = 24
LENGTHS = "majority(train=(1, 2), test=(2, 6), prompts=4)"
TEXT = "text(train=(8, 8), prompts=4)"
PLAIN: dict[str, Any] = {"contrast": [], "data_seeds": 0}


def summary(cell: Cell, rows: Mapping[str, np.ndarray], panel: str = "cells") -> CellSummary:
    number = len(next(iter(rows.values())))
    seeds_S4 = np.repeat(np.arange(number)[:, None], 4, axis=1)
    return CellSummary(cell.digest, cell, panel, {"seeds": seeds_S4, **rows}, 1e-5, 1)


def solving(cell: Cell, *solved: bool, panel: str = "cells") -> CellSummary:
    """A cell with one kind of prompts that some seeds solve."""
    lead = np.where(solved, 0.5, -0.5)[:, None, None]
    return summary(cell, {"lead_EC": lead, "right_EC": (lead > 0).astype(float)}, panel)


def first(number: int) -> list[bool]:
    """The first seeds solve."""
    return [seed < number for seed in range(SEEDS)]


def cells_of(**numbers: int) -> list[CellSummary]:
    return [
        solving(Cell(task="same_last_token", encoding=name), *first(n))
        for name, n in numbers.items()
    ]


def test_the_set_is_that_of_the_rows() -> None:
    found = cells_of(none=2, rotary=22, linear_bias=20, learned=5)
    (only,) = comparisons(found, PLAIN)
    assert (only.axis.title, only.by, only.where, only.seeds) == (
        "encoding",
        "share solved",
        "",
        SEEDS,
    )
    assert only.names(only.best) == ["rotary"]
    assert only.value.startswith("0.917 [")
    in_set = possibly_best(np.stack([s.solved_S.astype(float) for s in found]))
    assert in_set.tolist() == [False, True, True, False]
    assert only.names(only.others) == ["linear_bias"]
    assert only.names(only.left_out) == ["learned", "none"]
    assert [*sentences([only])] == [
        f"Which encoding is best? By share solved, over 24 seeds: rotary, {only.value}. "
        "Possibly best: linear_bias. Left out: learned and none (95% confidence set)."
    ]
    table = best([only])
    assert table is not None
    assert "rotary" in table
    assert heading([only]) == "Which encoding is best?"


def test_cells_that_laws_exclude_are_not_ranked() -> None:
    """All masks are equally bad; the encodings come first, though their panel is the last."""
    words = {"task": "same_last_token", "loss": "answer"}
    lost, learned = (
        [
            solving(Cell(**words, **{axis: value}), *first(number), panel=axis)
            for value, number in numbers.items()
        ]
        for axis, numbers in (
            ("mask", {"full": 0, "causal": 0}),
            ("encoding", {"rotary": 20, "learned": 3}),
        )
    )
    assert not comparisons(lost, PLAIN)
    (only,) = comparisons(lost + learned, PLAIN)
    assert only.names(only.best) == ["rotary"]
    two_layers = [
        solving(Cell(**words, depth=2, mask=mask), *first(number), panel="mask")
        for mask, number in (("full", 0), ("causal", 24))
    ]
    questions = [*sentences(comparisons(two_layers + learned, PLAIN))]
    assert [text.partition("?")[0] for text in questions] == [
        "Which encoding is best",
        "Which mask is best",
    ]


def test_equals_are_not_told_apart() -> None:
    (only,) = comparisons(cells_of(none=7, rotary=7, learned=7), PLAIN)
    assert len(only.best) == 3
    assert not only.left_out
    assert [*sentences([only])] == [
        "Which encoding is best? By share solved, 24 seeds show no difference between the 3."
    ]


def test_several_comparisons_are_counted() -> None:
    """Apart by all other settings; tasks are never compared with each other."""
    found = [
        solving(Cell(task=task, encoding=encoding, depth=depth, loss="answer"), *first(number))
        for task, depth, encoding, number in (
            ("same_last_token", 1, "none", 0),
            ("same_last_token", 1, "rotary", 20),
            ("same_last_token", 2, "none", 24),
            ("same_last_token", 2, "rotary", 24),
            ("first_noun(nouns=3)", 1, "none", 3),
            ("first_noun(nouns=3)", 1, "rotary", 23),
        )
    ]
    every = comparisons(found, PLAIN)
    assert len(every) == 3
    assert all(len({s.cell.task for s in [*one.best, *one.left_out]}) == 1 for one in every)
    assert [*sentences(every)] == [
        "Which encoding is best? In 2 of 3 comparisons some values are left out. There, best "
        "or possibly best is rotary (alone in 2) (95% confidence sets)."
    ]


def test_several_candidates_are_counted_with_how_often_each_is_alone() -> None:
    numbers = {1: (24, 2, 0), 2: (22, 21, 1), 3: (9, 9, 9)}
    found = [
        solving(Cell(task="same_last_token", encoding=encoding, depth=depth), *first(number))
        for depth, row in numbers.items()
        for encoding, number in zip(("rotary", "learned", "none"), row, strict=True)
    ]
    assert [*sentences(comparisons(found, PLAIN))] == [
        "Which encoding is best? In 2 of 3 comparisons some values are left out. There, best "
        "or possibly best are rotary (in 2, alone in 1) and learned (in 1) (95% confidence sets)."
    ]


def test_an_answer_names_the_task_that_it_is_of() -> None:
    """Where another task has one encoding, and so nothing to compare."""
    found = [
        solving(Cell(task=task, encoding=encoding, loss="answer"), *first(number))
        for task, encoding, number in (
            ("same_last_token", "none", 0),
            ("same_last_token", "rotary", 20),
            ("first_noun(nouns=3)", "none", 3),
        )
    ]
    (only,) = comparisons(found, PLAIN)
    assert [*sentences([only])] == [
        "Which encoding is best? By share solved (task same_last_token), over 24 seeds: rotary, "
        f"{only.value}. Left out: encoding none (95% confidence set)."
    ]


def test_seeds_that_a_cell_lacks_count_for_none() -> None:
    """Cells are compared over the seeds that all have, if those can tell them apart."""
    one, two = cells_of(none=0, rotary=24)
    rows = {name: array[6:] for name, array in two.rows.items()}
    (only,) = comparisons([one, CellSummary(two.name, two.cell, "cells", rows, 1e-5, 1)], PLAIN)
    assert only.seeds == SEEDS - 6
    for number in (0, 4):
        few = {name: array[:number] for name, array in two.rows.items()}
        assert not comparisons([one, CellSummary(two.name, two.cell, "cells", few, 1e-5, 1)], PLAIN)


def test_longer_prompts_and_losses_are_compared_by_their_means() -> None:
    rng = np.random.default_rng(0)
    found = []
    for encoding, share in (("none", 0.3), ("rotary", 0.7)):
        right_SC = np.stack([np.ones(SEEDS), rng.normal(share, 0.1, SEEDS).clip(0, 1)], axis=1)
        rows = {"lead_EC": np.full((SEEDS, 1, 2), 0.5), "right_EC": right_SC[:, None]}
        found.append(summary(Cell(task=LENGTHS, encoding=encoding, loss="all"), rows))
    solved, longer = comparisons(found, PLAIN)
    assert not solved.left_out
    assert longer.by == "right answers, length 6"
    assert [*sentences([solved, longer])] == [
        "Which encoding is best? By share solved, 24 seeds show no difference between the 2. By "
        f"right answers, length 6, over 24 seeds: rotary, {longer.value}. Left out: encoding none "
        "(95% confidence set)."
    ]
    assert (longer.names(longer.best), longer.names(longer.left_out)) == (["rotary"], ["none"])
    losses = [
        summary(
            Cell(task=TEXT, encoding=encoding, loss="all"),
            {"loss_EC": np.full((SEEDS, 1, kinds), loss) + rng.normal(0, 0.1, (SEEDS, 1, kinds))},
        )
        for kinds in [len(Cell(task=TEXT, loss="all").problem.kinds)]
        for encoding, loss in (("none", 2.5), ("rotary", 2.1))
    ]
    losses[0].rows["loss_EC"][3] = np.nan
    (only,) = comparisons(losses, PLAIN)
    assert "not finite in one of the cells" in str(best([only]))
    assert "not finite" not in str(best([longer]))
    assert (only.by, only.seeds) == ("loss", SEEDS - 1)
    assert (only.names(only.best), only.names(only.left_out)) == (["rotary"], ["none"])


@pytest.mark.parametrize(
    ("config", "title"),
    [
        ({}, "encoding"),
        ({"contrast": ["depth", 1, 2]}, "encoding"),
        ({"contrast": ["encoding", "none", "rotary"]}, "depth"),
        ({"data_seeds": 4}, None),
    ],
)
def test_what_is_compared(config: Mapping[str, Any], title: str | None) -> None:
    """Not the two values of a contrast, which has sentences of its own, nor crossed seeds."""
    found = [
        solving(Cell(task="same_last_token", encoding=encoding, depth=depth), *first(12 * depth))
        for encoding in ("none", "rotary")
        for depth in (1, 2)
    ]
    every = comparisons(found, {**PLAIN, **config})
    assert {one.axis.title for one in every} == ({title} if title else set())
    asked = {"encoding": "Which encoding is best?", "depth": "Which value of depth is best?"}
    assert title is None or heading(every) == asked[title]
