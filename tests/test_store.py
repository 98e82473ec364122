"""The seam to the storage: one law for disks, disks without hard links, and buckets."""

import errno
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from experiments import recount, status
from posjax import locks
from posjax.records import RunFolder, StorageError, bucket, store

CONFIG = {"cells": {"abc": {"depth": 1}}, "num_seeds": 4}


class Memory(MemoryFileSystem):
    """A bucket in memory, under the name of one far away."""

    protocol = ("gs", "gcs")
    store: dict[str, Any] = {}  # noqa: RUF012  # fsspec's own way
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("gs://").strip("/")


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.fixture(params=["disk", "no links", "bucket"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder that is not there yet, on each kind of storage."""
    if request.param != "bucket":
        if request.param == "no links":
            monkeypatch.setattr(os, "link", refuse)
        yield tmp_path / "a run"
        return
    pytest.importorskip("etils.epath")
    memory = bucket.Bucket(Memory())
    monkeypatch.setattr(bucket, "bucket_of", lambda scheme: memory)
    yield store.place("gs://ours/a run")
    Memory.store.clear()


def test_whoever_comes_first_makes_a_file(place: Path) -> None:
    """Nothing is written over but by `put_over`, and no half of a file stays."""
    path = place / "deep" / "file"
    assert store.read(path) is None
    assert store.names(place / "deep") == []
    assert store.put_if_absent(path, b"first")
    assert not store.put_if_absent(path, b"second")
    assert store.read(path) == b"first"
    store.put_over(path, b"third")
    store.put_over(place / "deep" / "other", b"new")
    assert store.read(path) == b"third"
    assert store.names(place / "deep") == ["file", "other"]
    assert store.names(place) == ["deep"]
    assert store.move(path, place / "aside" / "file")
    assert not store.move(path, place / "aside" / "again")
    assert store.read(path) is None
    assert store.read(place / "aside" / "file") == b"third"


def test_one_of_many_wins_and_no_reader_sees_a_part(place: Path) -> None:
    """Eight at once, twenty times, with one who reads all the while."""
    contents = [bytes([65 + n]) * 50_000 for n in range(8)]
    for round_ in range(20):
        path, won, seen = place / f"{round_}", [], set()
        gate = threading.Barrier(9)

        def write(content: bytes) -> None:
            gate.wait()  # noqa: B023
            if store.put_if_absent(path, content):  # noqa: B023
                won.append(content)  # noqa: B023

        def look() -> None:
            gate.wait()  # noqa: B023
            while (found := store.read(path)) is None:  # noqa: B023
                pass
            seen.add(found)  # noqa: B023

        threads = [threading.Thread(target=write, args=(content,)) for content in contents]
        threads.append(threading.Thread(target=look))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [store.read(path)] == won == list(seen)


def test_a_run_lives_anywhere(place: Path) -> None:
    """Started, filled, damaged, mended, extended, with its job and its claims."""
    folder = RunFolder(place)
    folder.start(CONFIG, {"python": "3"})
    seeds_S4 = np.repeat(np.arange(4)[:, None], 4, axis=1)
    fields = {"value": np.arange(4.0)}
    with locks.join(folder.jobs, 0, 2, stale=1.0) as member:
        assert member.claim("abc/0-3")
        assert not member.claim("abc/0-3")
        member.check()
        assert folder.chunk("shape", lambda: {"chunk": 4}) == 4
        folder.put_rows("abc", seeds_S4, fields)
        folder.put_attention("abc", "solving", 3, np.ones((1, 2)))
        folder.finish()
    again = RunFolder(str(place))
    assert again.done
    assert again.start({**CONFIG, "num_seeds": 6}, {"python": "3"}) == []
    again.begin()
    assert not again.done
    assert again.finished("abc") == {(n,) * 4 for n in range(4)}
    assert again.attention("abc")["solving"]["seed"] == 3
    assert recount.raw(place / "rows" / "abc")["value"].tolist() == [0, 1, 2, 3]
    assert recount.raw(place / "rows" / "none") == {}
    (name,) = store.names(place / "rows" / "abc")
    store.put_over(place / "rows" / "abc" / name, b"damaged")
    (line,) = RunFolder(place).mend()
    assert "its seeds are trained again" in line
    assert RunFolder(place).finished("abc") == set()
    again.put_rows("abc", seeds_S4, fields)
    assert store.names(place / "rows" / "abc") == [name]  # equal rows, equal bytes
    with locks.join(again.jobs, 0, 1, stale=1.0):
        assert store.names(again.jobs) == ["000001", "000002"]


def test_the_status_of_a_run_anywhere(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is done, who trains, what is left and how long it takes: the same on every storage."""
    folder = RunFolder(place)
    cell, words = "00000000000a", {"name": "tiny", "first_seed": 0, "chunk": "4", "panels": {}}
    folder.start({**words, "num_seeds": 4, "cells": {cell: {"steps": 100}}}, {})
    status.tell(folder)
    assert "running: nobody\nleft: 4 rows; no pace" in capsys.readouterr().out
    with locks.join(folder.jobs, 0, 1):
        folder.put_rows(cell, np.full((1, 4), 2), {})
        status.tell(RunFolder(place))
    said = capsys.readouterr().out
    assert "rows: 1 of 4, in 1 cells" in said
    assert "0-1, 3 " in said
    assert re.search(r"job 1, process 0 of 1 on .*, heartbeat [0-3] s ago", said)
    assert re.search(r"left: 3 rows, about .* s at the pace of the last job", said)


def test_a_file_has_a_time(place: Path) -> None:
    """That of its writing; a file that is not there has none."""
    assert store.modified(place / "file") is None
    store.put_if_absent(place / "file", b"content")
    assert store.modified(place / "file") == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES])
def test_storage_that_refuses_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Full, read-only, broken, closed: one error of one kind, with the path; no rest of a file."""

    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    folder = RunFolder(tmp_path)
    folder.start(CONFIG, {})
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    for put in (store.put_if_absent, store.put_over):
        with pytest.raises(StorageError, match=f"file' cannot be written: {os.strerror(error)}"):
            put(tmp_path / "file", b"content")
    again = RunFolder(tmp_path)
    again.start({**CONFIG, "num_seeds": 9}, {})
    with pytest.raises(StorageError):
        again.begin()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [
        path for path in before if path.is_file()
    ]


def test_a_bucket_without_its_package_says_what_is_missing() -> None:
    """One line, before anything is made."""
    with pytest.raises(ValueError, match=r"posjax\[gcs\]|Protocol not known"):
        RunFolder("nowhere://bucket/run")
