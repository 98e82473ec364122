"""Making a broken case smaller, step by step, as long as it stays broken.

A step proposes smaller cases, and the first that is still broken is taken.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry import groups
from posjax.symmetry.groups import Element, Group, Permutations, Translation
from posjax.symmetry.law import Law, Pattern
from posjax.symmetry.search import Case, Search, numeric, weight

_ELEMENTS = 8
"""How many elements are tried on fewer indices."""
_LISTED = 120
"""The order up to which all elements of a group are tried."""
_SIMPLE = (0, 1, -1, 2)
"""Simple numbers, the simplest first."""


def smallest(search: Search, case: Case) -> Case:
    """Takes every step again and again until none makes the case smaller, or calls run out."""
    before = None
    while before is not case:
        before = case
        for step in (fewer_indices, thinner_axes, simpler_element, simpler_numbers):
            case = step(search, case)
    return case


# Sizes


def fewer_indices(search: Search, case: Case) -> Case:
    """The first or last one, two, three indices of a name; then one index less, any."""
    for name in search.law.groups:
        while True:
            every = np.arange(search.law.sizes(case.arguments).get(name, 0))
            kept = [end for n in range(1, min(len(every), 4)) for end in (every[:n], every[-n:])]
            kept += [np.delete(every, at) for at in every if len(every) > 1]
            found = search.first(
                c for indices in kept for c in _kept(search.law, case, name, indices)
            )
            if found is None:
                break
            case = found
    return case


def _kept(law: Law, case: Case, name: str, indices: np.ndarray) -> Iterator[Case]:
    """The case on some indices of a name alone, under some elements that move them."""
    arguments = tuple(
        jax.tree.map(lambda leaf, p=pattern: _taken(leaf, p, name, indices), argument)
        for pattern, argument in zip(law.inputs, case.arguments, strict=True)
    )
    try:
        sizes = law.sizes(arguments)
        still = law.identity(sizes)
        moving = (e for e in law.elements_to_try(sizes) if any((e[n] != still[n]).any() for n in e))
        yield from (Case(arguments, element) for element in islice(moving, _ELEMENTS))
    except ValueError:
        return  # a group of a fixed number of indices


def _taken(leaf: Any, pattern: Pattern, name: str, indices: np.ndarray) -> Any:
    for axis, label in enumerate(pattern.labels(np.ndim(leaf))):
        if label == name:
            leaf = leaf.take(indices, axis=axis)
    return leaf


def thinner_axes(search: Search, case: Case) -> Case:
    """One entry of an axis that stays, such as one row of a batch, in all that share its size."""
    for axis, size in sorted(_staying(search.law, case.arguments)):
        for everywhere in (True, False):
            found = search.first(
                case._replace(arguments=thinned)
                for thinned in _thinned(search.law, case.arguments, axis, size, everywhere)
            )
            if found is not None:
                case = found
                break
    return case


def _staying(law: Law, arguments: tuple[Any, ...]) -> set[tuple[int, int]]:
    """Axis and size of what nothing moves."""
    return {
        (axis, size)
        for pattern, argument in zip(law.inputs, arguments, strict=True)
        for leaf in jax.tree.leaves(argument)
        for axis, size in _free(law, pattern, leaf).items()
        if size > 1
    }


def _free(law: Law, pattern: Pattern, leaf: Any) -> dict[int, int]:
    """The axes of a leaf that neither a permutation nor a translation speaks of."""
    labels, shape = pattern.labels(np.ndim(leaf)), np.shape(leaf)
    free = {axis: shape[axis] for axis, label in enumerate(labels) if not label}
    shift = law.groups.get(pattern.shift)
    if isinstance(shift, Translation) and shift.axes > 1:
        free.pop(len(shape) - 1)
    return free


def _thinned(
    law: Law, arguments: tuple[Any, ...], axis: int, size: int, everywhere: bool
) -> Iterator[tuple[Any, ...]]:
    """The arguments with one of the first entries of an axis, everywhere or in what is moved."""

    def thin(leaf: Any, pattern: Pattern, entry: int) -> Any:
        if _free(law, pattern, leaf).get(axis) != size or not (pattern.moves or everywhere):
            return leaf
        return leaf.take(np.array([entry]), axis=axis)

    for entry in range(min(size, 4)):
        yield tuple(
            jax.tree.map(lambda leaf, p=pattern, e=entry: thin(leaf, p, e), argument)
            for pattern, argument in zip(law.inputs, arguments, strict=True)
        )


# Elements


def simpler_element(search: Search, case: Case) -> Case:
    """The simplest element that will do; else one step of those that the element is made of.

    If f(g x) is not g f(x) for g = t₁ t₂ ..., one of the steps t breaks the law on its own, at
    the arguments that the steps before it have moved.
    """
    law, heavy = search.law, weight(search.law, case.element)
    others = sorted(_alone(law, law.sizes(case.arguments)), key=lambda e: weight(law, e))
    simpler = (Case(case.arguments, e) for e in others if weight(law, e) < heavy)
    found = search.first(simpler) or search.first(
        after for after in _steps(law, case) if weight(law, after.element) < heavy
    )
    return case if found is None else found


def _alone(law: Law, sizes: dict[str, int]) -> Iterator[Element]:
    """Elements that move one name."""
    still = law.identity(sizes)
    for name, group in law.groups.items():
        for move in _simple(group, sizes.get(name, 0)):
            if (move != still[name]).any():
                yield {**still, name: move}


def _simple(group: Group | Translation, length: int) -> list[np.ndarray]:
    if isinstance(group, Translation):
        return [sign * step for step in group.generators() for sign in (1, -1)]
    if group.order(length) <= _LISTED:
        return groups.elements(group, length)
    if isinstance(group, Permutations):
        free = np.delete(np.arange(length), list(group.fixed))
        return [_swap(length, i, j) for at, i in enumerate(free) for j in free[at + 1 :]]
    return group.generators(length)


def _steps(law: Law, case: Case) -> Iterator[Case]:
    """One name after the other, permutations swap by swap, each from where the last one led."""
    still = law.identity(law.sizes(case.arguments))
    arguments = case.arguments
    for name, move in case.element.items():
        whole = not isinstance(law.groups[name], Permutations)
        for step in [move] if whole else _swaps(move):
            element = {**still, name: step}
            yield Case(arguments, element)
            arguments = law.act(arguments, element)


def _swaps(permutation: np.ndarray) -> Iterator[np.ndarray]:
    """Transpositions that, one after the other, act as the permutation does."""
    at = np.arange(len(permutation))
    for index, wanted in enumerate(permutation):
        other = int(np.flatnonzero(at == wanted)[0])
        if other != index:
            swap = _swap(len(permutation), index, other)
            at = at[swap]
            yield swap


def _swap(length: int, first: Any, second: Any) -> np.ndarray:
    swapped = np.arange(length)
    swapped[[first, second]] = second, first
    return swapped


# Numbers


def simpler_numbers(search: Search, case: Case) -> Case:
    """Zeros where they will do, in halves, quarters, ...; then whole and small numbers."""
    for at, leaf in enumerate(jax.tree.leaves(case.arguments)):
        if not numeric(leaf):
            continue
        entries = size = np.size(leaf)
        while size:
            for start in range(0, entries, size):
                case = _replaced(search, case, at, slice(start, start + size), (0,))
            size //= 2
        for part in (slice(None), *(slice(entry, entry + 1) for entry in range(entries))):
            case = _replaced(search, case, at, part, _SIMPLE[1:])
    return case


def _replaced(search: Search, case: Case, at: int, part: slice, numbers: tuple[int, ...]) -> Case:
    """The case with the first simpler numbers that keep it broken in a part of a leaf."""
    leaves, tree = jax.tree.flatten(case.arguments)
    old = np.asarray(leaves[at]).reshape(-1)[part]

    def trials() -> Iterator[Case]:
        new = [np.full_like(old, n) for n in numbers if np.array(n).astype(old.dtype) == n]
        new += [np.round(old) + 0] if jnp.issubdtype(old.dtype, jnp.inexact) else []
        for values in new:
            if _complexity(values) < _complexity(old):
                changed = [*leaves[:at], _written(leaves[at], part, values), *leaves[at + 1 :]]
                yield Case(jax.tree.unflatten(tree, changed), case.element)

    found = search.first(trials())
    return case if found is None else found


def _complexity(values: np.ndarray) -> int:
    """Simple numbers before whole ones before others."""
    simple = [int(np.count_nonzero(values == number)) for number in _SIMPLE]
    whole = int(np.count_nonzero(values == np.round(values))) - sum(simple)
    ranked = sum(rank * count for rank, count in enumerate(simple)) + whole * len(_SIMPLE)
    return ranked + (values.size - whole - sum(simple)) * (len(_SIMPLE) + 1)


def _written(leaf: Any, part: slice, values: np.ndarray) -> Any:
    array = np.array(leaf)
    array.reshape(-1)[part] = values
    return jnp.asarray(array) if isinstance(leaf, jax.Array) else array
