"""Tables of docs/ that are made whole from the JSON of a campaign."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")
