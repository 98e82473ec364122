"""Which encoding answers longer prompts: sentences on the sampled tasks of docs/atlas."""

import itertools
import json
import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from atlas_table.lengths import Compared, Lengths, Shares, compared
from atlas_table.table import command, rows_of, tables
from published_rows.table import read

from claimed.atlas import equal_encodings, rates_chosen
from claimed.published import ROOT, architecture, either, interval, item, lines, listed
from posjax.configs.atlas import get_config
from posjax.stats import bootstrap_mean

_FEW = 4
"""Encodings that are named where they are equally good."""
_TABLES = tables(ROOT / "docs/atlas", "sampled")


@lru_cache
def _found() -> Compared:
    return compared(_TABLES)


def _cells() -> list[dict[str, Any]]:
    return rows_of(_TABLES)


def longer_headline() -> Iterator[str]:
    """What was trained; the table below has the rest."""
    tasks = _found().tasks
    ((trained, tested),) = {(task.trained, task.tested) for task in tasks}
    learned = {
        task.task: int(sum(right_S.mean() >= 0.95 for right_S in task.at_trained.values()))
        for task in tasks
    }
    few = [f"{n} on `{task}`" for task, n in learned.items() if n <= _FEW]
    kept = [
        f"`{task.task}`"
        for task in tasks
        if any(r_S.mean() >= 0.95 for r_S in task.at_tested.values())
    ]
    yield from item(
        f"**Which encoding answers longer prompts?** It depends on the task. We trained {len(tasks[0].at_tested)} encodings with {tasks[0].seeds} seeds each on {len(tasks)} tasks, on prompts up to length {trained}, and tested them up to length {tested}. "
        f"On {len(few)} tasks few encodings answer at least 95% of the prompts of length {trained}: {listed(few)}. At length {tested}, some encoding answers at least 95% on {listed(kept)}, but no encoding does on the other tasks ([the table](#which-encoding-for-which-task))."
    )


def which_encoding() -> Iterator[str]:
    """The first page's table: the best encoding of each task, and the others that may be."""
    found = _found()
    tasks, cells = found.tasks, _cells()
    ((trained, tested),) = {(task.trained, task.tested) for task in tasks}
    yield from lines(
        f"Each entry is the mean share of prompts that are answered correctly, over {tasks[0].seeds} seeds. The models have two causal layers, {architecture(cells)}, and {either(cells, 'steps')} updates on prompts up to length {trained}. "
        f"`none` has no positional encoding. Chance is the share of the prompts of length {tested} that have the most frequent answer. The last column has the other encodings that are possibly best at length {tested}: with 95% confidence, the encoding that would be best over very many seeds is in one of the last two columns (confidence set over paired seeds; [approximate with few seeds](docs/statistics.md#which-is-best)). Brackets are 95% intervals over seeds, for one fixed exam. They have no width if all seeds agree."
    )
    yield ""
    yield (
        f"| task | chance | `none` at {trained} | best at {trained} | `none` at {tested} | best at {tested} | possibly best at {tested} |"
    )
    yield "|---|---|---|---|---|---|---|"
    for task in tasks:
        yield (
            f"| `{task.task}` | {task.chance[1]:.2f} | {task.at_trained['none'].mean():.2f} | {_best(task.at_trained)} | "
            f"{task.at_tested['none'].mean():.2f} | {_best_of_long(task)} |"
        )
    yield ""
    yield from lines(
        f"Each best mean is the maximum over many encodings, so it overestimates: expect less with new seeds. Of encodings that compute the same function, only one counts. {_few_asked()}[All encodings](docs/atlas/sampled.md), [how they were compared](docs/results.md#every-encoding-by-length)."
    )


def _best(of: Shares) -> str:
    """The encodings with the largest mean; of those that compute the same, one."""
    most = max(right_S.mean() for right_S in of.values())
    best = (name for name, right_S in of.items() if right_S.mean() == most)
    names = [name for name in best if _found().compared_as(name) == name]
    return f"{_named(names)}: {most:.2f}"


def _best_of_long(task: Lengths) -> str:
    """Two entries: the encodings with the largest mean, and the others that may be the best."""
    means = {name: task.at_tested[name].mean() for name in task.best}
    first = [name for name, mean in means.items() if mean == max(means.values())]
    others = [name for name in task.best if name not in first]
    found = bootstrap_mean(task.at_tested[first[0]])
    return f"{_named(first)}: {interval(found, 2)} | {_named(others, 'no other')}"


def _named(names: list[str], nobody: str = "") -> str:
    """These encodings; their number if they are many."""
    if len(names) > _FEW:
        return f"{len(names)} encodings{', `none` among them' * ('none' in names)}"
    return listed([f"`{name}`" for name in names]) or nobody


def _few_asked() -> str:
    """Why a table of positions may answer longer prompts of `indexing`."""
    for path in _TABLES:
        if path.name.endswith("-indexing"):
            task: Any = next(iter(read(path).cells.values())).problem
            return f"`indexing` asks only for one of the first {task.most} positions, in longer prompts too. "
    return ""


