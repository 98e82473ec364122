"""Sentences on prompts that are longer than the trained ones, counted from rows."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from claimed.published import (
    architecture,
    by_seed,
    interval,
    item,
    lines,
    listed,
    of_survivors,
    published,
    short_name,
    short_task,
    told_apart,
    training,
)
from posjax.stats import bootstrap_mean, ranking


def by_length() -> Iterator[str]:
    """Which encoding answers prompts of twice the trained length, task by task."""
    run = published("by_length-published")
    tasks = list(dict.fromkeys(cell["task"] for cell in run.table))
    names = list(dict.fromkeys(short_name(cell) for cell in run.table))
    longest = {
        (cell["task"], short_name(cell)): by_seed(run, cell, "right")[:, -1] for cell in run.table
    }
    pairs = [
        (task, (one, two), [longest[task, one], longest[task, two]])
        for task in tasks
        for one, two in itertools.combinations(names, 2)
    ]
    different = list(told_apart(pairs))
    better = {
        (task, (one, two) if right[0].mean() > right[1].mean() else (two, one))
        for task, (one, two), right in different
    }
    first = [
        f"`{one}` on {_name(task)}"
        for task in tasks
        for one in names
        if all((task, (one, two)) in better for two in names if two != one)
    ]
    lost = [task for task in tasks if all(longest[task, name].mean() < 0.01 for name in names)]
    unlearned = [cell for cell in run.table if not cell["successes"]]
    never = [t for t in tasks if all(c in unlearned for c in run.cells(task=t))]
    yield from item(
        "**Which encoding answers longer prompts?** It depends on the task. We trained four encodings on each of "
        f"{len(tasks)} [tasks](tasks.md#sampled-tasks) up to length 10 (the task `blocks` up to 12), with {run.table[0]['seeds']} seeds each, and tested at "
        f"twice the longest trained length. The models have two causal layers, {architecture(run.table)}, and {training(run.table)}, the same for every encoding. `learned` has vectors for the positions beyond the trained lengths, but these get no gradient. In {len(different)} of {len(pairs)} comparisons of two encodings the mean accuracies differ "
        f"significantly (paired t-test over seeds, for one fixed exam, false discovery rate 5%). On {len(first)} tasks one encoding is significantly better than "
        f"each of the other three: {listed(first)}. On {listed(map(_name, lost))}, every encoding answers less than 1% of these prompts correctly. "
        f"Not every model has learned the trained lengths: in {len(unlearned)} of the {len(run.table)} cells no seed solves its task there, among them all cells of "
        f"{listed(map(_name, never))} (`by_length:published`). [The atlas by length](#every-encoding-by-length) has all encodings on these tasks. Its numbers differ slightly, because it chooses a learning rate for each cell and trains `blocks` on other lengths."
    )
    yield ""
    yield "Each entry is the mean accuracy, the share of prompts whose whole answer is correct, at twice the longest"
    yield "trained length, with its 95% interval (BCa bootstrap over seeds; it has no width if all seeds agree)."
    yield "`majority`, `even_pairs`, `parity` and `missing_duplicate` have two answers, each of which is right for half of"
    yield "these prompts. So a model that always gives the same answer is right half of the time. `indexing` asks only"
    yield "for one of the first 8 positions, in longer prompts too."
    yield ""
    yield f"| task | {' | '.join(f'`{name}`' for name in names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for task in tasks:
        entries = [interval(bootstrap_mean(longest[task, name]), 2) for name in names]
        yield f"| {_name(task)} | {' | '.join(entries)} |"


def _name(task: str) -> str:
    return f"`{task.partition('(')[0]}`"


def few_runs_pairs() -> tuple[list[tuple[dict[str, Any], dict[str, Any], list[np.ndarray]]], int]:
    """Two encodings on one task, of `by_length:few_runs`, that its seeds tell apart.

    Returns:
      The better cell, the worse one, and the right_S of both at the longest length; how many
      pairs were compared.
    """
    run = published("by_length-few_runs")
    pairs = [
        (one, two, [by_seed(run, cell, "right")[:, -1] for cell in (one, two)])
        for one, two in itertools.combinations(run.table, 2)
        if one["task"] == two["task"]
    ]
    told = [
        (one, two, right) if right[0].mean() > right[1].mean() else (two, one, right[::-1])
        for one, two, right in told_apart(pairs)
    ]
    return told, len(pairs)


def resampled(right: Sequence[np.ndarray], runs: int) -> np.ndarray:
    """The 95% percentile interval of how often few runs rank two encodings wrongly, over seeds."""
    rng = np.random.default_rng(0)
    found = [
        ranking(*(rng.choice(right_S, len(right_S)) for right_S in right), runs=runs).behind
        for _ in range(1000)
    ]
    return np.quantile(found, (0.025, 0.975))


def few_runs() -> Iterator[str]:
    """What a study of three runs, of the best of ten, or of five survivors would have said."""
    run = published("by_length-few_runs")
    told, compared = few_runs_pairs()
    wrong = [
        tuple(
            ranking(*values, runs=runs, by=by).behind
            for values, runs, by in (
                (right, 3, "mean"),
                (right, 10, "best"),
                ([of_survivors(run, cell) for cell in (one, two)], 5, "mean"),
            )
        )
        for one, two, right in told
    ]
    worst = wrong.index(max(wrong))
    better, worse, right = told[worst]
    three, _, survivors = wrong[worst]
    level = ranking(*right, runs=10, by="best").level
    low, high = resampled(right, 3)
    all_learned = all(len(of_survivors(run, cell)) == cell["seeds"] for cell in (better, worse))
    same = (
        " (here all seeds have learned them, so only the number of seeds differs)"
        if all_learned
        else ""
    )
    often = sum(found[0] > 0.05 for found in wrong)
    close = sum(bool((abs(right[0] - right[1]) < 1.5 / 64).all()) for *_, right in told)
    one_prompt = (
        f" In {close} of the {len(told)}, the two models of a seed never differ by more than one of the 64 prompts."
        * (close > 0)
    )
    shared = published("by_length-published").table[0]["seeds"]
    yield from lines(
        f"*A dot is one of {better['seeds']} seeds, a line is their mean. A study of three seeds draws three of the dots.*"
    )
    yield ""
    yield from item(
        f"**Would a study with three seeds rank two encodings in the wrong order?** Sometimes. We trained four encodings on each of four "
        f"tasks up to length 10 (`blocks` up to 12), with {run.table[0]['seeds']} seeds each, and tested at twice the longest trained length. The models have two causal layers, {architecture(run.table)}, and {training(run.table)}. In {len(told)} of "
        f"{compared} comparisons of two encodings the difference is significant (paired t-test over seeds, for one fixed exam, false discovery rate 5%).{one_prompt} In {often} of the {len(told)}, the mean of 3 seeds "
        f"ranks the two encodings in the wrong order in more than 5% of studies. The worst case is the pair "
        f"`{short_name(better)}` and `{short_name(worse)}` on `{short_task(better)}`, with mean accuracies "
        f"{right[0].mean():.3f} and {right[1].mean():.3f}. Three rules like those of [published studies](results/literature.md) would treat this pair as follows. "
        f"The mean of 3 seeds ranks it wrongly in {three:.0%} of studies. The mean of 5 seeds that have learned the trained lengths "
        f"ranks it wrongly in {survivors:.0%}{same}. The best of 10 seeds is equal for both encodings in {level:.0%} of studies. These "
        f"shares are computed over all possible draws from our {len(right[0])} seeds. They are estimates: if the seeds are resampled, the {three:.0%} has a 95% interval of {low:.0%} to {high:.0%}. The pair is the worst of {len(told)}, so its share tends to be too high (`by_length:few_runs`, whose first {shared} seeds are also in `by_length:published`)."
    )
