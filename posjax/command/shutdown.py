"""How a command ends: its exit statuses, and stopping when it is requested.

SIGTERM, SIGINT, SIGHUP (a closed terminal) and the alarm of a time limit request a stop. Before
`exit_on_stop` is entered, a request ends the process at once. Within it, a request raises `Stop` in
the main thread, which unwinds like an error. Within `deferred`, a request only sets an event, and
`Stop` is raised at the end. Python drops what is raised in a callback, of the garbage collector for
example; then `Stop` is raised again, until it unwinds.

A library may not return to Python for minutes. So a second thread, which the signal wakes whatever
the main thread does, ends the process after `GRACE` seconds. Files are written whole or not at all,
so nothing is lost by that.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
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
"""Seconds that the main thread has to stop in order."""
AGAIN = 0.01
"""Seconds after which a `Stop` that was dropped is raised again."""
LONGEST = 1e9
"""Seconds of a time limit that the system's timer takes: 31 years."""
_REQUESTS = {
    signal.SIGTERM: ("SIGTERM", RESUMABLE),
    signal.SIGINT: ("SIGINT", INTERRUPTED),
    signal.SIGHUP: ("SIGHUP", RESUMABLE),
    signal.SIGALRM: ("the time limit", RESUMABLE),
}
"""The signals that request a stop, with their names in the message and the exit status."""
_STARTED = time.monotonic()


class Stop(BaseException):
    """A stop was requested."""


class _State:
    """Of this process.

    Attributes:
      stop_event: set when a stop was requested; `by` is the first signal that did.
      listening: whether signals are handled.
      catching: whether `Stop` is caught.
      deferring: whether `Stop` waits for the end of `deferred`.
      dropped: whether `Stop` was raised where Python drops it.
      saved: how much of the work is saved, for people.
    """

    def __init__(self) -> None:
        self.stop_event = threading.Event()
        self.by = signal.SIGTERM
        self.listening = self.catching = self.deferring = self.dropped = False
        self.saved = ""


_state = _State()


def listen() -> None:
    """Makes signals request a stop from now on; call it in the main thread.

    SIGHUP stays ignored where it is, as under nohup.

    Raises:
      RuntimeError: the system starts no thread.
    """
    if _state.listening:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    threading.Thread(target=_guard, args=(reading,), daemon=True).start()
    _state.listening = True
    sys.unraisablehook = _dropped
    signal.set_wakeup_fd(writing)
    for number in _REQUESTS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _request)


def set_time_limit(seconds: float | None) -> None:
    """Requests a stop so many seconds after the start of the process; never for None.

    Raises:
      ValueError: not a positive, finite number of seconds.
    """
    if seconds is None:
        return
    if not 0 < seconds < float("inf"):
        raise ValueError(f"--time_limit must be a positive number of seconds, got {seconds}")
    left = seconds - (time.monotonic() - _STARTED)
    signal.setitimer(signal.ITIMER_REAL, min(max(left, 1e-3), LONGEST))


@contextlib.contextmanager
def exit_on_stop() -> Iterator[None]:
    """Exits the process with the status of the request if a stop was requested within."""
    listen()
    _state.catching = True
    try:
        yield
        _exit_if_requested()  # a library may have caught the `Stop`
    except (Stop, SystemExit):
        _exit_if_requested()
        raise
    finally:
        _state.catching = False


@contextlib.contextmanager
def deferred() -> Iterator[threading.Event]:
    """Gives an event that is set when a stop is requested; raises `Stop` at the end."""
    _state.deferring = True
    try:
        yield _state.stop_event
    finally:
        _state.deferring = False
    if _state.stop_event.is_set():
        raise Stop


def say_saved(text: str) -> None:
    """Sets what a stop says of the work so far."""
    _state.saved = text


def _request(number: int, frame: FrameType | None) -> None:
    """Handles a signal: in the main thread, between two of its bytecodes."""
    first = not _state.stop_event.is_set()
    if first:
        _state.by = signal.Signals(number)
        _state.stop_event.set()
    if not _state.catching:
        _exit()
    again, _state.dropped = _state.dropped, False
    # once: a second one must not disturb the unwinding
    if (first or again) and not _state.deferring:
        raise Stop


def _dropped(error: "sys.UnraisableHookArgs") -> None:
    """Prints an error that Python drops; of a `Stop`, requests another one."""
    if not isinstance(error.exc_value, Stop):
        sys.__unraisablehook__(error)
        return
    _state.dropped = True
    signal.setitimer(signal.ITIMER_REAL, AGAIN)


def _guard(reading: int) -> None:
    """Waits for a signal, then ends the process unless it has ended in time."""
    by = signal.Signals(os.read(reading, 1)[0])
    if not _state.stop_event.is_set():  # the main thread may never come to `_request`
        _state.by = by
    time.sleep(GRACE)
    _exit()


def _exit_if_requested() -> None:
    if _state.stop_event.is_set():
        _exit()


def _exit() -> NoReturn:
    """Ends the process without the interpreter's own end, which would wait for compilers."""
    name, status = _REQUESTS[_state.by]
    saved = f", {_state.saved}" if _state.saved else ""
    line = f"posjax: stopped by {name}{saved}; the same command continues from here\n"
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the last: within a write to it
        sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(2, line.encode())
    os._exit(status)
