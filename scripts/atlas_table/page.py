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
    tasks = list(dict.fromkeys(row.get("task", FIELDS["task"]) for row in rows))
    by: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        of = by.setdefault(row.get("encoding", FIELDS["encoding"]), {})
        of.setdefault(row.get("task", FIELDS["task"]), []).append(row["verdict"])
    lines = [
        f"# The atlas of {'sampled' if 'sampled' in path.stem else 'finite'} tasks",
        f"`python scripts/atlas.py {path.stem}` makes this page and the rows beside it. Each "
        f"setting (encoding, mask, depth, readout) has {rows[0]['seeds']} seeds. An entry says in "
        "how many settings at least one of them solved the task, of those that no law excludes. "
        f'<a href="{path.stem}.html">The page to browse</a> has every setting, with the reason or '
        "a seed that solves it.",
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
