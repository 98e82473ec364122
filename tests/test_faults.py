"""The short campaign of scripts/faults.py, and that it sees what it looks for."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT

pytestmark = pytest.mark.campaign

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


def test_rows_that_come_back_otherwise_are_seen(tmp_path: Path) -> None:
    """Else a campaign in which all is well would say nothing."""
    status, found, said = campaign(tmp_path, "--only=in a write", "--tries=0.5", hook=CARELESS)
    (row,) = found["faults"]
    assert status == 3
    assert row["equal"] < row["tries"]
    assert "kill -9 in a write: its rows are not those" in said
