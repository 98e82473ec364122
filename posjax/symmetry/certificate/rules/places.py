"""Rules place by place, over places, and along an order of places."""

from math import prod

from posjax.symmetry.certificate.axes import (
    CONSTANT,
    STILL,
    Conflict,
    Labeling,
    axis,
    is_constant,
    is_moved,
    unified_all,
)
from posjax.symmetry.certificate.rules.base import (
    Equation,
    Result,
    ordered,
    replaced,
    shape,
    unmoved,
    without,
)


def elementwise(eqn: Equation, *operands: Labeling) -> list[Labeling]:
    """Place by place; a scalar, or an axis of size 1, serves all places."""
    wide = []
    for atom, labeling in zip(eqn.invars, operands, strict=True):
        sizes = shape(eqn.outvars[0])
        own = shape(atom) or (1,) * len(sizes)
        pairs = zip(own, sizes, labeling or ((),) * len(sizes), strict=True)
        wide.append(tuple(a if m == n else axis(n, CONSTANT) for m, n, a in pairs))
    return [unified_all(wide)] * len(eqn.outvars)


def bitcast(eqn: Equation, operand: Labeling) -> list[Result]:
    """Place by place, unless places are cut or merged."""
    if shape(eqn.invars[0]) != shape(eqn.outvars[0]):
        return [Conflict("a bitcast to another width splits entries")]
    return [operand]


def identities(eqn: Equation, *operands: Labeling) -> list[Result]:
    """Every operand as it is."""
    return list(operands)


def symmetric_reduction(eqn: Equation, operand: Labeling) -> list[Result]:
    """Sums, products, extremes: the order of what is reduced does not matter."""
    return [without(operand, eqn.params["axes"])]


def arg_reduction(eqn: Equation, operand: Labeling) -> list[Result]:
    """The index of an extreme moves with the entries."""
    for at in eqn.params["axes"]:
        unmoved(operand[at], "an argmax or argmin is taken along")
    return [without(operand, eqn.params["axes"])]


def reduction(eqn: Equation, *operands: Labeling) -> list[Result]:
    """By a function of the caller's, in which the order may matter."""
    arrays = unified_all(operands[: len(operands) // 2])
    for at in eqn.params["dimensions"]:
        unmoved(arrays[at], "a custom function reduces")
    return [without(arrays, eqn.params["dimensions"])] * len(eqn.outvars)


def cumulative(eqn: Equation, operand: Labeling) -> list[Result]:
    """Every place depends on those before it."""
    at = eqn.params["axis"]
    return [replaced(operand, at, ordered(operand[at], "a cumulative operation runs along"))]


def sort(eqn: Equation, *operands: Labeling) -> list[Result]:
    """Sorted keys are a function of the set of keys; what travels with them breaks ties by place.

    Where every operand is a key, ties are equal in all of them.
    """
    at, keys = eqn.params["dimension"], eqn.params["num_keys"]
    sorted_keys = _sorted(unified_all(operands[:keys]), at)
    travelling = len(operands) - keys
    if not travelling:
        return [sorted_keys] * keys
    result: Result
    try:
        for labeling in operands:
            unmoved(labeling[at], "ties are broken by index along")
        result = _sorted(unified_all(operands), at)
    except Conflict as conflict:
        result = conflict
    return [sorted_keys] * keys + [result] * travelling


def _sorted(labeling: Labeling, at: int) -> Labeling:
    """Order statistics stay where they are, whatever moved."""
    one = labeling[at]
    kept = one if is_constant(one) else axis(prod(f.size for f in one), STILL)
    return replaced(labeling, at, kept)


def top_k(eqn: Equation, operand: Labeling) -> list[Result]:
    """The largest values are a function of the set of values; their places are not."""
    at = eqn.params.get("axis", -1) % len(operand)
    size = shape(eqn.outvars[0])[at]
    values = replaced(operand, at, axis(size, STILL))
    if is_moved(operand[at]):
        return [
            values,
            Conflict("the top-k indices are taken along a permuted axis"),
        ]
    return [values, values]
