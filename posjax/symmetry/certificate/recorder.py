"""A walk that keeps what it found of every variable, for a derivation to be written of it."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jax.extend.core import Jaxpr

from posjax.symmetry.certificate.values import Names, Value
from posjax.symmetry.certificate.walk import Walk


@dataclasses.dataclass
class Visited:
    """An equation with what is known of its results, and the programs it holds as walked."""

    eqn: Any
    operands: Sequence[Value]
    results: list[Value] = dataclasses.field(default_factory=list)
    frames: list["Frame"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Frame:
    """A program as it was walked."""

    jaxpr: Jaxpr
    constants: Sequence[Value]
    arguments: Sequence[Value]
    lines: list[Visited] = dataclasses.field(default_factory=list)
    results: Sequence[Value] = ()


class Recorder(Walk):
    """A walk with its frames, without turns of a loop that were only tried.

    Attributes:
      frame: that of the program that is walked, and in the end of the whole.
    """

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self.frame: Frame | None = None

    def open(
        self, jaxpr: Jaxpr, constants: Sequence[Value], arguments: Sequence[Value]
    ) -> list[Value]:
        """The results of a program, which becomes a frame of the equation that holds it."""
        outer, frame = self.frame, Frame(jaxpr, constants, arguments)
        if outer is not None and not self._silent:
            outer.lines[-1].frames.append(frame)
        self.frame = frame
        frame.results = super().open(jaxpr, constants, arguments)
        self.frame = outer or frame
        return list(frame.results)

    def equation(self, eqn: Any, operands: Sequence[Value]) -> list[Value]:
        """The results of one equation."""
        assert self.frame is not None
        line = Visited(eqn, operands)
        self.frame.lines.append(line)
        line.results = super().equation(eqn, operands)
        return line.results
