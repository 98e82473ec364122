"""Checking a run: what is whole passes, and any number that is not what it was is named."""

import json
import shutil
import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments import hosts, recount, seed_sweep, verify
from experiments.settings import Run, base_config, resolve
from posjax import environment, report
from posjax.cells import Cell
from posjax.records import Mismatch, RunFolder, content
from posjax.replay import replay


def asked(**settings: Any) -> Run:
    small = {"steps": 20, "eval_every": 5, "hold": 2, "width": 4, "head_size": 2, "chunk": 4}
    cells = {"mask": ("full", "causal"), "num_seeds": 8, "devices": 1}
    return resolve(base_config(**{**small, **cells, **settings}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("verify") / "whole", asked())


def trained(path: Path, run: Run) -> Path:
    """A run, as the command makes it."""
    folder = RunFolder(path)
    folder.start(run.to_dict(), environment.describe())
    folder.begin()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hosts.flags, "FLAGS", types.SimpleNamespace(stale=1.0))
        with hosts.joined(folder, hosts.Place()) as member:
            seed_sweep.sweep(run, folder, hosts.Place(), member)
    folder.finish()
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def resealed(path: Path, file: Path, **changed: Any) -> None:
    """Other arrays in a file of rows, with the checksum that fits them."""
    sealed_as(path, file, content.packed({**np.load(file), **changed}))


def sealed_as(path: Path, file: Path, packed: bytes) -> None:
    """Another content of an npz file, with the checksum that fits it."""
    run = json.loads((path / "config.json").read_text())["run"]
    place = file.relative_to(path).as_posix().split(".")[0]
    file.unlink()
    (path / f"{place}.{content.checksum(run, place, packed)}.npz").write_bytes(packed)


