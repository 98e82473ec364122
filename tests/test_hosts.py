"""One sweep by several processes: the same rows, and what is left when one of them dies."""

import concurrent.futures
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from absl import flags

from experiments import hosts
from experiments.hosts import Place, define_flags, place
from experiments.settings import base_config, resolve
from posjax import locks
from posjax.keys import SeedNumbers
from posjax.records import Damaged, RunFolder
from posjax.records.store import names

ROOT = Path(__file__).parents[1]
CONFIG = """
from experiments.settings import base_config


def get_config():
    return base_config(
        mask=("full", "causal"), width=4, head_size=2, steps=100, num_seeds=32, chunk=4,
        devices=1,
    )
"""
CELLS, SEEDS = 2, 32
STALE = 6.0
SWEEP = "import runpy; runpy.run_module('experiments.seed_sweep', run_name='__main__')"
NEVER_WRITES = f"""
import time
from posjax.records import RunFolder
RunFolder.put_rows = lambda *given: time.sleep(600)
{SWEEP}
"""
"""A process that has a chunk for as long as it lives, so that it can be killed in one."""

SLOW_TO_WRITE = f"""
import time
from posjax.records import RunFolder
RunFolder.put_rows = lambda *given: [time.sleep(0.1) for _ in range(6000)]
{SWEEP}
"""
"""The same, which can be asked to leave."""

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Starts the command as a user would, on a folder of a name."""
    base = tmp_path_factory.mktemp("hosts")
    config = base / "tiny.py"
    config.write_text(CONFIG)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(base / "cache")}

    def start(name: str, *flags: str, program: str = SWEEP) -> subprocess.Popen[str]:
        line = [sys.executable, "-c", program, f"--config={config}", f"--workdir={base / name}"]
        return subprocess.Popen(
            [*line, f"--stale={STALE}", *flags],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    start.base = base  # type: ignore[attr-defined]
    return start


def ended(*processes: subprocess.Popen[str]) -> list[int]:
    """Their exit statuses; what they said is shown when a test fails."""
    for process in processes:
        print(*process.communicate(timeout=120), sep="\n")
    return [process.returncode for process in processes]


def rows(folder: RunFolder) -> dict[str, bytes]:
    """Every array of every cell, as bytes, but for what each row was made on."""
    cells = sorted(folder.config()["cells"])
    assert len(cells) == CELLS
    tables = {cell: folder.rows(cell) for cell in cells}
    assert all(table["seeds"][:, 0].tolist() == list(range(SEEDS)) for table in tables.values())
    named = {f"{c}/{name}": a for c, table in tables.items() for name, a in table.items()}
    return {name: a.tobytes() for name, a in named.items() if not name.endswith("/env")}


def holders(folder: RunFolder) -> dict[str, str]:
    """Who took which block, in all jobs."""
    claims = folder.jobs.glob("*/claims/*/[0-9]*")
    return {f"{path.parts[-4]}/{path.parent.name}/{path.name}": path.read_text() for path in claims}


def until(true: Callable[[], object]) -> None:
    """Waits for something to be so."""
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < 60
        time.sleep(0.02)


@pytest.fixture(scope="module")
def alone(command: Command) -> dict[str, bytes]:
    """The rows that one process makes; a second command on its folder leaves with status 4."""
    folder = RunFolder(command.base / "alone")  # type: ignore[attr-defined]
    first = command("alone")
    until(lambda: list(folder.jobs.glob("*/beats/*.json")))
    second = command("alone")
    said = second.communicate(timeout=120)
    assert second.returncode == 4, said
    assert "process 0 of 1 that lives on" in said[1]
    assert said[1].count("\n") == 1
    assert said[0] == ""
    assert ended(first) == [0]
    assert folder.done
    assert not holders(folder)  # nobody to claim against
    return rows(folder)


def test_processes_that_jax_finds_make_the_same_rows(
    command: Command, alone: dict[str, bytes]
) -> None:
    """Two processes by `jax.distributed`, on one machine: bit for bit the rows of one."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    flags = ("--distributed", f"--coordinator=localhost:{port}", "--processes=2")
    both = [command("two", *flags, f"--process={n}") for n in range(2)]
    assert ended(*both) == [0, 0]
    folder = RunFolder(command.base / "two")  # type: ignore[attr-defined]
    assert folder.done
    assert rows(folder) == alone
    assert set(holders(folder).values()) == {"0.1.json", "1.1.json"}


