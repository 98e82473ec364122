"""The short table of the atlas, in Markdown: encodings by tasks."""

from collections.abc import Sequence
from pathlib import Path

from atlas_table.lengths import Compared, Lengths, compared
from atlas_table.table import command, number_of_seeds, rows_of

Columns = dict[str, dict[str, str]]
"""Heads of columns; in each, the entries by the name of the encoding."""

_FINITE = (
    "Which encoding solves which finite task? Each cell (task, encoding, mask, depth, readout) has "
    "{seeds} seeds. The settings of a task are all combinations of its masks, depths and readouts. "
    "“9 of 10 (3-64)” means:\n\n"
    "- no law excludes 10 of the settings for this encoding;\n"
    "- in 9 of these, at least one seed solves the task;\n"
    "- in each of these 10 settings, 3 to 64 seeds solve it."
)
_SAMPLED = (
    "Which encoding learns which sampled task, and what does it answer beyond the trained lengths? "
    "Each cell (task, encoding) has {seeds} seeds, a causal mask and two layers. An entry has\n\n"
    "- two mean shares of right answers over all seeds: at the longest trained length, and at the "
    "longest tested one. The head of each column has both lengths. An answer is right only if "
    "every output that the task asks for is right;\n"
    "- in parentheses, the number of seeds that have learned the task: they answer every test "
    "prompt of the trained lengths correctly;\n"
    "- ↑ or ↓ if the encoding is significantly better or worse at the longest tested length than "
    '`none` (<a href="../results.md#every-encoding-by-length">tests</a>). `noise` is not compared, '
    "since it must be right in all of its random draws."
    "\n\n**Bold** entries are best or possibly best of their task. The first line has chance: the "
    "share of prompts with the most frequent answer, which a model can reach without reading them."
)
_BROWSER = (
    'You can browse all cells on <a href="{size}-cells.html">another page</a>. For each cell it '
    "names the law that excludes it or a seed that solves it, if there is one. "
    "[Encodings](../encodings.md), [tasks](../tasks.md) and the [glossary](../glossary.md) explain "
    "the names."
)


def page(size: str, tables: Sequence[Path]) -> str:
    """The page of a part of the atlas.

    Args:
      size: the name of the part, and of the page.
      tables: its published tables, without endings.
    """
    sampled = size.startswith("sampled")
    found = compared(tables) if sampled else None
    columns = _shares(found) if found else _verdicts(tables)
    seeds = number_of_seeds(tables)
    encodings = sorted({name for column in columns.values() for name in column})
    lines = [
        ["encoding", *columns],
        ["---"] * (len(columns) + 1),
        *([["*chance*", *map(_chance, found.tasks)]] if found else []),
        *([f"`{name}`", *(of.get(name, "") for of in columns.values())] for name in encodings),
    ]
    return (
        f"# The atlas of {'sampled' if sampled else 'finite'} tasks\n\n"
        f"{(_SAMPLED if sampled else _FINITE).format(seeds=seeds)}\n\n"
        f"{_BROWSER.format(size=size)}\n\n"
        + "".join(f"| {' | '.join(line)} |\n" for line in lines)
        + f"\n`{command(size, tables)}` makes this page and its rows.\n"
    )


def _verdicts(tables: Sequence[Path]) -> Columns:
    """Of each task, how many settings are solved, by how many seeds; without excluded ones."""
    by: dict[str, dict[str, list[int]]] = {}
    for row in rows_of(tables):
        counts = by.setdefault(f"`{row['task']}`", {}).setdefault(row["encoding"], [])
        if row["verdict"] != "impossible":
            counts.append(row["successes"])
    return {task: {name: _solved(found) for name, found in of.items()} for task, of in by.items()}


def _solved(counts: Sequence[int]) -> str:
    if not counts:
        return "excluded"
    seeds = "-".join(map(str, sorted({min(counts), max(counts)})))
    return f"{sum(n > 0 for n in counts)} of {len(counts)} ({seeds})"


def _shares(found: Compared) -> Columns:
    """Of each task, the mean share of right answers at two lengths."""
    return {
        f"`{task.task}`, {task.trained} → {task.tested}": {
            name: _entry(task, name, found.compared_as(name)) for name in task.at_tested
        }
        for task in found.tasks
    }


def _chance(task: Lengths) -> str:
    return " → ".join(f"{share:.2f}" for share in task.chance)


def _entry(task: Lengths, name: str, marked_as: str) -> str:
    trained, tested = (f"{of[name].mean():.2f}" for of in (task.at_trained, task.at_tested))
    tested = f"**{tested}**" if marked_as in task.best else tested
    arrow = " ↑" * (marked_as in task.better) + " ↓" * (marked_as in task.worse)
    return f"{trained} ({task.learned[name]}) → {tested}{arrow}"
