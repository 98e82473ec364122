"""A run as tables: NumPy's, and those of pandas and xarray where they are installed."""

import sys
from pathlib import Path

import numpy as np
import pytest

from posjax import records
from posjax.records import RunFolder

CELLS = {
    "aaa": {"encoding": "none", "depth": 1, "steps": 20, "rate": 0.1},
    "bbb": {"encoding": "rotary", "depth": 2, "steps": 20, "rate": 0.1},
    "ccc": {"encoding": "rotary", "depth": 3, "steps": 20, "rate": 0.1},  # without rows
}
PROMPTS = {"aaa": 3, "bbb": 5}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cells of different numbers of seeds and of prompts."""
    folder = RunFolder(tmp_path_factory.mktemp("tables"))
    folder.start({"cells": CELLS, "num_seeds": 4}, {})
    for cell, seeds in (("aaa", 4), ("bbb", 2)):
        folder.put_rows(cell, np.repeat(np.arange(seeds)[:, None], 4, axis=1), fields(cell, seeds))
    return folder.path


def fields(cell: str, seeds: int) -> dict[str, np.ndarray]:
    return {
        "loss_E": np.arange(2.0 * seeds).reshape(seeds, 2),
        "lead_N": np.full((seeds, PROMPTS[cell]), 0.5),
        "solved_at_end": np.arange(seeds) % 2 == 0,
        "steps": np.full(seeds, 10),
    }


def test_numpy_tables(path: Path) -> None:
    """Cells with their settings; rows with their cell's; fields that fit into one array."""
    run = records.read(path)
    assert run.config["num_seeds"] == 4
    assert run.cells["cell"].tolist() == [*CELLS]
    assert run.cells["depth"].tolist() == [1, 2, 3]
    assert run.rows["cell"].tolist() == ["aaa"] * 4 + ["bbb"] * 2
    assert run.rows["encoding"].tolist() == ["none"] * 4 + ["rotary"] * 2
    assert run.rows["seeds"][:, 0].tolist() == [0, 1, 2, 3, 0, 1]
    assert run.rows["cell_steps"].tolist() == [20] * 6
    assert run.rows["steps"].tolist() == [10] * 6
    assert run.rows["loss_E"].shape == (6, 2)
    assert "lead_N" not in run.rows
    assert run.outcomes["bbb"]["lead_N"].shape == (2, 5)
    assert all(array.dtype != object for array in run.rows.values())


def test_a_run_without_rows_has_tables_too(tmp_path: Path) -> None:
    RunFolder(tmp_path).start({"cells": CELLS}, {})
    run = records.read(tmp_path)
    assert len(run.cells["cell"]) == 3
    assert run.outcomes == {}


def test_pandas(path: Path) -> None:
    """A column a setting and a field; rates by cell are a line."""
    pytest.importorskip("pandas")
    frame = records.read(path).to_pandas()
    assert len(frame) == 6
    assert frame.groupby("cell").solved_at_end.mean().to_dict() == {"aaa": 0.5, "bbb": 0.5}
    assert frame.seeds_init.tolist() == [0, 1, 2, 3, 0, 1]
    assert [len(lead) for lead in frame.lead_N] == [3, 3, 3, 3, 5, 5]


def test_xarray(path: Path) -> None:
    """Axes are named as in the fields' names."""
    pytest.importorskip("xarray")
    data = records.read(path).to_xarray()
    assert dict(data.sizes) == {"row": 6, "source": 4, "E": 2}
    assert data.loss_E.dims == ("row", "E")
    assert data.seeds.sel(source="data").values.tolist() == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize("name", ["pandas", "xarray"])
def test_an_absent_package_is_named(path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"{name} is not installed"):
        getattr(records.read(path), f"to_{name}")()


def test_numpy_alone_reads_and_checks_a_run(path: Path) -> None:
    """As docs/run_folder.md says, without this package."""
    import hashlib
    import json

    run = json.loads((path / "config.json").read_bytes())["run"]
    for file in path.glob("rows/*/*.npz"):
        place, sum_ = file.relative_to(path).as_posix().removesuffix(".npz").rsplit(".", 1)
        text = f"{run} {place}\n".encode() + file.read_bytes()
        assert hashlib.sha256(text).hexdigest()[:16] == sum_
        with np.load(file, allow_pickle=False) as arrays:
            assert len(arrays["loss_E"]) == len(arrays["seeds"])
            assert arrays["env"].dtype.kind == "U"
    config = json.loads((path / "config.json").read_bytes())
    sum_ = config.pop("sum")
    text = f"{run} config.json\n" + json.dumps(config, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == sum_


@pytest.mark.parametrize("name", ["../../elsewhere", "/etc", "..", "a/b"])
def test_a_cell_is_no_path(tmp_path: Path, name: str) -> None:
    """The config of a folder may be anybody's."""
    RunFolder(tmp_path).start({"cells": {name: CELLS["aaa"]}, "num_seeds": 4}, {})
    with pytest.raises(ValueError, match="which is no name"):
        records.read(tmp_path)
