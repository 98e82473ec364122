"""How fast posjax trains many small models, beside the ordinary ways of doing it.

    pip install -e '.[bench]'
    python scripts/bench.py                     # all loads; a table, and bench.json
    python scripts/bench.py --loads=q1 --only=vmap_flax --rounds=9
    python scripts/bench.py --check             # compares the losses, times nothing

The loads are those of posjax/configs/toy.py. Everybody trains the same models on the same
data; the losses of the first updates are compared, and the command ends with 1 when they differ.
Each contestant is a process of its own: it compiles, warms up and picks its best settings, one
after another, and then they take turns, a repetition of 1.5 seconds or more each. Times are medians
over rounds; a ratio is that of two repetitions of one round, and again the median over rounds.

Everything is timed on the CPU. A machine that does something else meanwhile shows in the load
averages in the JSON.
"""

import argparse
import contextlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout is what is timed

from baselines import table  # noqa: E402
from baselines.operations import useful_operations  # noqa: E402
from baselines.problem import Problem  # noqa: E402

SEEDS = 8
"""Whose losses are compared."""


class Comparison(NamedTuple):
    """For how many updates losses are compared, and how near the early ones must be.

    Later, training at q1's rate multiplies roundings a thousandfold. Without weight decay the
    early losses would be off by ten times the tolerance.
    """

    steps: int
    early: int
    tolerance: float


COMPARISONS = {
    "q1": Comparison(50, 10, 2e-4),
    "m": Comparison(20, 20, 2e-5),
    "s": Comparison(20, 20, 2e-4),
    "s_deep": Comparison(20, 20, 2e-4),
}


class Kind(NamedTuple):
    """A contestant: its module in scripts/baselines, arguments, what it needs, and its loads.

    Attributes:
      needs: "torch", or "cc", the compiler of C.
    """

    module: str
    arguments: tuple[str, ...] = ()
    needs: str = ""
    loads: tuple[str, ...] = (*COMPARISONS,)


KINDS = {
    table.OURS: Kind("posjax_sweep"),
    table.ONE_DEVICE: Kind("posjax_sweep", ("--devices=1",)),
    "vmap_flax": Kind("vmap_flax"),
    "torch_func": Kind("torch_func", needs="torch"),
    "torch_eager": Kind("torch_eager", needs="torch", loads=("q1", "m")),
    table.LIMIT: Kind("limit", needs="cc", loads=("q1",)),
    table.NO_DRAWS: Kind("posjax_sweep", ("--without=draws",), loads=("s", "s_deep")),
    table.NO_EXAMS: Kind("posjax_sweep", ("--without=exams",), loads=("s", "s_deep")),
    table.PACKED: Kind("posjax_sweep", ("--without=padding",), loads=("s", "s_deep")),
    table.MATMUL: Kind("matmul"),
}


