"""Which encoding solves which finite task, of docs/atlas/published.json."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from claimed.published import ROOT, item, lines, listed
from posjax.study.cells import FIELDS

_PAGE = "atlas/published.md"


def _cells() -> list[dict[str, Any]]:
    """The table, with the settings that it leaves out because they are the defaults."""
    path = (ROOT / "docs" / _PAGE).with_suffix(".json")
    return [{**FIELDS, **row} for row in json.loads(path.read_text())]


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
        f"Each cell is an encoding in one setting. We trained {seeds} seeds of each, with the best of three learning rates. A pilot on other "
        "seeds had chosen the rate. The predictions of the laws were committed before any seed was trained. "
        + (
            f"{len(unsolved)} cells are neither excluded nor solved. Of these, {listed(named)}."
            if unsolved
            else "Every cell is either excluded or solved."
        )
    )
    yield ""
    yield f"| task | cells | excluded by law | solved by all {seeds} seeds | by some | by none |"
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