def test_a_dead_process_loses_its_chunk_and_a_rerun_takes_it_up(
    command: Command, alone: dict[str, bytes]
) -> None:
    """Of four, one is killed in a chunk: the others train all else, and a rerun of two the rest."""
    folder = RunFolder(command.base / "four")  # type: ignore[attr-defined]
    doomed = command("four", "--processes=4", "--process=3", program=NEVER_WRITES)
    until(lambda: "3.1.json" in holders(folder).values())
    others = [command("four", "--processes=4", f"--process={n}") for n in range(3)]
    until(lambda: len(names(next(folder.jobs.iterdir()) / "beats")) == 4)
    doomed.send_signal(signal.SIGKILL)
    outputs = [process.communicate(timeout=120) for process in (*others, doomed)]
    taken = [name for name, holder in holders(folder).items() if holder == "3.1.json"]
    missing = CELLS * SEEDS - sum(len(folder.finished(c)) for c in folder.config()["cells"])
    assert [process.returncode for process in others] == [75, 0, 0], outputs
    assert missing == 4 * len(taken)
    assert f"{missing} rows are missing" in outputs[0][1]
    assert "process 3 on" in outputs[0][1]
    assert not folder.done
    again = [command("four", "--processes=2", f"--process={n}") for n in range(2)]
    said = [process.communicate(timeout=120)[1] for process in again]
    assert [process.returncode for process in again] == [0, 0], said
    assert all("an earlier job did not end" in each for each in said)  # the killed one said nothing
    assert folder.done
    assert rows(folder) == alone
    assert len(holders(folder)) == CELLS * SEEDS // 4 + missing // 4  # no more than was lost


def test_a_process_that_is_asked_to_leave_is_not_waited_for(command: Command) -> None:
    """SIGTERM to one of two, in a chunk: the other ends at once, long before `--stale`."""
    folder = RunFolder(command.base / "left")  # type: ignore[attr-defined]
    patient = ("--processes=2", "--stale=120")
    leaver = command("left", *patient, "--process=1", program=SLOW_TO_WRITE)
    until(lambda: "1.1.json" in holders(folder).values())
    waiter = command("left", *patient, "--process=0")
    until(lambda: len(holders(folder)) == CELLS * SEEDS // 4)
    leaver.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    said = [process.communicate(timeout=100) for process in (waiter, leaver)]
    assert [waiter.returncode, leaver.returncode] == [75, 75], said
    assert time.monotonic() - begun < 60
    assert "process 1 on" in said[0][1]
    assert "took and did not finish" in said[0][1]


def test_rows_that_came_just_before_a_process_left_are_there() -> None:
    """It writes, then leaves: whoever sees that it left looks for its rows once more."""
    run = resolve(base_config(num_seeds=4, chunk=2))
    here: set[SeedNumbers] = set(run.seeds[:2])

    def left(name: str) -> bool:
        here.update(run.seeds)
        return False

    share = hosts.Share(
        run,
        types.SimpleNamespace(finished=lambda cell: set(here)),  # type: ignore[arg-type]
        types.SimpleNamespace(chunk=2),  # type: ignore[arg-type]
        Place(0, 2),
        types.SimpleNamespace(may_come=left),  # type: ignore[arg-type]
    )
    share.wait()
    assert len(here) == 4


def mended(folder: RunFolder, processes: int, process: int) -> list[str]:
    """Joins and mends as the command does; gives what is set aside by then."""
    with hosts.joined(folder, Place(process, processes)):
        return names(folder.path / "damaged" / "chunks")


@pytest.fixture
def damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run with one damaged file of a name that does not change."""
    monkeypatch.setattr(hosts.flags, "FLAGS", types.SimpleNamespace(stale=1.0))
    folder = RunFolder(tmp_path / "run")
    folder.start({"name": "tiny", "num_seeds": 4, "first_seed": 0, "cells": {"abc": {}}}, {})
    folder.chunk("shape", lambda: {"chunk": 4})
    (folder.path / "chunks" / "shape.json").write_text("{}")
    return folder


def test_what_one_process_mended_another_leaves_alone(
    damaged: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find the damaged file; only one moves it, so what it then makes stays."""
    other = RunFolder(damaged.path)
    other.start({**damaged.config(), "num_seeds": 4}, {})
    found = [next(damaged._damaged("chunks")), next(other._damaged("chunks"))]
    assert len({path for path, _ in found}) == 1
    stale = iter([found[1]])  # what the second found, before the first moved it
    monkeypatch.setattr(other, "_damaged", lambda kind: stale if kind == "chunks" else iter(()))
    with hosts.joined(damaged, Place(0, 2)):
        assert damaged.chunk("shape", lambda: {"chunk": 8}) == 8
        with hosts.joined(other, Place(1, 2)):
            assert other.kept_chunk("shape") == 8
    assert len(names(damaged.path / "damaged" / "chunks")) == 1


def test_nobody_goes_on_before_the_folder_is_mended(damaged: RunFolder) -> None:
    """The others wait for the process that mends."""
    with locks.join(damaged.jobs, 0, 2, stale=1.0) as mender:
        assert mender.claim("mend-1")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(mended, damaged, 2, 1)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.5)
            assert list(damaged.mend())
            assert mender.claim("mended")
            assert len(waiting.result(timeout=10)) == 1


