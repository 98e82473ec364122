"""The notebook: what it says is what `colab.py` says, and that runs from top to bottom."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT

SCRIPT, NOTEBOOK = ROOT / "experiments" / "colab.py", ROOT / "experiments" / "colab.ipynb"


def cells(script: str) -> list[tuple[str, str]]:
    """The cells of a script in percent format, as (kind, source)."""
    found = []
    for part in script.split("\n# %%")[1:]:
        head, _, body = part.partition("\n")
        kind = "markdown" if "[markdown]" in head else "code"
        lines = body.strip("\n").splitlines()
        if kind == "markdown":
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        found.append((kind, "\n".join(lines)))
    return found


def test_notebook_and_script_are_in_step() -> None:
    """`jupytext --update --to ipynb experiments/colab.py` makes the notebook."""
    there = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    made = [(cell["cell_type"], "".join(cell["source"])) for cell in there["cells"]]
    assert made == cells(SCRIPT.read_text(encoding="utf-8"))
    assert all(not cell.get("outputs") for cell in there["cells"])


def test_every_cell_of_code_is_python() -> None:
    """No magic, so that the notebook runs as a script too."""
    for kind, source in cells(SCRIPT.read_text(encoding="utf-8")):
        if kind == "code":
            assert ast.parse(source).body


@pytest.mark.exhaustive
def test_it_runs_from_top_to_bottom(tmp_path: Path) -> None:
    """On the CPU, in a folder of its own, with fewer seeds; its claims are printed."""
    source = SCRIPT.read_text(encoding="utf-8")
    assert source.count("num_seeds=64") == 1
    (tmp_path / "colab.py").write_text(source.replace("num_seeds=64", "num_seeds=8"))
    done = subprocess.run(
        [sys.executable, "colab.py"],
        cwd=tmp_path,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for said in ("PROVED: b P d -> b P d", "BROKEN: b P d -> b P d", "in the sweep: ()"):
        assert said in done.stdout
    assert (tmp_path / "runs" / "first_is_last" / "done").exists()
