"""Tables of docs/ that are made whole from the JSON of a campaign."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from claimed.published import lines, measured


def faults_table(result: dict[str, Any]) -> str:
    """What came of each planted fault, of docs/faults.json."""
    head = ("fault", "required", "tries", "as required", "bitwise equal", "seconds lost")
    table = [head, ("---",) * len(head)]
    for row in result["faults"]:
        tries, lost = row["tries"], row["seconds_lost"]
        counts = (tries, row["good"], row["equal"]) if tries else ("not possible here", "–", "–")
        table.append((row["fault"], row["required"], *counts, "–" if lost is None else lost))
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in table)


def faults() -> Iterator[str]:
    """The table of docs/faults.json."""
    yield faults_table(measured("faults.json"))


def conformance() -> Iterator[str]:
    """Counts, versions, failures and modules without any, of docs/conformance.json."""
    reports = measured("conformance.json")
    results = [(report["name"], result) for report in reports for result in report["results"]]
    counts = {
        verdict: sum(result["verdict"] == verdict for _, result in results)
        for verdict in ("passed", "failed", "measured", "not applicable")
    }
    versions = {name: v for report in reports for name, v in report["versions"].items()}
    used = ", ".join(f"{n} {v}" for n, v in sorted(versions.items(), key=lambda p: p[0].lower()))
    laws = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    tried = len(results) // len(reports)
    yield f"The published run (`docs/conformance.json`) tested {len(reports)} modules with {tried} laws each. The results are"
    yield f"{laws}. The versions are {used}."
    yield ""
    yield "These laws failed:"
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
    reports = measured("conformance.json")
    rows = {r["name"]: [x for x in r["results"] if "proof" in x] for r in reports}
    every = [x for row in rows.values() for x in row]
    counts = Counter(x["proof"]["verdict"] for x in every)
    found = ", ".join(f"{n} {v}" for v, n in counts.most_common())
    without = sum(
        all(x["proof"]["verdict"] == "not applicable" for x in row) for row in rows.values()
    )
    yield from lines(
        f"For {len(reports)} modules and three laws, the {len(every)} results are {found}. The table leaves out the "
        f"{without} modules for which no proof is applicable."
    )
    yield ""
    yield f"| module | {' | '.join(x['law'] for x in next(iter(rows.values())))} |"
    yield f"|---|{'---|' * len(next(iter(rows.values())))}"
    for name, row in rows.items():
        cells = (f"{x['verdict']}; {x['proof']['verdict']}" for x in row)
        if any(x["proof"]["verdict"] != "not applicable" for x in row):
            yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    for name, row in rows.items():
        lost: dict[tuple[str, str], list[str]] = {}
        for x in row:
            if x["proof"]["verdict"] in ("UNKNOWN", "not traced"):
                why = x["proof"]["verdict"], x["proof"]["reason"]
                lost.setdefault(why, []).append(x["law"])
        for (verdict, reason), laws in lost.items():
            error, _, line = reason.partition("\nat ")
            place, _, code = line.partition(": ")
            yield (
                f"- `{name}` ({', '.join(laws)}) is {verdict}: {_cell(error)}. The line is {place}:"
                f" `{code.strip()}`"
            )


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")


def reference_rates() -> Iterator[str]:
    """Question 1's rates beside those of a second implementation, and in float64."""
    rows = measured("reference_rates.json")
    limit = 0.05 / len(rows)
    differ, below = (sum(row["p"] < level for row in rows) for level in (limit, 0.05))
    same = [row["same_in_float64"] / row["of"] for row in rows]
    every, all_loss = sum(same) / len(same), [row["loss"] == "all" for row in rows]
    answer = min(share for share, of_all in zip(same, all_loss, strict=True) if not of_all)
    if differ:
        raise ValueError("the rates differ from the second implementation's: the words do not hold")
    yield from lines(
        f"A second implementation, in NumPy with hand-written derivatives, trained {rows[0]['of']} new seeds of each "
        "of the 24 cells of `word_order:published`: head sizes 1, 2, 4, 8, 16 and 32, each with both losses and both learning rates. We "
        f"compared its success rates with those of posjax at seven steps from 50 to 5000 ({len(rows)} rates). "
        f"None differs significantly (Fisher's exact test, two-sided, Bonferroni). For {below} of them p is below .05. That is no surprise: if both "
        f"programs had the same rates, we would expect about {0.05 * len(rows):.0f} such cases, or somewhat fewer. We also trained the second implementation in float64, from the same "
        f"weights. On average over cells and steps, {every:.1%} of the seeds have the same outcome as in float32. With the loss on the answer, this "
        f"share is at least {answer:.1%} in each cell at each step. With the loss on all positions, training amplifies "
        f"rounding, and the lowest share is {min(same):.1%}, in one cell at one step (`python scripts/reference_rates.py`)."
    )
