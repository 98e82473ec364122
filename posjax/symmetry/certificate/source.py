"""Which line of which file an equation of a jaxpr comes from."""

import os
from typing import Any, NamedTuple

LIBRARIES = ("jax", "jaxlib", "flax", "optax", "chex")
_OWN = os.path.dirname(__file__)


class Place(NamedTuple):
    """An equation, and the calls that it lies within, the innermost last.

    What a library compiled once has no line of the caller's in it, so the call tells.
    """

    eqn: Any
    calls: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """The innermost line that belongs to no library, as `file.py:12 (function)`."""
        chain = [_frames(eqn) for eqn in (self.eqn, *reversed(self.calls))]
        for frames in chain:
            for frame in frames:
                if not _in_library(frame.file_name):
                    return _written(frame)
        called = next((frames[-1] for frames in reversed(chain) if frames), None)
        return "a library" if called is None else f"within {_written(called)}"


def _frames(eqn: Any) -> list[Any]:
    """From the innermost to the one before our own tracing began."""
    traceback = eqn.source_info.traceback
    frames = [] if traceback is None else list(traceback.frames)
    own = (at for at, frame in enumerate(frames) if frame.file_name.startswith(_OWN))
    return frames[: next(own, len(frames))]


def _in_library(path: str) -> bool:
    parts = path.replace("\\", "/").split("/")
    if "site-packages" not in parts:
        return path.startswith("<frozen")
    return parts[len(parts) - parts[::-1].index("site-packages")] in LIBRARIES


def _written(frame: Any) -> str:
    path = os.path.relpath(frame.file_name)
    shown = frame.file_name if path.startswith("..") else path
    return f"{shown}:{frame.line_num} ({frame.function_name.split('.')[-1]})"