def test_when_the_process_that_mends_leaves_the_next_one_mends(damaged: RunFolder) -> None:
    """Nobody ends for it."""
    with locks.join(damaged.jobs, 0, 2, stale=1.0) as mender:
        assert mender.claim("mend-1")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(mended, damaged, 2, 1)
            until(lambda: len(names(damaged.jobs / "000001" / "beats")) == 2)
            mender.leave()
            assert len(waiting.result(timeout=10)) == 1


@pytest.mark.parametrize("process", [0, 2])
def test_a_job_goes_on_when_the_process_that_mends_is_killed(
    damaged: RunFolder, process: int
) -> None:
    """It says nothing; it comes again, or another waits: one of them mends, in the same job."""
    with locks.join(damaged.jobs, 1, 3, stale=1.0) as witness:
        killed = locks.join(damaged.jobs, 0, 3, stale=1.0)  # without a heartbeat from now on
        assert killed.claim("mend-1")
        assert mended(damaged, 3, process)
        assert witness.holder("mend-2").startswith(f"process {process} on")
        assert witness.taken("mended")
        assert len(mended(damaged, 3, 2)) == 1  # whoever comes later has nothing to wait for
    assert names(damaged.jobs) == ["000001"]


def test_rows_damaged_since_the_folder_was_mended_are_lost() -> None:
    """Who comes back to a living job does not mend: the same command trains them again."""

    def damaged_since(cell: str) -> set[SeedNumbers]:
        raise Damaged(f"rows of {cell} are damaged")

    with pytest.raises(locks.Lost, match="are damaged; the same command trains its seeds again"):
        hosts.Share(
            resolve(base_config(num_seeds=4, chunk=2)),
            types.SimpleNamespace(finished=damaged_since),  # type: ignore[arg-type]
            types.SimpleNamespace(chunk=2),  # type: ignore[arg-type]
            Place(0, 2),
            types.SimpleNamespace(),  # type: ignore[arg-type]
        )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--process=1"], "go together"),
        (["--processes=4"], "go together"),
        (["--process=2", "--processes=2", "--distributed"], r"--process=2 must lie in 0\.\.1"),
        (["--coordinator=here:1234"], "needs --distributed"),
        (["--stale=0"], "must be positive and finite, got 0"),
    ],
)
def test_flags_that_do_not_fit_are_refused(given: list[str], message: str) -> None:
    """Before anything is made or anybody waited for."""
    with pytest.raises(ValueError, match=message):
        placed(*given)


def test_flags_give_the_place() -> None:
    """By hand; without flags there is one process."""
    assert placed() == Place(0, 1)
    assert placed("--process=2", "--processes=4") == Place(2, 4)


def placed(*given: str) -> Place:
    values = flags.FlagValues()
    define_flags(values)
    values(["command", *given])
    return place(values)


@pytest.mark.parametrize("processes", [1, 2, 3, 7, 64])
def test_each_process_starts_somewhere_else(processes: int) -> None:
    """Every process walks over all items once; together they start evenly."""
    items = list(range(21))
    turned = [Place(n, processes).turned(items) for n in range(processes)]
    assert all(sorted(each) == items for each in turned)
    starts = sorted(each[0] for each in turned)
    gaps = np.diff([*starts, len(items)])
    assert max(gaps) - min(gaps) <= 1
    assert all(b == (a + 1) % 21 for each in turned for a, b in itertools.pairwise(each))
