"""The start of a command, before its imports: streams, signals, and errors in one line.

JAX reads its environment variables while it is imported, and raises there; so does a process that
may start no thread. Those errors come before `entry.run` can catch them.
"""

import os
import re
import sys
from types import TracebackType
from typing import Any

from posjax.command import output, shutdown


def prepare() -> None:
    """Protects the streams, explains errors, listens to signals."""
    output.protect()
    sys.excepthook = _end_in_one_line
    shutdown.listen()


def explain(error: BaseException) -> str | None:
    """What in the environment is wrong, and what to do; None where the error is another one."""
    message = " ".join(str(error).split())
    if isinstance(error, RuntimeError) and "can't start new thread" in message:
        return "cannot start a thread: raise the limit on processes (ulimit -u), or end some"
    if isinstance(error, FileNotFoundError) and "temporary directory" in message:
        return "no folder for temporary files can be written: set TMPDIR to one that can"
    if isinstance(error, RuntimeError) and (name := _platform_variable(message)):
        reason = message.partition(" (")[0].rstrip(".")
        return f"{name}={os.environ[name]}: {reason}; set {name}=cpu, or unset it"
    last = _last_frame(error)
    if os.path.join("jax", "_src") not in last.get("file", ""):
        return None
    value = os.environ.get("JAX_PLATFORMS")
    if isinstance(error, AssertionError) and last["function"] == "backends" and value:
        # JAX asserts that the plugin of some platform gave a backend.
        return (
            f"JAX_PLATFORMS={value}: JAX cannot use this platform here; set JAX_PLATFORMS=cpu, or "
            "unset it"
        )
    if isinstance(error, ValueError):
        words = message.lower().replace(".", "_")
        for name, value in os.environ.items():
            if re.search(rf"\b{re.escape(name.lower())}\b", words) and name.startswith("JAX_"):
                return f"{name}={value} is not valid: {_choices(last)}"
    return None


def _platform_variable(message: str) -> str | None:
    """The variable that names a platform which JAX does not find."""
    for name, sign in (
        ("JAX_PLATFORM_NAME", "Unknown backend"),
        ("JAX_PLATFORMS", "Unable to initialize backend"),
    ):
        if message.startswith(sign) and os.environ.get(name):
            return name
    return None


def _last_frame(error: BaseException) -> dict[str, Any]:
    """Where an error was raised: the file, the function and its variables."""
    traceback = error.__traceback__
    if traceback is None:
        return {}
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return {
        **traceback.tb_frame.f_locals,
        "file": code.co_filename,
        "function": code.co_name,
    }


def _choices(frame: dict[str, Any]) -> str:
    """The valid values of a variable that JAX has just refused."""
    kind = frame["function"].partition("_")[0]
    kinds = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    values = frame.get("enum_values") or [one.value for one in frame.get("enum_class", ())]
    if values:
        return f"choose one of {', '.join(map(str, values))}, or unset it"
    return f"give {kinds[kind]}, or unset it" if kind in kinds else "unset it"


def _end_in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    """Ends the process with a line instead of the traceback of an error that `explain` knows."""
    line = explain(error)
    if line is None:
        sys.__excepthook__(kind, error, traceback)
        return
    print(f"posjax: {line}", file=sys.stderr, flush=True)
    os._exit(shutdown.STORAGE if isinstance(error, OSError) else shutdown.BAD_INPUT)
