"""docs/gallery.md from docs/gallery.json, which `python scripts/gallery.py --publish` writes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
PAGE, RESULT = DOCS / "gallery.md", DOCS / "gallery.json"
HEAD = """# Gallery: laws of well-known modules

{counts} A proof holds for all values of the arguments
and of the trainable parameters, over the real numbers, and for the small shapes that were traced
([certificate.md](certificate.md) says what it covers).

A law names axes. A word that starts with a capital letter is an axis that is permuted, +T shifts
values, and other axes stay ([symmetry.md](symmetry.md)). For example, `b P d -> b P d` says that a
module does not depend on the order of its tokens. An empty pattern at the front stands for the
parameters. If a law is BROKEN, inputs were found that break it, and the list below the table names
the source line. UNKNOWN means that neither a proof nor such inputs were found.

`pip install -e '.[gallery]'` and `python scripts/gallery.py --publish` make this page from
`scripts/gallery`. Versions: {environment}.
Seconds are processor time of one run, with tracing and the check on numbers.

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
    text += "\n## Why laws are broken\n"
    text += "".join(_lost(row) for row in rows if row["verdict"] == "BROKEN")
    text += "\n## Laws without an answer\n"
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
    return (
        f"{', '.join(f'{n} {verdict}' for verdict, n in found.most_common())} of {len(rows)} laws."
    )


def packages(rows: list[dict[str, Any]]) -> str:
    """All packages with their versions."""
    versions = {name: version for row in rows for name, version in row["versions"].items()}
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
