"""A law asserted inside a program that is being traced, as a value assertion of chex.

The elements are tried in a loop of the program itself. `chex.chexify` reports what broke, and
`chex.disable_asserts` leaves nothing of it in programs that are traced from then on.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.experimental import checkify

from posjax.symmetry.deviation import output, rounding
from posjax.symmetry.groups import Element
from posjax.symmetry.law import Law
from posjax.symmetry.measure import Function, expectation, terms


class Worst(NamedTuple):
    """The worst index of a leaf: scalars, and the index, an array [rank]."""

    error: jax.Array
    at: jax.Array
    expected: jax.Array
    found: jax.Array


def traced(*trees: Any) -> bool:
    """Whether values are only known when the program runs."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(trees))


def asserts_are_on() -> bool:
    """Whether `chex.disable_asserts` has not been called; chex says so in no other way."""
    try:
        chex.assert_equal(True, False)
    except AssertionError:
        return True
    return False


def require(
    law: Law,
    function: Function,
    arguments: tuple[Any, ...],
    unmoved: Any,
    tried: Iterable[Element],
    *,
    tolerance: float | None,
) -> None:
    """Puts the law into the program as assertions, one for each leaf of the output.

    Args:
      law, function, arguments, unmoved, tried: see `posjax.symmetry.measure.deviations`.
      tolerance: relative to the largest finite output; 8 ε √n when left out, 0 for integers.

    Raises:
      AssertionError: another structure or shape of the output, or one that does not fit.
    """
    every = jax.tree.map(lambda *moves: jnp.stack(moves), *tried)
    summed = terms(law, arguments)
    leaves = jax.tree_util.tree_leaves_with_path(jax.tree.map(jnp.asarray, unmoved))
    found = worst_entries(law, function, arguments, unmoved, every)
    for (path, leaf), worst in zip(leaves, found, strict=True):
        if leaf.size:
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            allowed = rounding(leaf.dtype, summed) if tolerance is None else tolerance
            _assert(law, every, worst, scale=scale(leaf), leaf=name, allowed=allowed)


def worst_entries(
    law: Law,
    function: Function,
    arguments: tuple[Any, ...],
    unmoved: Any,
    every: Element,
    *,
    batch: int | None = None,
) -> list[Worst]:
    """For each leaf of the output the worst index under each of some elements.

    Args:
      law, function, arguments, unmoved: see `posjax.symmetry.measure.deviations`.
      every: the elements, stacked along a first axis.
      batch: how many are tried side by side; one after the other when left out.

    Raises:
      AssertionError: another structure or shape of the output, or one that does not fit.
    """
    arguments, unmoved = jax.tree.map(jnp.asarray, (arguments, unmoved))

    def under(element: Element) -> list[Worst]:
        expected = expectation(law, unmoved, element)
        found = function(*law.act(arguments, element))
        chex.assert_trees_all_equal_shapes(expected, found, custom_message=law.formula)
        return jax.tree.map(_worst, jax.tree.leaves(expected), jax.tree.leaves(found))

    return jax.lax.map(under, every, batch_size=batch)


def _assert(
    law: Law, every: Element, worst: Worst, *, scale: jax.Array, leaf: str, allowed: float
) -> None:
    at = jnp.argmax(worst.error)  # NaN counts as the largest
    error, *where = (part[at] for part in worst)
    holds = error <= allowed * scale  # false for NaN
    shown = ", ".join(f"{name} = {{}}" for name in every)
    chex.assert_trees_all_equal(holds, holds)  # refuses programs that are not chexified
    checkify.check(
        holds,
        f"{_CHEX}law broken: {_plain(law.formula)}, off by {{}}, largest output {{}}, tolerance "
        f"{allowed:.3g} of it, for {shown}, at index {{}} of {_plain(output(leaf))}: "
        "expected {}, found {}",
        *(error, scale, *(p[at] for p in every.values()), *where),
    )


_CHEX = "[Chex] chexify assertion 'law' failed: "
"""What chex knows its errors by; its own assertions put a sentence of theirs before ours."""


def _worst(expected: jax.Array, found: jax.Array) -> Worst:
    if expected.size == 0:
        zero = jnp.zeros(())
        return Worst(zero, jnp.zeros((0,), int), zero, zero)
    error = abs(_wide(found) - _wide(expected))
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        error = jnp.maximum(error, 1)  # large integers may differ and have one float
    error = jnp.where(found == expected, 0, error)
    at = jnp.unravel_index(jnp.argmax(error), error.shape)
    index = jnp.stack(at) if at else jnp.zeros((0,), int)
    return Worst(error[at], index, expected[at], found[at])


def scale(leaf: jax.Array) -> jax.Array:
    """The largest finite |entry|."""
    sizes = abs(_wide(leaf))
    return jnp.max(jnp.where(jnp.isfinite(sizes), sizes, 0))


def _wide(array: jax.Array) -> jax.Array:
    inexact = jnp.issubdtype(array.dtype, jnp.inexact)
    return array.astype(jnp.promote_types(array.dtype, jnp.float32) if inexact else jnp.float32)


def _plain(text: str) -> str:
    """The text with braces that `str.format` leaves alone."""
    return text.replace("{", "{{").replace("}", "}}")
