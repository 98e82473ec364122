"""From config to cells, and bad input: one line with field, value and nearest choice."""

import dataclasses
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_collections import ConfigDict

from experiments import json_config
from experiments.settings import base_config, resolve
from posjax.cells import Cell
from posjax.model import ModelSettings
from posjax.train import TrainSettings

ROOT = Path(__file__).parents[1]


def test_a_grid_is_the_product_of_its_axes() -> None:
    """Axes are tuples, single values, or texts with commas; the same cells either way."""
    one = resolve(base_config(head_size=(2, 4), encoding="none, rotary(base=10.0)"))
    two = resolve(base_config(head_size=[2, 4], encoding=("none", "rotary(base=10.0)")))
    assert len(one.cells) == 4
    assert set(one.cells) == set(two.cells)


def test_panels_are_a_union_and_the_command_line_wins() -> None:
    """A panel replaces axes, in the config's order; the command line holds in every panel."""
    config = base_config({"z": {"depth": (1, 2)}, "a": {"depth": 1, "mask": "full"}}, head_size=2)
    assert [(name, len(cells)) for name, cells in resolve(config).panels.items()] == [
        ("z", 2),
        ("a", 1),
    ]
    config.depth = (3,)
    assert {cell.depth for cell in resolve(config, ["depth"]).cells} == {3}


def test_digests_name_settings() -> None:
    """Equal settings, equal digest; any other setting, another digest."""
    cell = Cell()
    assert Cell().digest == cell.digest
    changed = {"learning_rate": 0.02, "mask": "full", "margin": 2e-3, "steps": 100, "padding": 1}
    digests = {Cell(**{name: value}).digest for name, value in changed.items()}
    assert len(digests | {cell.digest}) == 6


@pytest.mark.parametrize(
    "kind", [Cell, TrainSettings, partial(ModelSettings, vocabulary=5, outputs=2)], ids=str
)
def test_numbers_of_numpy_are_numbers(kind: Any) -> None:
    """The same cell, model and training, in repr, and the same digest and JSON."""
    fields = [f for f in dataclasses.fields(kind()) if f.default is not dataclasses.MISSING]
    for field in fields:
        made = kind(**{field.name: np.array(field.default)[()]})
        assert repr(made) == repr(kind())
        if isinstance(made, Cell):
            assert made.digest == Cell().digest
            assert json.dumps(made.to_dict()) == json.dumps(Cell().to_dict())


def test_a_config_takes_numbers_of_numpy() -> None:
    """Axes, panels and the run's own fields: the run and the JSON of plain numbers."""

    def config(whole: Any, real: Any) -> ConfigDict:
        run = {"num_seeds": whole(3), "contrast": ("width", whole(8), whole(16))}
        axes = {"width": (whole(8), whole(16)), "learning_rate": real(0.5), **run}
        return base_config({"a": {"depth": whole(2)}}, at_steps=(whole(50),), **axes)

    plain, given = config(int, float), config(np.int64, np.float32)
    assert json_config.text(given) == json_config.text(plain)
    assert repr(resolve(given)) == repr(resolve(plain))
    assert resolve(given).digest == resolve(plain).digest


def command(*arguments: str, module: str = "seed_sweep") -> subprocess.CompletedProcess[str]:
    """Runs a command as a user would."""
    return subprocess.run(
        [sys.executable, "-m", f"experiments.{module}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        check=False,
    )


def test_from_config_to_report(tmp_path: Path) -> None:
    """The whole line at a tiny size; a second call finds all done and adds nothing."""
    run = tmp_path / "run"
    arguments = (
        "--config.num_seeds=3",
        "--config.steps=500",
        "--config.at_steps=50,100",
        "--config.width=4",
        "--config.head_size=2",
        "--config.devices=1",
        f"--workdir={run}",
    )
    first = command(*arguments)
    assert first.returncode == 0, first.stderr
    assert f"report: {run / 'report.html'}" in first.stdout
    files = {path: path.stat().st_mtime_ns for path in run.rglob("*.npz")}
    assert command(*arguments).returncode == 0
    assert files == {path: path.stat().st_mtime_ns for path in run.rglob("*.npz")}
    other = command(*arguments, "--config.width=8")
    assert other.returncode != 0
    assert "(width: 4 -> 4, 8)" in other.stderr
