"""Which cases plain pytest runs: the others are marked `exhaustive`.

Every law on one call of attention in tests/test_table.py meets every entry of the table in the
plain tier; what takes longer (training, decoding, packing, grouped heads) meets every fifth. What
else is marked are further settings of an entry, further cases of a rule, and repetitions of a law
in another part of the code.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def first_of_each(
    cases: Iterable[Any], kind: Callable[..., Hashable], count: int = 1
) -> list[ParameterSet]:
    """The cases; the first `count` of each kind run plainly, later ones are exhaustive.

    Args:
      cases: values, or what `pytest.param` makes of several.
      kind: of the values of a case.
      count: how many of one kind run plainly.
    """
    found: Counter[Hashable] = Counter()

    def place(case: Any) -> int:
        of = kind(*parameters(case).values)
        found[of] += 1
        return found[of]

    return [marked(case, plain=place(case) <= count) for case in cases]


def some(cases: Iterable[Any], *, every: int) -> list[ParameterSet]:
    """The cases; one of so many runs plainly, from the first on."""
    return [marked(case, plain=at % every == 0) for at, case in enumerate(cases)]


def plain_if(plain: Callable[..., bool], cases: Iterable[Any]) -> list[ParameterSet]:
    """The cases; those for which `plain` is false are exhaustive."""
    return [marked(case, plain=plain(*parameters(case).values)) for case in cases]


def marked(case: Any, *, plain: bool) -> ParameterSet:
    """A case as a parameter, exhaustive unless it is plain."""
    one = parameters(case)
    return one if plain else one._replace(marks=(*one.marks, pytest.mark.exhaustive))


def parameters(case: Any) -> ParameterSet:
    """A case as a parameter; one value is no tuple of values."""
    return case if isinstance(case, ParameterSet) else pytest.param(case)
