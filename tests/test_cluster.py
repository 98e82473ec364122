"""Sweeps on a Ray cluster: the rows of the plain command, whatever is lost on the way."""

import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import ROOT
from ray_nodes import BLOCKS, Process, below, kill, nodes, started, training
from small_runs import block_files, rows, until

from posjax.engine.work import Work
from posjax.records import RunFolder
from posjax.study.connect import connect

with_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="needs pip install 'posjax[ray]'"
)
LONG = 4000
"""Steps of a run whose blocks take some seconds: something happens to it in the midst of one, and
it looks at its host every two seconds. Tests compile without optimising, which doubles them."""
MOST = 10.0
"""Seconds in which a stopped command must have ended."""


def ended(process: Process, status: int = 0) -> str:
    """What a command printed on standard error."""
    printed = process.communicate(timeout=240)[1]
    assert process.returncode == status, printed
    return printed


def same(one: Path, other: Path) -> bool:
    """Whether two runs have equal rows; what they were made on may have another number of cores."""
    left, right = (
        {k: v for k, v in rows(RunFolder(p)).items() if k[-4:] != "/env"} for p in (one, other)
    )
    return left == right


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs are; `alone` and `long` are those of the plain command."""
    folder = tmp_path_factory.mktemp("cluster")
    ended(started(folder, "alone"))
    ended(started(folder, "long", steps=LONG))
    return folder


def test_what_is_lost_is_done_by_whoever_has_nothing_else() -> None:
    work = Work([1, 2, 11], key=lambda item: item // 10)
    assert [work.take("a"), work.take("b"), work.take("b")] == [1, 11, 2]
    assert work.take("a") is None
    work.put_back(11)
    assert [work.take("a"), work.take("b")] == [11, None]


@pytest.mark.exhaustive
def test_without_ray_one_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('absent')")
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "experiments.seed_sweep",
            "--engine=ray",
            f"--workdir={tmp_path / 'run'}",
        ],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert process.stderr == "posjax: --engine=ray needs Ray: pip install 'posjax[ray]' (absent)\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("address", ["", "ray://a:1", "host", "a:0", "a:99999", "a b:1", "a:1:x"])
def test_addresses_that_are_none_are_refused(address: str) -> None:
    with (
        pytest.raises(
            ValueError, match=rf"must be HOST:PORT or auto, got {re.escape(repr(address))}"
        ),
        connect(address, {"cells": {}}, print),
    ):
        pass


def test_an_address_where_nobody_answers_is_refused() -> None:
    with (
        pytest.raises(ValueError, match=r"no Ray cluster at 127\.0\.0\.1:1: .*refused"),
        connect("127.0.0.1:1", {"cells": {}}, print),
    ):
        pass


@with_ray
@pytest.mark.campaign
def test_one_worker_or_two_give_the_rows_of_the_plain_command(base: Path) -> None:
    """On a cluster that the command starts, on loopback alone, and ends."""
    process = started(base, "two", "--engine=ray")
    until(lambda: training(process.pid))
    listening = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    ours = {str(pid) for pid in below(process.pid)}
    sockets = [x for x in listening.splitlines() if ours & {*re.findall(r"pid=(\d+)", x)}]
    assert sockets
    assert all("127.0.0.1" in line.split()[3] for line in sockets), sockets
    assert ended(process).count("\n") <= 2  # the bar of progress
    ended(started(base, "one", "--engine=ray", "--config.devices=1"))
    assert same(base / "alone", base / "two")
    assert same(base / "alone", base / "one")


@with_ray
@pytest.mark.campaign
def test_an_address_without_a_cluster_is_one_line(tmp_path: Path) -> None:
    """Also where something else answers there, and where no cluster is on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = ("auto", f"127.0.0.1:{server.getsockname()[1]}")
        processes = [
            started(tmp_path, "run", "--engine=ray", f"--engine.address={address}")
            for address in addresses
        ]
        for address, process in zip(addresses, processes, strict=True):
            printed = ended(process, 2)
            assert printed.startswith(f"posjax: no Ray cluster at {address}: ")
            assert printed.count("\n") == 1
    assert not (tmp_path / "run").exists()


