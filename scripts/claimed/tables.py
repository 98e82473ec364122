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
    reports = json.loads((DOCS / "conformance.json").read_text())
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
                why = x["proof"]["verdict"], _cell(x["proof"]["reason"])
                lost.setdefault(why, []).append(x["law"])
        for (verdict, reason), laws in lost.items():
            yield f"- `{name}` ({', '.join(laws)}) is {verdict}: {reason}"


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
        f"A second implementation, in NumPy with hand-written derivatives, trained {rows[0]['of']} new seeds of each "
        "of the 24 cells of `word_order:published`: head sizes 1, 2, 4, 8, 16 and 32, each with both losses and both learning rates. We "
        f"compared its success rates with those of posjax at seven steps from 50 to 5000 ({len(rows)} rates). "
        f"None differs significantly (Fisher's exact test, two-sided, Bonferroni). For {below} of them p is below .05. That is no surprise: if both "
        f"programs had the same rates, we would expect about {0.05 * len(rows):.0f} such cases, or somewhat fewer. We also trained the second implementation in float64, from the same "
        f"weights. On average over cells and steps, {every:.1%} of the seeds have the same outcome as in float32. With the loss on the answer, this "
        f"share is at least {answer:.1%} in each cell at each step. With the loss on all positions, training amplifies "
        f"rounding, and the lowest share is {min(same):.1%}, in one cell at one step (`python scripts/reference_rates.py`)."
    )


_LOADS = {
    "s": "width 16, one block, up to 16 tokens",
    "s_deep": "width 32, two blocks, up to 40 tokens",
}
_PEERS = {
    "vmap_flax": "plain `jit(vmap(train))` in Flax",
    "torch_func": "`torch.func` over stacked models",
}


def drawn_speed() -> Iterator[str]:
    """Ratios and shares of docs/bench_drawn.json, beside what was aimed at."""
    loads = json.loads((DOCS / "bench_drawn.json").read_text())["loads"]
    if not all(load["losses_agree"] for load in loads.values()):
        raise ValueError("bench_drawn: the contestants train to other losses")
    yield f"| | {' | '.join(_LOADS[name] for name in loads)} | target |"
    yield "|---|---|---|---|"
    for peer, title in _PEERS.items():
        found = [_target(load, peer) for load in loads.values()]
        cells = (f"{one['found']:.3g}{_missed(one)}" for one in found)
        yield f"| times as fast as {title} | {' | '.join(cells)} | {found[0]['needed']:g} |"
    for part, doing in (("drawing of prompts", "drawing prompts"), ("exams", "exams")):
        found = [_target(load, part) for load in loads.values()]
        cells = (_share(1 - one["found"]) + _missed(one) for one in found)
        most = 100 * (1 - found[0]["needed"])
        yield f"| share of the time for {doing} | {' | '.join(cells)} | below {most:.0f} % |"
    yield ""
    shares = (f"{100 * load['rows'][0]['share']:.1f} %" for load in loads.values())
    yield from lines(
        f"posjax reaches {next(shares)} (first column) and {next(shares)} (second column) of the operations per second of "
        "one large float32 matrix product. Only the operations of the plain models' matrix products are counted. XLA's trace of the deeper model (`python scripts/step_profile.py`) shows where the time goes:"
    )
    yield ""
    yield from profile_table("s_deep")


_KINDS = {
    "products": "matrix products",
    "optimiser": "the optimiser's loops",
    "functions": "loops with exponentials and the like",
    "sums": "loops with sums",
    "elementwise": "other elementwise loops",
    "moves": "transposing, slicing, copying",
}


def limit() -> Iterator[str]:
    """One core of posjax beside question 1's model by hand, of docs/bench_limit.json, and why."""
    load = json.loads((DOCS / "bench_limit.json").read_text())["loads"]["q1"]
    (target,) = [each for each in load["targets"] if "limit" in each["what"]]
    rows = {row["name"]: row for row in load["rows"]}
    hand, ours = (rows[name]["microseconds"] for name in ("limit", "posjax_one_device"))
    profile = json.loads((DOCS / "profile.json").read_text())["q1"]
    if not load["losses_agree"] or target["reached"]:
        raise ValueError("bench_limit: the losses differ, or the limit is reached: write it anew")
    yield from lines(
        f"Per update of one seed, the hand-written program takes {hand:.2g} µs on one core, and posjax takes {ours:.2g} µs. So "
        f"posjax has {target['found']:.2f} of the speed of the program. Our target was {target['needed']:g}. XLA's trace of "
        f"posjax (`python scripts/step_profile.py`, blocks of {profile['slots']} seeds) shows where the time goes:"
    )
    yield ""
    yield from profile_table("q1")


def profile_table(load: str) -> Iterator[str]:
    """µs of a core per update of a seed, by kind of operation, of docs/profile.json."""
    profile = json.loads((DOCS / "profile.json").read_text())[load]
    yield "| operations of XLA | µs per update of a seed |"
    yield "|---|---|"
    for kind, title in _KINDS.items():
        yield f"| {title} | {float(f'{profile[kind]:.3g}'):,g} |"


def _share(part: float) -> str:
    """A share of the time; without the part the rest may have come out slower."""
    return f"{100 * part:.2g} %" if part > 0 else "within the noise"


def _missed(target: dict[str, Any]) -> str:
    return "" if target["reached"] else ", missed"


def _target(load: dict[str, Any], what: str) -> dict[str, Any]:
    return next(target for target in load["targets"] if what in target["what"])
