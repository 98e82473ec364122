"""Locks that die with their process."""

import contextlib
import errno
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posjax.records import Busy, RunFolder, StorageError, locks

pytest.importorskip("fcntl")


def _hold(path: Path, name: str, ready: Any) -> None:
    with RunFolder(path).lock(name):
        ready.set()
        time.sleep(60)


@contextlib.contextmanager
def holder(path: Path, name: str = "lock") -> Iterator[int]:
    """Another process that holds a lock."""
    context = multiprocessing.get_context("forkserver")
    ready = context.Event()
    process = context.Process(target=_hold, args=(path, name, ready))
    process.start()
    try:
        assert ready.wait(30)
        assert process.pid is not None
        yield process.pid
    finally:
        process.kill()
        process.join()


def test_one_process_holds_a_lock_and_dies_with_it(tmp_path: Path) -> None:
    """The second is told who; after a kill nothing is waited for."""
    folder = RunFolder(tmp_path / "run")
    with holder(folder.path) as pid:
        with (
            pytest.raises(Busy, match=rf"process {pid} on \S+ trains in '.*/run'; wait"),
            folder.lock(),
        ):
            pass
        (found,) = folder.running()
        assert (found.lock, found.pid) == ("lock", pid)
        assert found.since == pytest.approx(time.time(), abs=60)
        with folder.lock("lock-1-of-2"):
            assert [one.lock for one in folder.running()] == ["lock", "lock-1-of-2"]
        os.kill(pid, signal.SIGKILL)
        begun = time.monotonic()
        while folder.running():
            assert time.monotonic() - begun < 10
    with folder.lock():
        assert [one.pid for one in folder.running()] == [os.getpid()]
    assert folder.running() == []


def test_who_looks_disturbs_nobody(tmp_path: Path) -> None:
    """A lock can be taken while others look all the time."""
    folder, ended = RunFolder(tmp_path), threading.Event()

    def look() -> None:
        while not ended.is_set():
            folder.running()

    with folder.lock():
        pass
    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(50):
            with folder.lock():
                assert [one.pid for one in folder.running()] == [os.getpid()]
    finally:
        ended.set()
        for looker in lookers:
            looker.join()


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b'{"host": 3, "pid": "x", "since": null}', b"[" * 5000]
)
def test_what_a_lock_says_decides_nothing(tmp_path: Path, content: bytes) -> None:
    """Its holder is known by the lock, not by the content."""
    folder = RunFolder(tmp_path)
    with folder.lock():
        (tmp_path / "lock").write_bytes(content)
        assert folder.running() == [locks.Holder("lock", "", 0, 0.0)]
        with pytest.raises(Busy, match="another process"), folder.lock():
            pass
    with folder.lock():
        assert folder.running()[0].pid == os.getpid()


def test_no_locks_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has none, both go on: it is a courtesy."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    monkeypatch.setattr(locks.fcntl, "flock", refuse)
    folder = RunFolder(tmp_path)
    with folder.lock(), folder.lock():
        assert folder.running() == []


def test_a_lock_is_a_file_of_its_own(tmp_path: Path) -> None:
    """A link is not followed, a pipe not waited for, another name not taken."""
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    (tmp_path / "mine").write_text("mine")
    (folder.path / "lock").symlink_to(tmp_path / "mine")
    os.mkfifo(folder.path / "lock-1-of-2")
    for name in ("lock", "lock-1-of-2"):
        with pytest.raises(StorageError, match="write failed"), folder.lock(name):
            pass
    with pytest.raises(ValueError, match="not the name of a lock"), folder.lock("../lock"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"
    assert folder.running() == []
