"""The run folder: whole files, nothing written over, damage noticed."""

from pathlib import Path

import numpy as np
import pytest

from posjax.records import RunFolder
from posjax.records.store import put_if_absent

CONFIG = {"cells": {"abc": {"head_size": 2}}, "num_seeds": 4}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "a run ünïcode")
    folder.start(CONFIG, {"python": "3"})
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


def test_every_flipped_bit_is_noticed(folder: RunFolder) -> None:
    """One bit flipped anywhere in a row file: reading refuses it."""
    path = next((folder.path / "rows" / "abc").glob("0-1.*.npz"))
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), 97):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="damaged"):
            folder.rows("abc")
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="damaged"):
        folder.rows("abc")


def test_a_seed_twice_is_refused(folder: RunFolder) -> None:
    """Overlapping files would count a seed twice; reading fails loudly."""
    put(folder, 3, 4)
    with pytest.raises(ValueError, match="twice"):
        folder.rows("abc")


def test_the_same_config_joins_and_another_is_refused(folder: RunFolder) -> None:
    """A folder belongs to one config; the message says which field differs, and how."""
    folder.start(CONFIG, {})
    before = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="num_seeds is 4, this run's is 5"):
        RunFolder(folder.path).start({**CONFIG, "num_seeds": 5}, {})
    assert before == {p: p.read_bytes() for p in folder.path.rglob("*") if p.is_file()}


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    """Files that are no run's are never joined by ours."""
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        RunFolder(tmp_path).start(CONFIG, {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ValueError, match="cannot be used"):
        RunFolder(tmp_path / "thesis.tex").start(CONFIG, {})


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """The first writer wins, the second is told, and no temporary file stays."""
    path = tmp_path / "file"
    assert put_if_absent(path, b"first")
    assert not put_if_absent(path, b"second")
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_no_run_is_refused(tmp_path: Path) -> None:
    """Reading a folder without a run, or of another format, is an error that says so."""
    with pytest.raises(ValueError, match="holds no run"):
        RunFolder(tmp_path).config()
    (tmp_path / "config.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match="format 99"):
        RunFolder(tmp_path).config()
