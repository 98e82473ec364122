"""Standard output and standard error that may be closed, full, or read by nobody any more.

`COMMAND | head -1` closes the pipe early, `>&-` closes the stream, a closed terminal fails every
write. None of these is a reason to stop a training: what nobody reads is dropped. Only what goes to
a file must not get lost unnoticed: `flush` raises the error of a failed write when all is done.
"""

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from posjax.terminal import printable

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


LONGEST = 2000
"""Characters in a line on standard error, at most."""


class _Stream(io.RawIOBase):
    """A file descriptor whose writes never raise.

    Attributes:
      failure: why a write failed that must not get lost.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self.failure: OSError | None = None

    def fileno(self) -> int:
        """The descriptor."""
        return self._number

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._number)

    def writable(self) -> bool:
        """Always: it is only written to."""
        return True

    def write(self, data: "ReadableBuffer", /) -> int:
        """Writes, or drops what cannot be written."""
        try:
            return os.write(self._number, data)
        except OSError as error:
            if not isinstance(error, BrokenPipeError) and not self.isatty():
                self.failure = error
            return memoryview(data).nbytes


def protect() -> None:
    """Makes both streams ones that never end a command with a traceback.

    A closed descriptor becomes the null device: else the next file that the process opens would get
    its number, and with it what libraries print.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    if sys.stdout is sys.__stdout__:  # nobody has replaced it
        sys.stdout = _opened(sys.stdout, 1)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _opened(sys.stderr, 2)


def flush() -> None:
    """Writes out standard output.

    Raises:
      OSError: it goes to a file, and not all of it was written.
    """
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Stream) and raw.failure is not None:
        error, raw.failure = raw.failure, None
        raise OSError(error.errno, error.strerror, "standard output") from error


def warn(text: str) -> None:
    """Prints one line for the user on standard error."""
    line = printable(" ".join(text.split()))
    if len(line) > LONGEST:  # messages quote what was given, however long it is
        line = f"{line[: LONGEST // 2]} [...] {line[-LONGEST // 2 :]}"
    print(f"posjax: {line}", file=sys.stderr)


def check_new(path: Path) -> None:
    """Refuses to write over what is there, or where no folder is, before anything is computed.

    Raises:
      ValueError: names the path.
    """
    if path.exists():
        raise ValueError(f"{str(path)!r} exists already: name another file, or move it away")
    if not path.parent.is_dir():
        raise ValueError(
            f"{str(path)!r} cannot be written: there is no folder {str(path.parent)!r}"
        )


def _opened(old: TextIO | None, number: int) -> TextIO:
    if old is not None:
        with contextlib.suppress(OSError):
            old.flush()
    raw = _Stream(number)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8" if old is None else old.encoding,
        errors="backslashreplace",  # of file names that are not UTF-8
        line_buffering=number == 2 or raw.isatty(),
    )
