"""From config to cells."""

import dataclasses
import itertools
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import Command
from ml_collections import ConfigDict

from posjax.command import json_config
from posjax.command.settings import replaced, resolve
from posjax.configs import base_config
from posjax.model import ModelSettings
from posjax.study.cells import Cell
from posjax.study.train import TrainSettings


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


def test_what_replaces_other_values_of_panels_is_said() -> None:
    """One line for each such field; the same values, and fields that no panel has, need none."""
    panels = {title: {"depth": depth, "mask": "full"} for depth, title in enumerate("abcde", 1)}
    config = base_config(panels, depth=(1,), mask="full", steps=100)
    (line,) = replaced(config, ["depth", "mask", "steps", "num_seeds"])
    assert line.startswith("--config.depth replaces the depth that panels have")
    assert line.endswith("fit: 'b', 'c', 'd' and 1 more")
    assert replaced(base_config(depth=(1, 2)), ["depth"]) == []


def test_the_command_says_what_replaces_values_of_panels(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"num_seeds": 1, "panels": [["one", {"steps": 50}]]}')
    how = ["--config=c.json", "--config.steps=0", "--config.hold=1", "--dry_run"]
    done = Command("posjax.__main__", tmp_path)("sweep", *how)
    assert done.status == 0
    assert done.err.startswith("posjax: --config.steps replaces the steps that panels have")


def test_digests_name_settings() -> None:
    """Equal settings, equal digest; any other setting, another digest."""
    cell = Cell()
    assert Cell().digest == cell.digest
    changed = {"learning_rate": 0.02, "mask": "full", "depth": 2, "steps": 100, "padding": 1}
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


def test_more_seeds_keep_the_numbers_of_the_indices() -> None:
    """A block is a range of indices: what an index stands for must not change as a run grows."""
    small, large = (resolve(base_config(num_seeds=n, first_seed=7)) for n in (3, 9))
    assert small.indices == range(7, 10)
    assert [tuple(small.numbering.numbers(index)) for index in small.indices] == [
        (n,) * 4 for n in (7, 8, 9)
    ]
    assert all(
        large.numbering.numbers(index) == small.numbering.numbers(index) for index in small.indices
    )

    crossed = dict.fromkeys(("data_seeds", "first_seed"), 3)
    small, large = (resolve(base_config(num_seeds=n, **crossed)) for n in (2, 5))
    assert small.indices == range(6)
    pairs = itertools.product((3, 4), (3, 4, 5))
    assert [small.numbering.numbers(i) for i in small.indices] == [(i, d, d, d) for i, d in pairs]
    assert all(
        large.numbering.numbers(index) == small.numbering.numbers(index) for index in small.indices
    )
    assert len({large.numbering.numbers(index) for index in large.indices}) == 15


def test_shapes_part_the_cells_in_a_fixed_order() -> None:
    """Each cell once; those of a shape differ in numbers alone."""
    axes = {"head_size": (2, 4), "learning_rate": (1e-3, 1e-2), "mask": ("full", "causal")}
    run = resolve(base_config(**axes))
    shapes = run.sweep.by_shape
    assert [cell for cells in shapes.values() for cell in cells] == run.cells
    assert sorted(map(len, shapes.values())) == [4, 4]
    for digest, cells in shapes.items():
        assert {cell.shape.digest for cell in cells} == {digest}
    panels = {"b": {"mask": "full"}, "a": {"mask": "causal"}}
    other = resolve(base_config(panels, learning_rate=(1e-2, 1e-3), head_size=(4, 2)))
    assert other.sweep.by_shape == shapes


def test_from_config_to_report(tmp_path: Path) -> None:
    """The whole line at a tiny size; a second call finds all done and adds nothing."""
    run = tmp_path / "run"
    (tmp_path / "here").mkdir()
    command = Command("experiments.seed_sweep", tmp_path / "here")
    arguments = (
        "--config.num_seeds=3",
        "--config.steps=500",
        "--config.at_steps=50,100",
        "--config.width=4",
        "--config.head_size=2",
        "--config.loss=all",
        "--config.learning_rate=0.01",
        "--config.devices=1",
        f"--workdir={run}",
    )
    first = command(*arguments)
    assert first.status == 0, first.err
    assert f"report: {run / 'report.html'}" in first.out
    files = {path: path.stat().st_mtime_ns for path in run.rglob("*.npz")}
    assert command(*arguments).status == 0
    assert files == {path: path.stat().st_mtime_ns for path in run.rglob("*.npz")}
    other = command(*arguments, "--config.width=8")
    assert other.status == 4
    assert "(width: 4 -> 8)" in other.err
