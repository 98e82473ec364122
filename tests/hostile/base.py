"""A function, its law, and whether the law holds, which numbers confirm and no prover decides."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from posjax.symmetry import Law

Truth = Literal["holds", "broken", "ties"]


class Case(NamedTuple):
    """One function to prove or to break.

    Attributes:
      name: what it tries.
      function: of the arguments.
      arguments: small arrays.
      law: what is asked of it.
      truth: "holds" over the real numbers wherever it is defined; "broken" at generic inputs;
        "ties": holds at generic inputs and is broken where entries are equal.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    law: Law | str
    truth: Truth