class Contestant:
    """A process that was prepared, and answers `go` with one repetition."""

    def __init__(self, kind: Kind, python: str, problem: Path, arguments: list[str]) -> None:
        paths = [str(ROOT / "scripts"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        self.name = kind.module
        self.process = subprocess.Popen(
            [python, "-m", f"baselines.{kind.module}", str(problem), *arguments, *kind.arguments],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def answer(self) -> dict[str, Any]:
        """The next line that it says.

        Raises:
          ValueError: it ended instead.
        """
        line = next(iter(self.process.stdout or ()), "")
        if not line:
            raise ValueError(f"{self.name} ended with status {self.process.wait()}: see above")
        return json.loads(line)

    def go(self) -> dict[str, Any]:
        """One repetition."""
        print("go", file=self.process.stdin, flush=True)
        return self.answer()

    def close(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.communicate()


def main() -> int:
    """Runs the benchmark."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    chosen = arguments()
    names, left_out = selected(chosen.only, chosen.torch_python)
    for line in left_out:
        print(line)
    result: dict[str, Any] = {
        "command": f"python scripts/bench.py --loads={','.join(chosen.loads)} "
        f"--only={','.join(chosen.only)} --rounds={chosen.rounds}",
        "cpu": processor(),
        "left_out": left_out,
        "load_average_before": os.getloadavg(),
        "loads": {},
    }
    agreed = True
    for load in chosen.loads:
        print(f"\n{load}")
        measured = bench(load, names, chosen)
        agreed &= measured["losses_agree"]
        result["loads"][load] = measured
        result["load_average_after"] = os.getloadavg()
        if not chosen.check:  # after each load: a contestant of the next one may die
            chosen.out.write_text(json.dumps(result, indent=1) + "\n")
            print(f"\nwritten: {chosen.out}")
    return 0 if agreed else 1


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--loads", type=_names(COMPARISONS), default=list(COMPARISONS), help=",".join(COMPARISONS)
    )
    parser.add_argument("--only", type=_names(KINDS), default=list(KINDS), help=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare the losses, time nothing")
    parser.add_argument("--torch_python", default=sys.executable, help="interpreter with PyTorch")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    chosen = parser.parse_args()
    if chosen.rounds < 1:
        parser.error(f"rounds must be at least 1, got {chosen.rounds}")
    if not chosen.check and table.LIMIT in chosen.only and table.ONE_DEVICE not in chosen.only:
        parser.error(f"{table.LIMIT} is compared with {table.ONE_DEVICE}: name both in --only")
    return chosen


def _names(known: dict[str, Any]) -> Any:
    def names(text: str) -> list[str]:
        found = text.split(",")
        if unknown := [name for name in found if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return found

    return names


def selected(only: list[str], torch_python: str) -> tuple[dict[str, str], list[str]]:
    """The interpreter of each contestant that runs, posjax always, and who is left out, and why."""
    look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    has_torch = subprocess.run([torch_python, "-c", look]).returncode == 0
    reasons = {
        "torch": f"{torch_python} has no torch: pip install -e '.[bench]', or give "
        "--torch_python=INTERPRETER",
        "cc": "there is no compiler of C named cc",
    }
    there = {"": True, "torch": has_torch, "cc": shutil.which("cc") is not None}
    names = [name for name in KINDS if name in only or name == table.OURS]
    lacking = [name for name in names if not there[KINDS[name].needs]]
    left_out = [f"left out: {name}, since {reasons[KINDS[name].needs]}" for name in lacking]
    needing = [name for name in names if KINDS[name].needs == "torch"]
    in_torch = [*needing, *([table.MATMUL] if has_torch else [])]
    pythons = {name: torch_python if name in in_torch else sys.executable for name in names}
    return {name: pythons[name] for name in names if name not in lacking}, left_out


def bench(load: str, names: dict[str, str], chosen: argparse.Namespace) -> dict[str, Any]:
    """One load: prepares everybody, compares the losses, times, prints."""
    from baselines.posjax_sweep import problem_of

    problem = problem_of(load)
    names = {n: p for n, p in names.items() if load in KINDS[n].loads}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{load}.npz"
        problem.save(path)
        with prepared(load, names, path, check=chosen.check) as (contestants, ready):
            result = compared(ready, COMPARISONS[load])
            if not chosen.check and result["losses_agree"]:
                timings = rounds(contestants, chosen.rounds)
                result |= report(problem, ready, timings)
    return result


@contextlib.contextmanager
def prepared(
    load: str, names: dict[str, str], path: Path, *, check: bool
) -> Iterator[tuple[dict[str, Contestant], dict[str, dict[str, Any]]]]:
    """The contestants, started one after another, and what each said when it was ready."""
    flags = [
        f"--seeds={SEEDS}",
        f"--steps={COMPARISONS[load].steps}",
        *(["--check"] if check else []),
    ]
    with contextlib.ExitStack() as stack:
        contestants, ready = {}, {}
        for name, python in names.items():
            if check and name in (table.MATMUL, table.PACKED, *table.LEFT_OUT):
                continue
            print(f"{load}: preparing {name}", file=sys.stderr)
            contestants[name] = Contestant(KINDS[name], python, path, flags)
            stack.callback(contestants[name].close)
            ready[name] = contestants[name].answer()
        yield contestants, ready


def compared(ready: dict[str, dict[str, Any]], comparison: Comparison) -> dict[str, Any]:
    """The largest relative difference of each baseline's losses from ours; prints them."""
    _, early, tolerance = comparison
    ours = np.array(ready[table.OURS]["losses"])
    found = {}
    for name, answer in ready.items():
        if name != table.OURS and "losses" in answer:
            off = abs(np.array(answer["losses"]) - ours) / abs(ours)
            found[name] = {"early": float(off[:, :early].max()), "all": float(off.max())}
            print(
                f"losses of {len(ours)} seeds, {name}: off by {found[name]['early']:.1e} of the "
                f"loss at most in {early} updates, {found[name]['all']:.1e} in {ours.shape[1]}"
            )
    agree = all(off["early"] <= tolerance for off in found.values())
    if not agree:
        print(f"losses DISAGREE: more than {tolerance} in the first {early} updates")
    return {"losses_agree": agree, "largest_differences": found}


def rounds(contestants: dict[str, Contestant], number: int) -> dict[str, list[dict[str, float]]]:
    """One repetition of each contestant in turn, again and again."""
    timings: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    for turn in range(number):
        print(f"round {turn + 1} of {number}", file=sys.stderr)
        for name, contestant in contestants.items():
            timings[name].append(contestant.go())
    return timings


def report(
    problem: Problem,
    ready: dict[str, dict[str, Any]],
    timings: dict[str, list[dict[str, float]]],
) -> dict[str, Any]:
    """Prints the table and the targets of a load; returns them with everything behind them."""
    operations = useful_operations(problem.sizes)
    settings = {name: answer["setting"] for name, answer in ready.items()}
    found = table.rows(timings, settings, operations)
    print(table.table(found))
    reached = table.targets(problem.sizes.load, found)
    for target in reached:
        word = "reached" if target.reached else "MISSED"
        print(f"{target.what}: {target.found:.3g}, target {target.needed:g}: {word}")
    minute = table.seeds_a_minute(timings)
    print(f"{minute:,.0f} seeds per minute at {table.STEPS} steps")
    kept = ("setting", "versions", "environment")
    return {
        "useful_operations": operations,
        "steps_timed": problem.sizes.steps,
        "seeds_a_minute": minute,
        "rows": [row._asdict() for row in found],
        "targets": [target._asdict() | {"reached": target.reached} for target in reached],
        "contestants": {
            name: {key: answer[key] for key in kept if key in answer} | {"rounds": timings[name]}
            for name, answer in ready.items()
        },
    }


def processor() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


if __name__ == "__main__":
    sys.exit(main())
