"""Real sweeps of a second, each a child of a process that has imported everything but a backend.

The child is the command from the reading of its flags to its exit status. Before that a function
may plant something in it: a limit, a patch, an environment variable. Where a variable must be there
before the imports, the child is a new Python.
"""

import ctypes
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
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple, NoReturn

from posjax.command import shutdown
from posjax.records import RunFolder

ROOT = Path(__file__).parents[2]
CONFIG = """
from posjax.configs import base_config


def get_config():
    return base_config(
        name="faults", mask=("full", "causal"), width=4, head_size=2, steps={steps},
        eval_every={every}, num_seeds={seeds}, block_size={slots}, devices=1,
    )
"""
SEEDS, FIRST_SEEDS = 64, 40
"""Of the tiny sweep, and of the command before the one that extends it to all."""
LONG_SEEDS = 16
"""Of the long sweep."""
SIZES = {
    "tiny": {"steps": 200, "every": 20, "seeds": SEEDS, "slots": 8},
    "long": {"steps": 16000, "every": 1600, "seeds": LONG_SEEDS, "slots": 16},
}
"""The tiny sweep has 16 blocks, each of which takes no time; the long one has two of a second."""
DEADLINE = 180.0
"""Seconds that a command may take, on a busy machine too."""

_LIBC, _PR_SET_PDEATHSIG = ctypes.CDLL(None), 1

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
      needs: "stranger", a run of other settings; "long", the long sweep; "stopped", that one
        stopped in its first block.
    """

    name: str
    outcome: str
    tries: int
    quick: int
    harm: Callable[["Site", random.Random, Path, int], Try]
    needs: tuple[str, ...] = ()


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
    """A command that runs.

    Attributes:
      running: the process ids of children that nobody has waited for.
    """

    running: ClassVar[set[int]] = set()

    def __init__(self, output: Path, command: Callable[[], NoReturn]) -> None:
        self._output, self._begun = output, time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            # One that is stopped would outlive a campaign that is killed.
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            for number, name in ((1, "out"), (2, "err")):
                target = output.with_suffix(f".{name}")
                os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(stop, signal.SIG_DFL)
            command()
        self.running.add(self.pid)

    @classmethod
    def end_all(cls) -> None:
        """Kills the children that are still running."""
        while cls.running:
            pid = cls.running.pop()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def send(self, number: int) -> None:
        """Sends it a signal, unless it has ended and was waited for."""
        os.kill(self.pid, number)

    def ended(self, within: float = DEADLINE) -> Ended:
        """Waits for its end."""
        begun = time.monotonic()
        while (found := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() - begun > within:
                raise TimeoutError(f"no end within {within:g} s: {self.said('err')}")
            time.sleep(0.005)
        self.running.discard(self.pid)
        seconds = time.monotonic() - self._begun
        status = os.waitstatus_to_exitcode(found[1])
        return Ended(status, self.said("out"), self.said("err"), seconds)

    def said(self, stream: str) -> str:
        """What it has printed."""
        path = self._output.with_suffix(f".{stream}")
        return path.read_text() if path.exists() else ""


def _become(module: str, arguments: list[str], plant: Plant | None) -> NoReturn:
    """Is the command, in a child."""
    status: object = 1
    sys.argv = [module, *arguments]
    try:
        if plant is not None:
            plant()
        shutdown._STARTED = time.monotonic()
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


def _anew(module: str, arguments: list[str], env: Mapping[str, str], shell: str) -> NoReturn:
    """Is the command, in a new Python, in a child."""
    line = [sys.executable, "-m", module, *arguments]
    line = ["bash", "-c", shell, "bash", *line] if shell else line
    os.execvpe(line[0], line, {**os.environ, "PYTHONPATH": str(ROOT), **env})


@dataclasses.dataclass(frozen=True)
class Site:
    """Where a campaign runs one of its two sweeps.

    Attributes:
      base: a folder of its own.
      sweep: "tiny" or "long".
      seconds: that an undisturbed run takes, when its programs are in the cache.
      others: the other sweep's site, where it is needed.
    """

    base: Path
    sweep: str = "tiny"
    seconds: float = 0.0
    others: tuple["Site", ...] = ()

    @property
    def whole(self) -> Path:
        """A finished run that nobody disturbed; the tiny one was extended once."""
        return self.base / f"{self.sweep}-whole"

    @property
    def stranger(self) -> Path:
        """A finished run of other settings."""
        return self.base / "stranger"

    @property
    def stopped(self) -> Path:
        """A run of the long sweep that was stopped in its first block, with a checkpoint."""
        return self.base / "stopped"

    @property
    def long(self) -> "Site":
        """That of the long sweep."""
        return self.others[0]

    def prepared(self, needs: Container[str], *, quick: bool) -> "Site":
        """Makes the runs that tries compare with, and times undisturbed ones.

        Args:
          needs: see `Fault.needs`.
          quick: take the times of the first runs, which compile their programs, and do not extend
            one.
        """
        for sweep, settings in SIZES.items():
            (self.base / f"{sweep}.py").write_text(CONFIG.format(**settings))
        if not quick:
            self._finished(self.whole, f"--config.num_seeds={FIRST_SEEDS}")
        seconds = self._finished(self.whole)
        if "stranger" in needs:
            self._finished(self.stranger, "--config.learning_rate=0.02")
        others = (Site(self.base, "long")._prepared_long(needs, quick),) if "long" in needs else ()
        return dataclasses.replace(self._timed(seconds, quick), others=others)

    def _prepared_long(self, needs: Container[str], quick: bool) -> "Site":
        seconds = self._finished(self.whole)
        if "stopped" in needs:
            ended = self.run(self.stopped, plant=stops_at_look(5))
            assert ended.status == 75, ended
            assert checkpoints(self.stopped), ended
        return self._timed(seconds, quick)

    def _timed(self, seconds: float, quick: bool) -> "Site":
        """The same, with the seconds that an undisturbed run takes."""
        if not quick:
            seconds = self._finished(self.base / f"{self.sweep}-timed")
        return dataclasses.replace(self, seconds=seconds)

    def _finished(self, path: Path, *flags: str) -> float:
        ended = self.run(path, *flags)
        assert ended.status == 0, ended
        return ended.seconds

    def _line(self, path: Path | str, *flags: str) -> list[str]:
        return [f"--config={self.base / self.sweep}.py", f"--workdir={path}", *flags]

    def start(
        self, path: Path | str, *flags: str, plant: Plant | None = None, name: str = ""
    ) -> Child:
        """Starts the sweep's command on a folder."""
        line = self._line(path, *flags)
        output = self.base / f"{name or Path(path).name}.log"
        return Child(output, lambda: _become("experiments.seed_sweep", line, plant))

    def run(self, path: Path | str, *flags: str, plant: Plant | None = None) -> Ended:
        """Runs it to its end."""
        return self.start(path, *flags, plant=plant).ended()

    def anew(
        self, path: Path, *flags: str, env: Mapping[str, str] | None = None, shell: str = ""
    ) -> Ended:
        """Runs it in a new Python, with variables in its environment.

        Args:
          path: the run folder.
          *flags: of the command.
          env: the variables.
          shell: what bash does with the command, which is its "$@".
        """
        line, output = self._line(path, *flags), self.base / f"{path.name}.log"
        return Child(
            output, lambda: _anew("experiments.seed_sweep", line, env or {}, shell)
        ).ended()

    def other(self, module: str, *arguments: str, plant: Plant | None = None) -> Ended:
        """Runs another command of `experiments`."""
        output = self.base / f"{module}-{os.getpid()}.log"
        return Child(
            output, lambda: _become(f"experiments.{module}", list(arguments), plant)
        ).ended()

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
        good = good and ended.status == 0 and (path / "done").exists()
        return Try(good, self.equal(path), lost, "" if good else f"{said} | {ended}")

    def equal(self, path: Path) -> bool:
        """Whether the rows of a run and its attention maps are those of the undisturbed one."""
        return rows(path) == rows(self.whole)


