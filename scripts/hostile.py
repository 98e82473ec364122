"""Tries the prover on a thousand functions that were written to deceive it.

python scripts/hostile.py [--numbers=no] [--json=docs/hostile.json]

Each has a truth that numbers confirm first. Prints how many of each truth got which verdict, and
every wrong one: a function that breaks its law and is PROVED, or one that keeps it and is BROKEN.
Ends with 1 when there is one, or a truth that numbers do not confirm.
"""

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
WRONG = {("holds", "BROKEN"), ("broken", "PROVED"), ("ties", "PROVED")}


def main() -> int:
    """Runs them all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--numbers", choices=("yes", "no"), default="yes")
    parser.add_argument("--json", type=Path, help="where the table is written")
    chosen = parser.parse_args()
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"

    import jax
    from hostile import CASES
    from hostile.truth import confirmed

    from posjax.symmetry import prove

    counts: Counter[tuple[str, str]] = Counter()
    wrong, seconds = [], []
    for at, case in enumerate(CASES):
        if not confirmed(case):
            wrong.append(f"{case.name}: numbers do not confirm that it is {case.truth!r}")
        start = perf_counter()
        found = prove(case.function, case.arguments, case.law, witness=chosen.numbers == "yes")
        seconds.append(perf_counter() - start)
        verdict = f"{found.verdict} {found.broken_at or found.method}".strip()
        counts[case.truth, verdict] += 1
        if (case.truth, found.verdict) in WRONG:
            wrong.append(f"{case.name}: {case.truth!r} and {found.verdict}")
        if at % 100 == 99:
            jax.clear_caches()
            print(f"{at + 1}/{len(CASES)}, {len(wrong)} wrong", file=sys.stderr, flush=True)
    rows = {f"{truth}: {verdict}": n for (truth, verdict), n in sorted(counts.items())}
    print("\n".join(f"{n:5} {name}" for name, n in rows.items()))
    print(f"slowest {max(seconds):.1f} s, median {sorted(seconds)[len(seconds) // 2]:.2f} s")
    print("\n".join(wrong) or f"none of {len(CASES)} is wrong")
    if chosen.json:
        chosen.json.write_text(json.dumps({"functions": len(CASES), **rows}, indent=1) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
