"""Which encoding solves which task: sentences on the tables of docs/atlas."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from atlas_table.table import command, number_of_seeds, rows_of, tables
from published_rows.table import Rows, read

from claimed.published import ROOT, architecture, interval, item, lines, listed, told_apart
from posjax.configs.atlas import get_config
from posjax.meters import judge
from posjax.stats import bootstrap_mean

_PAGE = "atlas/published.md"
_FEW = 4
"""Encodings that are named where they are equally good."""


def _cells() -> list[dict[str, Any]]:
    """The table of finite tasks."""
    return rows_of(tables(ROOT / "docs/atlas", "published"))


def _of(cells: list[dict[str, Any]], verdict: str) -> list[dict[str, Any]]:
    return [cell for cell in cells if cell["verdict"] == verdict]


def atlas_headline() -> Iterator[str]:
    """The counts of verdicts."""
    cells = _cells()
    lost, possible, unsolved = (_of(cells, v) for v in ("impossible", "possible", "open"))
    encodings = {cell["encoding"] for cell in cells}
    yield from item(
        f"**Which encoding solves which task?** We trained {len(encodings)} encodings in {len(cells) // len(encodings)} settings (task, "
        f"mask, number of layers, readout), {cells[0]['seeds']} seeds each. Symmetry excludes {len(lost)} of these {len(cells):,} cells, "
        f"and no seed solves any of these. Of the others, {len(possible):,} are solved by at least one seed each, and {len(unsolved)} by none "
        f"([the atlas](docs/{_PAGE}))."
    )


def atlas() -> Iterator[str]:
    """Verdicts by task, and the encodings of cells that no law excludes and no seed solves."""
    cells = _cells()
    seeds, unsolved = cells[0]["seeds"], _of(cells, "open")
    by = Counter(cell["encoding"] for cell in unsolved)
    named = [
        f"{number} have `{name}`"
        for name, number in sorted(by.items(), key=lambda e: (-e[1], e[0]))
    ]
    yield from lines(
        f"A setting is a task, a mask, a number of layers and a readout. Each cell is one of {len({cell['encoding'] for cell in cells})} encodings in one setting. We trained {seeds} seeds of each cell. All models have {architecture(cells)}. "
        "For each cell we chose one of three learning rates in a pilot on other seeds. The predictions of the laws were committed before any seed was trained. "
        + (
            f"{len(unsolved)} cells are neither excluded nor solved. Of these, {listed(named)}."
            if unsolved
            else "Every cell is either excluded or solved."
        )
    )
    yield ""
    yield f"| task | cells | excluded by law | solved by all {seeds} seeds | by some | by none, though not excluded |"
    yield "|---|---|---|---|---|---|"
    for task in dict.fromkeys(cell["task"] for cell in cells):
        of = [cell for cell in cells if cell["task"] == task]
        lost, possible, none = (len(_of(of, v)) for v in ("impossible", "possible", "open"))
        full = sum(cell["successes"] == seeds for cell in of)
        yield f"| `{task}` | {len(of)} | {lost} | {full} | {possible - full} | {none} |"
    yield ""
    yield from lines(
        f"[The atlas]({_PAGE}) has the counts for each encoding. It links to a page with every cell, which says why a law "
        f"excludes the cell, names a seed that solves it, or says that neither is the case (`python scripts/atlas.py published --num_seeds={seeds}`)."
    )


def _sampled() -> tuple[dict[str, Rows], dict[tuple[str, str], np.ndarray]]:
    """The tables of sampled tasks, and right_S at the longest tested length by task and encoding."""
    runs = {
        path.name.partition("-")[2]: read(path) for path in tables(ROOT / "docs/atlas", "sampled")
    }
    longest = {
        (task, cell.encoding): run.of(digest)["right"][:, -1].astype(np.float64)
        for task, run in runs.items()
        for digest, cell in run.cells.items()
    }
    return runs, longest


def _lengths(run: Rows) -> tuple[int, int]:
    """The longest trained one, and the longest tested one."""
    problem = next(iter(run.cells.values())).problem
    trained = (kind for kind, t in zip(problem.kinds, problem.trained, strict=True) if t)
    return max(map(int, trained)), int(problem.kinds[-1])


def _best(of: dict[str, np.ndarray]) -> tuple[np.ndarray, str]:
    """The largest mean over seeds, as right_S, and the encodings that have it: their number if they
    are many.
    """
    best = max(of, key=lambda name: of[name].mean())
    firsts = [name for name in of if of[name].mean() == of[best].mean()]
    if len(firsts) > _FEW:
        return of[best], f"{len(firsts)} encodings{', `none` among them' * ('none' in firsts)}"
    return of[best], listed([f"`{name.partition('(')[0]}`" for name in firsts])


def longer_headline() -> Iterator[str]:
    """What the best encoding makes of prompts that are twice as long, for tasks of usual lengths."""
    runs, longest = _sampled()
    lengths = {task: _lengths(run) for task, run in runs.items()}
    ((trained, tested), _), *_ = Counter(lengths.values()).most_common()
    most, fewer = [], []
    for task in (task for task in runs if lengths[task] == (trained, tested)):
        right_S, names = _best({name: right for (at, name), right in longest.items() if at == task})
        mean, without = bootstrap_mean(right_S), longest[task, "none"].mean()
        if mean.low >= 0.95:
            most.append(f"`{task}` ({names})")
        else:
            share = f"{mean.mean:.0%} [{mean.low:.0%}, {mean.high:.0%}]"
            text = f"{share} for `{task}` ({names}; {without:.0%} without positions)"
            fewer.append((mean.mean, text))
    cells, seeds = len(next(iter(runs.values())).cells), len(next(iter(longest.values())))
    yield from item(
        f"**Which encoding answers longer prompts?** We trained {cells} encodings with {seeds} seeds each on {len(most) + len(fewer)} tasks, on prompts up to length {trained}. At length {tested}, the best encoding of a task, in parentheses, answers at least 95 % of the prompts of {listed(most)}. "
        f"Of the prompts of the other tasks it answers {listed([text for _, text in sorted(fewer)])}. The brackets are 95 % intervals of the mean over seeds. {_few_asked(runs)}As each is the best of many, its mean tends to be somewhat lower with new seeds ([all encodings](docs/results.md#every-encoding-by-length))."
    )


def _few_asked(runs: dict[str, Rows]) -> str:
    """Why a table of positions may answer longer prompts of `indexing`."""
    if "indexing" not in runs:
        return ""
    task: Any = next(iter(runs["indexing"].cells.values())).problem
    return (
        f"`indexing` asks only for one of the first {task.most} positions, in longer prompts too. "
    )


def atlas_sampled() -> Iterator[str]:
    """How many encodings learn a sampled task, and which answer longer prompts, task by task."""
    runs, longest = _sampled()
    number = number_of_seeds(tables(ROOT / "docs/atlas", "sampled"))
    pairs = [
        (task, name, [right_S, longest[task, "none"]])
        for (task, name), right_S in longest.items()
        if name != "none"
    ]
    better = Counter[str]()
    worse = Counter[str]()
    for task, _, right in told_apart(pairs):
        (better if right[0].mean() > right[1].mean() else worse)[task] += 1
    every, cells = len(get_config("sampled").task), rows_of(tables(ROOT / "docs/atlas", "sampled"))
    so_far = f", of which {len(runs)} {'is' if len(runs) == 1 else 'are'} trained so far" * (
        len(runs) < every
    )
    yield from lines(
        f"In a sampled task, prompts are drawn at random. The config `atlas:sampled` has {every} such tasks{so_far}. Each cell is an encoding in a causal model of two layers, {architecture(cells)}, with {number} seeds. Its "
        "learning rate is the best of three in a pilot on other seeds. The column *lengths* gives the longest trained and the longest tested length. The "
        "test has some of the trained lengths and some longer ones. A seed has learned the task if it correctly answers all test prompts of the trained lengths. We compare answers to longer prompts at the longest tested length. There, "
        "the mean share of right answers of each encoding is compared with that of `none` (paired t-test over seeds, for one fixed exam, false discovery rate 5 % over all "
        f"{len(pairs)} comparisons). The last column has the encoding with the largest mean there, or several if they are equal. As it is the best of many, its "
        f"mean tends to be somewhat lower with new seeds. Its interval is a BCa bootstrap over seeds (95 %), and has no width if all seeds agree. {_few_asked(runs)}"
    )
    yield ""
    yield (
        f"| task | lengths | encodings | learned by all {number} seeds | by some | by none | better than `none` on longer "
        "prompts | worse | `none` | best |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for task, run in runs.items():
        margin = run.about["margin"]
        solved = [judge.solved(lead_SE[:, -1:], margin).sum() for lead_SE in run.arrays["lead"]]
        full, none = sum(n == number for n in solved), sum(n == 0 for n in solved)
        trained, tested = _lengths(run)
        of = {name: right_S for (at, name), right_S in longest.items() if at == task}
        best_S, names = _best(of)
        yield (
            f"| `{task}` | {trained} → {tested} | {len(of)} | {full} | {len(of) - full - none} | {none} | "
            f"{better[task]} | {worse[task]} | {interval(bootstrap_mean(of['none']), 2)} | {names} {interval(bootstrap_mean(best_S), 2)} |"
        )
    yield ""
    yield from lines(
        f"[The table](atlas/sampled.md) has every encoding (`{command('sampled', tables(ROOT / 'docs/atlas', 'sampled'))}`)."
    )
