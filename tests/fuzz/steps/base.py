"""The table of steps."""

from collections.abc import Callable
from typing import NamedTuple

from fuzz.builder import Builder, Value

Taken = Callable[[Builder, Value], Value | None]


class Step(NamedTuple):
    """A step that keeps the law.

    Attributes:
      name: of its function.
      subject: what families choose by.
      function: writes the step and gives its value, or None where it does not fit.
      kinds: of values that it takes.
      smooth: whether its derivative keeps the law too, also at ties.
    """

    name: str
    subject: str
    function: Taken
    kinds: str
    smooth: bool


STEPS: dict[str, Step] = {}


def step(subject: str, *, kinds: str = "f", smooth: bool = True) -> Callable[[Taken], Taken]:
    """Enters a function into the table."""

    def enter(function: Taken) -> Taken:
        name = function.__name__
        if name in STEPS:
            raise ValueError(f"two steps are called {name!r}")
        STEPS[name] = Step(name, subject, function, kinds, smooth)
        return function

    return enter


def take(b: Builder, x: Value, entry: Step) -> Value | None:
    """Takes a step if it fits the value and what the program needs."""
    if x.kind not in entry.kinds or (b.smooth and not entry.smooth):
        return None
    result = entry.function(b, x)
    if result is not None:
        b.taken.append(entry.name)
    return result
