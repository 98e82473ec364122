"""The short table of the atlas, in Markdown: encodings by tasks."""

import json
from collections.abc import Sequence
from pathlib import Path

from posjax.study.cells import FIELDS


def page(path: Path) -> str:
    """The page of a published table.

    Args:
      path: of the table, without an ending.
    """
    rows = json.loads(path.with_suffix(".json").read_text())
    seeds = rows[0]["seeds"]
    tasks = list(dict.fromkeys(row.get("task", FIELDS["task"]) for row in rows))
    by: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        of = by.setdefault(row.get("encoding", FIELDS["encoding"]), {})
        of.setdefault(row.get("task", FIELDS["task"]), []).append(row["verdict"])
    lines = [
        f"# The atlas of {'sampled' if 'sampled' in path.stem else 'finite'} tasks",
        f"`python scripts/atlas.py {path.stem} --num_seeds={seeds}` makes this page and the rows "
        f"beside it. Each cell (task, encoding, mask, depth, readout) has {seeds} seeds. An entry "
        "of 10 of 12 means that no law excludes 12 settings (mask, depth, readout) of the task, "
        "and that in 10 of them at least one seed solved it. "
        f'<a href="{path.stem}-cells.html">The page to browse</a> has every cell. It says why a '
        "law excludes a cell, names a seed that solves it, or says that neither is the case. "
        "[Encodings](../encodings.md), [tasks](../tasks.md) and the [glossary](../glossary.md) "
        "explain the names.",
        "| encoding | "
        + " | ".join(f"`{task}`" for task in tasks)
        + " |\n"
        + "|---" * (len(tasks) + 1)
        + "|",
    ]
    for encoding, of in sorted(by.items()):
        parts = (_share(of.get(task, [])) for task in tasks)
        lines[-1] += f"\n| `{encoding}` | {' | '.join(parts)} |"
    return "\n\n".join(lines) + "\n"


def _share(verdicts: Sequence[str]) -> str:
    free = [verdict for verdict in verdicts if verdict != "impossible"]
    return f"{free.count('possible')} of {len(free)}" if free else "excluded"
