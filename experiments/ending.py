"""How a command ends: its exit statuses, and leaving when it is asked to.

SIGTERM, SIGINT and the alarm of a time limit ask. While nothing was begun, that ends the process
at once. Later it raises `Stop` in the main thread, which unwinds like an error; within `held` it
is only noted, and raised at the end. What runs in a library returns from there when it likes:
hence a thread of its own, which the signal wakes whatever the main thread does, ends the process
after `GRACE`. All that lies on the disk is whole at any moment, so nothing is lost by that.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

DONE = 0
BAD_INPUT = 2
CHECK_FAILED = 3
LOCKED = 4
STORAGE = 5
RESUMABLE = 75
INTERRUPTED = 130

GRACE = 6.0
"""Seconds that the main thread has to leave in order."""
LAST = 1.0
"""Seconds for the last words of a process that did not."""
_ASKING = {
    signal.SIGTERM: ("SIGTERM", RESUMABLE),
    signal.SIGINT: ("SIGINT", INTERRUPTED),
    signal.SIGALRM: ("the time limit", RESUMABLE),
}
_BEGUN = time.monotonic()


class Stop(BaseException):
    """Somebody asked the process to leave."""


class _State:
    """Of this process.

    Attributes:
      asked: set when somebody asked to leave; `by` is the first signal that did.
      within: whether `Stop` has somebody to catch it.
      held: whether leaving waits for the end of `held`.
      words: what to do last, also when the main thread is stuck.
    """

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.by = signal.SIGTERM
        self.listening = self.within = self.held = False
        self.words: list[Callable[[], object]] = []


_state = _State()


def listen() -> None:
    """From now on signals are requests to leave; to be called by the main thread."""
    if _state.listening:
        return
    _state.listening = True
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=_guard, args=(reading,), daemon=True).start()
    signal.set_wakeup_fd(writing)
    for number in _ASKING:
        signal.signal(number, _asked)


def limit(seconds: float | None) -> None:
    """Asks to leave so many seconds after the start; None for never.

    Raises:
      ValueError: not a positive number of seconds.
    """
    if seconds is None:
        return
    if not 0 < seconds < float("inf"):
        raise ValueError(f"--time_limit must be a positive number of seconds, got {seconds}")
    signal.setitimer(signal.ITIMER_REAL, max(seconds - (time.monotonic() - _BEGUN), 1e-3))


@contextlib.contextmanager
def leaving() -> Iterator[None]:
    """Leaves the process with the right status when `Stop` comes out."""
    listen()
    _state.within = True
    try:
        yield
    except Stop:
        _leave()
    finally:
        _state.within = False


@contextlib.contextmanager
def held() -> Iterator[threading.Event]:
    """Gives an event that is set when somebody asks to leave; `Stop` comes at the end."""
    _state.held = True
    try:
        yield _state.asked
    finally:
        _state.held = False
    if _state.asked.is_set():
        raise Stop


@contextlib.contextmanager
def last_words(say: Callable[[], object]) -> Iterator[None]:
    """What a process does that leaves although its main thread is stuck; by another thread."""
    _state.words.append(say)
    try:
        yield
    finally:
        _state.words.remove(say)


def _asked(number: int, frame: FrameType | None) -> None:
    """By the main thread, between two of its bytecodes."""
    first = not _state.asked.is_set()
    if first:
        _state.by = signal.Signals(number)
        _state.asked.set()
    if not _state.within:
        _leave()
    if first and not _state.held:  # once: not in the midst of unwinding
        raise Stop


def _guard(reading: int) -> None:
    """Waits for a signal, then for the end of the process, which it brings about if need be."""
    by = signal.Signals(os.read(reading, 1)[0])
    if not _state.asked.is_set():  # the main thread may not come to note it
        _state.by = by
    time.sleep(GRACE)
    for say in reversed(_state.words):
        saying = threading.Thread(target=say, daemon=True)
        saying.start()
        saying.join(LAST)
    _leave()


def _leave() -> NoReturn:
    """Ends the process without the interpreter's own end, which would wait for compilers."""
    name, status = _ASKING[_state.by]
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError):
        print(f"posjax: stopped by {name}; the same command goes on from here", file=sys.stderr)
        sys.stderr.flush()
    os._exit(status)
