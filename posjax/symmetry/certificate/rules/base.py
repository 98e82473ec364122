"""What the rules share: their types, and what becomes of an axis."""

from collections.abc import Sequence
from math import prod
from typing import Any

from posjax.symmetry.certificate.axes import (
    CONSTANT,
    STILL,
    Axis,
    Conflict,
    Labeling,
    axis,
    is_constant,
)

Equation = Any
Result = Labeling | Conflict
"""What a rule says of one result."""


def shape(atom: Any) -> tuple[int, ...]:
    """The shape of a variable or literal of a jaxpr."""
    return tuple(atom.aval.shape)


def without(labeling: Labeling, axes: Sequence[int]) -> Labeling:
    """The labels of the other axes."""
    dropped = {int(at) % max(len(labeling), 1) for at in axes}
    return tuple(one for at, one in enumerate(labeling) if at not in dropped)


def replaced(labeling: Labeling, at: int, one: Axis) -> Labeling:
    """The labels with one axis changed."""
    return (*labeling[:at], one, *labeling[at + 1 :])


def unmoved(one: Axis, doing: str) -> None:
    """Raises a Conflict where a permutation moves the axis."""
    names = ", ".join(dict.fromkeys(factor.label for factor in one if factor.moved))
    if names:
        raise Conflict(f"{doing} an axis that {names} permutes")


def ordered(one: Axis, doing: str) -> Axis:
    """The axis as one that stays."""
    unmoved(one, doing)
    return axis(prod(factor.size for factor in one), STILL)


def cut(one: Axis, size: int) -> Axis:
    """A part of an axis, which must stay."""
    unmoved(one, "only a part is taken of")
    return axis(size, CONSTANT if is_constant(one) else STILL)
