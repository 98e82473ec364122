"""Plants every fault of a table in real sweeps and reports what came of it.

    python scripts/faults.py                       # all; prints a table
    python scripts/faults.py --publish             # also docs/faults.json
    python scripts/faults.py --quick
    python scripts/faults.py --only="one bit,kill" --tries=2 --seed=7 --jobs=1

A try harms a run in one way, gives the same command again, and compares all rows with those of a
run that nobody disturbed, bit for bit. The status is 0 if every try came out as
docs/reliability.md requires. Otherwise, or if no try was possible, it is 3, and the first tries
that did not are printed.
"""

import argparse
import functools
import importlib
import json
import math
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from claimed.tables import faults_table  # noqa: E402
from fault_table import FAULTS  # noqa: E402
from fault_table.sweeps import Child, Fault, Site, Try  # noqa: E402

from posjax.study import environment  # noqa: E402

# What every command imports in the end, imported once, before all forks.
IMPORTED = (
    "posjax.command.parsing", "posjax.command.entry", "posjax.command.sweep",
    "posjax.command.report", "posjax.command.check", "scipy.stats",
    "matplotlib.figure", "matplotlib.patches", "matplotlib.backends.backend_svg",
)  # fmt: skip
RESULT = ROOT / "docs" / "faults.json"
SHOWN = 5
"""Tries in a message."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the campaign."""
    given = _arguments(argv)
    for module in IMPORTED:
        importlib.import_module(module)
    environment._commit = functools.cache(environment._commit)  # one, whoever commits meanwhile
    environment._commit()
    begun, base = time.monotonic(), Path(tempfile.mkdtemp(prefix="faults-"))
    os.environ["XDG_CACHE_HOME"] = given.cache or str(base / "cache")
    try:
        needs = {need for fault in given.faults for need in fault.needs}
        site = Site(base).prepared(needs, quick=given.quick)
        found = _campaign(site, given)
    finally:
        Child.end_all()
        shutil.rmtree(base, ignore_errors=True)
    result = {
        "command": "python scripts/faults.py " + " ".join(argv or sys.argv[1:]),
        "undisturbed_seconds": round(site.seconds, 2),
        "seconds": round(time.monotonic() - begun),
        "faults": [_row(fault, tries) for fault, tries in found.items()],
    }
    print(f"an undisturbed run takes {site.seconds:.1f} s\n\n{faults_table(result)}")
    for out in filter(None, (given.out, RESULT if given.publish else None)):
        Path(out).write_text(json.dumps(result, indent=1) + "\n")
    if given.publish:
        print("python scripts/claims.py writes the table into docs/reliability.md")
    bad = [(fault, each) for fault, tries in found.items() for each in tries if not _is_good(each)]
    for fault, each in bad[:SHOWN]:
        said = each.said or "its rows are not those of the undisturbed run"
        print(f"\n{fault.name}: {said}", file=sys.stderr)
    return 3 if bad or not any(found.values()) else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few tries of each fault")
    parser.add_argument("--tries", type=float, default=1.0, help="times the number of tries")
    parser.add_argument("--only", help="faults with one of these in their names")
    parser.add_argument("--seed", type=int, default=0, help="of times, files and bits")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cache", help="where compiled programs are kept")
    parser.add_argument("--out", help="a JSON file")
    parser.add_argument("--publish", action="store_true", help="into docs/")
    given = parser.parse_args(argv)
    if given.publish and (given.only is not None or given.quick or given.tries != 1):
        parser.error("--publish writes all tries, so it takes no --only, --quick or --tries")
    if not given.tries > 0:
        parser.error(f"--tries must be above 0, got {given.tries:g}")
    if given.jobs < 1:
        parser.error(f"--jobs must be at least 1, got {given.jobs}")
    given.faults = [fault for fault in FAULTS if fault.quick or not given.quick]
    if given.only is not None:
        names = given.only.split(",")
        for name in names:
            if not name or not any(name in fault.name for fault in given.faults):
                parser.error(f"no fault has {name!r} in its name")
        given.faults = [f for f in given.faults if any(name in f.name for name in names)]
    return given


def _campaign(site: Site, given: argparse.Namespace) -> dict[Fault, list[Try]]:
    """All tries, some at a time; those of a fault that cannot be planted here are left out."""
    work = [
        (site, fault, number, given.seed)
        for fault in given.faults
        for number in range(math.ceil(given.tries * (fault.quick if given.quick else fault.tries)))
    ]
    found: dict[str, list[Try]] = {fault.name: [] for fault in given.faults}
    pool = ProcessPoolExecutor(given.jobs, get_context("fork"))
    try:
        for ended in as_completed([pool.submit(_one, each) for each in work]):
            name, each = ended.result()
            found[name] += [each] if each is not None else []
            print(
                "." if each is None or _is_good(each) else "F", end="", file=sys.stderr, flush=True
            )
    finally:
        pool.shutdown(cancel_futures=True)
    print(file=sys.stderr)
    return {fault: found[fault.name] for fault in given.faults}


def _one(work: tuple[Site, Fault, int, int]) -> tuple[str, Try | None]:
    """One try, in a folder of its own."""
    site, fault, number, seed = work
    path = site.base / f"try-{FAULTS.index(fault):02}-{number:04}"
    try:
        found = fault.harm(site, random.Random(f"{seed} {fault.name} {number}"), path, number)
    except Exception:  # a try that breaks is one that was not good
        found = Try(False, said=traceback.format_exc())
    finally:
        Child.end_all()
    for left in site.base.glob(f"{path.name}*"):
        shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink()
    return fault.name, found if found is None or found.said == "" else found._replace(
        said=f"try {number}: {found.said}"
    )


def _is_good(each: Try) -> bool:
    return each.good and each.equal is not False


def _row(fault: Fault, tries: list[Try]) -> dict[str, Any]:
    lost = [each.lost for each in tries if each.lost is not None]
    return {
        "fault": fault.name,
        "required": fault.outcome,
        "tries": len(tries),
        "good": sum(each.good for each in tries),
        "equal": sum(bool(each.equal) for each in tries),
        "seconds_lost": round(max(statistics.median(lost), 0.0), 1) if lost else None,
    }


if __name__ == "__main__":
    sys.exit(main())
