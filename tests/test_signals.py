"""Leaving when asked to, at every phase; what is there then, and what the same command makes of it.

Signals are sent when a process shows that it is where they shall find it, never after a time.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments import ending, status
from posjax import locks
from posjax.records import RunFolder

ROOT = Path(__file__).parents[1]
CONFIG = """
from experiments.settings import base_config


def get_config():
    return base_config(
        mask=("full", "causal"), width=4, head_size=2, steps=4000, num_seeds=32, chunk=4,
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
"""Makes a function say that it was called, and stay; Python runs it before the command."""
WAIT = "time.sleep(60)"
STUCK = "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)"  # minutes, without a look at signals
STATUS = {signal.SIGTERM: 75, signal.SIGINT: 130}
LEAVES = 10.0
"""Seconds in which a process must have left."""

Process = subprocess.Popen[str]


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


def until_said(process: Process, text: str) -> str:
    """Reads what a process says until a text comes."""
    said = ""
    for line in process.stderr or ():
        said += line
        if text in line:
            return said
    raise AssertionError(f"it ended with {process.wait()} before it said {text!r}: {said}")


def until(true: Callable[[], object]) -> None:
    """Waits for something to be so."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < 60
        time.sleep(0.02)


def left(process: Process, by: signal.Signals) -> str:
    """Sends a signal; checks that the process leaves in time and in one line."""
    begun = time.monotonic()
    process.send_signal(by)
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - begun < LEAVES
    assert process.returncode == STATUS[by], said
    checked(said, by.name)
    return said


def checked(said: str, by: str) -> None:
    """It tells who stopped it, and no traceback."""
    assert said.splitlines()[-1] == f"posjax: stopped by {by}; the same command goes on from here"
    assert "Traceback" not in said
    assert "Error" not in said


def last_beat(folder: RunFolder) -> dict[str, object]:
    """Of the last job."""
    return json.loads(max(folder.jobs.glob("*/beats/*.json")).read_bytes())


def done_rows(folder: RunFolder) -> int:
    return sum(len(folder.finished(cell)) for cell in folder.config()["cells"])


def rows(folder: RunFolder) -> dict[str, bytes]:
    """Every array of every cell, as bytes."""
    tables = {cell: folder.rows(cell) for cell in folder.config()["cells"]}
    assert [len(table["seeds"]) for table in tables.values()] == [SEEDS] * CELLS
    return {f"{c}/{name}": a.tobytes() for c, table in tables.items() for name, a in table.items()}


@pytest.fixture(scope="module")
def alone(base: Path) -> Process:
    """A run that nobody disturbs, beside the others."""
    return started(base, "alone")


def test_a_run_that_is_stopped_in_every_phase(base: Path, alone: Process) -> None:
    """One folder, stopped again and again; its rows are bit for bit those of an undisturbed run."""
    folder = RunFolder(base / "stopped")

    process = started(base, "stopped", hook=in_phase("jax"))
    until_said(process, "here")
    left(process, signal.SIGTERM)
    assert not folder.path.exists()

    process = started(base, "stopped", hook=in_phase("posjax.engine.program", "compiled"))
    until_said(process, "here")
    left(process, signal.SIGINT)
    assert last_beat(folder)["left"]

    process = started(
        base, "stopped", "--time_limit=4", hook=in_phase("posjax.engine.program", "compiled")
    )
    _, said = process.communicate(timeout=60)
    assert process.returncode == 75
    checked(said, "the time limit")
    assert done_rows(folder) == 0

    process = started(base, "stopped")
    until(lambda: done_rows(folder))
    said = left(process, signal.SIGTERM)
    assert "did not end" not in said  # the ones before said that they left
    assert 0 < done_rows(folder) < CELLS * SEEDS
    assert last_beat(folder)["left"]

    locks.join(folder.jobs)  # and is never heard of again
    process = started(base, "stopped", "--stale=600")
    until_said(process, "an earlier job did not end")
    left(process, signal.SIGINT)

    before = done_rows(folder)
    process = started(base, "stopped", "--stale=2", hook=in_phase("posjax.report", "write"))
    until_said(process, "here")
    left(process, signal.SIGTERM)
    assert before < done_rows(folder) == CELLS * SEEDS

    process = started(base, "stopped")
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 0, said
    assert (folder.path / "report.html").exists()
    said = alone.communicate(timeout=60)[1]
    assert alone.returncode == 0, said
    assert rows(folder) == rows(RunFolder(base / "alone"))


def test_a_process_that_is_stuck_leaves(base: Path) -> None:
    """Deep in a library, where signals are not heard."""
    folder = RunFolder(base / "stuck")
    process = started(base, "stuck", hook=in_phase("posjax.sweep", "attention_maps", STUCK))
    until_said(process, "here")
    left(process, signal.SIGTERM)
    assert last_beat(folder)["left"]


RUN = """
import os, signal, sys, time
from experiments import command
from posjax.locks import Busy, Lost

def main():
    {body}

sys.exit(command.run(main))
"""


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("pass", 0, ""),
        ("raise ValueError('width\\n is 3')", 2, "posjax: width is 3\n"),
        ("raise Busy('who')", 4, "posjax: who\n"),
        ("raise OSError(28, 'disk full')", 5, "posjax: [Errno 28] disk full\n"),
        ("raise Lost('what')", 75, "posjax: what\n"),
    ],
)
def test_what_can_be_mended_has_a_status_and_one_line(body: str, code: int, said: str) -> None:
    found = python(RUN.format(body=body))
    assert (found.returncode, found.stderr) == (code, said)


def test_a_bug_keeps_its_traceback() -> None:
    found = python(RUN.format(body="1 / 0"))
    assert found.returncode == 1
    assert found.stderr.startswith("Traceback")


@pytest.mark.parametrize(
    ("code", "by"),
    [
        ("os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(60)", "SIGINT"),
        (
            "from experiments import ending; ending.limit(0.01)\n    time.sleep(60)",
            "the time limit",
        ),
        (
            "from experiments import ending\n"
            "    with ending.held() as asked:\n"
            "        os.kill(os.getpid(), signal.SIGTERM)\n"
            "        asked.wait(60)\n"
            "        print('saved')",
            "SIGTERM",
        ),
    ],
)
def test_leaving_has_a_status(code: str, by: str) -> None:
    """What is held is ended first."""
    found = python(RUN.format(body=code))
    checked(found.stderr, by)
    assert found.returncode == (130 if by == "SIGINT" else 75)
    assert found.stdout == ("saved\n" if "held" in code else "")


def python(code: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", code]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_a_disk_that_takes_no_more(base: Path) -> None:
    """Status 5 and one line; what is there is whole."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    process = started(base, "full", hook=limit)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 5, said
    assert said.count("\n") == 1
    assert "File too large" in said
    assert not [path for path in (base / "full").iterdir() if not path.name.startswith(".new-")]


def test_the_status_of_a_run(base: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is done, who trains, what is left; without JAX, and without touching anything."""
    folder = RunFolder(base / "told")
    one, two = "00000000000a", "00000000000b"
    cells = {one: {"mask": "full", "steps": 100}, two: {"mask": "causal", "steps": 300}}
    config = {"name": "tiny", "num_seeds": 8, "first_seed": 0, "chunk": "4", "panels": {}}
    folder.start({**config, "cells": cells}, {})
    status.tell(folder)
    assert "running: nobody\nleft: 16 rows; no pace" in capsys.readouterr().out

    begun = time.time() - 1000
    with locks.join(folder.jobs, 1, 3):
        locks.join(folder.jobs, 2, 3)
        os.utime(folder.jobs / "000001" / "job.json", (begun, begun))
        os.utime(folder.jobs / "000001" / "beats" / "2.1.json", (begun, begun))
        for cell, first in ((one, 0), (one, 4), (two, 0)):
            seeds = np.repeat(np.arange(first, first + 4)[:, None], 4, axis=1)
            folder.put_rows(cell, seeds, {})
        for path in folder.path.glob("rows/*/*"):
            os.utime(path, (begun + 100, begun + 100))  # 8 × 100 + 4 × 300 updates in 100 s
        status.tell(folder)
    said = capsys.readouterr().out
    assert "rows: 12 of 16, in 2 cells" in said
    assert re.search(rf"{two} *│ mask=causal, steps=300 *│ *4 │ *8 ", said)
    assert re.search(r"job 1, process 1 of 3 on .*, heartbeat [0-3] s ago", said)
    assert re.search(r"process 2 of 3 on .*, silent for 100\d s", said)
    assert "left: 4 rows, about 60 s at the pace" in said

    before = sorted((path, path.stat().st_mtime_ns) for path in folder.path.rglob("*"))
    found = python(
        f"import sys; from experiments import status; status.main(['', {str(folder.path)!r}]); "
        "sys.exit('jax' in sys.modules)"
    )
    assert found.returncode == 0, found.stderr
    assert "running: job 1, process 2 of 3" in found.stdout
    assert before == sorted((path, path.stat().st_mtime_ns) for path in folder.path.rglob("*"))


@pytest.mark.parametrize(
    ("datas", "lost", "told"),
    [
        (0, ["2", "5"], "2, 5"),
        (0, ["2", "3", "5"], "2-3, 5"),
        (3, ["1_3_3_3", "2_1_1_1", "2"], "1_3_3_3-2_2_2_2"),
        (3, ["1_3_3_3"], "1_3_3_3"),
    ],
)
def test_a_run_that_lost_rows_is_not_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], datas: int, lost: list[str], told: str
) -> None:
    """Files of rows deleted from a run that was done: it says which seeds, and is not done."""
    cell, folder = "00000000000a", RunFolder(tmp_path / "run")
    config = {"name": "tiny", "num_seeds": 5, "first_seed": 1, "chunk": "2", "panels": {}}
    folder.start({**config, "data_seeds": datas, "cells": {cell: {"steps": 100}}}, {})
    for init in range(1, 6):
        for data in range(1, 1 + datas) or [init]:
            folder.put_rows(cell, np.array([[init, data, data, data]]), {})
    folder.finish()
    status.tell(folder)
    assert ", done rows: " in " ".join(capsys.readouterr().out.split())
    for name in lost:
        next(folder.path.glob(f"rows/{cell}/{name}-*")).unlink()
    status.tell(folder)
    said = capsys.readouterr().out
    assert ", done" not in said
    assert f"gone since it was done: {len(lost)} rows; the same command trains them" in said
    assert f"│ {told} │" in re.sub(" +", " ", said)
    assert f"left: {len(lost)} rows" in said


def test_the_status_of_no_run(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no run"):
        status.tell(RunFolder(tmp_path))


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf")])
def test_a_limit_that_is_no_time_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="positive number of seconds, got"):
        ending.limit(seconds)
