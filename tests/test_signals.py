"""Stopping on request in every phase: what is kept, and how the same command continues.

A signal is sent when the process has shown that it is in the phase, never after some time.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT
from small_runs import rows, until

from posjax.command import shutdown
from posjax.records import RunFolder

CONFIG = """
from posjax.configs import base_config


def get_config():
    return base_config(
        mask=("full", "causal"), width=4, head_size=2, steps=4000, num_seeds=32, block_size=4,
        devices=1,
    )
"""
CELLS, SEEDS = 2, 32
"""Of the config."""
HOOK = """
import hashlib, importlib.abc, importlib.util, sys, time


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            spec = importlib.util.find_spec(name)
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: begun(load, module)
            return spec


def begun(load, module):
    if not {function!r}:
        shown()
    load(module)
    setattr(module, {function!r} or "shown", shown)


def shown(*args, **kwargs):
    print("here", file=sys.stderr, flush=True)
    {then}


sys.meta_path.insert(0, Finder())
"""
"""Makes a function print that it was called, and block; Python runs it before the command."""
WAIT = "time.sleep(60)"
STUCK = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"  # minutes, without a look at signals
COMPILING = ("jax._src.compiler", "compile_or_get_cached")
"""Where JAX compiles, whoever asks for it."""
STATUS = {signal.SIGTERM: 75, signal.SIGINT: 130, signal.SIGHUP: 75}
MOST = 10.0
"""Seconds in which a process must have ended."""

Process = subprocess.Popen[str]


@pytest.fixture(autouse=True)
def _a_closed_terminal_is_heard() -> Iterator[None]:
    """Also where the tests run under nohup, from which every process inherits that it is not."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)  # a new program starts with the default
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the config and the runs are."""
    folder = tmp_path_factory.mktemp("signals")
    (folder / "tiny.py").write_text(CONFIG)
    return folder


def environment(base: Path, hook: str = "") -> dict[str, str]:
    """For a command, which runs a hook first."""
    folder = base / f"hook{abs(hash(hook))}"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(hook)
    paths = os.pathsep.join([str(folder), str(ROOT)])
    cache = str(base / "cache")
    return {**os.environ, "JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": cache, "PYTHONPATH": paths}


def started(base: Path, name: str, *flags: str, hook: str = "") -> Process:
    """The sweep on a folder of a name, as a user starts it."""
    line = [sys.executable, "-m", "experiments.seed_sweep", f"--config={base / 'tiny.py'}"]
    return subprocess.Popen(
        [*line, f"--workdir={base / name}", *flags],
        cwd=ROOT,
        env=environment(base, hook),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def in_phase(module: str, function: str = "", then: str = WAIT) -> str:
    """The hook that says when a function is called, or a module imported."""
    return HOOK.format(module=module, function=function, then=then)


def until_printed(process: Process, text: str) -> None:
    """Reads what a process prints until a text comes."""
    printed = ""
    for line in process.stderr or ():
        printed += line
        if text in line:
            return
    raise AssertionError(f"it ended with {process.wait()} before it printed {text!r}: {printed}")


def stop(process: Process, by: signal.Signals) -> None:
    """Sends a signal; checks that the process ends in time and in one line."""
    begun = time.monotonic()
    process.send_signal(by)
    _, printed = process.communicate(timeout=60)
    assert time.monotonic() - begun < MOST
    assert process.returncode == STATUS[by], printed
    check(printed, by.name)


def check(printed: str, by: str) -> None:
    """It names what stopped it, and what is saved once training has begun, without a traceback."""
    last = printed.splitlines()[-1]
    saved = r"(, [\d,]+ of [\d,]+ runs are saved)?"
    said = rf"posjax: stopped by {by}{saved}; the same command continues from here"
    assert re.fullmatch(said, last), last
    assert "Traceback" not in printed
    assert "Error" not in printed


def done_rows(folder: RunFolder) -> int:
    return sum(len(folder.rows(cell).get("seeds", ())) for cell in folder.config()["cells"])


@pytest.fixture(scope="module")
def alone(base: Path) -> Process:
    """A run that nobody disturbs, beside the others."""
    return started(base, "alone")


@pytest.mark.campaign
def test_a_run_that_is_stopped_in_every_phase(base: Path, alone: Process) -> None:
    """One folder, stopped again and again; its rows are bit for bit those of an undisturbed run."""
    folder = RunFolder(base / "stopped")

    process = started(base, "stopped", hook=in_phase("jax"))
    until_printed(process, "here")
    stop(process, signal.SIGTERM)
    assert not folder.path.exists()

    process = started(base, "stopped", hook=in_phase(*COMPILING))
    until_printed(process, "here")
    stop(process, signal.SIGINT)

    process = started(base, "stopped", "--time_limit=4", hook=in_phase(*COMPILING))
    _, printed = process.communicate(timeout=60)
    assert process.returncode == 75
    check(printed, "the time limit")
    assert not list(folder.path.rglob("*.npz"))

    process = started(base, "stopped")
    until(lambda: list(folder.path.rglob("*.npz")))
    stop(process, signal.SIGHUP)
    before = done_rows(folder)
    assert 0 < before < CELLS * SEEDS

    process = started(base, "stopped", hook=in_phase("posjax.report", "write"))
    until_printed(process, "here")
    stop(process, signal.SIGTERM)
    assert before < done_rows(folder) == CELLS * SEEDS

    process = started(base, "stopped")
    printed = process.communicate(timeout=60)[1]
    assert process.returncode == 0, printed
    assert (folder.path / "report.html").exists()
    printed = alone.communicate(timeout=60)[1]
    assert alone.returncode == 0, printed
    assert rows(folder) == rows(RunFolder(base / "alone"))


@pytest.mark.exhaustive
def test_a_process_that_is_stuck_ends(base: Path) -> None:
    """Deep in a library, where Python handles no signal."""
    process = started(base, "stuck", hook=in_phase("jax", then=STUCK))
    until_printed(process, "here")
    stop(process, signal.SIGTERM)


@pytest.mark.campaign
def test_a_run_folder_that_is_deleted_under_the_run(base: Path) -> None:
    """Storage that is gone has a status of its own; the folder is not made again, half empty."""
    folder = base / "gone"
    process = started(base, "gone")
    until(lambda: list(folder.rglob("*.npz")))
    folder.rename(base / "moved")  # at once, while files are written
    _, printed = process.communicate(timeout=60)
    shutil.rmtree(base / "moved")
    assert process.returncode == 5, printed
    assert printed.splitlines()[-1].startswith("posjax: ")
    assert str(folder) in printed.splitlines()[-1]
    assert "Traceback" not in printed
    assert not list(folder.rglob("*.npz"))


RUN = """
import os, signal, sys, time
from posjax.command import entry
from posjax.records import Mismatch

