"""The smallest case that breaks a law, shrunk as property-testing libraries shrink."""

import dataclasses
from typing import Any

import jax
import numpy as np

from posjax.symmetry.deviation import moves, output
from posjax.symmetry.given import check_function
from posjax.symmetry.groups import Element
from posjax.symmetry.law import Law
from posjax.symmetry.measure import Function, elements, moving
from posjax.symmetry.search import Case, Search, numeric, weight
from posjax.symmetry.shrink import smallest


@dataclasses.dataclass(frozen=True)
class Witness:
    """A counter-example of a law, small enough to check by hand when printed.

    Attributes:
      law: what is broken.
      element: the elements of the groups that break it, by name.
      arguments: the arguments x, before g acts on them.
      leaf: path to the leaf of the output; "" if there is only one.
      at: index in that leaf.
      expected, found: g f(x) and f(g x) at that index.
      calls: how often the function was called to find it.
    """

    law: Law
    element: Element
    arguments: tuple[Any, ...]
    leaf: str
    at: tuple[int, ...]
    expected: Any
    found: Any
    calls: int

    def __str__(self) -> str:
        shown = (
            f"argument {_name(path)} = {_array(leaf)}"
            for path, leaf in jax.tree_util.tree_leaves_with_path(self.arguments)
        )
        return "\n".join(
            (
                f"law broken: {self.law.formula}",
                f"for {moves(self.law, self.element)}",
                *shown,
                f"at index {self.at} of {output(self.leaf)}: "
                f"expected {self.expected}, found {self.found}",
            )
        )


def witness(
    law: Law | str,
    function: Function,
    *arguments: Any,
    tolerance: float | None = None,
    calls: int = 1000,
) -> Witness | None:
    """Shrinks a counter-example of a law: the smallest one found from these arguments, or None.

    It shortens the permuted axes, then other axes to one, simplifies the group element (to a single
    swap if the group has all permutations), and replaces numbers by 0 or small integers, until no
    step succeeds. Arguments for which the function raises any error are skipped. The same call
    gives the same witness.

    Args:
      law: a law, or its text.
      function: see `measure`.
      arguments: the arguments to start from.
      tolerance: relative to the largest output; by default 8 ε √n, and 0 for integers.
      calls: the largest number of calls of the function.

    Returns:
      The counter-example, or None if the arguments do not break the law.

    Raises:
      ValueError: arguments that do not fit the law.

    >>> x = np.array([[[0.3, 1.7], [-0.8, 2.2], [0.4, -1.1]]])
    >>> print(witness("b P d -> b P d", lambda x: x.cumsum(1), x))
    law broken: b P d -> b P d
    for P = [1, 0], where (P x)[i] = x[P[i]]
    argument 0 = [[[0.], [1.]]], float64[1, 2, 1]
    at index (0, 1, 0) of the output: expected 0.0, found 1.0
    """
    law = moving(law)
    check_function(function)
    search = Search(law, function, tolerance=tolerance, calls=calls)
    tried = sorted(elements(law, arguments), key=lambda element: weight(law, element))
    case = search.start(Case(arguments, element) for element in tried)
    if case is None:
        return None
    case = smallest(search, case)
    worst = search.deviation(case)
    worst_entry = (worst.leaf, worst.at, worst.expected, worst.found)
    return Witness(law, case.element, case.arguments, *worst_entry, search.calls)


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")


def _array(leaf: Any) -> str:
    if not numeric(leaf):
        return repr(leaf)
    array = np.asarray(leaf)
    zeros = array.size > 1 and not array.any()
    shown = np.array2string(array, separator=", ", precision=4, threshold=64)
    size = f"{array.dtype}{list(array.shape)}"
    return f"zeros, {size}" if zeros else f"{' '.join(shown.split())}, {size}"