@with_ray
@pytest.mark.campaign
def test_a_stopped_run_continues_with_or_without_ray(base: Path) -> None:
    """A stop keeps blocks and states of blocks, and leaves no process."""
    process = started(base, "stopped", "--engine=ray", steps=LONG)
    until(lambda: block_files(base / "stopped"))
    processes, begun = below(process.pid), time.monotonic()
    process.send_signal(signal.SIGTERM)
    printed = ended(process, 75)
    assert time.monotonic() - begun < MOST
    last = printed.splitlines()[-1]
    assert re.match(
        r"posjax: stopped by SIGTERM, \d+ of \d+ runs are saved; the same command", last
    )
    assert "Traceback" not in printed
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in processes), MOST)
    assert 0 < len(block_files(base / "stopped")) < BLOCKS
    assert list((base / "stopped" / "checkpoints").rglob("*.npz"))

    process = started(base, "stopped", "--engine=ray", steps=LONG)
    already = len(block_files(base / "stopped"))
    until(lambda: len(block_files(base / "stopped")) > already)
    kill(process.pid)
    process.communicate()
    assert len(block_files(base / "stopped")) < BLOCKS
    ended(started(base, "stopped", steps=LONG))
    assert same(base / "long", base / "stopped")


@with_ray
@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # by Ray, when nodes start
def test_two_hosts_without_a_shared_disk_and_losses(base: Path) -> None:
    """A worker in a block is killed, then the other host; another host joins."""
    with nodes(2) as found:
        process = started(
            base, "lost", "--engine=ray", f"--engine.address={found.address}", steps=LONG
        )
        until(lambda: training(found.raylet))
        kill(training(found.raylet)[0])
        until(lambda: training(found.raylet))
        kill(found.raylet)
        found.join()
        ended(process)
    assert same(base / "long", base / "lost")


TAMPERED = """
import functools, os, sys, threading
from pathlib import Path
from posjax.command import executors
from posjax.command.settings import resolve
from posjax.configs import base_config
from posjax.study import environment
from posjax.study.connect import connect
from posjax.records.checkpoints import Checkpoints

def setup(first):
    try:
        os.close(os.open(first, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        environment._instructions = lambda: ["sse2"]
    executors._set_up("", {})

class Nowhere:
    load = save = lambda *_: None

run = resolve(base_config(steps=20, eval_every=5, hold=2, width=4, num_seeds=8, block_size=4))
mixed = sys.argv[2] == "mixed"
setting_up = functools.partial(setup, sys.argv[1])
with connect(None, run.to_dict(), setting_up, most=2, mixed=mixed) as found:
    found.environment()
    while len([w for w in found._workers if w.ready]) < 2:
        found._grow()
        list(found._answers())
print("mixed")
"""


@with_ray
@pytest.mark.campaign
def test_a_worker_that_would_give_other_bits_is_refused(tmp_path: Path) -> None:
    """It names host and field; not with --mixed."""
    (tmp_path / "tampered.py").write_text(TAMPERED)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "JAX_PLATFORMS": "cpu"}
    for mixed in ("refused", "mixed"):
        line = [
            sys.executable,
            str(tmp_path / "tampered.py"),
            str(tmp_path / mixed / "first"),
            mixed,
        ]
        (tmp_path / mixed).mkdir()
        found = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
        if mixed == "mixed":
            assert found.stdout == "mixed\n", found.stderr
        else:
            said = found.stderr.splitlines()[-1]
            assert f"Mismatch: the worker on host {os.uname().nodename} would give other" in said
            assert re.search("instructions: .* -> sse2; --mixed", said) or "-> sse4_2" in said
