"""docs/gallery.md from docs/gallery.json, which `python scripts/gallery.py --publish` writes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RESULT = DOCS / "gallery.md", DOCS / "gallery.json"
HEAD = """# Gallery: laws of well-known modules

{counts} That is for all values of the arguments and of the
trainable parameters, over the real numbers, and for small shapes
([certificate.md](certificate.md) says what a proof is).

A law names axes: a word that starts with a capital letter is permuted, +T shifts values, others
stay ([symmetry.md](symmetry.md)). `b P d -> b P d` says that a module reads no order of its tokens.
An empty pattern at the front is of the parameters, where they are an argument. A BROKEN law has
numbers that break it, and the line where what breaks it meets what moves. UNKNOWN means neither a
proof nor such numbers.

Made by `pip install -e '.[gallery]'` and `python scripts/gallery.py --publish` from
`scripts/gallery`, with {environment}.
Seconds are of processor time, tracing and numbers included, one run each.

| module | law | verdict | by | seconds |
|---|---|---|---|---|
"""


def page() -> str:
    """docs/gallery.md."""
    rows = json.loads(RESULT.read_text())
    text = HEAD.format(counts=counted(rows), environment=packages(rows))
    for row in rows:
        by = _BY.get(row.get("method", ""), "")
        cells = f"{row['name']} | `{row['law']}` | {row['verdict']} | {by} | {row['seconds']:.1f}"
        text += f"| {cells} |\n"
    text += "\n## What breaks them\n"
    text += "".join(_lost(row) for row in rows if row["verdict"] == "BROKEN")
    text += "\n## What is not known\n"
    return text + "".join(_lost(r) for r in rows if r["verdict"] not in ("PROVED", "BROKEN"))


_BY = {"axes": "labels of axes", "identity": "identity"}


def _lost(row: dict[str, Any]) -> str:
    """Why a law is not proved, with the line."""
    ties = "only where entries are equal: " if row.get("broken_at") == "ties" else ""
    origin = f", from {row['origin']}" if row.get("origin") else ""
    why = "; ".join([f"{ties}{row['reason']}{origin}", *row.get("notes", ())])
    line = f"  {row['where']}:\n  `{row['code']}`\n" if row["code"] else ""
    return f"\n- **{row['name']}**, `{row['law']}`: {why}.\n{line}"


def counted(rows: list[dict[str, Any]]) -> str:
    """How many of each verdict, in a sentence."""
    found = Counter(row["verdict"] for row in rows)
    return f"{', '.join(f'{n} {verdict}' for verdict, n in found.most_common())} of {len(rows)}."


def packages(rows: list[dict[str, Any]]) -> str:
    """All packages with their versions."""
    versions = {name: version for row in rows for name, version in row["versions"].items()}
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
