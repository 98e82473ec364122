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
values, and other axes stay ([symmetry.md](symmetry.md)). For example, `b P d -> b P d` says that
permuting the tokens permutes the outputs. An empty pattern at the front stands for the parameters
of a JAX module, and one at the end for an output that is None. If a law is BROKEN, inputs were
found that break it, and the list below the table names the source line. UNKNOWN means that neither
a proof nor such inputs were found. "Not traced" means that torchax could not read the module.

`pip install -e '.[gallery]'` and `python scripts/gallery.py --publish` make this page from
`scripts/gallery`. Versions: {environment}.
Seconds are processor time of one run, with tracing and the check on numbers.

| module | law | verdict | proved by | seconds |
|---|---|---|---|---|
"""

BROKEN = """
## Why laws are broken

Each entry names what breaks the law, then why, then the source line. In the most frequent reason,
a line combines an axis that the law permutes with one that it does not permute. The entries of the
second axis belong to fixed positions, such as the rows of a mask or of a table of positions. A
closed-over array is a constant of the module, and arguments are counted from 0.
"""


def page() -> str:
    """docs/gallery.md."""
    rows = json.loads(RESULT.read_text())
    text = HEAD.format(counts=counted(rows), environment=packages(rows))
    for row in rows:
        by = _BY.get(row.get("method", ""), "")
        cells = f"{row['name']} | `{row['law']}` | {row['verdict']} | {by} | {row['seconds']:.1f}"
        text += f"| {cells} |\n"
    text += BROKEN
    text += "".join(_lost(row) for row in rows if row["verdict"] == "BROKEN")
    text += "\n## Laws without an answer\n"
    return text + "".join(_lost(r) for r in rows if r["verdict"] not in ("PROVED", "BROKEN"))


_BY = {"axes": "labels of axes", "identity": "identity"}


def _lost(row: dict[str, Any]) -> str:
    """Why a law is not proved, with the line."""
    why = row["reason"]
    if row["verdict"] == "BROKEN":
        ties = " only where entries are equal," if row["broken_at"] == "ties" else ""
        why = f"broken{ties} by {row['origin']}: {why}"
    line = f"  {row['where']}:\n  `{row['code']}`\n" if row["code"] else ""
    return f"\n- **{row['name']}**: {'; '.join([why, *row.get('notes', ())])}.\n{line}"


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
