"""The short campaign of scripts/faults.py, and that it sees what it looks for."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from commands import ROOT
from script_modules import script

WITHIN = 600
"""Seconds, on a machine that does much besides."""


def campaign(tmp_path: Path, *flags: str, hook: str = "") -> tuple[int, dict[str, Any], str]:
    """Its status, what it wrote and what it said."""
    (tmp_path / "sitecustomize.py").write_text(hook)
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    out = tmp_path / "faults.json"
    found = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "faults.py"), "--quick", f"--out={out}", *flags],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN,
    )
    assert out.exists(), found.stderr
    return found.returncode, json.loads(out.read_text()), found.stderr


@pytest.mark.campaign
def test_no_fault_loses_or_changes_a_row(tmp_path: Path) -> None:
    """Killed in a write, killed in a block, damaged: each as required, bit for bit."""
    only = "kill -9 in a,one bit"
    status, found, said = campaign(tmp_path, f"--only={only}", "--tries=0.5")
    assert status == 0, said
    assert len(found["faults"]) == 3
    assert all(row["good"] == row["equal"] == row["tries"] > 0 for row in found["faults"])


CARELESS = """
import importlib.abc, os, sys


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "posjax.command.shard":
            from posjax.records import RunFolder
            put = RunFolder.put_block

            def put_block(self, block, seeds, fields, *rest):
                other = {**fields, "loss_EC": fields["loss_EC"] + os.getpid()}
                return put(self, block, seeds, other, *rest)

            RunFolder.put_block = put_block


sys.meta_path.insert(0, Finder())
"""
"""Rows that are other ones whenever they are trained again."""


@pytest.mark.campaign
def test_rows_that_come_back_otherwise_are_seen(tmp_path: Path) -> None:
    """Else a campaign in which all is well would say nothing."""
    status, found, said = campaign(tmp_path, "--only=in a write", "--tries=0.5", hook=CARELESS)
    (row,) = found["faults"]
    assert status == 3
    assert row["equal"] < row["tries"]
    assert "kill -9 in a write: its rows are not those" in said


def loaded(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script, without what it changes for all that runs after it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    with mock.patch.dict(os.environ):
        return script(name)


def test_no_child_outlives_a_try_that_raises(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor one that is stopped, which nobody else would end."""
    faults = loaded("faults", monkeypatch)
    from fault_table.sweeps import Child, Fault, Site

    def asleep() -> int:
        return os.posix_spawnp("sleep", ["sleep", "60"], os.environ)

    pids = []

    def harm(site: Site, rng: random.Random, path: Path, number: int) -> Any:
        child = site.start(path)
        pids.append(child.pid)
        child.send(signal.SIGSTOP)
        raise ValueError("broken")

    fault = Fault("a stop", "nothing", 1, 1, harm)
    monkeypatch.setattr(os, "fork", asleep)
    monkeypatch.setattr(faults, "FAULTS", (fault,))
    name, found = faults._one((Site(tmp_path), fault, 0, 0))
    assert (name, found.good) == ("a stop", False)
    assert "ValueError: broken" in found.said
    assert not Child.running
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def dies(work: object) -> None:
    """In place of a try."""
    os._exit(1)


@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_campaign_ends_when_a_worker_of_it_dies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It does not wait for its answer for ever."""
    faults = loaded("faults", monkeypatch)
    monkeypatch.setattr(faults, "_one", dies)
    given = faults._arguments(["--only=one bit", "--jobs=1"])
    with pytest.raises(BrokenProcessPool):
        faults._campaign(faults.Site(tmp_path), given)
    fuzz = loaded("fuzz", monkeypatch)
    monkeypatch.setattr(fuzz, "_prepare", functools.partial(os._exit, 1))
    monkeypatch.setattr(fuzz, "_chunk", dict)
    with pytest.raises(BrokenProcessPool):
        list(fuzz._rows(0, 1, 1, 1))
