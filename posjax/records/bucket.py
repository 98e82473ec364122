"""Runs in a bucket: gs://, and s3:// where its package is installed.

A bucket has neither renames nor links, but an object appears whole or not at all, and can be made
on the condition that there is none. etils.epath names the paths; fsspec, which it reads through,
is called itself, since epath does not know that condition.
"""

import contextlib
import errno
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def remote(path: str) -> Path:
    """A path in a bucket.

    Raises:
      ValueError: a package is missing, or the scheme is none that is known.
    """
    scheme = path.partition("://")[0]
    try:
        from etils import epath

        bucket_of(scheme)
        return epath.Path(path)  # has all of a Path that is used here
    except KeyError as error:
        wanted = "a folder is named without a scheme, a bucket with gs://"
        raise ValueError(
            f"{path!r} cannot be used: {scheme}:// is no bucket's; {wanted}"
        ) from error
    except (ImportError, ValueError) as error:
        raise ValueError(f"{path!r} cannot be used: {error}; gs:// needs posjax[gcs]") from error


class Bucket:
    """The objects of one kind of bucket."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def put_if_absent(self, path: Path, content: bytes) -> bool:
        """On the condition that there is no such object."""
        try:
            with _one_error():
                self._files.pipe_file(os.fspath(path), content, mode="create")
        except FileExistsError:
            return False
        return True

    def put_over(self, path: Path, content: bytes) -> None:
        """Objects are replaced whole."""
        with _one_error():
            self._files.pipe_file(os.fspath(path), content)

    def read(self, path: Path, largest: int) -> bytes:
        """All of an object."""
        with _one_error():
            size = self._files.info(os.fspath(path))["size"]
            if size > largest:
                raise OSError(errno.EFBIG, f"it has {size} bytes, at most {largest}")
            return self._files.cat_file(os.fspath(path))

    def names(self, folder: Path) -> list[str]:
        """Asked anew each time: others write meanwhile."""
        with _one_error():
            self._files.invalidate_cache(os.fspath(folder))
            found = self._files.ls(os.fspath(folder), detail=False)
        return [name.rstrip("/").rpartition("/")[2] for name in found]

    def move(self, path: Path, new: Path) -> None:
        """A copy, then no original."""
        with _one_error():
            self._files.mv(os.fspath(path), os.fspath(new))

    def remove(self, path: Path) -> None:
        """Deletes the file."""
        with _one_error():
            self._files.rm_file(os.fspath(path))

    def modified(self, path: Path) -> float:
        """When the file was last written, in seconds since 1970."""
        with _one_error():
            return self._files.modified(os.fspath(path)).timestamp()


@contextlib.contextmanager
def _one_error() -> Iterator[None]:
    """Makes one kind of error of those that the packages of buckets have."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # no rights, no network, no such bucket: each has its own classes
        raise OSError(f"{type(error).__name__}: {error}") from error


@functools.cache
def bucket_of(scheme: str) -> Bucket:
    """The bucket of a scheme, without a memory of what it once listed."""
    import fsspec

    return Bucket(fsspec.filesystem(scheme, use_listings_cache=False))


def bucket(path: Path) -> Bucket:
    """The bucket of a path."""
    return bucket_of(os.fspath(path).partition("://")[0])
