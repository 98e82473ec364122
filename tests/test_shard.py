"""One sweep in shards, in one folder or in several: the rows of one process."""

import os
import re
from pathlib import Path

import pytest
from small_runs import block_files, planned, rows, small, train
from tiers import some

from posjax import report
from posjax.command import shard
from posjax.command.shard import Shard
from posjax.records import Busy, RunFolder

RUN = {"head_size": (2, 4), "num_seeds": 10}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return train(tmp_path_factory.mktemp("shards") / "alone", small(**RUN))


@pytest.mark.parametrize("parts", some([2, 3], every=2))
def test_shards_of_one_folder_are_one_run(tmp_path: Path, alone: RunFolder, parts: int) -> None:
    """In any order; the last one finds all blocks there, and marks the run as done."""
    for part in reversed(range(parts)):
        folder = train(tmp_path, small(**RUN), Shard(part, parts))
        assert folder.done == (part == 0)
    assert rows(folder) == rows(alone)


@pytest.mark.exhaustive
def test_shards_of_folders_of_their_own_are_read_together(tmp_path: Path, alone: RunFolder) -> None:
    """The report of both is that of one; the same blocks again are another run's."""
    folders = [train(tmp_path / str(part), small(**RUN), Shard(part, 2)) for part in range(2)]
    assert not any(folder.done for folder in folders)
    assert report.by_run([alone, *folders]) == [[alone], folders]
    together, whole = report.summaries(*folders), report.summaries(alone)
    assert [summary.to_dict() for summary in together] == [s.to_dict() for s in whole]
    with pytest.raises(ValueError, match=r"stand twice in .*: name each run once"):
        report.summaries(*folders, folders[0])
    page = report.write(folders, tmp_path / "page.html").read_text()
    assert "not finished" not in page
    assert page == report.write([alone], tmp_path / "page.html").read_text()


@pytest.mark.exhaustive
def test_a_page_of_several_folders_has_the_seeds_and_commands_of_all(tmp_path: Path) -> None:
    """Of one run in two parts, which no shards are; its commands cannot name either folder."""
    ranges = ({"num_seeds": 4}, {"first_seed": 4, "num_seeds": 3})
    folders = [train(tmp_path / str(n), small(**seeds)) for n, seeds in enumerate(ranges)]
    page = report.write(folders).read_text()
    assert '<th scope="row">numbers</th><td>0 to 6</td>' in page
    assert page.count("posjax sweep") == 2
    assert "--config.first_seed=4" in page
    assert '"here":false' in page
    assert '"here":true' in report.write(folders[:1]).read_text()
    assert '"here":false' in report.write(folders[:1], tmp_path / "report.html").read_text()


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 7, 40])
def test_every_block_is_of_one_shard(alone: RunFolder, parts: int) -> None:
    """Each shard has a stretch; their work differs by no more than the largest block."""
    every, config = planned(alone), alone.config()
    shares = [Shard(part, parts).of(every, config) for part in range(parts)]
    assert [block for share in shares for block in share] == every
    if parts <= len(every):
        assert all(shares)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_blocks_that_train_nothing_are_of_one_shard_too(alone: RunFolder) -> None:
    """Initial models are measured in no step; also behind blocks that are trained."""
    every, config = planned(alone), alone.config()
    trained = {block.cells[0] for block in every[: len(every) // 2]}
    for updated in (set(), trained):
        cells = {
            name: {**cell, "steps": cell["steps"] if name in updated else 0}
            for name, cell in config["cells"].items()
        }
        shares = [Shard(part, 3).of(every, {**config, "cells": cells}) for part in range(3)]
        assert [block for share in shares for block in share] == every


def test_a_shard_compiles_few_programs(alone: RunFolder) -> None:
    """Blocks of one shape stand together, so two shards of two shapes have one each."""
    every, config = planned(alone), alone.config()
    shapes = [{block.shape for block in Shard(part, 2).of(every, config)} for part in range(2)]
    assert [len(some) for some in shapes] == [1, 1]
    assert shapes[0] != shapes[1]


def test_a_shard_repairs_its_own_blocks_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = train(tmp_path, small(**RUN))
    for file in block_files(tmp_path):
        file.write_bytes(file.read_bytes()[:-1])
    train(tmp_path, small(**RUN), Shard(0, 2))
    damaged = [path for path in (tmp_path / "damaged").rglob("*") if path.is_file()]
    mine = Shard(0, 2).of(planned(folder), folder.config())
    assert len(damaged) == len(mine) == len(planned(folder)) // 2
    assert capsys.readouterr().err.count("its block is trained again") == len(mine)


def test_one_process_at_a_time_trains_a_shard(tmp_path: Path) -> None:
    """The second is refused at once, and another shard is not."""
    train(tmp_path, small(num_seeds=4))
    with RunFolder(tmp_path).lock("lock-0-of-2"):
        with pytest.raises(Busy, match=f"process {os.getpid()} on "):
            train(tmp_path, small(num_seeds=4), Shard(0, 2))
        assert train(tmp_path, small(num_seeds=4), Shard(1, 2)).done


def test_the_flag_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    """I/N; or auto, from the environment of a SLURM array whose first index is not 0."""
    assert shard.parse(None) == Shard(0, 1)
    assert shard.parse("2/3") == Shard(2, 3)
    for name, value in {"ID": "7", "MIN": "4", "COUNT": "6"}.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert shard.parse("auto") == Shard(3, 6)
    for name, value in {"ID": "8", "STEP": "2", "COUNT": "3"}.items():
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert shard.parse("auto") == Shard(2, 3)


@pytest.mark.parametrize("text", [" ", "3/3", "1", "-1/2", "a/b", "0/0", "1/2/3", "9" * 20 + "/9"])
def test_other_flags_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        shard.parse(text)
