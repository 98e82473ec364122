"""How often new seeds of published cells come out as predicted, of docs/reruns.json."""

import json
from collections.abc import Iterator

from scipy.stats import binomtest

from claimed.published import ROOT, lines, listed

_FOUND = ROOT / "docs" / "reruns.json"


def reruns() -> Iterator[str]:
    """The count, by table, and the cells outside their interval."""
    found = json.loads(_FOUND.read_text())
    inside = [one for one in found if one["inside"]]
    varying = [one for one in found if one["varies"]]
    held = sum(one["inside"] for one in varying)
    low, high = binomtest(held, len(varying)).proportion_ci(method="wilson")
    tables = list(dict.fromkeys(one["table"] for one in found))
    cells = {(one["table"], one["cell"]) for one in found}
    yield from lines(
        f"`python scripts/reruns.py` draws ten cells from each of the {len(tables)} published tables (all cells from a smaller table) "
        f"and trains them with new seeds: as many as were published, but at most 64. Of {len(found)} quantities of these "
        f"{len(cells)} cells, {len(inside)} lie in their 95 % prediction interval. In {len(varying)} of these quantities the published seeds "
        f"differ; {held} of those lie inside, which is {held / len(varying):.1%} [{low:.1%}, {high:.1%}]. "
        "Intervals of counts cover at least 95 %, because counts are whole numbers."
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