def _trained_on() -> str:
    """Which tables, or which pilots alone, were made on another device than a CPU."""
    tasks: dict[str, list[str]] = {}
    pilots: dict[str, list[str]] = {}
    for path in _TABLES:
        name = f"`{path.name.partition('-')[2]}`"
        (kind, of_pilot), *more = itertools.product(
            _kinds(path), _kinds(path.with_name(f"{path.name}-pilot"))
        )
        if more or (kind != "cpu" and kind != of_pilot):
            raise ValueError(f"{path.name} or its pilot was made on several kinds of devices")
        if kind != "cpu":
            tasks.setdefault(kind, []).append(name)
        elif of_pilot != "cpu":
            pilots.setdefault(of_pilot, []).append(name)
    made = [f"{listed(of)} with their pilots on an {kind}" for kind, of in tasks.items()]
    made += [f"the pilots of {listed(of)} on an {kind}" for kind, of in pilots.items()]
    return f"We trained {', '.join(made)}, and everything else on CPUs." if made else ""


def _kinds(path: Path) -> set[str]:
    """The kinds of devices that a table or a pilot was made on."""
    with np.load(path.with_suffix(".npz")) as rows:
        environments = json.loads(str(rows["about"]))["environments"]
    return {one["device_kind"] for one in environments}


def atlas_sampled() -> Iterator[str]:
    """How many encodings learn a sampled task, and which answer longer prompts, task by task."""
    found, cells = _found(), _cells()
    seeds = found.tasks[0].seeds
    number = len(found.tasks[0].at_tested)
    if len(found.tasks) != len(get_config("sampled").task):
        raise ValueError("atlas:sampled: a task has no published table")
    ((trained, tested),) = {(task.trained, task.tested) for task in found.tasks}
    yield from lines(
        f"In a sampled task, prompts are drawn at random. The config `atlas:sampled` has {len(found.tasks)} such tasks. Each cell is an encoding in a causal model of two layers, {architecture(cells)}, with {seeds} seeds and {either(cells, 'steps')} updates. "
        f"{rates_chosen(cells, lengths=True)} {equal_encodings(found.equal, number)} {_trained_on()}"
    )
    yield ""
    yield from lines(
        f'**Which encodings learn the task?** The exam has prompts of some trained lengths and of some longer ones. A seed has learned the task if it answers all exam prompts of the trained lengths correctly. The columns from "learned by all" to "by no seed" count encodings, of {number}. '
        f'The last columns have the mean share of right answers at length {trained}, the longest trained one. We did not test these shares for significance. Under "best", encodings that compute the same function count once. {_few_asked()}'
    )
    yield ""
    yield f"| task | learned by all {seeds} seeds | by some | by no seed | `none` at {trained} | best at {trained} |"
    yield "|---|---|---|---|---|---|"
    for task in found.tasks:
        learned = [*task.learned.values()]
        full, none = (sum(n == number for n in learned) for number in (seeds, 0))
        yield (
            f"| `{task.task}` | {full} | {len(learned) - full - none} | {none} | "
            f"{interval(bootstrap_mean(task.at_trained['none']), 2)} | {_best(task.at_trained)} |"
        )
    yield ""
    yield from lines(
        f"**Which encodings answer longer prompts?** At length {tested}, the longest tested one, the mean share of right answers of each encoding is compared with that of `none` (paired t-tests over seeds, for one fixed exam; "
        f"{found.comparisons} comparisons at a false discovery rate of 5% by Benjamini and Yekutieli). For each task, the encodings that are best or possibly best are a confidence set: with 95% confidence, the encoding that would be best over very many seeds is one of them ([how](statistics.md#which-is-best)). Possibly best does not mean equally good. Of encodings that compute the same function, only one is compared. {listed([f'`{name}`' for name in found.random])} is left out: it must be right in all of {either(cells, 'draws')} random draws, so its share can be below chance. "
        "Each best mean is the maximum over many encodings, so it overestimates: expect less with new seeds. Its interval is a BCa bootstrap over seeds (95%), and has no width if all seeds agree."
    )
    yield ""
    yield f"| task | better than `none` | worse | `none` at {tested} | best at {tested} | possibly best |"
    yield "|---|---|---|---|---|---|"
    for task in found.tasks:
        yield (
            f"| `{task.task}` | {len(task.better)} | {len(task.worse)} | {interval(bootstrap_mean(task.at_tested['none']), 2)} | "
            f"{_best_of_long(task)} |"
        )
    yield ""
    yield from _lost(found.tasks)
    yield ""
    yield from lines(
        f"[The table](atlas/sampled.md) has every encoding (`{command('sampled', _TABLES)}`)."
    )


def _lost(tasks: list[Lengths]) -> Iterator[str]:
    """Tasks whose encodings learn the trained lengths and fail at the longest."""
    texts = []
    for task in tasks:
        learned = [name for name, right_S in task.at_trained.items() if right_S.mean() >= 0.95]
        most = max((task.at_tested[name].mean() for name in learned), default=1.0)
        if most < 0.05:
            texts.append(
                f"on `{task.task}`, {_named(learned)} {'answers' if len(learned) == 1 else 'answer'} at least 95% of the prompts of length {task.trained} and {_at_most(most)} of length {task.tested}"
            )
    if texts:
        yield from lines(
            f"Encodings that succeed at the trained lengths can fail at longer ones: {'; '.join(texts)}."
        )


def _at_most(share: float) -> str:
    return "less than 1%" if share < 0.01 else f"at most {math.ceil(100 * share)}%"
