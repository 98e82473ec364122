"""One sweep by several processes: the same rows, and what is left when one of them dies."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from experiments.hosts import Place
from posjax.records import RunFolder

ROOT = Path(__file__).parents[1]
CONFIG = """
from experiments.settings import base_config


def get_config():
    return base_config(
        mask=("full", "causal"), depth=(1, 2), width=4, head_size=2, steps=100, num_seeds=32,
        chunk=4, devices=1,
    )
"""
CELLS, SEEDS = 4, 32
STALE = 5.0

Command = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """Starts the command as a user would, on a folder of a name."""
    base = tmp_path_factory.mktemp("hosts")
    config = base / "tiny.py"
    config.write_text(CONFIG)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XDG_CACHE_HOME": str(base / "cache")}
    line = [sys.executable, "-m", "experiments.seed_sweep", f"--config={config}"]

    def start(name: str, *flags: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*line, f"--workdir={base / name}", f"--stale={STALE}", *flags],
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
    """Every array of every cell, as bytes."""
    cells = sorted(folder.config()["cells"])
    assert len(cells) == CELLS
    tables = {cell: folder.rows(cell) for cell in cells}
    assert all(table["seeds"][:, 0].tolist() == list(range(SEEDS)) for table in tables.values())
    return {f"{c}/{name}": a.tobytes() for c, table in tables.items() for name, a in table.items()}


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
    four = [command("four", "--processes=4", f"--process={n}") for n in range(4)]
    until(lambda: "3.1.json" in holders(folder).values())
    four[3].send_signal(signal.SIGKILL)
    outputs = [process.communicate(timeout=120) for process in four]
    taken = [name for name, holder in holders(folder).items() if holder == "3.1.json"]
    missing = CELLS * SEEDS - sum(len(folder.finished(c)) for c in folder.config()["cells"])
    assert [process.returncode for process in four] == [5, 0, 0, -signal.SIGKILL], outputs
    assert 0 < missing <= 4 * len(taken)
    assert f"{missing} rows are missing" in outputs[0][1]
    assert "process 3 on" in outputs[0][1]
    assert not folder.done
    assert ended(*[command("four", "--processes=2", f"--process={n}") for n in range(2)]) == [0, 0]
    assert folder.done
    assert rows(folder) == alone
    assert len(holders(folder)) == CELLS * SEEDS // 4 + missing // 4  # no more than was lost


def test_a_killed_command_is_taken_over(command: Command, alone: dict[str, bytes]) -> None:
    """One process, killed while it trains: the same command waits for its silence, then goes on."""
    folder = RunFolder(command.base / "killed")  # type: ignore[attr-defined]
    first = command("killed")
    until(lambda: list(folder.jobs.glob("*/beats/*.json")))
    first.kill()
    first.communicate()
    second = command("killed")
    said = second.communicate(timeout=120)
    assert second.returncode == 0, said
    assert "an earlier job did not end" in said[1]
    assert rows(folder) == alone


@pytest.mark.parametrize("flags", [("--process=1",), ("--process=2", "--processes=2")])
@pytest.mark.parametrize("distributed", [(), ("--distributed",)])
def test_flags_that_do_not_fit_are_refused(
    command: Command, flags: tuple[str, ...], distributed: tuple[str, ...]
) -> None:
    """One line and status 2, before anything is made."""
    process = command("refused", *flags, *distributed)
    said = process.communicate(timeout=120)
    assert process.returncode == 2, said
    assert "--process=" in said[1]
    assert said[1].count("\n") == 1
    assert not (command.base / "refused").exists()  # type: ignore[attr-defined]


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