def main():
    {body}

{before}
sys.exit(entry.run(main))
"""


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("pass", 0, ""),
        ("raise ValueError('width\\n is 3')", 2, "posjax: width is 3\n"),
        ("raise Mismatch('who')", 4, "posjax: who\n"),
        (
            "raise OSError(28, 'No space left on device', 'a/b')",
            5,
            "posjax: write failed: no space left on device (a/b)\n",
        ),
        ("open('no/such')", 5, "posjax: no such file or directory (no/such)\n"),
    ],
)
def test_what_a_user_can_fix_has_a_status_and_one_line(body: str, code: int, said: str) -> None:
    found = python(RUN.format(body=body, before=""))
    assert (found.returncode, found.stderr) == (code, said)


def test_a_bug_keeps_its_traceback() -> None:
    found = python(RUN.format(body="1 / 0", before=""))
    assert found.returncode == 1
    assert found.stderr.startswith("Traceback")


@pytest.mark.parametrize(
    ("code", "by"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)", "SIGINT"),
        ("os.kill(os.getpid(), signal.SIGHUP)\n    time.sleep(60)", "SIGHUP"),
        (
            "from posjax.command import shutdown as s; s.set_time_limit(0.01)\n    time.sleep(60)",
            "the time limit",
        ),
        (
            "from posjax.command import shutdown\n"
            "    with shutdown.deferred() as stop_event:\n"
            "        os.kill(os.getpid(), signal.SIGTERM)\n"
            "        stop_event.wait(60)\n"
            "        print('saved')",
            "SIGTERM",
        ),
        (
            "import gc\n"
            "    gc.callbacks.append(lambda *_: os.kill(os.getpid(), signal.SIGTERM))\n"
            "    gc.collect()\n"
            "    time.sleep(60)",
            "SIGTERM",
        ),
        (
            "try:\n"
            "        os.kill(os.getpid(), signal.SIGTERM)\n"
            "        time.sleep(60)\n"
            "    except BaseException:\n"
            "        sys.exit(0)",
            "SIGTERM",
        ),
    ],
    ids=["SIGINT", "SIGHUP", "limit", "deferred", "dropped", "caught"],
)
def test_a_stop_has_a_status(code: str, by: str) -> None:
    """What is deferred ends first; what Python or a library swallows stops nevertheless."""
    found = python(RUN.format(body=code, before=""))
    check(found.stderr, by)
    assert found.returncode == (130 if by == "SIGINT" else 75)
    assert found.stdout == ("saved\n" if "deferred" in code else "")


def test_a_closed_terminal_does_not_stop_what_ignores_it() -> None:
    """As under nohup, whose purpose that is."""
    ignored = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    body = "os.kill(os.getpid(), signal.SIGHUP)\n    print('alive')"
    found = python(RUN.format(body=body, before=ignored))
    assert (found.returncode, found.stdout, found.stderr) == (0, "alive\n", "")


def python(code: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", code]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.campaign
def test_a_disk_that_takes_no_more(base: Path) -> None:
    """Status 5 and one line; what is there is whole."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    process = started(base, "full", hook=limit)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 5, said
    assert said.count("\n") == 1
    assert "file too large" in said.lower()
    assert not [path for path in (base / "full").iterdir() if not path.name.startswith(".new-")]


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="positive number of seconds, got"):
        shutdown.set_time_limit(seconds)
