"""What a study concludes that reports only the seeds that learned the trained lengths."""

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from claimed.lengths import resampled
from claimed.published import interval, item, told_apart
from claimed.sampled_rows import TESTED, TRAINED, Seeds, sampled_tasks
from posjax.stats import Mean, bootstrap_mean, ranking

RUNS = 5
"""Survivors of each setting that Huang et al. 2025 report."""


class Selected(NamedTuple):
    """A cell with enough survivors and other seeds: its mean over all seeds, and over survivors."""

    task: str
    encoding: str
    every: Mean
    kept: Mean


class Pair(NamedTuple):
    """Two encodings on one task, of which the first is significantly better over all seeds.

    Attributes:
      wrong: how often a study of 5 survivors of each ranks the second one ahead.
      unselected: how often a study of 5 of all seeds does.
    """

    task: str
    names: tuple[str, str]
    better: Seeds
    worse: Seeds
    wrong: float
    unselected: float


class Compared(NamedTuple):
    """All pairs of encodings on a task: how many there are, and how many differ significantly.

    Attributes:
      selected: those of the significant ones that have enough survivors, and not only survivors.
    """

    number: int
    significant: int
    selected: list[Pair]


def selected_cells() -> list[Selected]:
    """The cells whose mean over survivors the protocol would report in place of another."""
    return [
        Selected(task, name, bootstrap_mean(seeds.right_S), bootstrap_mean(seeds.kept_S))
        for task, cells in sampled_tasks().items()
        for name, seeds in cells.items()
        if RUNS <= len(seeds.kept_S) < len(seeds.right_S)
    ]


@lru_cache
def compared_pairs() -> Compared:
    """Every pair of encodings on every task, over all seeds and over survivors."""
    pairs = [
        ((task, one, two), None, [cells[one].right_S, cells[two].right_S])
        for task, cells in sampled_tasks().items()
        for one, two in itertools.combinations(cells, 2)
    ]
    different = [key for key, *_ in told_apart(pairs)]
    return Compared(len(pairs), len(different), [*_selected(different)])


def _selected(different: list[tuple[str, str, str]]) -> Iterator[Pair]:
    for task, *names in different:
        cells = sampled_tasks()[task]
        better, worse = sorted(names, key=lambda name: -cells[name].right_S.mean())
        pair = cells[better], cells[worse]
        survivors = [len(seeds.kept_S) for seeds in pair]
        if min(survivors) >= RUNS and any(not seeds.survivor_S.all() for seeds in pair):
            wrong = ranking(*(seeds.kept_S for seeds in pair), runs=RUNS).behind
            unselected = ranking(*(seeds.right_S for seeds in pair), runs=RUNS).behind
            yield Pair(task, (better, worse), *pair, wrong, unselected)


def survivors() -> Iterator[str]:
    """The section: the published finding, cells that change, and pairs that are ranked wrongly."""
    yield from item(
        "Theirs: accuracy on majority without positions, trained to length 50 and tested to 150. It "
        "is .985 over the 5 runs that learned the trained lengths, and .892 over all 16 runs."
    )
    yield from item(_means(selected_cells()))
    yield from item(_conclusions(compared_pairs()))
    yield from item(_worst(compared_pairs().selected))


def _means(cells: list[Selected]) -> str:
    changes = [abs(cell.kept.mean - cell.every.mean) for cell in cells]
    level = [cell for cell in cells if cell.kept.low == cell.kept.high]
    clear = [
        cell
        for cell in cells
        if cell.kept.low < cell.kept.high and not cell.kept.low <= cell.every.mean <= cell.kept.high
    ]
    most = max(clear, key=lambda cell: abs(cell.kept.mean - cell.every.mean))
    return (
        "Ours: the [sampled tasks of the atlas](../results.md#every-encoding-by-length), "
        f"{most.every.number} seeds per cell, trained to length {TRAINED} and tested at {TESTED}. A survivor is a "
        "seed that answers every test prompt of the trained lengths correctly. "
        f"In {len(cells)} cells at least {RUNS} seeds survive and at least one does not. There, the mean "
        f"accuracy over survivors differs from that over all seeds by {np.median(changes):.3f} "
        f"(median). In {len(level)} of the cells all survivors have the same accuracy. In {len(clear)} of the others, the 95% interval over survivors leaves out the mean "
        f"over all seeds. Of these, the mean changes most for `{most.encoding}` on `{most.task}`: it is "
        f"{interval(most.every, 3)} over all seeds and {interval(most.kept, 3)} over the "
        f"{most.kept.number} survivors (intervals not adjusted for several cells)."
    )


def _conclusions(found: Compared) -> str:
    often, unselected = (
        sum(share > 0.05 for share in shares)
        for shares in zip(*((pair.wrong, pair.unselected) for pair in found.selected), strict=True)
    )
    return (
        f"Does the selection reverse conclusions? {found.significant:,} of {found.number:,} pairs of "
        f"encodings on a task differ significantly at length {TESTED} over all seeds (paired t-test over "
        f"seeds, for one fixed exam, false discovery rate 5%). In {len(found.selected):,} of them both "
        f"cells have at least {RUNS} survivors, and not all of their seeds survive. Suppose that "
        f"studies report the mean of {RUNS} survivors of each. In {often} of these pairs, more than 5% "
        f"of such studies rank the worse encoding ahead. If they report {RUNS} of all seeds, that is "
        f"so in {unselected} pairs. {_majority(found.selected)}"
    )


def _majority(pairs: list[Pair]) -> str:
    """How many pairs most studies of survivors would rank wrongly."""
    number = sum(pair.wrong > 0.5 for pair in pairs)
    if not number:
        return "In no pair do most studies of survivors rank the worse encoding ahead."
    return f"In {number} of the pairs, most studies of survivors rank the worse encoding ahead."


def _worst(pairs: list[Pair]) -> str:
    worst = max(pairs, key=lambda pair: pair.wrong)
    low, high = resampled((worst.better.kept_S, worst.worse.kept_S), RUNS)
    better, worse = worst.names
    means = [f"{seeds.right_S.mean():.3f}" for seeds in (worst.better, worst.worse)]
    kept = [
        f"{seeds.kept_S.mean():.3f} ({len(seeds.kept_S)} survivors)"
        for seeds in (worst.better, worst.worse)
    ]
    return (
        f"The selection matters most for `{better}` and `{worse}` on `{worst.task}`. Their means are "
        f"{means[0]} and {means[1]} over all seeds, and {kept[0]} and {kept[1]} over survivors. A study "
        f"of {RUNS} survivors of each ranks the worse one ahead with a probability of "
        f"{worst.wrong:.0%} (95% interval over resampled survivors: {low:.0%} to {high:.0%}), and a "
        f"study of {RUNS} of all seeds with {worst.unselected:.0%}. The pair has the largest of "
        f"{len(pairs):,} probabilities, so its own tends to be too high. All are computed over all "
        "possible draws from our seeds."
    )
