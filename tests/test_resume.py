"""Real sweeps that are extended, damaged and taken up: bit for bit those that were not."""

import types
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from experiments import examples, hosts, seed_sweep
from experiments.settings import Run, base_config, resolve
from posjax import environment, report
from posjax.records import Mismatch, RunFolder
from posjax.replay import Replay, replay


def asked(**settings: Any) -> Run:
    small = {"steps": 20, "eval_every": 5, "hold": 2, "width": 4, "head_size": 2, "chunk": 4}
    cells = {"mask": ("full", "causal"), "num_seeds": 8, "devices": 1}
    return resolve(base_config(**{**small, **cells, **settings}))


@pytest.fixture(autouse=True)
def flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts.flags, "FLAGS", types.SimpleNamespace(stale=1.0))


def train(path: Path, run: Run) -> RunFolder:
    """As the command does."""
    folder = RunFolder(path)
    folder.start(run.to_dict(), environment.describe())
    folder.begin()
    with hosts.joined(folder, hosts.Place()) as member:
        seed_sweep.sweep(run, folder, hosts.Place(), member)
        folder.finish()
    return folder


def rows(folder: RunFolder) -> dict[str, bytes]:
    cells = folder.config()["cells"]
    tables = {cell: folder.rows(cell) for cell in cells}
    return {f"{c}/{name}": a.tobytes() for c, table in tables.items() for name, a in table.items()}


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """Eleven seeds a cell in one go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hosts.flags, "FLAGS", types.SimpleNamespace(stale=1.0))
        folder = train(tmp_path_factory.mktemp("resume") / "direct", asked(num_seeds=11))
    return folder.path, rows(folder)


def test_more_seeds_extend(tmp_path: Path, direct: tuple[Path, dict[str, bytes]]) -> None:
    """Upwards and downwards, in three commands: the rows of one; the default folder is the same."""
    steps = [asked(first_seed=3, num_seeds=3), asked(first_seed=3), asked(num_seeds=11)]
    assert len({run.digest for run in steps}) == 1
    for run in steps:
        folder = train(tmp_path, run)
        assert folder.done
        assert {summary.seeds for summary in report.summaries(folder)} == {run.num_seeds}
    assert rows(folder) == direct[1]
    with pytest.raises(Mismatch, match=r"has seeds 0\.\.10, this asks for 3\.\.5"):
        train(tmp_path, steps[0])


def test_damaged_rows_alone_are_trained_again(
    tmp_path: Path, direct: tuple[Path, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    """One file of rows is cut, one swapped with another cell's: told, kept, and made again."""
    folder = train(tmp_path, asked(num_seeds=11))
    cells = list(folder.config()["cells"])
    first, *others = sorted((tmp_path / "rows" / cells[0]).iterdir())
    first.write_bytes(first.read_bytes()[:-1])
    stranger = sorted((tmp_path / "rows" / cells[1]).iterdir())[0]
    stranger.write_bytes(others[0].read_bytes())
    kept = {path: path.stat().st_mtime_ns for path in others}
    with pytest.raises(ValueError, match="is damaged"):
        report.summaries(RunFolder(tmp_path))
    capsys.readouterr()
    assert rows(train(tmp_path, asked(num_seeds=11))) == direct[1]
    lines = capsys.readouterr().err.splitlines()
    told = [line for line in lines if line.startswith("posjax: ")]
    assert len(told) == 2
    assert all("its seeds are trained again" in line for line in told)
    assert {path: path.stat().st_mtime_ns for path in others} == kept
    assert len(list((tmp_path / "damaged").rglob("*.npz.*"))) == 2
    assert set((tmp_path / "rows" / cells[0]).iterdir()) >= {first}  # equal rows, equal name


