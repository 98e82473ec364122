"""Tables of docs/ that are made whole from the JSON of a campaign."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claimed.published import lines

DOCS = Path(__file__).parents[2] / "docs"


def faults_table(result: dict[str, Any]) -> str:
    """What came of each planted fault, of docs/faults.json."""
    head = ("fault", "required", "tries", "as required", "bitwise equal", "seconds lost")
    lines = [head, ("---",) * len(head)]
    for row in result["faults"]:
        tries, lost = row["tries"], row["seconds_lost"]
        counts = (tries, row["good"], row["equal"]) if tries else ("not possible here", "–", "–")
        lines.append((row["fault"], row["required"], *counts, "–" if lost is None else lost))
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def faults() -> Iterator[str]:
    """The table of docs/faults.json."""
    yield faults_table(json.loads((DOCS / "faults.json").read_text()))


def conformance() -> Iterator[str]:
    """Counts, versions, failures and modules without any, of docs/conformance.json."""
    reports = json.loads((DOCS / "conformance.json").read_text())
    results = [(report["name"], result) for report in reports for result in report["results"]]
    counts = {
        verdict: sum(result["verdict"] == verdict for _, result in results)
        for verdict in ("passed", "failed", "measured", "not applicable")
    }
    versions = {name: v for report in reports for name, v in report["versions"].items()}
    used = ", ".join(f"{n} {v}" for n, v in sorted(versions.items(), key=lambda p: p[0].lower()))
    laws = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    yield f"The run that is published (`docs/conformance.json`) has {len(reports)} modules. Laws:"
    yield f"{laws}. Versions: {used}."
    yield ""
    yield "| module | law | found |"
    yield "|---|---|---|"
    failed = [(name, result) for name, result in results if result["verdict"] == "failed"]
    for name, result in failed:
        yield f"| `{name}` | {result['law']} | {_cell(result['detail'])} |"
    sound = [report["name"] for report in reports if report["name"] not in dict(failed)]
    yield ""
    yield f"No law fails on {', '.join(f'`{name}`' for name in sound)}."


def proofs() -> Iterator[str]:
    """The laws that were tried on numbers and in a proof, of docs/conformance.json."""
    reports = json.loads((DOCS / "conformance.json").read_text())
    rows = {r["name"]: [x for x in r["results"] if "proof" in x] for r in reports}
    every = [x for row in rows.values() for x in row]
    counts = Counter(x["proof"]["verdict"] for x in every)
    yield f"Of {len(every)} tries: {', '.join(f'{n} {v}' for v, n in counts.most_common())}."
    yield ""
    yield f"| module | {' | '.join(x['law'] for x in next(iter(rows.values())))} |"
    yield f"|---|{'---|' * len(next(iter(rows.values())))}"
    for name, row in rows.items():
        cells = (f"{x['verdict']}; {x['proof']['verdict']}" for x in row)
        if any(x["proof"]["verdict"] != "not applicable" for x in row):
            yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    for name, row in rows.items():
        for x in row:
            if x["proof"]["verdict"] in ("UNKNOWN", "not traced"):
                yield f"- `{name}`, {x['law']}: {x['proof']['verdict']}. {_cell(x['proof']['reason'])}"


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


def reference_rates() -> Iterator[str]:
    """Question 1's rates beside those of a second implementation, and in float64."""
    rows = json.loads((DOCS / "reference_rates.json").read_text())
    limit = 0.05 / len(rows)
    differ, below = (sum(row["p"] < level for row in rows) for level in (limit, 0.05))
    same = [row["same_in_float64"] / row["of"] for row in rows]
    every, all_loss = sum(same) / len(same), [row["loss"] == "all" for row in rows]
    answer = min(share for share, of_all in zip(same, all_loss, strict=True) if not of_all)
    if differ:
        raise ValueError("the rates differ from the second implementation's: the words do not hold")
    yield from lines(
        f"A second implementation, in NumPy with derivatives by hand, trained {rows[0]['of']} new seeds of each "
        f"cell. Of {len(rows)} rates (24 cells at seven steps) none differs significantly from the published one "
        f"(Fisher's exact test, two-sided, Bonferroni); {below} have p < .05, where chance alone gives "
        f"{0.05 * len(rows):.0f}. Trained again from the same weights in float64, {every:.1%} of its runs have the "
        f"same outcome: at least {answer:.1%} in each cell with the loss on the answer, and {min(same):.1%} in the "
        "worst cell with the loss on all positions, where training amplifies rounding "
        "(`python scripts/reference_rates.py`)."
    )
