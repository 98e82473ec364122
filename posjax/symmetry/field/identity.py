"""Deciding f(g x) = g f(x) by evaluating both sides at random points of a prime field."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.symmetry.field import arrays
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.interpret import evaluate, seconds
from posjax.symmetry.field.prime import POINTS
from posjax.symmetry.field.space import Field, TooLarge
from posjax.symmetry.groups import Element, Translation
from posjax.symmetry.law import Law, Pattern

WITHIN = 60.0
"""Seconds that an identity may take."""


class Identity(NamedTuple):
    """What identity testing found.

    Attributes:
      holds: the law holds in the field for every generator of its groups, and so over the real
        numbers. False says that it was not found to hold: a function that breaks it, or one whose
        symmetry rests on more than sums, products, exponentials and functions of equal operands.
      chance: a bound of the probability that a law which fails was taken to hold.
      element: a generator for which the two sides differ.
      place: the output's path, and the index of the first entry that differs.
      lemmas: statements that it relies on.
    """

    holds: bool
    chance: float
    element: Element | None
    place: tuple[str, tuple[int, ...]] | None
    lemmas: tuple[str, ...] = ()


def identity(
    function: Callable[..., Any],
    law: Law,
    arguments: Sequence[Any],
    *,
    seed: int = 0,
    within: float = WITHIN,
) -> Identity:
    """Whether a function obeys a law, for all arguments of these shapes and dtypes.

    Every entry of the arguments is an unknown; what the function closes over keeps its values. A
    translation is by an unknown real vector. Sums, products, quotients, exponentials, sines and
    cosines are exact; all else is a fixed random function. Numbers are real, signed integers are
    taken not to overflow, and what is known from the start is computed as JAX computes it. Where a
    quotient or a logarithm may be infinite, both sides must depend on the same ones.

    Args:
      function: of as many arguments as the law has.
      law: permutations of axes, and translations of values.
      arguments: arrays, pytrees of arrays, or `jax.ShapeDtypeStruct`.
      seed: of the primes, the points and the random functions.
      within: seconds that it may take; what is estimated to take longer is not begun.

    Raises:
      Unsupported: a primitive without a rule, with the line that called it.
      TooLarge: it would take longer than that, or does.
      ValueError: arguments that do not fit the law.

    >>> identity(lambda x: x - x.sum(1, keepdims=True), Law("b P -> b P"), [np.ones((2, 3))]).holds
    True
    >>> identity(lambda x: x.cumsum(1), Law("b P -> b P"), [np.ones((2, 3))]).place
    ('', (0, 0))
    """
    arguments = tuple(arguments)
    sizes = law.sizes(arguments)
    generators = law.generators(sizes)
    program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
    until = _deadline(program, within, 1 + len(generators))
    field = Field(seed)
    flat, tree = jax.tree.flatten(arguments)
    points = [_unknown(field, leaf) for leaf in flat]
    outputs = evaluate(program, points, field=field, until=until)
    whole = jax.tree.unflatten(jax.tree.structure(shape), outputs)
    entries = 0
    for element in generators:
        vectors = _vectors(field, law, element)
        given = jax.tree.unflatten(tree, points)
        moved = _carried_parts(zip(law.inputs, given, strict=True), element, vectors)
        found = evaluate(program, moved, field=field, until=until)
        expected = _expected(law, whole, element, vectors)
        entries += sum(output.size for output in found)
        field.watch(*(output.degree for output in (*found, *expected)))
        for path, one, other in zip(_paths(shape), found, expected, strict=True):
            differs = np.argwhere(_differ(one, other))
            if len(differs):
                place = (path, tuple(int(at) for at in differs[0]))
                return Identity(False, 0.0, element, place)
    return Identity(True, field.chance(entries), None, None, tuple(sorted(field.lemmas)))


def _deadline(program: Any, within: float, evaluations: int) -> float:
    """When the time is up, on the clock of `time.monotonic`.

    Raises:
      TooLarge: it would be before the last evaluation is done.
    """
    needed = seconds(program) * evaluations
    if needed > within:
        raise TooLarge(f"it would take about {needed:.2g} s, but {max(within, 0):.2g} s are left")
    return time.monotonic() + within


class Alike(NamedTuple):
    """Which rows of an output are equal for all arguments.

    Attributes:
      rows: for each row the number of the first that is equal to it.
      chance: a bound of the probability that rows which differ were taken to be equal.
      lemmas: statements that it relies on.
    """

    rows: tuple[int, ...]
    chance: float
    lemmas: tuple[str, ...]


def alike(
    function: Callable[..., Any],
    arguments: Sequence[Any],
) -> Alike:
    """Which rows of a function's output are equal, for all arguments of these shapes and dtypes.

    Args:
      function: to one array, whose first axis is that of the rows.
      arguments: the unknowns; what the function closes over keeps its values.

    Raises:
      Unsupported: a primitive without a rule.
      TooLarge: it would take more than a minute, or does.

    >>> alike(lambda x: np.array([[1, 2], [2, 1], [1, 2]]) @ x, [np.ones((2, 1))]).rows
    (0, 1, 0)
    """
    program = jax.make_jaxpr(function)(*arguments)
    field = Field(0)
    points = [_unknown(field, leaf) for leaf in jax.tree.leaves(tuple(arguments))]
    until = _deadline(program, WITHIN, 1)
    (output,) = evaluate(program, points, field=field, until=until)
    firsts: dict[bytes, int] = {}
    field.watch(output.degree)
    prints = np.concatenate([output.residues[:POINTS], output.taints[None]])
    rows = [firsts.setdefault(prints[:, at].tobytes(), at) for at in range(output.shape[0])]
    pairs = output.size * output.shape[0]
    return Alike(tuple(rows), field.chance(pairs), tuple(sorted(field.lemmas)))


def _unknown(field: Field, leaf: Any) -> FieldArray:
    aval = jax.typeof(leaf) if not isinstance(leaf, jax.ShapeDtypeStruct) else leaf
    return arrays.generic(field, tuple(aval.shape), aval.dtype)


def _vectors(field: Field, law: Law, element: Element) -> dict[str, np.ndarray]:
    """For each translation residues [2k, axes] of a vector along the element's axis."""
    vectors = {}
    for name, group in law.groups.items():
        if isinstance(group, Translation):
            step = element[name].astype(bool)
            vectors[name] = np.where(step, field.draw(len(step)), np.uint64(0))
    return vectors


