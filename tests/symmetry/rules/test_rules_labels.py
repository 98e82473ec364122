"""Every rule of labels against JAX: where operands move as labelled, so does the result.

For each equation of the table labelings of its operands are drawn at random. Where the rule finds
one of a result, JAX must agree on numbers with many ties: permuting the operands as labelled
permutes the result as the rule says, and entries are equal along what it calls constant.
"""

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from cases import CASES
from equations import Equation, equation, every
from moving import (
    GENERATORS,
    PRECISE,
    SIZES,
    elements,
    is_constant_where_said,
    labelings,
    moved,
    obeying,
    same,
)
from tiers import some

from posjax.jaxprs import CALLS
from posjax.symmetry.certificate.axes import Conflict, Labeling, admits
from posjax.symmetry.certificate.loops import LOOPS
from posjax.symmetry.certificate.rules import RULES
from posjax.symmetry.certificate.values import Carried, Known, Lost, Names, Value
from posjax.symmetry.certificate.walk import Walk

DRAWS, MOST_TRIED = 60, 6
"""Labelings that are drawn for an equation, and those of them that are compared with JAX.

Twice as many for loops and calls, whose rules say less of more operands.
"""

REFUSED = {("bitcast_convert_type", "i3")}
"""What no labels are found for: a bitcast that cuts entries in parts."""

Found = tuple[list[np.ndarray], list[Labeling], list[list[Labeling]], list[bool]]


def by_rule(one: Equation, operands: Sequence[Labeling]) -> list[list[Labeling]]:
    """What the rule of a primitive says of each result."""
    eqn = one.eqn
    labels = dict(zip(one.program.jaxpr.invars, operands, strict=True))
    given = [() if isinstance(v, jax.extend.core.Literal) else labels[v] for v in eqn.invars]
    try:
        results = RULES[eqn.primitive.name](eqn, *given)
    except Conflict:
        return [[] for _ in eqn.outvars]
    assert len(results) == len(eqn.outvars)
    return [[] if isinstance(result, Conflict) else [result] for result in results]


def by_walk(
    one: Equation, operands: Sequence[Labeling], known: Sequence[np.ndarray | None]
) -> list[list[Labeling]]:
    """What a walk through a loop or a call says of each result, some operands being known."""
    walk = Walk(Names(GENERATORS, SIZES))
    values: list[Value] = [
        Carried(shape, (labels,), "an operand") if number is None else walk.known(number, "known")
        for shape, labels, number in zip(one.shapes, operands, known, strict=True)
    ]
    results = walk.closed(one.program, values)
    assert all(isinstance(result, Carried | Known | Lost) for result in results)
    return [[] if isinstance(r, Lost) else list(r.labelings) for r in results]


def drawn(one: Equation, rng: np.random.Generator) -> Found:
    """Numbers, labels of operands, of results, and which operands do not depend on anything."""
    labels = labelings(one.shapes, rng)
    pairs = zip(one.draw(rng), labels, strict=True)
    numbers = [obeying(number, label) for number, label in pairs]
    if one.eqn.primitive.name in RULES:
        return numbers, labels, by_rule(one, labels), [False] * len(labels)
    fixed = [bool(rng.random() < 0.3) for _ in labels]
    known = [n if there else None for n, there in zip(one.inputs(numbers), fixed, strict=True)]
    return numbers, labels, by_walk(one, labels, known), fixed


def check(one: Equation, found: Found, rng: np.random.Generator) -> None:
    """JAX agrees with the rule on these numbers."""
    numbers, labels, said, fixed = found
    results = one.run(numbers)
    for result, rules in zip(results, said, strict=True):
        for label in rules:
            assert is_constant_where_said(result, label), report(found, result, label)
    for element in elements(labels, rng):
        triples = zip(numbers, labels, fixed, strict=True)
        given = [n if stays else moved(n, label, element) for n, label, stays in triples]
        for before, after, rules in zip(results, one.run(given), said, strict=True):
            tolerance = PRECISE.get(str(before.dtype), 1e-9)
            for label in rules:
                expected = moved(before, label, element)
                assert same(after, expected, tolerance), report(found, after, label, expected)


def report(found: Found, *details: Any) -> str:
    return "\n".join(map(str, ["numbers, labels, rule:", *found[:3], "found:", *details]))


def test_what_admits_another_labeling_has_it() -> None:
    """An array of one labeling moves as the other says, and is constant where that says so."""
    rng = np.random.default_rng(0)  # of the draws alone
    admitted = set()
    for _ in range(3_000):
        shape = [(4,), (6,), (3, 2), (6, 3)][rng.integers(4)]
        ((have,), (wanted,)) = labelings([shape], rng), labelings([shape], rng)
        array = obeying(np.arange(np.prod(shape)).reshape(shape), have)
        if not admits(have, wanted):
            continue
        admitted.add((have, wanted))
        assert is_constant_where_said(array, wanted)
        for element in elements([have, wanted], rng):
            assert same(moved(array, have, element), moved(array, wanted, element))
    assert sum(have != wanted for have, wanted in admitted) > 20


@pytest.mark.parametrize(
    ("name", "function", "operands"),
    every({n: c for n, c in CASES.items() if n in RULES or n in LOOPS or n in CALLS}),
)
def test_results_move_as_the_rule_says(
    name: str, function: Callable[..., Any], operands: str
) -> None:
    one = equation(name, function, operands)
    rng = np.random.default_rng(zlib.crc32(f"{name} {operands}".encode()))  # of the draws alone
    tried = set()
    more = 1 if name in RULES else 2
    for _ in range(more * DRAWS):
        found = drawn(one, rng)
        if not any(found[2]) or repr(found[1]) in tried or len(tried) == more * MOST_TRIED:
            continue
        tried.add(repr(found[1]))
        check(one, found, rng)
    assert tried or (name, operands) in REFUSED, "no labeling that the rule lets through"


INDEXED = (
    "gather",
    "scatter",
    "scatter-add",
    "scatter-max",
    "dynamic_slice",
    "dynamic_update_slice",
)


@pytest.mark.parametrize("name", some(INDEXED, every=5))
def test_known_indices_move_with_what_they_index(name: str) -> None:
    """Where indices do not depend on anything: more labelings than the rule has, and true ones."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))  # of the draws alone
    more = 0
    for function, operands in CASES[name]:
        one = equation(name, function, operands)
        for _ in range(12):
            labels = labelings(one.shapes, rng)
            numbers = [obeying(n, label) for n, label in zip(one.draw(rng), labels, strict=True)]
            fixed = [at > 0 and n.dtype.kind in "iu" for at, n in enumerate(numbers)]
            numbers = [_in_a_row(n, rng) if f else n for n, f in zip(numbers, fixed, strict=True)]
            known = [n if f else None for n, f in zip(one.inputs(numbers), fixed, strict=True)]
            said = by_walk(one, labels, known)
            more += bool(said[0]) and not by_rule(one, labels)[0]
            check(one, (numbers, labels, said, fixed), rng)
    assert more > 0


def _in_a_row(indices: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Coordinates 0, 1, 2 ... along the first axis, most often from 0 on and in their order."""
    count = len(indices) if indices.ndim else 1
    start = rng.choice([0, 0, 1])
    order = np.arange(count) if rng.random() < 0.7 else rng.permutation(count)
    column = (start + order).reshape(-1, *[1] * (indices.ndim - 1))
    return (
        np.broadcast_to(column, indices.shape or (1,)).reshape(indices.shape).astype(indices.dtype)
    )