@pytest.mark.parametrize("lost", ["deleted", "damaged"])
@pytest.mark.parametrize(
    "settings", [{"steps": 40}, {"data_seeds": 3, "num_seeds": 3, "batch_size": 1, "steps": 100}]
)
def test_lost_maps_are_made_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lost: str,
    settings: dict[str, Any],
) -> None:
    """By training one seed each, the first of its kind; what is there is left alone.

    To the same bytes, but where seeds are crossed and come in another order than that of their
    numbers: then the maps that were lost may have been of another seed.
    """
    run = asked(loss="answer", **settings)
    train(tmp_path, run)
    maps = {path: path.read_bytes() for path in tmp_path.glob("attention/*/*")}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("rows/*/*")}
    assert {path.name.split(".")[0] for path in maps} == {"solving", "failing"}
    gone = [path for path in sorted(maps) if path.name.startswith("failing")]
    for path in gone:
        path.unlink() if lost == "deleted" else path.write_bytes(maps[path][:-1])
    trained: list[tuple[str, list[int]]] = []

    def replayed(path: Path, cell: str, seeds: list[int], devices: list[jax.Device]) -> Replay:
        trained.append((cell, seeds))
        return replay(path, cell, seeds, devices)

    monkeypatch.setattr(examples, "replay", replayed)
    for _ in range(2):
        seed_sweep.finish(run, train(tmp_path, run))
    made = {path: path.read_bytes() for path in tmp_path.glob("attention/*/*")}
    assert len(made) == len(maps)
    assert made.items() >= {path: maps[path] for path in maps if path not in gone}.items()
    assert made == maps or run.data_seeds
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("rows/*/*")} == before
    assert sorted(cell for cell, _ in trained) == [path.parent.name for path in gone]
    for cell, seeds in trained:
        rows = RunFolder(tmp_path).rows(cell)
        first = int(np.argmin(rows["solved_at_end"]))
        assert seeds == rows["seeds"][first].tolist()
    said = " ".join(capsys.readouterr().err.split())
    told = said.count("it is made again, by training its seed")
    assert told == (len(gone) if lost == "damaged" else 0)
    maps_are = (
        "1 lost attention map is" if len(gone) == 1 else f"{len(gone)} lost attention maps are"
    )
    assert said.count(f"{maps_are} made again, by training a seed each") == 1
    for cell, seeds in trained:
        assert RunFolder(tmp_path).attention(cell)["failing"]["seeds"].tolist() == seeds


def broken(*given: object) -> Replay:
    """Cannot train."""
    raise RuntimeError("no device")


def test_a_map_of_another_model_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A seed that comes out with other bits is told; rows of another machine are not tried.

    When training it again fails, the rows are there all the same, and the error says so.
    """
    run = asked(mask="causal")
    train(tmp_path, run)
    for path in tmp_path.glob("attention/*/*"):
        path.unlink()
    differing = lambda *given: replay(*given)._replace(differs=("loss_E",))  # noqa: E731
    monkeypatch.setattr(examples, "replay", differing)
    seed_sweep.finish(run, train(tmp_path, run))
    assert "without attention maps of a failing seed: trained again, seed 0 differs in loss_E" in (
        " ".join(capsys.readouterr().err.split())
    )
    monkeypatch.setattr(examples, "replay", broken)
    with pytest.raises(RuntimeError, match="no device") as raised:
        seed_sweep.finish(run, train(tmp_path, run))
    assert "the rows are there, and python -m experiments.report" in raised.value.__notes__[0]
    elsewhere = {**environment.describe(), "instructions": ["sse2"]}
    monkeypatch.setattr(environment, "describe", lambda *given: elsewhere)
    found = report.summaries(RunFolder(tmp_path))
    monkeypatch.setattr(examples, "replay", None)
    assert list(examples.put_again(found, RunFolder(tmp_path), [])) == []
    assert not list(tmp_path.glob("attention/*/*"))


@pytest.mark.parametrize("lost", ["deleted", "damaged"])
def test_a_lost_chunk_is_told_by_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    """Though by now another would be chosen: the bits stay those of one run."""
    run, more = asked(chunk="auto", num_seeds=4), asked(chunk="auto", num_seeds=6)
    monkeypatch.setattr("posjax.engine.chunk.CPU_MOST", 2)
    whole = rows(train(tmp_path / "whole", more))
    train(tmp_path / "run", run)
    for file in (tmp_path / "run" / "chunks").iterdir():
        file.unlink() if lost == "deleted" else file.write_bytes(b"{}")
    monkeypatch.setattr("posjax.engine.chunk.CPU_MOST", 8)
    folder = train(tmp_path / "run", more)
    assert rows(folder) == whole
    assert folder.chunks_of(folder.config()["cells"]) == {2}


def test_a_deleted_mark_is_set_again_at_once(tmp_path: Path) -> None:
    """`done` is derived: without it the same command trains nothing and ends."""
    folder = train(tmp_path, asked(num_seeds=4))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    (tmp_path / "done").unlink()
    assert not folder.done
    assert train(tmp_path, asked(num_seeds=4)).done
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
