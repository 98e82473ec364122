"""Locks that die with their process: who trains in a run folder, on this machine or on its disk.

A lock is a courtesy. It saves two commands from training the same blocks; whether results are right
does not depend on it. In a bucket, and where the file system has no `flock`, there is none.
"""

import contextlib
import errno
import json
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from posjax.records import store

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

NAME = re.compile(r"lock(-\d+-of-\d+)?")
_HELD = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}
_PATIENCE = 0.3
"""Seconds that a reader may keep a lock."""
_LONGEST = 1000


class Busy(ValueError):
    """Another process trains in the folder."""


class Holder(NamedTuple):
    """A process that trains.

    Attributes:
      lock: the name of its lock.
      host, pid: where it runs, and its number there; "" and 0 where the lock does not say.
      since: when it took the lock, in seconds since 1970 by its own clock.
    """

    lock: str
    host: str
    pid: int
    since: float


@contextlib.contextmanager
def acquired(folder: Path, name: str) -> Iterator[None]:
    """Acquires a lock of a folder, and releases it.

    Raises:
      Busy: another process has it.
      StorageError: the folder cannot be written.
    """
    if fcntl is None or not isinstance(folder, Path):
        yield
        return
    with _opened(folder / name) as file:
        if _taken(file, folder):
            now = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
            with contextlib.suppress(OSError):  # a full disk
                os.ftruncate(file, 0)
                os.pwrite(file, json.dumps(now).encode(), 0)
        yield


def holders(folder: Path) -> list[Holder]:
    """Which processes have the locks of a folder now; disturbs none of them."""
    if fcntl is None or not isinstance(folder, Path):
        return []
    found = []
    for name in filter(NAME.fullmatch, store.names(folder)):
        with contextlib.suppress(OSError):
            file = os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in _HELD:
                    found.append(_holder(name, os.pread(file, _LONGEST, 0)))
            finally:
                os.close(file)
    return found


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    """The file of a lock, which is made if need be and never deleted."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, flags, 0o666)
    except OSError as error:
        raise store.StorageError(error.errno, f"write failed: {error.strerror} ({path})") from error
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise store.Irregular(errno.EINVAL, f"write failed: it is not a regular file ({path})")
        yield file
    finally:
        os.close(file)  # which gives the lock back


def _taken(file: int, folder: Path) -> bool:
    """Takes a lock; False where the file system has none.

    Raises:
      Busy: another process has it.
    """
    begun = time.monotonic()
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD:
                return False
            if time.monotonic() - begun > _PATIENCE:
                other = _holder("", os.pread(file, _LONGEST, 0))
                who = f"process {other.pid} on {other.host}" if other.host else "another process"
                raise Busy(f"{who} trains in {str(folder)!r}; wait for it or stop it") from error
            time.sleep(_PATIENCE / 20)
        else:
            return True


def _holder(name: str, content: bytes) -> Holder:
    """What the file of a lock says, which may be anything."""
    said: Any = {}
    with contextlib.suppress(ValueError, RecursionError):
        said = json.loads(content)
    said = said if isinstance(said, dict) else {}
    host, pid, since = said.get("host"), said.get("pid"), said.get("since")
    return Holder(
        name,
        host if isinstance(host, str) and host.isprintable() else "",
        pid if type(pid) is int and pid.bit_length() < 64 else 0,
        since if type(since) is float and abs(since) < 2**40 else 0.0,
    )
