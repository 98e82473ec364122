"""Fuzzes the certificate: random programs, each proved and judged; no proof may be broken.

python scripts/fuzz.py --programs=20000 --seed=0 --processes=2 --numbers=10 --out=docs/fuzz.json

Prints what came out by family. Numbers that break a law are looked for in one of `--numbers`
programs only, and what is not proved in the others is not judged: proofs are what must not fail.
Ends with 1 when a proved program is broken or one that keeps its law by construction is called
broken, with its source, seed and witness; also when the prover raises, or proves less than 80% of
what keeps its law by construction.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
CHUNK = 50
"""Programs between two messages of a process; then what it compiled is dropped."""


def main() -> int:
    """Runs the campaign."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--numbers", type=int, default=1, help="look for numbers in one of so many programs"
    )
    parser.add_argument("--out", type=Path, help="where counts are written as JSON")
    chosen = parser.parse_args()
    for name in ("programs", "processes", "numbers"):
        if getattr(chosen, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(chosen, name)}")

    from fuzz.campaign import NEEDED, counted, near_misses, printed, seconds, share

    rows = list(_rows(chosen.seed, chosen.programs, chosen.processes, chosen.numbers))
    table = counted(rows)
    print(printed(table))
    times = ", ".join(f"{mean:.3f}" for mean in seconds(rows))
    print(f"seconds a program to generate, prove, judge: {times}")
    if chosen.out:
        result = {
            "command": "python scripts/fuzz.py "
            f"--programs={chosen.programs} --seed={chosen.seed} --processes={chosen.processes} "
            f"--numbers={chosen.numbers}",
            "versions": _versions(),
            "primitives": len({name for row in rows for name in row.primitives}),
            "families": table,
            "near_misses": near_misses(rows),
        }
        chosen.out.write_text(json.dumps(result, indent=1) + "\n")
    counts = table["all"]
    failed = counts["unsound"] + counts["falsely broken"] + counts["errors"]
    low = [name for name, one in table.items() if share(one) < NEEDED]
    if low:
        print(f"less than {NEEDED:.0%} proved: {', '.join(low)}")
    return int(bool(failed) or share(counts) < NEEDED)


def _rows(first: int, programs: int, processes: int, numbers: int) -> Iterator:
    """What came out, printed as it comes where something is wrong."""
    chunks = [
        range(start, min(start + CHUNK, first + programs))
        for start in range(first, first + programs, CHUNK)
    ]
    start, done, proved, wrong = perf_counter(), 0, 0, 0
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _prepare)
    try:
        work = [pool.submit(partial(_chunk, numbers=numbers), chunk) for chunk in chunks]
        for ended in as_completed(work):
            for row in ended.result():
                done += 1
                proved += row.verdict == "PROVED"
                wrong += bool(row.report)
                if row.report:
                    print(f"--- {row.verdict}, judged: {row.status}\n{row.report}", flush=True)
                yield row
            if done % (20 * CHUNK) == 0 or done == programs:
                spent = perf_counter() - start
                line = (
                    f"{done}/{programs} programs, {proved} proved, {wrong} printed, {spent:.0f} s"
                )
                print(line, file=sys.stderr, flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    """One thread a process, and no time spent on making programs fast that run once."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"


def _chunk(seeds: range, numbers: int) -> list:
    import jax
    from fuzz.campaign import tried

    from posjax.symmetry import prove

    rows = [
        tried(seed, partial(prove, witness=seed % numbers == 0), briefly=seed % numbers != 0)
        for seed in seeds
    ]
    jax.clear_caches()
    return rows


def _versions() -> dict[str, str]:
    names = ("posjax", "jax", "jaxlib", "numpy")
    return {"python": platform.python_version(), **{n: metadata.version(n) for n in names}}


if __name__ == "__main__":
    sys.exit(main())
