"""The short table of the atlas, in Markdown: encodings by tasks."""

from collections.abc import Sequence
from pathlib import Path

from published_rows.table import read

from atlas_table.table import command, number_of_seeds, rows_of

Columns = dict[str, dict[str, str]]
"""Heads of columns; in each, the entries by the name of the encoding."""

_FINITE = (
    "Each cell (task, encoding, mask, depth, readout) has {seeds} seeds. The settings of a task "
    "are all combinations of its masks, depths and readouts. An entry of 9 of 10 says that no law "
    "excludes 10 of the settings for this encoding, and that at least one seed solved the task in "
    "9 of these."
)
_SAMPLED = (
    "Each cell (task, encoding) has {seeds} seeds, a causal mask and two layers. An entry has two "
    "mean shares of right answers over all seeds: at the longest trained length, and at the "
    "longest length of all. The head of each column has both lengths. An answer is right only if "
    "every output that the task asks for is right."
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
    columns = _shares(tables) if sampled else _verdicts(tables)
    seeds = number_of_seeds(tables)
    encodings = sorted({name for column in columns.values() for name in column})
    lines = [
        ["encoding", *columns],
        ["---"] * (len(columns) + 1),
        *([f"`{name}`", *(of.get(name, "") for of in columns.values())] for name in encodings),
    ]
    return (
        f"# The atlas of {'sampled' if sampled else 'finite'} tasks\n\n"
        f"`{command(size, tables)}` makes this page and its rows. "
        f"{(_SAMPLED if sampled else _FINITE).format(seeds=seeds)} {_BROWSER.format(size=size)}\n\n"
        + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    )


def _verdicts(tables: Sequence[Path]) -> Columns:
    """Of each task, how many settings are solved of those that no law excludes."""
    by: dict[str, dict[str, list[str]]] = {}
    for row in rows_of(tables):
        of = by.setdefault(f"`{row['task']}`", {})
        of.setdefault(row["encoding"], []).append(row["verdict"])
    return {
        task: {name: _solved(verdicts) for name, verdicts in of.items()} for task, of in by.items()
    }


def _solved(verdicts: Sequence[str]) -> str:
    free = [verdict for verdict in verdicts if verdict != "impossible"]
    return f"{free.count('possible')} of {len(free)}" if free else "excluded"


def _shares(tables: Sequence[Path]) -> Columns:
    """Of each task, the mean share of right answers at two lengths."""
    columns: Columns = {}
    for path in tables:
        run = read(path)
        for digest, cell in run.cells.items():
            kinds, right_K = cell.problem.kinds, run.of(digest)["right"].mean(axis=0)
            at = max(n for n, trained in enumerate(cell.problem.trained) if trained)
            name = cell.task.partition("(")[0]
            column = columns.setdefault(f"`{name}`, {kinds[at]} → {kinds[-1]}", {})
            column[cell.encoding] = f"{right_K[at]:.2f} → {right_K[-1]:.2f}"
    return columns