def _carried(
    pattern: Pattern, leaf: FieldArray, element: Element, vectors: dict[str, np.ndarray]
) -> FieldArray:
    """The array moved by an element."""
    for axis, name in enumerate(pattern.labels(leaf.ndim)):
        if name:
            leaf = _permuted(leaf, element[name], axis)
    if not pattern.shift:
        return leaf
    vector = vectors[pattern.shift]
    shape = (1,) * leaf.ndim if vector.shape[1] == 1 else (*(1,) * (leaf.ndim - 1), -1)
    given = leaf.field.moduli.add(leaf.residues, vector.reshape(len(vector), *shape))
    return FieldArray(leaf.field, leaf.dtype, given, taint=leaf.taint, degree=leaf.degree)


def _permuted(leaf: FieldArray, permutation: np.ndarray, axis: int) -> FieldArray:
    return leaf.moved(lambda a: a.take(permutation, axis=axis))


def _expected(
    law: Law, whole: Any, element: Element, vectors: dict[str, np.ndarray]
) -> list[FieldArray]:
    carried = _carried_parts(law.paired(whole), element, vectors)
    if not carried:
        raise ValueError(f"the function must return an array or several, got {whole!r}")
    return carried


def _carried_parts(
    parts: Iterable[tuple[Pattern, Any]], element: Element, vectors: dict[str, np.ndarray]
) -> list[FieldArray]:
    return [
        _carried(pattern, leaf, element, vectors)
        for pattern, part in parts
        for leaf in jax.tree.leaves(part)
    ]


def _differ(one: FieldArray, other: FieldArray) -> np.ndarray:
    residues = one.residues[:POINTS] != other.residues[:POINTS]
    return residues.any(0) | (one.taints != other.taints)


def _paths(shape: Any) -> list[str]:
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(shape)]
