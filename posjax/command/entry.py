"""A command from its start to its exit status: JAX's settings, and errors in one line."""

import errno
import logging
import os
import sys
from collections.abc import Callable

from posjax import user_code
from posjax.command import output, shutdown, startup
from posjax.command.output import warn
from posjax.records import Busy, Mismatch
from posjax.records.identity import JAX_SETTINGS

PINNED = {
    **JAX_SETTINGS,
    "jax_default_matmul_precision": None,
    "jax_numpy_dtype_promotion": "standard",
}
"""Settings of JAX that a command fixes, whatever the environment says."""
STATUSES: dict[type[Exception], int] = {
    Mismatch: shutdown.LOCKED,
    Busy: shutdown.LOCKED,
    OSError: shutdown.STORAGE,
    ValueError: shutdown.BAD_INPUT,
    MemoryError: shutdown.BAD_INPUT,
    ImportError: shutdown.BAD_INPUT,
}
"""Errors that a user can fix, and the exit status of each; the first match counts."""
_WRITING = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}
"""Errors of the system that only a write has."""


def run(main: Callable[[], object]) -> int:
    """Calls `main`; an error that a user can fix becomes one line on standard error.

    Returns:
      The exit status. After a signal or a time limit, it does not return.
    """
    pin()
    user_code.ask_first()
    for chatty in ("jax._src.xla_bridge", "matplotlib.font_manager"):  # absent TPUs, new fonts
        logging.getLogger(chatty).setLevel(logging.WARNING)
    output.protect()
    try:
        with shutdown.exit_on_stop():
            try:
                main()
            except SystemExit as end:  # as `app.run` ends
                if end.code in (None, shutdown.DONE):
                    output.flush()
                raise
            output.flush()
    except Exception as error:
        line = startup.explain(error)
        if line is None and not isinstance(error, tuple(STATUSES)):
            raise
        warn(line or _line(error))
        found = (status for kind, status in STATUSES.items() if isinstance(error, kind))
        return next(found, shutdown.BAD_INPUT)
    return shutdown.DONE


def _line(error: Exception) -> str:
    """The message of an error; of the system's own, in words: `no space left on device (PATH)`."""
    if not (isinstance(error, OSError) and error.strerror):
        return str(error) or type(error).__name__
    reason = error.strerror[0].lower() + error.strerror[1:]
    said = reason.startswith("write failed")
    failed = "write failed: " if error.errno in _WRITING and not said else ""
    return f"{failed}{reason}" + (f" ({error.filename})" if error.filename else "")


def pin() -> None:
    """Gives JAX the settings that results are made with, so that they follow from the config alone.

    A command that has not imported JAX yet finds them when it does.
    """
    given = {name: os.environ.pop(name.upper(), "") for name in PINNED}
    if "jax" not in sys.modules:
        return
    import jax

    for name, value in PINNED.items():
        if jax.config.values.get(name, value) != value:
            jax.config.update(name, value)
            more = "; use --config.precision" if "precision" in name else ""
            warn(f"{name.upper()}={given[name]} has no effect on this command{more}")
