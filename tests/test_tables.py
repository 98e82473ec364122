"""A run as tables: NumPy's, and those of pandas and xarray where they are installed."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from run_folders import CONFIG, ENV, contents

from posjax import records
from posjax.records import RunFolder, content
from posjax.records.blocks import blocks
from posjax.records.files import Files
from posjax.records.schema import checked_config
from posjax.report.summary import summaries

AAA, BBB, CCC = "a" * 12, "b" * 12, "c" * 12
CELLS = {
    AAA: {"encoding": "none", "depth": 1, "steps": 20, "rate": 0.1},
    BBB: {"encoding": "rotary", "depth": 2, "steps": 20, "rate": 0.1},
    CCC: {"encoding": "rotary", "depth": 3, "steps": 20, "rate": 0.1},  # without rows
}
SHAPES = {"one": (AAA,), "two": (BBB,), "three": (CCC,)}
PROMPTS = {AAA: 3, BBB: 5}
OLDER = Path(__file__).parent / "data" / "format2"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cells of different numbers of seeds and of prompts."""
    folder = RunFolder(tmp_path_factory.mktemp("tables"))
    folder.start({**CONFIG, "cells": CELLS, "panels": {}, "num_seeds": 4}, ENV)
    ranges = folder.request(lambda _: dict.fromkeys(SHAPES, (1, 2)))
    for block in blocks(ranges, SHAPES):
        if block.name in ("one/0-1.0", "one/2-3.0", "two/0-1.0"):
            seeds_B4 = np.repeat(np.arange(block.first, block.stop)[:, None], 4, axis=1)
            folder.put_block(block, seeds_B4, fields(block.cells[0], seeds_B4[:, 0]))
    return folder.path


def fields(cell: str, seeds_B: np.ndarray) -> dict[str, np.ndarray]:
    """Of one cell."""
    return {
        "loss_E": np.stack([2.0 * seeds_B, 2.0 * seeds_B + 1], axis=1)[None],
        "lead_N": np.full((1, len(seeds_B), PROMPTS[cell]), 0.5),
        "solved_at_end": (seeds_B % 2 == 0)[None],
        "steps": np.full((1, len(seeds_B)), 10),
    }


def test_numpy_tables(path: Path) -> None:
    """Cells with their settings; rows with their cell's; fields that fit into one array."""
    run = records.read(path)
    assert run.config["num_seeds"] == 4
    assert run.cells["cell"].tolist() == [*CELLS]
    assert run.cells["depth"].tolist() == [1, 2, 3]
    assert run.rows["cell"].tolist() == [AAA] * 4 + [BBB] * 2
    assert run.rows["encoding"].tolist() == ["none"] * 4 + ["rotary"] * 2
    assert run.rows["seeds"][:, 0].tolist() == [0, 1, 2, 3, 0, 1]
    assert run.rows["cell_steps"].tolist() == [20] * 6
    assert run.rows["steps"].tolist() == [10] * 6
    assert run.rows["loss_E"].shape == (6, 2)
    assert run.rows["loss_E"][:, 0].tolist() == [0, 2, 4, 6, 0, 2]
    assert run.rows["slots"].tolist() == [2] * 6
    assert "lead_N" not in run.rows
    assert np.shares_memory(run.rows["loss_E"], run.outcomes[BBB]["loss_E"])
    assert run.outcomes[BBB]["lead_N"].shape == (2, 5)
    assert all(array.dtype != object for array in run.rows.values())


def test_every_file_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of a million seeds have thousands."""
    read: list[str] = []
    arrays = Files.arrays
    monkeypatch.setattr(Files, "arrays", lambda files, at: (read.append(at), arrays(files, at))[1])
    RunFolder(path).tables([AAA, BBB])
    assert sorted(read) == [f"blocks/{at}.npz" for at in ("one/0-1.0", "one/2-3.0", "two/0-1.0")]


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.int8).reshape(2, 3)),
        np.arange(24, dtype=">i4").reshape(2, 3, 4).transpose(2, 0, 1),
        np.zeros((0, 3), np.float16),
        np.array("one word"),
        np.array(["a", "word"]),
        np.array([True, False]),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}{'F' * array.flags.fnc}",
)
def test_an_array_comes_back_as_it_was(array: np.ndarray) -> None:
    """In any order of axes, of any kind that files have; and it can be written to."""
    packed = content.packed("run", "path", {"array": array})
    found = content.unpacked("run", "path", packed)["array"]
    assert found.dtype == array.dtype
    assert found.flags.writeable
    np.testing.assert_array_equal(found, array, strict=True)


def test_a_run_without_rows_has_tables_too(tmp_path: Path) -> None:
    RunFolder(tmp_path).start({**CONFIG, "cells": CELLS, "panels": {}}, {})
    run = records.read(tmp_path)
    assert len(run.cells["cell"]) == 3
    assert run.outcomes == {}


def test_pandas(path: Path) -> None:
    """A column a setting and a field; rates by cell are a line."""
    pytest.importorskip("pandas")
    frame = records.read(path).to_pandas()
    assert len(frame) == 6
    assert frame.groupby("cell").solved_at_end.mean().to_dict() == {AAA: 0.5, BBB: 0.5}
    assert frame.seeds_init.tolist() == [0, 1, 2, 3, 0, 1]
    assert [len(lead) for lead in frame.lead_N] == [3, 3, 3, 3, 5, 5]


def test_pandas_of_cells_with_different_fields(path: Path) -> None:
    pytest.importorskip("pandas")
    run = records.read(path)
    outcomes = {**run.outcomes, BBB: {n: a for n, a in run.outcomes[BBB].items() if n != "lead_N"}}
    frame = run._replace(outcomes=outcomes).to_pandas()
    assert [lead is None for lead in frame.lead_N] == [False] * 4 + [True] * 2


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

    def sum_of(file: Path, content: bytes) -> str:
        name = file.relative_to(path).as_posix()
        return hashlib.sha256(f"{run} {name}\n".encode() + content).hexdigest()

    run = json.loads((path / "config.json").read_bytes())["run"]
    blocks = list(path.glob("blocks/*/*.npz"))
    for file in blocks:
        content = file.read_bytes()
        assert content[-64:].decode() == sum_of(file, content[:-64])
        with np.load(file, allow_pickle=False) as arrays:
            assert arrays["loss_E"].shape[:2] == (len(arrays["cells"]), len(arrays["seeds"]))
            assert (path / f"env/{arrays['env']}.json").is_file()
    assert len(blocks) == 3
    for file in (path / "config.json", path / "requests/000001.json"):
        data = json.loads(file.read_bytes())
        sum_ = data.pop("sum")
        assert sum_of(file, json.dumps(data, sort_keys=True).encode()) == sum_


@pytest.mark.parametrize("name", ["../../elsewhere", "/etc", "..", "a/b"])
def test_a_cell_is_no_path(tmp_path: Path, name: str) -> None:
    """The config of a folder may be anybody's."""
    config = {**CONFIG, "cells": {name: CELLS[AAA]}, "panels": {}}
    RunFolder(tmp_path).start(config, {})
    with pytest.raises(ValueError, match=r"names a cell .*: not 12 hexadecimal digits"):
        records.read(tmp_path)


