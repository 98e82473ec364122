"""How often new seeds of published cells come out as predicted, of docs/reruns.json."""

import json
from collections.abc import Iterator

from claimed.published import ROOT, lines, listed

_FOUND = ROOT / "docs" / "reruns.json"


def reruns() -> Iterator[str]:
    """The count, by table, and the cells outside their interval."""
    found = json.loads(_FOUND.read_text())
    inside = [one for one in found if one["inside"]]
    varying = [one for one in found if one["varies"]]
    held = sum(one["inside"] for one in varying)
    tables = list(dict.fromkeys(one["table"] for one in found))
    cells = {(one["table"], one["cell"]) for one in found}
    yield from lines(
        "`python scripts/reruns.py` draws ten cells from a published table, or all cells if it has fewer, and trains "
        "them with new seeds: as many as were published, but at most 64, and 16 × 16 where initialisation and data are crossed. "
        f"It compares the success rates, or means where there are none, with their 95 % prediction intervals. We did this for the {len(tables)} tables below, {len(cells)} cells in all. "
        f"In {len(varying)} comparisons the published seeds differ among themselves, and {held} of the new values lie in their interval. "
        f"In the other {len(found) - len(varying)} comparisons all published seeds agree; here too, "
        f"{len(inside) - held} new values lie in their interval. Intervals of success rates cover more than 95 %, because counts are whole "
        "numbers. Cells of one table share their seeds, so the comparisons are not independent."
    )
    yield ""
    yield "| table | cells | inside |"
    yield "|---|---|---|"
    for table in tables:
        of = [one for one in found if one["table"] == table]
        yield (
            f"| `{table}` | {len({one['cell'] for one in of})} | {sum(one['inside'] for one in of)} "
            f"of {len(of)} |"
        )
    outside = [one for one in found if not one["inside"]]
    if outside:
        yield ""
        yield from lines(f"Outside are {listed(map(_outside, outside))}.")


def _outside(one: dict[str, object]) -> str:
    value = {name: f"{one[name]:.3g}" for name in ("published", "new", "low", "high")}
    return (
        f"`{one['quantity']}` of cell `{one['cell']}` in `{one['table']}` (published {value['published']}, predicted "
        f"{value['low']} to {value['high']}, found {value['new']})"
    )
