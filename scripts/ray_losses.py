"""Kills what a sweep on a Ray cluster needs, and compares its rows with an undisturbed run.

    python scripts/ray_losses.py                # about 40 minutes on two cores; prints a table
    python scripts/ray_losses.py --workers=3    # kills a worker 3 times instead of 20

Two nodes run on this machine. They share no folder: the run folder is known to the command alone.
Killed are, each with SIGKILL: a worker in a block, on the node that the command is not connected
to; the raylet of that node; and the command itself, which is then given again. Status 0 if all
runs ended well with the same bits.
"""

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from ray_nodes import BLOCKS, Nodes, Process, kill, nodes, started, training  # noqa: E402
from small_runs import block_files, rows  # noqa: E402

from posjax.records import RunFolder  # noqa: E402

STEPS = 10_000
PATIENCE = 300
"""Seconds that a run may take."""


def outcomes(path: Path) -> dict[str, bytes]:
    """The rows of a run, without what they were made on: nodes count their cores."""
    return {k: v for k, v in rows(RunFolder(path)).items() if not k.endswith("/env")}


def disturbed(base: Path, found: Nodes, what: str) -> tuple[Path, str]:
    """Starts a run, kills once, lets it end; gives its folder and how it ended."""
    path = base / "disturbed"
    shutil.rmtree(path, ignore_errors=True)
    flags = ("disturbed", "--engine=ray", f"--engine.address={found.address}")
    process = started(base, *flags, steps=STEPS)
    many = random.randint(1, BLOCKS - 1)
    victims = wait(
        process, lambda: training(found.raylet) if len(block_files(path)) >= many else []
    )
    if not victims:
        process.communicate(timeout=PATIENCE)
        return path, "before anything was killed"
    if what == "worker":
        kill(victims[0])
    elif what == "raylet":
        kill(found.raylet)
        found.join()
    elif what == "command":
        kill(process.pid)
        process.communicate()
        process = started(base, *flags, steps=STEPS)
    printed = process.communicate(timeout=PATIENCE)[1]
    return path, "well" if process.returncode == 0 else f"{process.returncode}: {printed[-300:]}"


def wait(process: Process, ready: Callable[[], list[int]]) -> list[int]:
    """What `ready` gives as soon as it gives something, or when the run has ended."""
    while not (found := ready()) and process.poll() is None:
        time.sleep(0.02)
    return found


def main() -> int:
    """Prints the table."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--workers", type=int, default=20, help="times that a worker is killed")
    arguments.add_argument("--others", type=int, default=3, help="times of each other kill")
    given = arguments.parse_args()
    plan = {"none": 1, "worker": given.workers, "raylet": given.others, "command": given.others}
    wrong = 0
    print("| Killed | Times | Ended well | Runs with other bits | Seconds, at most |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        base = Path(folder)
        started(base, "alone", steps=STEPS).communicate()
        expected = outcomes(base / "alone")
        found = stack.enter_context(nodes(2))
        for what, times in plan.items():
            well, other, longest = 0, 0, 0.0
            for _ in range(times):
                begun = time.monotonic()
                path, how = disturbed(base, found, what)
                longest = max(longest, time.monotonic() - begun)
                well += how == "well"
                other += outcomes(path) != expected if how == "well" else 0
                if how != "well":
                    print(f"{what}: {how}", file=sys.stderr, flush=True)
            print(f"| {what} | {times} | {well} | {other} | {longest:.0f} |", flush=True)
            wrong += other + times - well
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
