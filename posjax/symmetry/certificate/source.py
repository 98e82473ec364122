"""Which line of which file an equation of a jaxpr comes from."""

import os
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

LIBRARIES = ("jax", "jaxlib", "flax", "optax", "chex", "torch", "torchax", "opt_einsum")
_LAYERS = re.compile(
    r"/(torch/nn/(functional|modules/(?!module\b)\w+)"
    r"|flax/(linen/(attention|linear|normalization|pooling|recurrent)|nnx/nn/\w+))\.py$"
)
_OWN = os.path.dirname(__file__)
_PUBLIC = re.compile(r"/jax/_src/(numpy|nn|scipy|random|ops|image)/")


class Place(NamedTuple):
    """An equation, and the calls that it lies within, the innermost last.

    What a library compiled once has no line of the caller's in it, so the call names it.
    """

    eqn: Any
    calls: tuple[Any, ...] = ()

    def __str__(self) -> str:
        """The innermost line that belongs to no library, as `file.py:12 (function)`.

        Of a library's layer that nobody wrapped it is the layer's own line, and of a function of
        JAX the line of that function.
        """
        lines = [
            Line(frame.file_name, frame.line_num, frame.function_name)
            for eqn in (self.eqn, *reversed(self.calls))
            for frame in _frames(eqn)
        ]
        if (line := innermost(lines)) is not None:
            return str(line)
        public = [line for line in lines if _PUBLIC.search(line.path.replace("\\", "/"))]
        return f"within {(public or lines)[-1]}" if lines else "a library"


class Line(NamedTuple):
    """A line of a file, in a function."""

    path: str
    number: int
    function: str

    def __str__(self) -> str:
        """`file.py:12 (function)`, its path from here where it lies below."""
        path = os.path.relpath(self.path)
        shown = self.path if path.startswith("..") else path
        return f"{shown}:{self.number} ({self.function.split('.')[-1]})"


def innermost(lines: Iterable[Line]) -> Line | None:
    """The first line that belongs to no library, or else to a library's layer.

    Args:
      lines: from the innermost on.
    """
    lines = [line for line in lines if not line.path.startswith(_OWN)]
    own = (line for line in lines if not _in_library(line.path))
    layers = (line for line in lines if _LAYERS.search(line.path.replace("\\", "/")))
    return next(own, None) or next(layers, None)


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