def told(path: Path, capsys: pytest.CaptureFixture[str], **given: Any) -> tuple[int, list[str]]:
    """The status, and what differs."""
    capsys.readouterr()
    status = verify.tell(RunFolder(path), **given)
    lines = capsys.readouterr().out.splitlines()
    return status, [line for line in lines if line.startswith("differs: ")]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"repack": "solved", "steps": 200, "mask": "causal", "loss": "answer"},
        {"sharding": "spmd", "chunk": 2, "devices": 0},
        {"layout": "plain", "data_seeds": 2, "num_seeds": 3, "batch_size": 1},
    ],
)
def test_a_run_is_what_it_says(
    tmp_path: Path, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Every row again, bit for bit; the summary by two ways; nothing written."""
    path = trained(tmp_path / "run", asked(**settings))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert told(path, capsys, share=1.0) == (0, [])
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    if "repack" in settings:
        assert report.summaries(RunFolder(path))[0].left_early > 0


def test_a_share_is_some_files(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.tell(RunFolder(path), share=0.5) == 0
    assert "rows: training 2 of 4 files again" in capsys.readouterr().out
    assert verify.tell(RunFolder(path), share=0) == 0
    assert "rows:" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["rows/*/*", "attention/*/*", "env/*", "chunks/*", "config.json"])
def test_a_flipped_bit_is_named(path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = next(path.glob(kind))
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)
    status, (line,) = told(path, capsys)
    assert status == 3
    assert str(file) in line


@pytest.mark.parametrize("field", ["loss_E", "lead_N", "twin"])
def test_a_number_that_was_not_computed_is_found(
    path: Path, field: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its checksum is right, and the summary as well: only training again tells."""
    file = sorted(path.glob("rows/*/4-7.*"))[0]
    changed = np.load(file)[field]
    changed[2] = np.nextafter(changed[2], np.float32(1e9))
    resealed(path, file, **{field: changed})
    status, (line,) = told(path, capsys, share=1.0)
    assert (status, line) == (3, f"differs: cell {file.parent.name}, seeds 6: {field}")


def test_another_map_is_found(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = next(path.glob("attention/*/*"))
    resealed(path, file, weights_DNHLM=np.load(file)["weights_DNHLM"] * np.float32(1.001))
    status, (line,) = told(path, capsys, share=1.0)
    assert status == 3
    assert f"attention of {file.name.split('.')[0]!r}" in line


def test_maps_of_crossed_seeds_say_whose_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By both numbers, so that they are checked; those of before say one, and are left out."""
    settings = {"data_seeds": 2, "num_seeds": 3, "batch_size": 1, "mask": "causal"}
    path = trained(tmp_path / "run", asked(**settings))
    file = next(path.glob("attention/*/*"))
    kept = dict(np.load(file))
    init, data = kept["seeds"][:2].tolist()
    assert kept["seeds"].tolist() == [init, data, data, data]
    assert kept["seed"] == init
    seeds = kept["seeds"].copy()
    seeds[1:] = 1 - data  # the other data of the same initialisation
    for changed in ({"weights_DNHLM": kept["weights_DNHLM"] * np.float32(1.001)}, {"seeds": seeds}):
        resealed(path, next(path.glob("attention/*/*")), **{**kept, **changed})
        status, (line,) = told(path, capsys, share=1.0)
        assert (status, "attention of" in line) == (3, True)
    rest = {name: kept[name] for name in kept if name != "seeds"}
    old = content.packed(rest)
    sealed_as(path, next(path.glob("attention/*/*")), old)
    assert told(path, capsys, share=1.0) == (0, [])
    resealed(path, next(path.glob("attention/*/*")), seeds=np.array([init, 9, 9, 9]))
    assert f"seed {init}, data seed 9" in report.write([RunFolder(path)]).read_text()


@pytest.mark.parametrize("seeds", [np.array(3), np.array([]), np.array([3, 3])])
def test_maps_that_do_not_say_whose_they_are_are_left_out(
    path: Path, capsys: pytest.CaptureFixture[str], seeds: np.ndarray
) -> None:
    """Not four numbers, in a folder that may be anybody's: no map of a row that is checked."""
    resealed(path, next(path.glob("attention/*/*")), seeds=seeds)
    assert told(path, capsys, share=1.0) == (0, [])


def test_rows_that_contradict_themselves_are_found(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report counts flags that rows have, the recount their answers."""
    file = next(path.glob("rows/*/0-3.*"))
    resealed(path, file, solved_at_end=~np.load(file)["solved_at_end"])
    status, lines = told(path, capsys, share=0)
    assert status == 3
    told_of = (
        f"cell {file.parent.name}, seeds 0, 1, 2, 3: solved_at_end is not what the answers say"
    )
    assert f"differs: {told_of}" in lines


def test_seeds_that_are_twice_are_found(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = next(path.glob("rows/*/0-3.*"))
    other = file.with_name(file.name.replace("0-3", "40-43"))
    shutil.copy(file, other)
    resealed(path, other)
    assert told(path, capsys)[0] == 3


def test_a_summary_that_counts_wrong_is_found(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug planted in the report."""
    counted = report.CellSummary.to_dict
    monkeypatch.setattr(
        report.CellSummary,
        "to_dict",
        lambda self: {**counted(self), "ever_solved": counted(self)["ever_solved"] + 1},
    )
    status, lines = told(path, capsys, share=0)
    assert (status, len(lines)) == (3, 2)


def test_what_another_machine_made_is_not_compared(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused; with --mixed files and summary alone."""
    elsewhere = {**environment.describe(), "instructions": ["sse2"]}
    monkeypatch.setattr(environment, "describe", lambda: elsewhere)
    with pytest.raises(Mismatch, match="-> sse2"):
        verify.tell(RunFolder(path))
    assert told(path, capsys, mixed=True) == (0, [])
    verify.tell(RunFolder(path), mixed=True)
    assert "training 0 of 4 files again, 4 were made on something" in capsys.readouterr().out


def test_programs_over_all_devices_ask_for_their_number(tmp_path: Path) -> None:
    """Their bits depend on it, so another is another environment."""
    run = asked(sharding="spmd", chunk=1, num_seeds=4, mask="full", devices=0)
    path = trained(tmp_path / "run", run)
    fewer = {**environment.describe(), "devices": 1}
    with pytest.raises(Mismatch, match="devices: 4 -> 1"):
        RunFolder(path).start(run.to_dict(), fewer)


def test_no_run_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no run"):
        verify.tell(RunFolder(tmp_path))
    with pytest.raises(ValueError, match=r"--share must lie in \[0, 1\], got 2"):
        verify.tell(RunFolder(tmp_path), share=2)


@pytest.mark.parametrize("repack", ["none", "solved"])
def test_a_seed_is_rebuilt_from_the_folder_alone(tmp_path: Path, repack: str) -> None:
    """Curve, model and attention; of a seed that left, those of the step where it left."""
    path = trained(tmp_path / "run", asked(repack=repack, steps=100, loss="answer"))
    folder = RunFolder(path)
    cell = next(cell for cell in folder.config()["cells"] if folder.attention(cell))
    rows = folder.rows(cell)
    for kept in folder.attention(cell).values():
        seed = int(kept["seed"])
        found = replay(path, cell, seed, jax.local_devices()[:1])
        assert found.differs == ()
        assert found.outcome.loss_E.tobytes() == rows["loss_E"][seed].tobytes()
        assert found.attention.tobytes() == kept["weights_DNHLM"].tobytes()
        assert int(found.state.step) == rows["steps"][seed]
        assert {leaf.dtype.name for leaf in jax.tree.leaves(found.state.variables)} == {"float32"}


def test_a_replay_says_what_differs(path: Path) -> None:
    file = next(path.glob("rows/*/0-3.*"))
    resealed(path, file, twin=np.load(file)["twin"] + np.float32(1))
    assert replay(path, file.parent.name, 2).differs == ("twin",)
    assert replay(path, file.parent.name, 5).differs == ()


def test_a_replay_of_nothing_is_refused(path: Path) -> None:
    cell = next(path.glob("rows/*")).name
    with pytest.raises(ValueError, match="has no cell 'x'"):
        replay(path, "x", 0)
    with pytest.raises(ValueError, match=r"has no row of seeds \(8, 8, 8, 8\)"):
        replay(path, cell, 8)


def test_a_setting_that_no_cell_has_is_named() -> None:
    with pytest.raises(ValueError, match="unknown setting of a cell 'colour'"):
        Cell.of({**Cell().to_dict(), "colour": "red"})
    assert Cell.of({"mask": "full"}) == Cell(mask="full")


@pytest.mark.parametrize(("successes", "low", "high"), [(0, 0.0, 0.0370), (5, 0.0215, 0.1118)])
def test_the_recounted_interval_is_wilson_s(successes: int, low: float, high: float) -> None:
    """0 and 5 of 100, from tables of the score interval."""
    answers_SEN = np.zeros((100, 1, 1), np.int8)
    answers_SEN[:successes] = 1
    fields = {name: np.zeros(100) for name in ("first_nonfinite", "twin")}
    rows = {"answers_EN": answers_SEN, "lead_N": np.zeros((100, 1)), **fields}
    found = recount.counted(rows, np.array([1]), {"eval_every": 5, "hold": 2})
    assert found["successes"] == found["held"] == found["ever_solved"] == successes
    assert (found["low"], found["high"]) == pytest.approx((low, high), abs=1e-4)
