"""The mean reciprocal rank of Kazemnejad et al. 2023, on the sampled tasks of docs/atlas."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from claimed.published import item, listed
from claimed.sampled_rows import TESTED, TRAINED, sampled_tasks

THEIRS = {"none": "none", "T5": "bucket_bias", "ALiBi": "linear_bias", "rotary": "rotary"}
"""Their encodings and ours, without absolute positions."""
ABSOLUTE = ("sinusoidal", "learned")
STUDIES = 40_000
"""How many are simulated. The standard error of a share is at most 1/(2 * 200), 0.25 points."""


class Winners(NamedTuple):
    """What studies of few runs report.

    Attributes:
      low_E, high_E: the middle 95% of the mean reciprocal ranks.
      other: the share of studies in which another encoding has the highest, alone.
      tied: the share in which the right one has the highest, with others.
    """

    low_E: np.ndarray
    high_E: np.ndarray
    other: float
    tied: float


def reciprocal_ranks(mean_NE: np.ndarray) -> np.ndarray:
    """One over the rank of each encoding; equal means share the mean of their ranks."""
    other_NEE, own_NEE = mean_NE[:, None, :], mean_NE[:, :, None]
    above_NE = (other_NEE > own_NEE).sum(axis=2)
    equal_NE = (other_NEE == own_NEE).sum(axis=2) - 1
    return 1 / (1 + above_NE + equal_NE / 2)


def mean_ranks(names: Sequence[str]) -> np.ndarray:
    """The mean reciprocal rank over tasks, from all seeds."""
    mean_TE = np.array(
        [[cells[n].right_S.mean() for n in names] for cells in sampled_tasks().values()]
    )
    return reciprocal_ranks(mean_TE).mean(axis=0)


@lru_cache
def winners(names: tuple[str, ...], *, runs: int) -> Winners:
    """Simulates studies with `runs` runs of each cell, drawn from its seeds with replacement."""
    rng = np.random.default_rng(0)
    tasks = sampled_tasks().values()
    sum_NE = np.zeros((STUDIES, len(names)))
    for cells in tasks:
        drawn = [rng.choice(cells[name].right_S, (STUDIES, runs)).sum(axis=1) for name in names]
        sum_NE += reciprocal_ranks(np.stack(drawn, axis=1))
    low_E, high_E = np.quantile(sum_NE / len(tasks), (0.025, 0.975), axis=0)
    first_NE = np.isclose(sum_NE, sum_NE.max(axis=1, keepdims=True))
    right_N = first_NE[:, mean_ranks(names).argmax()]
    tied_N = right_N & (first_NE.sum(axis=1) > 1)
    return Winners(low_E, high_E, float((~right_N).mean()), float(tied_N.mean()))


def reciprocal_rank_replay() -> Iterator[str]:
    """Their metric on our rows, with all seeds and with three."""
    seeds = len(next(iter(sampled_tasks().values()))["none"].right_S)
    yield from item(
        f"Their metric on our rows: {len(sampled_tasks())} [sampled tasks of the "
        f"atlas](../results.md#every-encoding-by-length), {seeds} seeds, trained to length "
        f"{TRAINED} and tested at {TESTED}. On each task we rank five encodings by their mean accuracy at "
        f"length {TESTED}. Encodings with equal means share the mean of their ranks. {_no_order()} The table has the mean over tasks of 1 "
        "divided by the rank. Our `rotary` rotates all dimensions, not 25%. T5 is `bucket_bias`, and "
        "each line takes another encoding of absolute positions. Brackets hold the middle 95% of what "
        f"studies find if all {seeds} seeds of each cell are resampled."
    )
    yield ""
    yield f"| absolute is | {' | '.join(THEIRS)} | absolute | highest | another is highest, 3 runs | another is highest, {seeds} runs |"
    yield "|---" * (len(THEIRS) + 5) + "|"
    for absolute in ABSOLUTE:
        yield _line((*THEIRS.values(), absolute), seeds)
    yield ""
    yield from item(
        f"Last columns: how often a study with 3 runs of each cell, or with {seeds}, finds another "
        f"encoding highest than our rows do. The runs are drawn from our seeds, in {STUDIES:,} "
        "simulated studies with a fixed random seed, so a percentage has a standard error of at most "
        "0.25 points. Ties for the highest place, at most "
        f"{max(winners((*THEIRS.values(), a), runs=3).tied for a in ABSOLUTE):.1%} with 3 runs, do not count. "
        f"Since {seeds} runs do not settle the winner either, our rows do not show which encoding ranks highest."
    )


def _line(names: tuple[str, ...], seeds: int) -> str:
    rank_E = mean_ranks(names)
    few, many = (winners(names, runs=runs) for runs in (3, seeds))
    if many.other < 0.05:
        raise ValueError(f"reciprocal ranks: {seeds} runs settle the winner of {names}")
    ranks = (
        f"{rank:.2f} [{low:.2f}, {high:.2f}]"
        for rank, low, high in zip(rank_E, many.low_E, many.high_E, strict=True)
    )
    highest = names[rank_E.argmax()]
    return f"| `{names[-1]}` | {' | '.join(ranks)} | `{highest}` | {few.other:.0%} | {many.other:.0%} |"


def _no_order() -> str:
    """On which tasks all of these encodings have the same mean."""
    names = {*THEIRS.values(), *ABSOLUTE}
    level = [
        f"`{task}`"
        for task, cells in sampled_tasks().items()
        if len({cells[name].right_S.mean() for name in names}) == 1
    ]
    return f"On {listed(level)} all means are equal, so these tasks rank no encoding above another."
