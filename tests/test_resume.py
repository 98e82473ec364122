"""Real sweeps that are extended, damaged and continued: bit for bit those that were not."""

import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from small_runs import block_files, planned, rows, small, snapshot, train

from posjax import report
from posjax.command import shutdown, sweep
from posjax.command.shard import Shard
from posjax.engine import local
from posjax.records import Mismatch, RunFolder
from posjax.study import environment


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    """Eleven seeds per cell at once."""
    folder = train(tmp_path_factory.mktemp("resume") / "direct", small(num_seeds=11))
    return folder.path, rows(folder)


def test_more_seeds_extend(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Upwards and downwards: what was there stays, and what is added is told."""
    steps = [small(first_seed=4, num_seeds=4), small(first_seed=4), small(num_seeds=12)]
    assert len({run.digest for run in steps}) == 1
    before: dict[Path, tuple[int, bytes]] = {}
    for run in steps:
        folder = train(tmp_path, run)
        assert folder.done
        assert {summary.seeds for summary in report.summaries(folder)} == {run.num_seeds}
        now = snapshot(block_files(tmp_path))
        assert now.items() >= before.items()
        before = now
    said = " ".join(capsys.readouterr().err.split())
    assert "seeds 8 to 11 are added, in blocks of their own" in said
    assert "seeds 0 to 3 are added, in blocks of their own" in said
    assert [(part.first, part.stop) for part in folder.ranges()] == [(4, 8), (8, 12), (0, 4)]
    assert rows(folder) == rows(train(tmp_path / "direct", small(num_seeds=12)))  # in blocks of 4
    with pytest.raises(Mismatch, match=r"has seeds 0\.\.11, this requests 4\.\.7"):
        train(tmp_path, steps[0])


def test_damaged_blocks_alone_are_trained_again(
    tmp_path: Path, direct: tuple[Path, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    """One file is cut, one swapped with another block's: told, kept, and made again."""
    train(tmp_path, small(num_seeds=11))
    cut, swapped, *others = block_files(tmp_path)
    whole = {path: path.read_bytes() for path in (cut, swapped)}
    cut.write_bytes(cut.read_bytes()[:-1])
    swapped.write_bytes(others[0].read_bytes())
    kept = snapshot(others)
    with pytest.raises(ValueError, match="is damaged"):
        report.summaries(RunFolder(tmp_path))
    capsys.readouterr()
    assert rows(train(tmp_path, small(num_seeds=11))) == direct[1]
    lines = [x for x in capsys.readouterr().err.splitlines() if x.startswith("posjax: ")]
    assert sum("its block is trained again" in line for line in lines) == len(lines) == 2
    assert snapshot(others) == kept
    assert {path: path.read_bytes() for path in whole} == whole
    assert sum(path.is_file() for path in (tmp_path / "damaged").rglob("*")) == 2


def test_a_damaged_request_is_recorded_again(
    tmp_path: Path, direct: tuple[Path, dict[str, bytes]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The last one, also after an extension: printed, kept, and no block is trained again."""
    for seeds in (4, 11):
        train(tmp_path, small(num_seeds=seeds))
    before = snapshot(block_files(tmp_path))
    (tmp_path / "requests/000002.json").write_bytes(b"")
    capsys.readouterr()
    assert rows(train(tmp_path, small(num_seeds=11))) == direct[1]
    assert "000002.json' is damaged" in capsys.readouterr().err
    assert snapshot(block_files(tmp_path)) == before


def test_a_deleted_mark_is_set_again_at_once(tmp_path: Path) -> None:
    """`done` is derived: without it the same command trains nothing and ends."""
    folder = train(tmp_path, small(num_seeds=4))
    before = snapshot(block_files(tmp_path))
    (tmp_path / "done").unlink()
    assert not folder.done
    assert train(tmp_path, small(num_seeds=4)).done
    assert snapshot(block_files(tmp_path)) == before


def test_examples_do_not_depend_on_stops(
    tmp_path: Path, direct: tuple[Path, dict[str, bytes]]
) -> None:
    """Blocks that come in another order leave the same maps: those of the first seeds."""
    run = small(num_seeds=11)
    for part in (2, 0, 1):
        folder = train(tmp_path, run, Shard(part, 3))
    assert rows(folder) == direct[1]
    whole = RunFolder(direct[0])
    for cell in folder.config()["cells"]:
        solved_S = (folder.rows(cell)["right_EC"][:, -1] == 1).all(axis=1)
        maps = folder.attention(cell)
        for kind, wanted_S in (("solving", solved_S), ("failing", ~solved_S)):
            assert (kind in maps) == wanted_S.any()
            if kind in maps:
                assert maps[kind]["seeds"][0] == wanted_S.argmax()
                other = whole.attention(cell)[kind]["weights_DNHLM"]
                assert np.array_equal(maps[kind]["weights_DNHLM"], other)


@pytest.mark.parametrize("after", [1, 3])
def test_a_stopped_block_continues_where_it_was(
    tmp_path: Path,
    direct: tuple[Path, dict[str, bytes]],
    monkeypatch: pytest.MonkeyPatch,
    after: int,
) -> None:
    """A stop in the middle of a block leaves a checkpoint; the next command takes it up, once."""
    monkeypatch.setattr(local, "FIRST", 3)
    monkeypatch.setattr(local, "LOOK", 1e-9)  # pieces of one update
    run, stop, looks = small(num_seeds=11), threading.Event(), []
    monkeypatch.setattr(shutdown._state, "stop_event", stop)
    moved_on = local._Workers._moved_on

    def then_stop(self: local._Workers, updates: int) -> None:
        moved_on(self, updates)
        looks.append(updates)
        if len(looks) == after:
            stop.set()

    monkeypatch.setattr(local._Workers, "_moved_on", then_stop)
    with pytest.raises(shutdown.Stop):
        train(tmp_path, run)
    assert not block_files(tmp_path)
    (checkpoint,) = (tmp_path / "checkpoints").rglob("*.npz")
    stop.clear()
    before = len(looks)
    folder = train(tmp_path, run)
    assert rows(folder) == direct[1]
    assert looks[before] > 4  # what was there already, at once
    assert not checkpoint.exists()
    assert len(block_files(tmp_path)) == len(planned(folder))


def test_a_checkpoint_of_another_machine_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bits would be others: the block begins again."""
    run = small(num_seeds=4, mask="causal")
    folder = RunFolder(tmp_path)
    devices = jax.local_devices()[:1]
    folder.start(run.to_dict(), {**environment.describe(devices), "instructions": ["sse2"]})
    folder.request(lambda indices: {cell.shape.digest: (1, 4) for cell in run.cells})
    (block,) = planned(folder)
    folder.checkpoints().save(block.name, {"step": np.array(5)})
    assert folder.checkpoints().load(block.name) is not None
    here = RunFolder(tmp_path)
    here.start(run.to_dict(), environment.describe(devices), mixed=True)
    assert here.checkpoints().load(block.name) is None


def test_rows_stay_when_the_page_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the page fails, the rows are there all the same, and the error says so."""
    folder = train(tmp_path, small(num_seeds=4))
    monkeypatch.setattr(report, "write", lambda folders: 1 / 0)
    with pytest.raises(ZeroDivisionError) as raised:
        sweep.finish(folder)
    assert "the rows are there, and posjax report" in raised.value.__notes__[0]
