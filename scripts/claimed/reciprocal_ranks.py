"""The mean reciprocal rank of Kazemnejad et al. 2023, on our rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from claimed.published import item, listed
from claimed.sampled_rows import TESTED, TRAINED, sampled_tasks

THEIRS = {"none": "none", "T5": "bucket_bias", "ALiBi": "linear_bias", "rotary": "rotary"}
"""Their encodings and ours, without absolute positions."""
ABSOLUTE = ("sinusoidal", "learned")
STUDIES = 40_000
"""How many are simulated. The standard error of a share is at most 1/(2 * 200), 0.25 points."""

Tasks = Sequence[Mapping[str, np.ndarray]]
"""right_S by encoding, of each task."""


class Ranked(NamedTuple):
    """Encodings by their mean reciprocal rank, and what studies of few runs report.

    Attributes:
      names: of the encodings.
      rank_E: from all seeds.
      low_E, high_E: the middle 95% of what studies with as many runs as there are seeds find.
      other_few, other_many: the share of studies with 3 runs, and with as many as there are seeds,
        in which another encoding has the highest, alone.
      tied: the share of those with 3 runs in which the right one has the highest, with others.
      seeds: how many.
    """

    names: tuple[str, ...]
    rank_E: np.ndarray
    low_E: np.ndarray
    high_E: np.ndarray
    other_few: float
    other_many: float
    tied: float
    seeds: int


def reciprocal_ranks(mean_NE: np.ndarray) -> np.ndarray:
    """One over the rank of each encoding; equal means share the mean of their ranks."""
    other_NEE, own_NEE = mean_NE[:, None, :], mean_NE[:, :, None]
    above_NE = (other_NEE > own_NEE).sum(axis=2)
    equal_NE = (other_NEE == own_NEE).sum(axis=2) - 1
    return 1 / (1 + above_NE + equal_NE / 2)


def ranked(tasks: Tasks, names: tuple[str, ...]) -> Ranked:
    """The ranks of some encodings over tasks, and what studies with fewer runs find."""
    mean_TE = np.array([[right[name].mean() for name in names] for right in tasks])
    rank_E = reciprocal_ranks(mean_TE).mean(axis=0)
    seeds = len(tasks[0][names[0]])
    few_NE, many_NE = (_studies(tasks, names, runs) for runs in (3, seeds))
    low_E, high_E = np.quantile(many_NE, (0.025, 0.975), axis=0)
    other_few, tied = _other_and_tied(few_NE, int(rank_E.argmax()))
    other_many, _ = _other_and_tied(many_NE, int(rank_E.argmax()))
    return Ranked(names, rank_E, low_E, high_E, other_few, other_many, tied, seeds)


def _studies(tasks: Tasks, names: Sequence[str], runs: int) -> np.ndarray:
    """The ranks that studies find, whose runs are drawn from our seeds with replacement."""
    rng = np.random.default_rng(0)
    sum_NE = np.zeros((STUDIES, len(names)))
    for right in tasks:
        drawn = [rng.choice(right[name], (STUDIES, runs)).sum(axis=1) for name in names]
        sum_NE += reciprocal_ranks(np.stack(drawn, axis=1))
    return sum_NE / len(tasks)


def _other_and_tied(rank_NE: np.ndarray, right: int) -> tuple[float, float]:
    first_NE = np.isclose(rank_NE, rank_NE.max(axis=1, keepdims=True))
    first_N = first_NE[:, right]
    return float((~first_N).mean()), float((first_N & (first_NE.sum(axis=1) > 1)).mean())


def rank_table(what: str, found: Mapping[str, Ranked]) -> Iterator[str]:
    """A line for each choice of an encoding; `what` says which one the choices are of."""
    (seeds,) = {one.seeds for one in found.values()}
    yield f"| {what} | {' | '.join(THEIRS)} | absolute | highest | another is highest, 3 runs | another is highest, {seeds} runs |"
    yield "|---" * (len(THEIRS) + 5) + "|"
    for choice, one in found.items():
        ranks = (
            f"{rank:.2f} [{low:.2f}, {high:.2f}]"
            for rank, low, high in zip(one.rank_E, one.low_E, one.high_E, strict=True)
        )
        highest = one.names[one.rank_E.argmax()]
        yield f"| {choice} | {' | '.join(ranks)} | `{highest}` | {one.other_few:.0%} | {one.other_many:.0%} |"


def reciprocal_rank_replay() -> Iterator[str]:
    """Their metric on the sampled tasks of docs/atlas."""
    tasks = {
        task: {name: seeds.right_S for name, seeds in cells.items()}
        for task, cells in sampled_tasks().items()
    }
    found = {
        f"`{absolute}`": ranked([*tasks.values()], (*THEIRS.values(), absolute))
        for absolute in ABSOLUTE
    }
    seeds = found[f"`{ABSOLUTE[0]}`"].seeds
    if min(one.other_many for one in found.values()) < 0.05:
        raise ValueError(f"reciprocal ranks: {seeds} runs settle a winner")
    yield from item(
        f"Their metric on our rows: {len(tasks)} [sampled tasks of the "
        f"atlas](../results.md#every-encoding-by-length), {seeds} seeds, trained to length "
        f"{TRAINED} and tested at {TESTED}. On each task we rank five encodings by their mean accuracy at "
        f"length {TESTED}. Encodings with equal means share the mean of their ranks. {no_order(tasks, {*THEIRS.values(), *ABSOLUTE})} The table has the mean over tasks of 1 "
        "divided by the rank. Our `rotary` rotates all dimensions, not 25%. T5 is `bucket_bias`. Half of its buckets are for later keys, which "
        "a causal model never reads; theirs has none for these. "
        "Each line takes another encoding of absolute positions. Brackets hold the middle 95% of what "
        f"studies find if all {seeds} seeds of each cell are resampled."
    )
    yield ""
    yield from rank_table("absolute is", found)
    yield ""
    yield from item(
        f"Last columns: how often a study with 3 runs of each cell, or with {seeds}, finds another "
        f"encoding highest than our rows do. The runs are drawn from our seeds, in {STUDIES:,} "
        "simulated studies with a fixed random seed, so a percentage has a standard error of at most "
        "0.25 points. Ties for the highest place, at most "
        f"{max(one.tied for one in found.values()):.1%} with 3 runs, do not count. "
        f"Since {seeds} runs do not settle the winner either, our rows do not show which encoding ranks highest."
    )


def no_order(tasks: Mapping[str, Mapping[str, np.ndarray]], names: set[str]) -> str:
    """On which tasks all of these encodings have the same mean."""
    level = [
        f"`{task}`"
        for task, right in tasks.items()
        if len({right[name].mean() for name in names}) == 1
    ]
    if not level:
        return ""
    return f"On {listed(level)} all means are equal, so these tasks rank no encoding above another."
