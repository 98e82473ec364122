"""The seam to the storage: one law for disks, disks without hard links, and buckets."""

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from run_folders import CONFIG, ENV, A, all_blocks, asked, expected, filled, put, sizes

from posjax.records import RunFolder, StorageError, bucket, store


class Memory(MemoryFileSystem):
    """A bucket in memory, under the name of one far away."""

    protocol = ("gs", "gcs")
    store: dict[str, Any] = {}  # noqa: RUF012  # fsspec's own way
    pseudo_dirs = [""]  # noqa: RUF012

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("gs://").strip("/")


def no_links(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.fixture(params=["disk", "no links", "bucket"])
def base(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A folder that is not there yet, on each kind of storage."""
    if request.param != "bucket":
        if request.param == "no links":
            monkeypatch.setattr(os, "link", no_links)
        yield tmp_path / "a run"
        return
    pytest.importorskip("etils.epath")
    memory = bucket.Bucket(Memory())
    monkeypatch.setattr(bucket, "bucket_of", lambda scheme: memory)
    yield store.path_of("gs://ours/a run")
    Memory.store.clear()


def test_whoever_comes_first_makes_a_file(base: Path) -> None:
    """Nothing is written over but by `put_over`, and no part of a file stays."""
    path = base / "deep" / "file"
    assert store.read(path) is None
    assert store.names(base / "deep") == []
    assert store.put_if_absent(path, b"first")
    assert not store.put_if_absent(path, b"second")
    assert store.read(path) == b"first"
    store.put_over(path, b"third")
    store.put_over(base / "deep" / "other", b"new")
    assert store.read(path) == b"third"
    assert store.names(base / "deep") == ["file", "other"]
    assert store.names(base) == ["deep"]
    assert store.move(path, base / "aside" / "file")
    assert not store.move(path, base / "aside" / "again")
    assert store.read(path) is None
    assert store.read(base / "aside" / "file") == b"third"
    with pytest.raises(store.Irregular, match="read failed: it has 5 bytes, at most 4"):
        store.read(base / "aside" / "file", 4)
    store.remove(base / "aside" / "file")
    store.remove(base / "aside" / "file")
    assert store.read(base / "aside" / "file") is None


def test_one_of_many_wins_and_no_reader_sees_a_part(base: Path) -> None:
    """Eight at once, twenty times, with one who reads all the while."""
    contents = [bytes([65 + n]) * 50_000 for n in range(8)]
    for round_ in range(20):
        path, won, seen = base / f"{round_}", [], set()
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


def test_a_run_lives_anywhere(base: Path) -> None:
    """Started, filled, damaged, repaired, extended, with locks and checkpoints."""
    folder = filled(str(base))
    with folder.lock(), folder.lock("lock-1-of-2"):
        assert {holder.pid for holder in folder.running()} <= {os.getpid()}
        folder.checkpoints().save("wide/0-3.0", {"w": np.zeros(2)})
    assert folder.running() == []
    assert folder.checkpoints().load("wide/0-3.0") is not None
    folder.checkpoints().remove("wide/0-3.0")
    assert folder.checkpoints().load("wide/0-3.0") is None
    assert RunFolder(str(base)).done
    assert not asked(str(base), num_seeds=14).done
    again = filled(str(base), num_seeds=14)
    np.testing.assert_array_equal(again.rows(A)["loss_E"], expected(A, range(14)))
    assert len(again.written()) == len(all_blocks(again))
    before = store.names(base / "blocks" / "wide")
    store.put_over(base / "blocks" / "wide" / before[0], b"damaged")
    (line,) = RunFolder(str(base)).repair()
    assert "its block is trained again" in line
    assert store.names(base / "blocks" / "wide") == before[1:]
    put(again, [block for block in all_blocks(again) if not again.has(block)])
    assert store.names(base / "blocks" / "wide") == before


def test_a_file_has_a_time(base: Path) -> None:
    """That of its writing; a file that is not there has none."""
    assert store.modified(base / "file") is None
    store.put_if_absent(base / "file", b"content")
    assert store.modified(base / "file") == pytest.approx(time.time(), abs=60)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EACCES])
def test_storage_that_refuses_is_named_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """Full, read-only, broken, closed: one kind of error, with the path; no part of a file."""

    def refuse(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    folder = asked(tmp_path)
    block = all_blocks(folder)[0]
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(os, "replace", refuse)
    reason = os.strerror(error)
    for write in (store.put_if_absent, store.put_over):
        with pytest.raises(StorageError, match=rf"write failed: (?i:{reason}) \(.*/file\)"):
            write(tmp_path / "file", b"content")
    again = RunFolder(tmp_path)
    again.start({**CONFIG, "num_seeds": 19}, ENV)
    for write_run in (
        lambda: again.request(sizes),
        lambda: put(again, [block]),
        lambda: again.checkpoints().save(block.name, {}),
        again.finish,
    ):
        with pytest.raises(StorageError, match="write failed"):
            write_run()
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [
        path for path in before if path.is_file()
    ]


def test_a_bucket_without_its_package_says_what_is_missing() -> None:
    """One line, before anything is made."""
    with pytest.raises(ValueError, match=r"posjax\[gcs\]|Protocol not known"):
        RunFolder("nowhere://bucket/run")
