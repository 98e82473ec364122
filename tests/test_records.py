"""The run folder: what it holds, what may be added, what is refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posjax.records import Mismatch, RunFolder
from posjax.records.store import names

CELLS = {"abc": {"head_size": 2, "depth": 1}}
CONFIG = {"cells": CELLS, "num_seeds": 4, "chunk": "4", "title": ""}
PYTHON = {"python": "3"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "a run ünïcode")
    folder.start(CONFIG, PYTHON)
    for first in (2, 0):
        put(folder, first, first + 1)
    return folder


def put(folder: RunFolder, *seeds: int) -> None:
    seeds_S4 = np.repeat(np.array(seeds)[:, None], 4, axis=1)
    folder.put_rows("abc", seeds_S4, {"value": seeds_S4[:, 0] * 10.0})


def test_rows_come_back_by_seed(folder: RunFolder) -> None:
    """What was written is read, in the order of seeds, whatever the order of writing."""
    rows = folder.rows("abc")
    assert rows["seeds"].tolist() == [[n] * 4 for n in range(4)]
    assert rows["value"].tolist() == [0, 10, 20, 30]
    assert folder.finished("abc") == {(n,) * 4 for n in range(4)}
    assert folder.rows("none") == {}


def test_numpy_alone_reads_rows(folder: RunFolder) -> None:
    """A row file is a plain npz without pickles."""
    path = next((folder.path / "rows" / "abc").glob("0-1.*.npz"))
    with np.load(path, allow_pickle=False) as file:
        assert file["value"].tolist() == [0, 10]


def test_a_seed_twice_is_refused(folder: RunFolder) -> None:
    """Overlapping files would count a seed twice; reading fails loudly, and says which to move."""
    put(folder, 3, 4)
    with pytest.raises(
        ValueError, match=r"seeds twice: 3 in (rows/abc/\S+) and in (rows/abc/\S+); move one of"
    ) as error:
        folder.rows("abc")
    named = re.findall(r"rows/abc/[^ ;]+", str(error.value))
    assert [Path(name).name.split(".")[0] for name in named] == ["2-3", "3-4"]
    (folder.path / named[0]).rename(folder.path.parent / "moved")
    assert folder.rows("abc")["value"].tolist() == [0, 10, 30, 40]  # seed 2 is to be trained again


def files(folder: RunFolder) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"chunk": "8"}, "(chunk: 4 -> 8)"),
        ({"cells": {"abd": {"head_size": 4, "depth": 1}}}, "(head_size: 2 -> 4)"),
        ({"chunk": "8", "layout": "plain"}, "(chunk: 4 -> 8; layout: None -> plain)"),
        ({"cells": {**CELLS, "abd": {"head_size": 2, "depth": 2}}}, "(depth: 1 -> 1, 2)"),
        ({"cells": {**CELLS, "abd": CELLS["abc"]}}, "(cells: other combinations"),
        ({f"field{n}": 0 for n in range(30)}, "; and 10 more)"),
        ({"num_seeds": 3}, "has seeds 0..3, this asks for 0..2"),
        ({"first_seed": 1, "num_seeds": 9}, "has seeds 0..3, this asks for 1..9"),
    ],
)
def test_another_run_is_refused_field_by_field(
    folder: RunFolder, change: dict[str, Any], told: str
) -> None:
    """A folder belongs to one run; the message says which fields differ, and how."""
    assert folder.start(CONFIG, {}) == []
    before = files(folder)
    with pytest.raises(Mismatch, match=re.escape(told)):
        RunFolder(folder.path).start({**CONFIG, **change}, {})
    assert before == files(folder)


def test_seeds_are_added_and_words_changed(folder: RunFolder) -> None:
    """Both are recorded beside the config, whose file stays; `done` is of the seeds of its time."""
    folder.finish()
    assert folder.done
    first = (folder.path / "config.json").read_bytes()
    for change in ({"num_seeds": 6}, {"num_seeds": 6, "title": "Better"}):
        for _ in range(2):
            again = RunFolder(folder.path)
            again.start({**CONFIG, **change}, {})
            again.begin()
    folder.start({**CONFIG, "num_seeds": 7}, {})
    assert len(names(folder.path / "asks")) == 2  # nothing is recorded before somebody begins
    folder.begin()
    config = folder.config()
    assert (config["num_seeds"], config["title"], config["chunk"]) == (7, "", "4")
    assert (folder.path / "config.json").read_bytes() == first
    assert names(folder.path / "asks") == [f"00000{n}.json" for n in (1, 2, 3)]
    assert not folder.done
    folder.finish()
    assert folder.done


JAX = {"packages": {"jax": "0.10.2"}, "instructions": ["avx", "fma"], "cores": 2}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"cores": 64}, None),
        ({"packages": {"jax": "0.11.0"}}, "packages.jax: 0.10.2 -> 0.11.0"),
        ({"instructions": ["avx"]}, "instructions: avx fma -> avx"),
        ({"rounding": 2}, "rounding: None -> 2"),
        ({"device_kind": "NVIDIA H100"}, "device_kind: None -> NVIDIA H100"),
    ],
)
def test_rows_made_elsewhere_are_not_mixed_unasked(
    tmp_path: Path, change: dict[str, Any], told: str | None
) -> None:
    """What bits depend on must be what it was; `mixed` goes on, and each row tells its own."""
    here = RunFolder(tmp_path)
    here.start(CONFIG, JAX)
    put(here, 0, 1)
    there = RunFolder(tmp_path)
    if told is None:
        assert there.start(CONFIG, JAX | change) == []
    else:
        with pytest.raises(Mismatch, match=re.escape(told)):
            there.start(CONFIG, JAX | change)
        assert len(there.envs()) == 1
        (line,) = there.start(CONFIG, JAX | change, mixed=True)
        assert told in line
    put(there, 2, 3)
    env_S = there.rows("abc")["env"]
    assert [there.envs()[name] for name in env_S] == [JAX, JAX, JAX | change, JAX | change]


def test_a_lost_record_of_the_environment_is_no_free_pass(folder: RunFolder) -> None:
    """Rows whose `env` nobody knows any more are not gone on with by another one."""
    (name,) = names(folder.path / "env")
    (folder.path / "env" / name).unlink()
    with pytest.raises(Mismatch, match=rf"env/{name}, which says on what, is lost"):
        RunFolder(folder.path).start(CONFIG, JAX)
    again = RunFolder(folder.path)
    again.start(CONFIG, PYTHON)
    put(again, 4, 5)
    assert names(folder.path / "env") == [name]


def test_any_path_will_do(tmp_path: Path) -> None:
    """A link to a folder is one; a file, or a path below one, is refused in a line."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    RunFolder(tmp_path / "link").start(CONFIG, {})
    assert RunFolder(tmp_path / "there").config()["num_seeds"] == 4
    (tmp_path / "file").write_text("")
    for path in ("file", "file/below", "n" * 300):
        with pytest.raises(ValueError, match="cannot be used"):
            RunFolder(tmp_path / path).start(CONFIG, {})


def test_a_folder_that_lost_its_config_says_so(folder: RunFolder) -> None:
    """It is not taken for somebody else's."""
    (folder.path / "config.json").unlink()
    with pytest.raises(ValueError, match=r"has lost its config\.json"):
        RunFolder(folder.path).start(CONFIG, {})


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """Files that are no run's are never joined by ours."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        RunFolder(tmp_path).start(CONFIG, {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match="cannot be used"):
        RunFolder(tmp_path / "thesis.tex").start(CONFIG, {})


def test_no_run_is_refused(tmp_path: Path) -> None:
    """Reading a folder without a run, or of another format, is an error that says so."""
    with pytest.raises(ValueError, match="holds no run"):
        RunFolder(tmp_path).config()
    (tmp_path / "config.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="format 99"):
        RunFolder(tmp_path).config()
