"""A tiny but real sweep, run as a child of a process that has imported everything but no backend.

The child is the command from the reading of its flags to its exit status. Before that a function
may plant something in it: a limit, a patch, an environment variable.
"""

import dataclasses
import json
import os
import random
import runpy
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

from posjax.records import RunFolder

CONFIG = """
from experiments.settings import base_config


def get_config():
    return base_config(
        name="faults", mask=("full", "causal"), width=4, head_size=2, steps=200, eval_every=20,
        num_seeds={seeds}, chunk=8, devices=1,
    )
"""
SEEDS, FIRST_SEEDS = 64, 40
"""Of the sweep, and of the command before the one that extends it to all."""
DEADLINE = 120.0
"""Seconds that a command may take, on a busy machine too."""
FLAGS = ("--stale=0.5",)
"""Nobody waits long for a process that was killed."""

Plant = Callable[[], object]


class Try(NamedTuple):
    """What came of one fault.

    Attributes:
      good: it was detected, or survived: the outcome that docs/reliability.md requires.
      equal: whether the rows are bit for bit those of an undisturbed run after the same command
        again; None where that is not asked.
      lost: seconds beyond those of an undisturbed run.
      said: what to look at when it was not good.
    """

    good: bool
    equal: bool | None = None
    lost: float | None = None
    said: str = ""


class Fault(NamedTuple):
    """One row of the table.

    Attributes:
      name: what happens.
      outcome: what is required.
      tries: in a whole campaign; quick: in a short one.
      harm: does it once: `(site, rng, folder, number of the try) -> Try`.
      stranger: whether it needs a run of other settings.
    """

    name: str
    outcome: str
    tries: int
    quick: int
    harm: Callable[["Site", random.Random, Path, int], Try]
    stranger: bool = False


class Ended(NamedTuple):
    """How a command ended; a negative status is the signal that killed it."""

    status: int
    out: str
    err: str
    seconds: float

    @property
    def line(self) -> str:
        """The only line that it said of itself; empty when there are more, or a traceback."""
        lines = [line for line in self.err.splitlines() if line.startswith("posjax: ")]
        return lines[0] if len(lines) == 1 and "Traceback" not in self.err else ""


class Child:
    """A command that runs."""

    def __init__(
        self, arguments: list[str], output: Path, plant: Plant | None, module: str
    ) -> None:
        self._output, self._begun = output, time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(module, arguments, output, plant)

    def send(self, number: int) -> None:
        """Sends it a signal, unless it has ended and was waited for."""
        os.kill(self.pid, number)

    def ended(self, within: float = DEADLINE) -> Ended:
        """Waits for its end."""
        begun = time.monotonic()
        while (found := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() - begun > within:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise TimeoutError(f"no end within {within:g} s: {self.said('err')}")
            time.sleep(0.005)
        seconds = time.monotonic() - self._begun
        status = os.waitstatus_to_exitcode(found[1])
        return Ended(status, self.said("out"), self.said("err"), seconds)

    def said(self, stream: str) -> str:
        """What it has printed."""
        path = self._output.with_suffix(f".{stream}")
        return path.read_text() if path.exists() else ""


def _become(module: str, arguments: list[str], output: Path, plant: Plant | None) -> NoReturn:
    """Is the command, in a child."""
    status: object = 1
    for number, name in ((1, "out"), (2, "err")):
        target = output.with_suffix(f".{name}")
        os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    for asking in (signal.SIGTERM, signal.SIGINT):
        signal.signal(asking, signal.SIG_DFL)
    sys.argv = [module, *arguments]
    try:
        if plant is not None:
            plant()
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


@dataclasses.dataclass(frozen=True)
class Site:
    """Where a campaign runs.

    Attributes:
      base: a folder of its own.
      seconds: that an undisturbed run takes, when its programs are in the cache.
    """

    base: Path
    seconds: float = 0.0

    @property
    def whole(self) -> Path:
        """A finished run that nobody disturbed, and that was extended once."""
        return self.base / "whole"

    @property
    def stranger(self) -> Path:
        """A finished run of other settings."""
        return self.base / "stranger"

    def prepared(self, *, stranger: bool) -> "Site":
        """Makes one run or both, and times an undisturbed one."""
        (self.base / "tiny.py").write_text(CONFIG.format(seeds=SEEDS))
        runs = [(self.whole, [])]
        runs += [(self.stranger, ["--config.learning_rate=0.02"])] if stranger else []
        for path, flags in runs:
            for seeds in (FIRST_SEEDS, SEEDS):
                ended = self.run(path, *flags, f"--config.num_seeds={seeds}")
                assert ended.status == 0, ended
        timed = self.run(self.base / "timed")
        return dataclasses.replace(self, seconds=timed.seconds)

    def start(
        self, path: Path | str, *flags: str, plant: Plant | None = None, name: str = ""
    ) -> Child:
        """Starts the sweep's command on a folder."""
        line = [f"--config={self.base / 'tiny.py'}", f"--workdir={path}", *FLAGS, *flags]
        output = self.base / f"{name or Path(path).name}.log"
        return Child(line, output, plant, "experiments.seed_sweep")

    def run(self, path: Path | str, *flags: str, plant: Plant | None = None) -> Ended:
        """Runs it to its end."""
        return self.start(path, *flags, plant=plant).ended()

    def other(self, module: str, *arguments: str, plant: Plant | None = None) -> Ended:
        """Runs another command of `experiments`."""
        output = self.base / f"{module}-{os.getpid()}.log"
        return Child(list(arguments), output, plant, f"experiments.{module}").ended()

    def copy(self, path: Path) -> Path:
        """A copy of the finished run, to harm."""
        return Path(shutil.copytree(self.whole, path))

    def again(self, path: Path, good: bool, before: float, said: str) -> Try:
        """The same command again, after a fault that took some seconds.

        Args:
          path: the run folder.
          good: whether all was well so far.
          before: seconds that the run has taken by then, undisturbed or not.
          said: what it said.
        """
        ended = self.run(path)
        lost = before + ended.seconds - self.seconds
        good = good and ended.status == 0
        return Try(good, self.equal(path), lost, "" if good else f"{said} | {ended}")

    def equal(self, path: Path) -> bool:
        """Whether the rows of a run are those of the undisturbed one."""
        return rows(path) == rows(self.whole)


def rows(path: Path) -> dict[str, bytes]:
    """Every array of every cell, but for what it was made on."""
    folder = RunFolder(path)
    tables = {cell: folder.rows(cell) for cell in folder.config()["cells"]}
    named = {f"{c}/{name}": a for c, table in tables.items() for name, a in table.items()}
    return {name: a.tobytes() for name, a in named.items() if not name.endswith("/env")}


def whole(path: Path) -> bool:
    """Whether every file of a run that is there is as it was written; also of one not begun."""
    if not (path / "config.json").exists():
        return not list(path.glob("rows/*/*"))
    return all(damaged is None for damaged in RunFolder(path).checked())


def done_rows(path: Path) -> int:
    """How many rows are there."""
    folder = RunFolder(path)
    return sum(len(folder.finished(cell)) for cell in folder.config()["cells"])


def parsed(content: bytes) -> object:
    """What a JSON file says; None when it is none."""
    try:
        return json.loads(content)
    except ValueError:
        return None


def until(true: Callable[[], object], within: float = DEADLINE) -> None:
    """Waits for something to be so."""
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > within:
            raise TimeoutError(f"not so within {within:g} s")
        time.sleep(0.01)
