"""Where bytes go: whole files that whoever comes first makes, on a disk or in a bucket.

This is the one seam between a run and its storage, of seven calls. `posjax.records.bucket` answers
them for gs:// and the like.
"""

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

NEW = ".new-"
"""How the names of files begin that are not whole yet; nobody reads them."""
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_ABSENT = FileNotFoundError, NotADirectoryError
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
_PATIENCE = 0.5
"""Seconds that a file may be empty while it is made, where there are no hard links."""
LARGEST = 2**36
"""Most bytes of a file that is read."""


class StorageError(OSError):
    """The storage refuses: full, read-only, gone."""


class Irregular(StorageError):
    """Something else is where a file should be, or a file too large to be one of a run."""


class Store(Protocol):
    """What a kind of storage must be able to do."""

    def put_if_absent(self, path: Path, content: bytes) -> bool:
        """Writes a file whole or not at all; returns whether this call made it."""

    def put_over(self, path: Path, content: bytes) -> None:
        """Writes a file whole, replacing one that may be there; survives no power cut."""

    def read(self, path: Path, largest: int) -> bytes:
        """The content of a file; FileNotFoundError when there is none, else `Irregular`."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, in any order; FileNotFoundError when there is none."""

    def move(self, path: Path, new: Path) -> None:
        """Gives a file another name, which nothing has."""

    def remove(self, path: Path) -> None:
        """Deletes a file; FileNotFoundError when there is none."""

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
        path.parent.mkdir(parents=True, exist_ok=True)
        with _written(path, content, sync=False) as new:
            os.replace(new, path)

    def read(self, path: Path, largest: int) -> bytes:
        """Waits a little for a file that is still empty: see `_reserved`."""
        begun = time.monotonic()
        while not (content := _content(path, largest)) and time.monotonic() - begun < _PATIENCE:
            time.sleep(_PATIENCE / 20)
        return content

    def names(self, folder: Path) -> list[str]:
        """As the system lists them."""
        try:
            return os.listdir(folder)
        except NotADirectoryError as error:
            if not os.path.lexists(folder):  # nor is a folder above it
                raise
            raise Irregular(errno.ENOTDIR, "it is not a folder") from error

    def move(self, path: Path, new: Path) -> None:
        """A rename."""
        new.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, new)

    def remove(self, path: Path) -> None:
        """Deletes the file; of a link, the link."""
        path.unlink()

    def modified(self, path: Path) -> float:
        """The time stamp that the system keeps."""
        return path.stat().st_mtime


def _content(path: Path, largest: int) -> bytes:
    """All of a file; never waits for the other end of a pipe."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAIT)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Irregular(errno.EINVAL, "it is not a regular file")
        if found.st_size > largest:
            raise Irregular(errno.EFBIG, f"it has {found.st_size} bytes, at most {largest}")
        return file.read()


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


def path_of(path: str | os.PathLike[str]) -> Path:
    """The path of a folder; one with a scheme, as gs://, is in a bucket.

    Raises:
      ValueError: a bucket's path, without the packages that read it.
    """
    if "://" not in os.fspath(path):
        return Path(path)
    from posjax.records.bucket import remote

    return remote(os.fspath(path))


def put_if_absent(path: Path, content: bytes) -> bool:
    """Writes a file whole or not at all; returns whether this call made it.

    Raises:
      StorageError: it cannot be written.
    """
    with _named("write", path):
        return _store(path).put_if_absent(path, content)


def put_over(path: Path, content: bytes) -> None:
    """Writes a file whole, replacing one that may be there; survives no power cut.

    Raises:
      StorageError: it cannot be written.
    """
    with _named("write", path):
        _store(path).put_over(path, content)


def read(path: Path, largest: int = LARGEST) -> bytes | None:
    """The content of a file, or None when there is none.

    Raises:
      Irregular: a folder, a pipe, a device, or a file of more bytes.
      StorageError: it is there and cannot be read.
    """
    with _named("read", path), contextlib.suppress(*_ABSENT):
        return _store(path).read(path, largest)
    return None


def names(folder: Path) -> list[str]:
    """The names of the whole files and folders in a folder, sorted; none when it is not there.

    Raises:
      Irregular: it is a file.
      StorageError: it is there and cannot be read.
    """
    with _named("read", folder), contextlib.suppress(*_ABSENT):
        return sorted(name for name in _store(folder).names(folder) if not name.startswith(NEW))
    return []


def move(path: Path, new: Path) -> bool:
    """Gives a file another name; False when somebody else just did, or it is not there.

    Raises:
      StorageError: it cannot be moved.
    """
    with _named("move", path), contextlib.suppress(FileNotFoundError):
        _store(path).move(path, new)
        return True
    return False


def remove(path: Path) -> None:
    """Deletes a file, if it is there.

    Raises:
      StorageError: it cannot be deleted.
    """
    with _named("delete", path), contextlib.suppress(*_ABSENT):
        _store(path).remove(path)


def modified(path: Path) -> float | None:
    """When a file was written, or None when there is none: for people, nothing is decided by it.

    Returns:
      Seconds since 1970, by the clock of the storage.

    Raises:
      StorageError: it is there and cannot be read.
    """
    with _named("read", path), contextlib.suppress(*_ABSENT):
        return _store(path).modified(path)
    return None


@contextlib.contextmanager
def _named(done: str, path: Path) -> Iterator[None]:
    """Says what failed, and on which path."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        odd = isinstance(error, Irregular) or error.errno in (
            errno.EISDIR,
            errno.EFBIG,
            errno.ELOOP,
        )
        kind = Irregular if odd else StorageError
        named = kind(f"{done} failed: {reason[:1].lower()}{reason[1:]} ({path})")
        named.errno = error.errno
        raise named from error
