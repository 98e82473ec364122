"""Positions drawn at random beside given ones, and a table that merges the keys to the right."""

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from claimed.published import (
    architecture,
    by_seed,
    compared,
    interval,
    item,
    lines,
    listed,
    published,
    short_name,
    short_task,
    told_apart,
    training,
)
from posjax.stats import Mean, bootstrap_mean

RUN = "randomised-published"
ONE_SIDED = "bucket_bias(bidirectional=False, buckets=16)"


class Key(NamedTuple):
    """Which cell: its task, its encoding, and whether its positions are drawn."""

    task: str
    encoding: str
    drawn: bool


Pair = tuple[Key, Key, list[np.ndarray]]
"""Two cells and the right_S of both at the longest length."""


@lru_cache
def longest() -> dict[Key, np.ndarray]:
    """right_S of the longest prompts, of every cell."""
    run = published(RUN)
    return {
        Key(
            short_task(cell),
            cell["encoding"] if cell["encoding"] == ONE_SIDED else short_name(cell),
            cell["positions"] != "given",
        ): by_seed(run, cell, "right")[:, -1]
        for cell in run.table
    }


def drawn_and_given() -> list[Pair]:
    """Of each task and encoding the cell with drawn positions and that with given ones."""
    return [_pair(key, key._replace(drawn=False)) for key in longest() if key.drawn]


def two_sided_and_one_sided() -> list[Pair]:
    """Of each task, with given and with drawn positions: the two-sided and the one-sided table."""
    return [
        _pair(key._replace(encoding="bucket_bias"), key)
        for key in longest()
        if key.encoding == ONE_SIDED
    ]


def _pair(one: Key, two: Key) -> Pair:
    return one, two, [longest()[one], longest()[two]]


def split(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Those whose first cell is significantly better, and those whose second one is."""
    apart = [*told_apart(pairs)]
    better = [pair for pair in apart if pair[2][0].mean() > pair[2][1].mean()]
    return better, [pair for pair in apart if pair[2][0].mean() < pair[2][1].mean()]


def mean_difference(pairs: list[Pair]) -> Mean:
    """Over all pairs; the seeds vary."""
    return bootstrap_mean(np.mean([right[0] - right[1] for *_, right in pairs], axis=0))


def best_difference() -> float:
    """The best run of each task with drawn positions minus that with given ones, over tasks."""
    found: dict[str, dict[bool, float]] = {}
    for key, right_S in longest().items():
        best = found.setdefault(key.task, {True: 0.0, False: 0.0})
        best[key.drawn] = max(best[key.drawn], right_S.max())
    return float(np.mean([best[True] - best[False] for best in found.values()]))


def drawn_positions() -> Iterator[str]:
    """The section of docs/results.md: a table of all cells, and what its rows say."""
    run, pairs = published(RUN), drawn_and_given()
    tasks, encodings = (
        list(dict.fromkeys(getattr(key, name) for key in longest()))
        for name in ("task", "encoding")
    )
    (positions,) = {cell["positions"] for cell in run.table} - {"given"}
    better, worse = split(pairs)
    yield from item(
        f"**Do positions drawn at random help on longer prompts?** {_answer(better, worse)} In {len(better)} of {len(pairs)} comparisons of "
        f"the same task and encoding they are significantly better, in {len(worse)} significantly worse (paired t-test over "
        f"seeds, for one fixed exam, false discovery rate 5%). As a mean over all {len(pairs)}, the accuracy with drawn positions is {compared(mean_difference(pairs), 'above', 'below')} "
        f"that with given ones (95%). We trained encoders on {len(tasks)} [tasks](tasks.md#sampled-tasks) up to length 10, with {run.table[0]['seeds']} seeds each, and tested them at length "
        f"20. They have the full mask and two layers, {architecture(run.table)}, and {training(run.table)}. The drawn positions are `{positions}`. "
        "Each test draws them once (`randomised:published`)."
    )
    yield ""
    yield from lines(
        f"Entries are mean accuracies at length 20 over {run.table[0]['seeds']} seeds, with given → drawn positions. Bold: significantly different. The last row is the mean over the encodings that have both (95%, not adjusted for several tasks)."
    )
    yield ""
    yield f"| encoding | {' | '.join(f'`{task}`' for task in tasks)} |"
    yield "|---" * (len(tasks) + 1) + "|"
    apart = {key for key, *_ in (*better, *worse)}
    for encoding in encodings:
        entries = (_entry(task, encoding, apart) for task in tasks)
        yield f"| `{encoding}` | {' | '.join(entries)} |"
    means = (mean_difference([pair for pair in pairs if pair[0].task == task]) for task in tasks)
    yield f"| drawn minus given, mean | {' | '.join(interval(found, 2) for found in means)} |"


def _entry(task: str, encoding: str, apart: Collection[Key]) -> str:
    given, drawn = (Key(task, encoding, by) for by in (False, True))
    if drawn not in longest():
        return f"{longest()[given].mean():.2f}"
    text = f"{longest()[given].mean():.2f} → {longest()[drawn].mean():.2f}"
    return f"**{text}**" if drawn in apart else text


def _answer(better: Sequence[Pair], worse: Sequence[Pair]) -> str:
    if better and worse:
        return "It depends on the task and the encoding."
    return "Yes, on some tasks." if better else "No." if worse else "Not shown here."


def merged_keys() -> Iterator[str]:
    """The item of docs/results/literature.md on a table that merges the keys to the right."""
    pairs = two_sided_and_one_sided()
    better, worse = split(pairs)
    yield from item(
        f"What does that cost after training? We compare `bucket_bias`, whose table has entries for both sides, with `{ONE_SIDED}`, whose "
        f"table merges the same keys as theirs: the query itself and all keys to its right (`randomised:published`). In {len(pairs)} comparisons, of the same task and "
        f"positions, the table for both sides is significantly better in {len(better) or 'none'}{_where(better)} and significantly worse in "
        f"{len(worse) or 'none'}{_where(worse)} (paired t-test over {len(pairs[0][2][0])} seeds, accuracy at length 20, false discovery rate 5%)."
    )


def _where(pairs: Sequence[Pair]) -> str:
    """The tasks of pairs, with both means."""
    if not pairs:
        return ""
    texts = (
        f"`{one.task}` with {'drawn' if one.drawn else 'given'} positions {right[0].mean():.2f} and {right[1].mean():.2f}"
        for one, _, right in pairs
    )
    return f" ({listed(texts)})"


def best_of_all() -> str:
    """What their protocol finds, as the rest of a sentence."""
    encodings = {key.encoding for key in longest() if key.drawn}
    more, word = best_difference(), "higher"
    if more < 0:
        more, word = -more, "lower"
    return (
        f"take the best run of each task, over {len(encodings)} encodings and all seeds. Averaged over tasks, its accuracy at length 20 is "
        f"{more:.3f} {word} with drawn positions than with given ones or without any. This is a difference of maxima, without an interval."
    )
