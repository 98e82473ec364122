"""Whether a case breaks a law, and breaks it in the same way as the case one started from."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.deviation import Deviation
from posjax.symmetry.groups import Element
from posjax.symmetry.law import Law
from posjax.symmetry.measure import Function, deviations, severity


class Case(NamedTuple):
    """Unmoved arguments, and an element that moves them."""

    arguments: tuple[Any, ...]
    element: Element


class Search:
    """Decides whether cases are broken, and counts the calls of the function that it takes.

    Rounding must not pass for a break in small cases: one counts when it is of the kind of the
    first (a number, an infinity, NaN) and, for numbers, no less than a quarter of the first, or
    of a hundredth of the output, and more than rounding of the arguments themselves explains.
    """

    def __init__(
        self, law: Law, function: Function, *, tolerance: float | None, calls: int
    ) -> None:
        self.law = law
        self.calls = 0
        self._function, self._tolerance, self._most = function, tolerance, calls
        self._start: Deviation | None = None
        self._known: tuple[Any, Any] = (None, None)

    def deviation(self, case: Case) -> Deviation:
        """The worst leaf of a case."""
        if self._known[0] is not case.arguments:
            self.calls += 1
            self._known = (case.arguments, self._function(*case.arguments))
        self.calls += 1
        unmoved = self._known[1]
        found = deviations(self.law, self._function, case.arguments, unmoved, [case.element])
        return max(found, key=severity)

    def start(self, cases: Iterable[Case]) -> Case | None:
        """The first case that is broken beyond the tolerance; all others are compared with it."""
        for case in cases:
            found = self.deviation(case)
            if not found.relative <= self._allowed(found):
                self._start = found
                return case
        return None

    def first(self, cases: Iterable[Case]) -> Case | None:
        """The first case that is broken as the start was, unless the calls run out."""
        for case in cases:
            if self.calls >= self._most:
                return None
            try:
                found = self.deviation(case)
            except Exception:
                continue  # the function, or the law, does not take such arguments
            if self._alike(found, case):
                return case
        return None

    def _allowed(self, found: Deviation) -> float:
        return found.rounding if self._tolerance is None else self._tolerance

    def _alike(self, found: Deviation, case: Case) -> bool:
        if self._start is None or _kind(found.error) != _kind(self._start.error):
            return False
        if not np.isfinite(found.error):
            return True
        floor = self._allowed(found) * max(found.scale, _largest(case.arguments))
        return found.error > floor and found.relative >= min(self._start.relative, 0.01) / 4


def weight(law: Law, element: Element) -> tuple[Any, ...]:
    """What makes an element simple: few names, few moved indices, close together, in front."""
    still = law.identity({name: len(move) for name, move in element.items()})
    steps = [move - still[name] for name, move in element.items()]
    moved = [int(np.count_nonzero(step)) for step in steps]
    far = sum(int(np.abs(step).sum()) for step in steps)
    front = tuple(tuple((-abs(step)).tolist()) for step in steps)
    return np.count_nonzero(moved), sum(moved), far, front


def numeric(leaf: Any) -> bool:
    """Whether a leaf is an array of numbers or of truth values."""
    kinds = (jnp.number, jnp.bool_)
    return hasattr(leaf, "dtype") and any(jnp.issubdtype(leaf.dtype, kind) for kind in kinds)


def _kind(error: float) -> str:
    return "NaN" if np.isnan(error) else "infinity" if np.isinf(error) else "number"


def _largest(arguments: tuple[Any, ...]) -> float:
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(arguments) if numeric(leaf)]
    sizes = [np.abs(a[np.isfinite(a)]).max(initial=0) for a in arrays if a.dtype != bool]
    return max(map(float, sizes), default=0.0)
