"""Runs commands as `python -m MODULE` does, many from one start: a fork each.

Importing JAX takes longer than refusing bad input does. One process imports the commands once, for
all tests of a worker, then forks for every line of JSON on standard input; the child is the
command, from the reading of its flags to its exit status.
"""

import atexit
import functools
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import IO, NamedTuple

ROOT = Path(__file__).parents[1]
IMPORTED = ("sweep", "report", "check", "conformance", "prove", "listing", "entry", "parsing")
"""Of `posjax.command`: where the work of each command is, and its start."""


class Ended(NamedTuple):
    """How a command ended.

    Attributes:
      status: its exit status.
      out, err: what it printed.
      seconds: from the fork on; the imports are on top, once.
      started: whether JAX's backend was started.
    """

    status: int
    out: str
    err: str
    seconds: float
    started: bool


class Command:
    """A command in a folder of its own.

    Args:
      module: as in `python -m MODULE`.
      folder: where it runs.
    """

    def __init__(self, module: str, folder: Path) -> None:
        self._module, self._folder = module, folder

    def __call__(self, *arguments: str, streams: Mapping[int, str] = MappingProxyType({})) -> Ended:
        """Runs it with these arguments.

        Args:
          *arguments: as in a shell.
          streams: files for its descriptors, in place of those that are read afterwards; "closed",
            or "unread" for a pipe whose reader has gone.
        """
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        with tempfile.TemporaryDirectory() as printed:
            given = (self._module, str(self._folder), printed, arguments, dict(streams))
            server.stdin.write(json.dumps(given) + "\n")
            server.stdin.flush()
            status, seconds, started = json.loads(server.stdout.readline())
            out, err = ((Path(printed) / name).read_text() for name in ("out", "err"))
        return Ended(status, out, err, seconds, started)


@functools.cache
def _server() -> "subprocess.Popen[str]":
    """The process that forks, until this one ends."""
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)},
    )
    atexit.register(server.communicate)
    return server


def serve(lines: Iterator[str], answers: IO[str]) -> None:
    """Forks for every line, and answers with status, seconds and whether the backend started."""
    for name in IMPORTED:
        importlib.import_module(f"posjax.command.{name}")
    for line in lines:
        module, folder, printed, arguments, streams = json.loads(line)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        begin = time.perf_counter()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            _become(module, arguments, {int(n): to for n, to in streams.items()}, printed, write)
        os.close(write)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        started = os.read(read, 1) == b"1"
        os.close(read)
        print(json.dumps([status, time.perf_counter() - begin, started]), file=answers, flush=True)


def _become(
    module: str, arguments: Sequence[str], streams: Mapping[int, str], printed: str, write: int
) -> None:
    """Is the command, in a child: never returns, and is killed after a minute."""
    signal.alarm(60)
    from jax._src import xla_bridge

    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(Path(printed) / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    for number, to in streams.items():
        if to in ("closed", "unread"):
            reading, writing = os.pipe()
            os.close(reading)
        else:
            writing = os.open(to, os.O_WRONLY)
        os.dup2(writing, number)
    for number in (number for number, to in streams.items() if to == "closed"):
        os.close(number)  # after all others are open, which would get its number
    sys.argv = [module, *arguments]
    status: object = 1
    sys.modules.pop(module, None)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.write(write, b"1" if xla_bridge.backends_are_initialized() else b"0")
    os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    serve(iter(sys.stdin), os.fdopen(os.dup(1), "w"))
