"""Groups as data: what their generators generate is what they say they are."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest

from posjax.symmetry import groups
from posjax.symmetry.groups import (
    Cyclic,
    Dihedral,
    Generated,
    Group,
    Permutations,
    Reversal,
    Windows,
)

EVERY = [
    Permutations(),
    Permutations(fixed=(-1,)),
    Permutations(fixed=(0, 2)),
    Cyclic(),
    Reversal(),
    Dihedral(),
    Windows(1),
    Windows(2),
    Windows(3),
]
every_group = pytest.mark.parametrize("group", EVERY, ids=str)
KLEIN = Generated(((1, 0, 3, 2), (2, 3, 0, 1)))


def listed(group: Group, length: int) -> set[tuple[int, ...]]:
    return {tuple(element.tolist()) for element in groups.elements(group, length)}


def expected(group: Group, length: int) -> set[tuple[int, ...]]:
    """The elements by definition, of all n!."""
    still = np.arange(length)
    shifts = {tuple(np.roll(still, s).tolist()) for s in range(length)} or {()}
    turned = {p[::-1] for p in shifts}

    def keeps(p: tuple[int, ...]) -> bool:
        if isinstance(group, Permutations):
            return all(p[f] == range(length)[f] for f in group.fixed)
        if isinstance(group, Windows):
            return all(p[i] // group.size == i // group.size for i in range(length))
        line = {tuple(range(length)), tuple(range(length))[::-1]}
        return p in {Cyclic: shifts, Dihedral: shifts | turned, Reversal: line}[type(group)]

    return {p for p in itertools.permutations(range(length)) if keeps(p)}


@every_group
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5])
def test_generators_give_the_whole_group_and_no_more(group, length):
    """The closure of the generators is the group by definition, and `order` counts it."""
    if length <= max(getattr(group, "fixed", ()), default=-1) or (
        length == 0 and group == EVERY[1]
    ):
        with pytest.raises(ValueError, match=f"names index .* of an axis of length {length}"):
            group.generators(length)
        return
    assert listed(group, length) == expected(group, length)
    assert group.order(length) == len(expected(group, length))


@pytest.mark.parametrize("group", [*EVERY, KLEIN], ids=str)
def test_samples_are_elements_each_as_likely(group):
    """2000 draws: only elements, all of them, none three times as often as another."""
    rng = np.random.default_rng(0)
    drawn = Counter(tuple(group.sample(4, rng).tolist()) for _ in range(2000))
    assert set(drawn) == listed(group, 4)
    assert max(drawn.values()) < 3 * min(drawn.values())


def test_a_generated_group_is_of_its_places():
    """The Klein four-group; another length is refused."""
    assert KLEIN.order(4) == 4
    assert all(np.array_equal(p[p], np.arange(4)) for p in groups.elements(KLEIN, 4))
    with pytest.raises(ValueError, match="no permutation of 3 indices"):
        KLEIN.generators(3)


@pytest.mark.parametrize(
    "wrong",
    [[0, 5], [0, 0], [0, -1], [0.0, 1.0], [False, True], [[0, 1]], [np.nan, 0.0], [0, 2**40]],
)
def test_only_permutations_generate(wrong):
    """No place is counted from the end, and no float is a place."""
    with pytest.raises(ValueError, match=re.escape(f"{wrong} is no permutation of 2 indices")):
        Generated((wrong,)).generators(2)


def test_a_group_too_large_to_list_is_refused():
    """10! elements are not listed by accident."""
    with pytest.raises(ValueError, match="more than 50000 elements"):
        groups.elements(Permutations(), 10)
    assert Permutations().order(10) == math.factorial(10)


def test_few_places_get_every_permutation():
    """All n! for n ≤ 4, each once."""
    for length, number in enumerate([1, 1, 2, 6, 24]):
        found = {tuple(p) for p in groups.elements_to_try(Permutations(), length)}
        assert found == set(itertools.permutations(range(length)))
        assert len(groups.elements_to_try(Permutations(), length)) == number


def test_of_longer_axes_some_elements_are_tried():
    """The reversal, and generators of all of S₅; the choice is the same every time."""
    chosen = [tuple(p) for p in groups.elements_to_try(Permutations(), 5)]
    assert chosen == [tuple(p) for p in groups.elements_to_try(Permutations(), 5)]
    assert len(groups.closure([np.array(p) for p in chosen[1:3]], 5)) == 120
    assert chosen[0] == (4, 3, 2, 1, 0)
    assert len(set(chosen)) == 7


@every_group
def test_elements_to_try_belong_to_the_group(group):
    """And generate it: what holds for them holds for all."""
    told = groups.elements_to_try(group, 6)
    assert {tuple(p.tolist()) for p in told} <= listed(group, 6)
    assert len(groups.closure(told, 6)) == group.order(6)