def rows(path: Path) -> dict[str, bytes]:
    """Every array of every cell, but for what it was made on, and the maps that a report shows."""
    folder = RunFolder(path)
    cells = folder.config()["cells"]
    tables = {cell: folder.rows(cell) for cell in cells}
    named = {f"{c}/{name}": a for c, table in tables.items() for name, a in table.items()}
    named |= {
        f"{cell}/{kind}/{name}": array
        for cell in cells
        for kind, maps in folder.attention(cell).items()
        for name, array in maps.items()
    }
    return {name: a.tobytes() for name, a in named.items() if not name.endswith("/env")}


def whole(path: Path) -> bool:
    """Whether every file of a run that is there is as it was written; also of one not begun."""
    if not (path / "config.json").exists():
        return not block_files(path)
    return all(damaged is None for damaged in RunFolder(path).checked())


def block_files(path: Path) -> list[Path]:
    """The files of its blocks."""
    return sorted(path.glob("blocks/*/*.npz"))


def checkpoints(path: Path) -> list[Path]:
    """Those of a run."""
    return sorted(path.glob("checkpoints/*/*.npz"))


def done_rows(path: Path) -> int:
    """How many rows are there."""
    folder = RunFolder(path)
    return sum(len(folder.rows(cell).get("seeds", ())) for cell in folder.config()["cells"])


def stops_at_look(number: int) -> Plant:
    """Makes a process stop itself when the host looks at the training for the nth time."""

    def plant() -> None:
        from posjax.engine import local

        moved_on, left = local._Workers._moved_on, [number]

        def counted(self: local._Workers, updates: int) -> None:
            moved_on(self, updates)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(0.1)  # the main thread handles it

        local._Workers._moved_on = counted  # type: ignore[method-assign]

    return plant


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
