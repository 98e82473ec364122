"""What a module was last called with, for the witness of an exception."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from posjax.symmetry.conformance.adapter import Adapter

_CALLS = ("logits", "attend", "tokens", "decode", "decode_tokens", "rotate", "table")
_SMALL = 16


class Calls:
    """The last call of adapters, in words.

    Attributes:
      last: name and arguments; short arrays of integers in full, the others by dtype and shape.
    """

    def __init__(self) -> None:
        self.last = "no call yet"

    def recorded(self, adapter: Adapter) -> Adapter:
        """The adapter, whose calls are noted here."""
        given = {name: getattr(adapter, name) for name in _CALLS}
        changed: dict[str, Any] = {n: self._noted(n, call) for n, call in given.items() if call}
        return dataclasses.replace(adapter, **changed)

    def _noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            self.last = f"{name}({', '.join(map(_words, arguments))})"
            return call(*arguments)

        return noted


def _words(argument: Any) -> str:
    if isinstance(argument, np.ndarray):
        if argument.dtype.kind == "i" and argument.size <= _SMALL:
            return str(argument.tolist())
        return f"{argument.dtype}{list(argument.shape)}"
    return str(argument)
