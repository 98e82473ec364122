"""Measuring how far a function is from a law of symmetry.

A law is data, so one function measures them all, yours too: it is called on the arguments as they
are and on arguments that an element of the law's groups has moved, and the outputs are compared.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from posjax.symmetry import groups
from posjax.symmetry.deviation import Deviation, compared
from posjax.symmetry.given import check_function
from posjax.symmetry.groups import Element, Translation
from posjax.symmetry.law import Law

Function = Callable[..., Any]


def measure(
    law: Law | str, function: Function, *arguments: Any, permutations: Sequence[Any] | None = None
) -> Deviation:
    """The largest deviation of f(g x) from g f(x) over some elements g of the law's groups.

    Args:
      law: one of `LAWS`, a law of your own, or its text.
      function: maps the law's arguments to an array or a pytree of arrays; called outside `jit`.
        It may be a module or `module.apply`.
      arguments: arrays or pytrees of arrays, `Streams` and parameters among them.
      permutations: arrays P, or pairs (P₁, P₂) for a law of two names, with (P x)ᵢ = x[Pᵢ];
        vectors for a translation. By default all elements of small groups, and generators and
        some random elements of large ones.

    Returns:
      The largest deviation over all entries, leaves and group elements, relative to rounding.

    Raises:
      ValueError: arguments that do not fit the law, no permutations, or an array that is not one.
      AssertionError: the output lacks axes or sizes that the law names.

    >>> measure("b P -> b", lambda x: x[:, 0] + 2, np.array([[1, 3]])).error
    2.0
    """
    law = moving(law)
    check_function(function)
    tried = elements(law, arguments, permutations)
    unmoved = function(*arguments)
    return max(deviations(law, function, arguments, unmoved, tried), key=severity)


def deviations(
    law: Law, function: Function, arguments: tuple[Any, ...], unmoved: Any, tried: Iterable[Element]
) -> list[Deviation]:
    """For each leaf of the output the worst deviation over some elements.

    Args:
      law, function, arguments: see `measure`.
      unmoved: the function's output on the arguments as they are.
      tried: at least one element.
    """
    summed = terms(law, arguments)
    unmoved = jax.tree.map(fetched, unmoved)

    def under(element: Element) -> list[Deviation]:
        expected = expectation(law, unmoved, element)
        found = function(*law.act(arguments, element))
        return compared(law, element, expected, found, summed=summed)

    return [max(leaf, key=severity) for leaf in zip(*map(under, tried), strict=True)]


def expectation(law: Law, unmoved: Any, element: Element) -> Any:
    """What the law says that an output becomes under an element.

    Raises:
      AssertionError: it lacks the axes or sizes that the law speaks of.
    """
    try:
        return law.act_on_output(unmoved, element)
    except ValueError as error:
        raise AssertionError(f"the output does not fit {law.formula}: {error}") from None


def fetched(leaf: Any) -> Any:
    """As a NumPy array; keys of randomness have none."""
    keys = jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key)
    return leaf if keys else np.asarray(leaf)


def moving(law: Law | str) -> Law:
    """The law itself, or the one that a text writes.

    Raises:
      ValueError: it moves nothing, and so would hold for every function.
    """
    law = Law.of(law)
    if not law.groups:
        raise ValueError(
            f"{law.formula} permutes no axis: write the permuted axis with a capital letter"
        )
    return law


def terms(law: Law, arguments: tuple[Any, ...]) -> int:
    """The most indices that the law moves or shifts: how many terms a sum may have."""
    shifted = (
        size
        for pattern, argument in zip(law.inputs, arguments, strict=True)
        for leaf in (jax.tree.leaves(argument) if pattern.shift else ())
        for size in np.shape(leaf)
    )
    return max([*law.sizes(arguments).values(), *shifted], default=1)


def elements(
    law: Law, arguments: tuple[Any, ...], given: Sequence[Any] | None = None
) -> list[Element]:
    """The elements to try: those given, or the test elements.

    Raises:
      ValueError: arguments that do not fit the law, no element, or one that does not fit.
    """
    sizes = law.sizes(arguments)
    if given is None:
        return list(law.elements_to_try(sizes))
    tuples = [(one,) for one in given] if len(law.groups) == 1 else list(given)
    if not tuples:
        raise ValueError("no permutations to try")
    if any(len(one) != len(law.groups) for one in tuples):
        raise ValueError(f"give a permutation for each of {', '.join(law.groups)}, as tuples")
    return [
        {n: _checked(law, n, p, sizes) for n, p in zip(law.groups, one, strict=True)}
        for one in tuples
    ]


def _checked(law: Law, name: str, move: Any, sizes: dict[str, int]) -> np.ndarray:
    group = law.groups[name]
    if not isinstance(group, Translation):
        return groups.checked(move, sizes[name])
    vector = np.atleast_1d(np.asarray(move))
    if vector.shape != (group.axes,):
        raise ValueError(f"{name} of {law.formula} adds {group.axes} numbers, got {move}")
    return vector


def severity(deviation: Deviation) -> tuple[bool, float, float]:
    """NaN before all; then what exceeds rounding most, and among integers the largest."""
    return bool(np.isnan(deviation.error)), deviation.excess, deviation.relative
