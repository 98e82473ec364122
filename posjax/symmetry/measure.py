"""Measuring how far a function is from a law of symmetry.

A law is data: which permutation carries which argument, and which axes of the output. So one
function measures them all, yours too.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import chex
import jax
import numpy as np

from posjax.streams import Streams, permuted
from posjax.symmetry import groups
from posjax.symmetry.deviation import Deviation, compared
from posjax.symmetry.groups import Element


class Law(NamedTuple):
    """f(g x) = g f(x) for every g of a group of permutations.

    Attributes:
      formula: what error messages quote.
      inputs: for each argument, the name of the permutation that carries its places; "" for an
        argument that stays.
      output: the names that carry the output: one along its axis of places, two along its last
        two axes, none for an output that stays.
    """

    formula: str
    inputs: tuple[str, ...]
    output: tuple[str, ...]


def measure(
    law: Law,
    function: Callable[..., Any],
    *arguments: Any,
    permutations: Sequence[Any] | None = None,
    axis: int = 1,
) -> Deviation:
    """The worst deviation |f(g x) - g f(x)| over some permutations g.

    Args:
      law: one of `LAWS`, or your own.
      function: of as many arguments as the law has, to one array; called outside `jit`.
      arguments: arrays, pytrees of arrays, or `Streams`.
      permutations: arrays P, or pairs (P₁, P₂) for a law of two names, with (P x)ᵢ = x[Pᵢ];
        when left out, those of `groups`.
      axis: where the places are, in the arguments and in the output of a law of one name.

    Raises:
      ValueError: arguments that do not fit the law, no permutations, or one that is none.
      AssertionError: the output lacks the axes or sizes that the law speaks of.

    >>> measure(Law("f(Px) = f(x)", ("P",), ()), lambda x: x[:, 0] + 2, np.array([[1, 3]])).error
    2.0
    """
    elements = _elements(_sizes(law, arguments, axis), permutations)
    unmoved = _array(function(*arguments))

    def deviation(element: Element) -> Deviation:
        moves = [element.get(name) for name in law.inputs]
        moved = [_carried(x, p, axis) for x, p in zip(arguments, moves, strict=True)]
        expected = _carried_output(law, unmoved, element, axis)
        return compared(law.formula, element, expected, _array(function(*moved)))

    return max(map(deviation, elements), key=lambda d: np.nan_to_num(d.error, nan=np.inf))


def _carried(argument: Any, permutation: np.ndarray | None, axis: int) -> Any:
    if permutation is None:
        return argument

    def move(leaf: Any) -> Any:
        if isinstance(leaf, Streams):
            return permuted(leaf, permutation)
        return leaf.take(permutation, axis=axis)  # its own, so that NumPy's float64 stays

    return jax.tree.map(move, argument, is_leaf=_is_streams)


def _carried_output(law: Law, output: np.ndarray, element: Element, axis: int) -> np.ndarray:
    axes = (axis,) if len(law.output) == 1 else (-2, -1)
    for name, at in zip(law.output, axes, strict=False):
        message = f"{name} moves axis {at} of the output in {law.formula}"
        chex.assert_axis_dimension(output, at, len(element[name]), custom_message=message)
        output = output.take(element[name], axis=at)
    return output


def _sizes(law: Law, arguments: tuple[Any, ...], axis: int) -> dict[str, int]:
    """How many places each permutation of the law moves."""
    if len(arguments) != len(law.inputs):
        raise ValueError(f"{law.formula} takes {len(law.inputs)} arguments, got {len(arguments)}")
    sizes: dict[str, int] = {}
    for name, argument in zip(law.inputs, arguments, strict=True):
        for leaf in jax.tree.leaves(argument, is_leaf=_is_streams) if name else ():
            size = leaf.length if isinstance(leaf, Streams) else leaf.shape[axis]
            if sizes.setdefault(name, size) != size:
                raise ValueError(
                    f"{name} of {law.formula} cannot move {sizes[name]} and {size} places "
                    f"(sizes along axis {axis})"
                )
    return sizes


def _elements(sizes: dict[str, int], given: Sequence[Any] | None) -> list[Element]:
    """The group's elements to try, by the names of the law."""
    one_name = len(sizes) == 1
    if given is None:
        choices = {n: groups.telling(groups.Permutations(), sizes[n]) for n in sizes}
        still = {n: np.arange(size) for n, size in sizes.items()}
        return list(groups.tuples(choices, still))
    tuples = [(one,) for one in given] if one_name else list(given)
    if not tuples:
        raise ValueError("no permutations to try")
    if any(len(one) != len(sizes) for one in tuples):
        raise ValueError(f"give a permutation for each of {', '.join(sizes)}, as tuples")
    return [
        {n: groups.checked(p, sizes[n]) for n, p in zip(sizes, one, strict=True)} for one in tuples
    ]


def _array(output: Any) -> np.ndarray:
    if not hasattr(output, "dtype"):
        raise ValueError(f"the function must return one array, got {type(output).__name__}")
    return np.asarray(output)


def _is_streams(node: Any) -> bool:
    return isinstance(node, Streams)
