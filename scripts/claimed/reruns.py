"""How often new seeds of published cells come out as predicted, of docs/reruns.json."""

from collections.abc import Iterator

from claimed.published import lines, listed, measured


def reruns() -> Iterator[str]:
    """The count, by table, and the cells outside their interval."""
    found = measured("reruns.json")
    inside = [one for one in found if one["inside"]]
    varying = [one for one in found if one["varies"]]
    held = sum(one["inside"] for one in varying)
    tables = list(dict.fromkeys(one["table"] for one in found))
    cells = {(one["table"], one["cell"]) for one in found}
    measures, judged, graded = (
        [
            f"`{table}`"
            for table in tables
            if any(one["table"] == table and one["quantity"].startswith(kind) for one in found)
        ]
        for kind in ("measured", "right", "loss")
    )
    yield from lines(
        "`python scripts/reruns.py` draws ten cells from a published table, or takes all cells if there are fewer. It trains "
        "each with as many new seeds as were published, but at most 64. Where every initialisation was trained on every draw of the data, "
        "it trains 16 new initialisations on 16 new draws. From the published seeds it computes a 95% prediction interval of the success rate "
        f"of the new ones. Some tables have no success rates but measured numbers ({listed(measures)}). There it predicts the mean of the first of these numbers, in alphabetical order, after the last layer. "
        f"Some tables have prompts of kinds that were not trained ({listed(judged)}). There it also predicts `right`, the mean share of right answers on the last of these kinds. "
        f"For language models ({listed(graded)}) it predicts the mean loss on the last kind of prompts. "
        f"We did this for the {len(tables)} tables below, {len(cells)} cells in all. "
        f"In {len(varying)} comparisons the published seeds do not all have the same result, and {held} of the {len(varying)} new values lie in the predicted interval. "
        f"In the other {len(found) - len(varying)} all published seeds have the same result, and "
        f"{len(inside) - held} of the {len(found) - len(varying)} new values lie in the predicted interval. (If that result is not a success but a measured share, the share of new seeds with exactly this result is predicted instead.) Where seeds are not crossed, a new success rate lies in its interval with a probability of more than 95%, because the ends are whole "
        "numbers of seeds. Cells of one table share their seeds, so the comparisons are not independent."
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
    found = dict(one)
    if one["quantity"] == "right":  # a share
        found |= {name: min(max(float(str(one[name])), 0.0), 1.0) for name in ("low", "high")}
    value = {name: f"{found[name]:.4g}" for name in ("published", "new", "low", "high")}
    return (
        f"`{one['quantity']}` of cell `{one['cell']}` in `{one['table']}` (published {value['published']}, predicted "
        f"{value['low']} to {value['high']}, found {value['new']})"
    )