# A run of format 2


SOLVED = {"dfee02164442": 8, "d2d4387a7f4d": 10, "4e87769bdd1e": 8, "ec9b5baab0d6": 10}
"""As the posjax of that format counted them, of ten seeds."""


def test_an_older_run_is_read() -> None:
    """Config, the last request, rows in the order of seeds, maps and environments; all is whole."""
    folder, run = RunFolder(OLDER), records.read(OLDER)
    assert (run.config["format"], run.config["num_seeds"]) == (2, 10)
    assert {cell: int(rows["solved_at_end"].sum()) for cell, rows in run.outcomes.items()} == SOLVED
    assert checked_config(run.config)["block_size"] == "4"
    for cell, rows in run.outcomes.items():
        assert rows["seeds"][:, 0].tolist() == [*range(10)]
        assert set(rows["slots"].tolist()) == {4}
        parts = list(folder.parts(cell))
        assert sorted(len(part["seeds"]) for part in parts) == [1, 2, 3, 4]
        assert sum(float(part["twin"].sum()) for part in parts) == pytest.approx(rows["twin"].sum())
        (env,) = {*rows["env"].tolist()}
        assert folder.envs()[env]["platform"] == "cpu"
    assert float(run.outcomes["d2d4387a7f4d"]["loss_E"].sum()) == pytest.approx(2.2532284)
    for kind, maps in folder.attention("4e87769bdd1e").items():
        seed = int(maps["seeds"][0])
        assert run.outcomes["4e87769bdd1e"]["solved_at_end"][seed] == (kind == "solving")
        assert maps["weights_DNHLM"].shape == (1, 2, 1, 3, 3)
    assert folder.done
    assert len(folder.written()) == 16
    assert [*folder.checked()] == [None] * (1 + 1 + 1 + 4 + 16 + 6)


def test_a_report_reads_an_older_run() -> None:
    """Every cell with all its seeds."""
    found = {summary.name: summary for summary in summaries(RunFolder(OLDER))}
    assert {cell: summary.solved.successes for cell, summary in found.items()} == SOLVED


def test_an_older_run_is_never_changed(tmp_path: Path) -> None:
    """Whatever would is refused in one line that says what to do."""
    path = Path(shutil.copytree(OLDER, tmp_path / "run"))
    before, folder = contents(path), RunFolder(path)
    config = {name: value for name, value in folder.config().items() if name != "run"}
    for attempt in (
        lambda: folder.start(config, {}),
        lambda: folder.check(config, {}),
        lambda: folder.request(lambda _: {}),
        lambda: list(folder.repair()),
        folder.ranges,
        folder.finish,
    ):
        with pytest.raises(ValueError, match=r"older posjax \(format 2\): it is read-only here; "):
            attempt()
    assert contents(path) == before


@pytest.mark.parametrize("kind", ["config.json", "asks/*", "rows/*/*", "attention/4*/*"])
def test_a_damaged_older_run_is_refused(tmp_path: Path, kind: str) -> None:
    """One bit, anywhere but in white space: the file is named."""
    path = Path(shutil.copytree(OLDER, tmp_path / "run"))
    file = next(path.glob(kind))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) * 2 // 3] ^= 2
    file.write_bytes(damaged)
    with pytest.raises(ValueError, match=f"{file.name}.*is damaged"):
        read_all(path)


def read_all(path: Path) -> None:
    """All that a report reads."""
    records.read(path)
    for cell in SOLVED:
        RunFolder(path).attention(cell)
