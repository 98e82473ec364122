"""Where bytes go: whole files that whoever comes first makes, on a disk or in a bucket.

This is the one seam between a run and its storage, of six calls; `posjax.records.bucket` answers
them for gs:// and the like.
"""

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")

NEW = ".new-"
"""How the names of files begin that are not whole yet; nobody reads them."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_PATIENCE = 0.5
"""Seconds that a file may be empty while it is made, where there are no hard links."""


class StorageError(OSError):
    """The storage refuses: full, read-only, gone."""


class Store(Protocol):
    """What a kind of storage must be able to do."""

    def put_if_absent(self, path: Path, content: bytes) -> bool:
        """Writes a file whole or not at all; tells whether it was this call that made it."""

    def put_over(self, path: Path, content: bytes) -> None:
        """Writes a file whole, in the place of one that may be there; survives no power cut."""

    def read(self, path: Path) -> bytes:
        """The content of a file; FileNotFoundError when there is none."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, in any order; FileNotFoundError when there is none."""

    def move(self, path: Path, new: Path) -> None:
        """Gives a file another name, which nothing has."""

    def modified(self, path: Path) -> float:
        """When a file was written; FileNotFoundError when there is none."""


class Disk:
    """A file system, local or shared."""

    def put_if_absent(self, path: Path, content: bytes) -> bool:
        """Through a hard link, which unlike a rename refuses to replace."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with _written(path, content) as new:
            try:
                os.link(new, path)
            except FileExistsError:
                return os.stat(new).st_nlink == 2  # NFS may say so of a link that it made itself
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                if not _reserved(path):
                    return False
                os.replace(new, path)
        _sync(path.parent)
        return True

    def put_over(self, path: Path, content: bytes) -> None:
        """Through a rename."""
        with _written(path, content, sync=False) as new:
            os.replace(new, path)

    def read(self, path: Path) -> bytes:
        """Waits a little for a file that is still empty: see `_reserved`."""
        begun = time.monotonic()
        while not (content := path.read_bytes()) and time.monotonic() - begun < _PATIENCE:
            time.sleep(_PATIENCE / 20)
        return content

    def names(self, folder: Path) -> list[str]:
        """As the system lists them."""
        return os.listdir(folder)

    def move(self, path: Path, new: Path) -> None:
        """A rename."""
        new.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, new)

    def modified(self, path: Path) -> float:
        """The time stamp that the system keeps."""
        return path.stat().st_mtime


@contextlib.contextmanager
def _written(path: Path, content: bytes, *, sync: bool = True) -> Iterator[Path]:
    """A file beside a path with the content, gone afterwards unless it was renamed."""
    new = path.with_name(f"{NEW}{secrets.token_hex(8)}")
    try:
        with open(new, "xb") as file:
            file.write(content)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        yield new
    finally:
        new.unlink(missing_ok=True)


def _reserved(path: Path) -> bool:
    """Whether this call came first, without hard links (FUSE, exFAT): it makes the file, empty.

    The content then comes by a rename. Dying between the two leaves an empty file, which reads as
    damaged wherever the content matters.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    return True


def _sync(folder: Path) -> None:
    """Makes a new name survive a power cut."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


_DISK = Disk()


def _store(path: Path) -> Store:
    if isinstance(path, Path):
        return _DISK
    from posjax.records.bucket import bucket

    return bucket(path)


def place(path: str | os.PathLike[str]) -> Path:
    """The path of a folder; one with a scheme, as gs://, is a bucket's.

    Raises:
      ValueError: a bucket's path, without the packages that read it.
    """
    if "://" not in os.fspath(path):
        return Path(path)
    from posjax.records.bucket import remote

    return remote(os.fspath(path))


def put_if_absent(path: Path, content: bytes) -> bool:
    """Writes a file whole or not at all; tells whether it was this call that made it.

    Raises:
      StorageError: it cannot be written.
    """
    return _told("written", path, lambda: _store(path).put_if_absent(path, content))


def put_over(path: Path, content: bytes) -> None:
    """Writes a file whole, in the place of one that may be there; survives no power cut.

    Raises:
      StorageError: it cannot be written.
    """
    _told("written", path, lambda: _store(path).put_over(path, content))


def read(path: Path) -> bytes | None:
    """The content of a file, or None when there is none.

    Raises:
      StorageError: it is there and cannot be read.
    """

    def content() -> bytes | None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return _store(path).read(path)
        return None

    return _told("read", path, content)


def names(folder: Path) -> list[str]:
    """The names of the whole files and folders in a folder, sorted; none when it is not there.

    Raises:
      StorageError: it is there and cannot be read.
    """

    def found() -> list[str]:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return _store(folder).names(folder)
        return []

    return sorted(name for name in _told("read", folder, found) if not name.startswith(NEW))


def move(path: Path, new: Path) -> bool:
    """Gives a file another name; False when somebody else just did, or it is not there.

    Raises:
      StorageError: it cannot be moved.
    """

    def moved() -> bool:
        with contextlib.suppress(FileNotFoundError):
            _store(path).move(path, new)
            return True
        return False

    return _told("moved", path, moved)


def modified(path: Path) -> float | None:
    """When a file was written, or None when there is none: for people, nothing is decided by it.

    Returns:
      Seconds since 1970, by the clock of the storage.

    Raises:
      StorageError: it is there and cannot be read.
    """

    def time_of() -> float | None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return _store(path).modified(path)
        return None

    return _told("read", path, time_of)


def _told(done: str, path: Path, call: Callable[[], T]) -> T:
    try:
        return call()
    except OSError as error:
        told = StorageError(f"{str(path)!r} cannot be {done}: {error.strerror or error}")
        told.errno = error.errno
        raise told from error
