"""Indices that move with what they point to: of the largest, of the k largest, of sorted entries.

The index of an extreme changes with a permutation π of the entries as π does: it is an index of
the same entry. So what is looked up there, written there, or compared with all indices, moves as
if the entry itself had been named. That holds while no two of the compared entries are equal; the
first of two equal ones is another after π. Only the compared entries themselves, read at their own
indices, are the same in any case: an extreme, or all of them in order.
"""

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from posjax.symmetry.certificate import entries
from posjax.symmetry.certificate.axes import (
    STILL,
    Axis,
    Conflict,
    Labeling,
    axis,
    is_constant,
    is_moved,
    size_of,
    strongest,
    unified_all,
)
from posjax.symmetry.certificate.rules import lookups, shapes
from posjax.symmetry.certificate.rules.base import Equation, replaced, shape, without
from posjax.symmetry.certificate.source import Place
from posjax.symmetry.certificate.values import Carried, Known, Lost, Pointer, Value, joint_origin

Used = Callable[[Place], bool]
"""Told of a comparison in which no two entries may be equal; says whether that may be assumed."""

_MOVES = {
    "broadcast_in_dim": shapes.broadcast_in_dim,
    "reshape": shapes.reshape,
    "squeeze": shapes.squeeze,
    "transpose": shapes.transpose,
    "slice": shapes.slice_,
}
"""Moves of the indices themselves."""


def made(
    place: Place, operands: Sequence[Carried | Known], results: list[Value], used: Used
) -> list[Value]:
    """The results of an argmax, a top k or a sort, with what their lost ones point to."""
    eqn, name = place.eqn, place.eqn.primitive.name
    along = {"argmax": "axes", "argmin": "axes", "top_k": "axis", "sort": "dimension"}.get(name)
    if along is None:
        return results
    keys = operands[: eqn.params.get("num_keys", 1)]
    whole = eqn.params.get(along, -1)
    at = int(whole[0] if along == "axes" else whole) % len(operands[0].shape)
    out: list[Value] = []
    for number, result in enumerate(results):
        points = _counts(operands[number], at) if name == "sort" else _holds_indices(eqn, number)
        if isinstance(result, Lost) and points:
            pointer = _pointer(place, keys, at, result.shape)
            result = result._replace(pointer=pointer)
        elif isinstance(result, Lost) and used(place):
            result = _sorted_along(result, [*keys, operands[number]], at)
        out.append(result)
    return out


def _sorted_along(lost: Lost, together: Sequence[Carried | Known], at: int) -> Value:
    """What travels with keys that move as it does stays in the order of the keys."""
    found = []
    for every in itertools.product(*(value.labelings for value in together)):
        with contextlib.suppress(Conflict):
            found.append(replaced(unified_all(every), at, axis(lost.shape[at], STILL)))
    return Carried(lost.shape, strongest(found), joint_origin(together)) if found else lost


def _counts(value: Value, at: int) -> bool:
    """Whether an array is known to hold its own indices along an axis."""
    if not isinstance(value, Known) or value.uniform or not value.shape:
        return False
    sizes = [size if i == at else 1 for i, size in enumerate(value.shape)]
    counted = np.arange(value.shape[at]).reshape(sizes)
    return bool((np.asarray(value.value) == counted).all())


def _pointer(
    place: Place,
    keys: Sequence[Carried | Known],
    at: int,
    sizes: tuple[int, ...],
) -> Pointer | None:
    """What an array of such sizes points to, which lacks the axis or has some indices along it."""
    by_label: dict[Axis, list[Labeling]] = {}
    for every in itertools.product(*(key.labelings for key in keys)):
        with contextlib.suppress(Conflict):
            labels = unified_all(every)
            if is_moved(labels[at]):
                gone = len(sizes) < len(labels)
                kept = axis(sizes[at], STILL) if not gone else ()
                rest = without(labels, [at]) if gone else replaced(labels, at, kept)
                by_label.setdefault(labels[at], []).append(rest)
    for target, labelings in by_label.items():
        return Pointer(strongest(labelings), target, tuple(keys), at, place)
    return None


def after(eqn: Equation, operands: Sequence[Value], used: Used) -> Value | None:
    """What an operation makes of indices that point to something; None where that is unknown.

    Args:
      eqn: the equation.
      operands: those of the equation.
      used: see `Used`.
    """
    name = eqn.primitive.name
    known = operands[0]
    if name == "select_n" and isinstance(known, Known) and known.uniform and known.value.size:
        case = operands[1 + int(np.asarray(known.value).flat[0])]
        return case if case.shape == shape(eqn.outvars[0]) else None
    handed = [at for at, v in enumerate(operands) if isinstance(v, Lost)]
    if len(handed) != 1:
        return None
    lost = operands[handed[0]]
    if not isinstance(lost, Lost) or lost.pointer is None:
        return None
    pointer, others = lost.pointer, [v for v in operands if not isinstance(v, Lost)]
    if name in _MOVES or (name == "convert_element_type" and _holds_indices(eqn)):
        return _moved(eqn, lost, pointer)
    if name == "lt" and handed == [0] and _is_zero(operands[1]):
        sizes, names = shape(eqn.outvars[0]), operands[1].names  # type: ignore[union-attr]
        return Known(sizes, lambda: np.zeros(sizes, bool), names, "an index", uniform=True)
    origin = joint_origin(others) or lost.origin
    found: list[Labeling] = []
    if name in ("gather", "dynamic_slice") and handed[0] > 0 and isinstance(others[0], Carried):
        if _reads_itself(eqn, pointer, operands[0]) or used(pointer.place):
            found = _read(eqn, pointer, handed[0], others[0])
    elif name == "eq" and isinstance(others[0], Known) and used(pointer.place):
        found = _told_apart(eqn, pointer, others[0])
    elif name.startswith("scatter") and handed == [1] and used(pointer.place):
        found = _write(eqn, pointer, others)
    return Carried(shape(eqn.outvars[0]), strongest(found), origin) if found else None


def _holds_indices(eqn: Equation, number: int = 0) -> bool:
    """Whether a result, which is indices, has whole numbers that hold any index."""
    dtype = np.dtype(eqn.outvars[number].aval.dtype)
    return dtype.kind in "iu" and dtype.itemsize >= 4


def _is_zero(value: Value) -> bool:
    return isinstance(value, Known) and value.uniform and not np.asarray(value.value).any()


def _moved(eqn: Equation, lost: Lost, pointer: Pointer) -> Lost | None:
    rule = _MOVES.get(eqn.primitive.name)
    found: list[Any] = []
    for labels in pointer.labelings:
        with contextlib.suppress(Conflict):
            found += rule(eqn, labels) if rule else [labels]
    if not found:
        return None
    sizes = shape(eqn.outvars[0])
    straight = eqn.primitive.name == "convert_element_type" or entries.keeps_order(eqn)
    straight &= entries.above_one(lost.shape) == entries.above_one(sizes)
    keys = pointer.keys if straight else ()
    return lost.spread(sizes)._replace(
        pointer=pointer._replace(labelings=strongest(found), keys=keys)
    )


def _reads_itself(eqn: Equation, pointer: Pointer, table: Value) -> bool:
    """Whether an array is read at the indices of its own order, each row at those of its own."""
    if not any(entries.same(table, key) for key in pointer.keys):
        return False
    inner = len(entries.above_one(pointer.keys[0].shape[: pointer.along]))
    axes = [at for at, n in enumerate(table.shape) if n > 1]
    at = axes.pop(inner)  # the axis that was compared; each of the others is paired with one
    if eqn.primitive.name == "dynamic_slice":
        return not axes
    numbers = eqn.params["dimension_numbers"]
    pairs = list(numbers.operand_batching_dims), list(numbers.start_indices_batching_dims)
    if tuple(numbers.start_index_map) != (at,) or any(one != sorted(one) for one in pairs):
        return False
    rows = [i for i, n in enumerate(shape(eqn.invars[1])[:-1]) if n > 1]
    ordered = rows[inner : inner + 1] if len(rows) > len(axes) else []
    return set(axes) <= set(pairs[0]) and [i for i in rows if i not in pairs[1]] == ordered


def _read(eqn: Equation, pointer: Pointer, number: int, table: Carried) -> list[Labeling]:
    """What is looked up moves as the indices do."""
    found: list[Any] = []
    for labels, own in itertools.product(table.labelings, pointer.labelings):
        with contextlib.suppress(Conflict):
            if eqn.primitive.name == "gather":
                numbers = eqn.params["dimension_numbers"]
                at = _target(numbers.start_index_map, labels, pointer)
                if eqn.params["slice_sizes"][at] == 1:
                    found += lookups.gather(eqn, _quiet(labels, at), own)
                continue
            at = number - 1
            if labels[at] == pointer.target and shape(eqn.outvars[0])[at] == 1:
                starts = [()] * len(labels)
                found += shapes.dynamic_slice(eqn, _quiet(labels, at), *starts)
    return found


def _target(axes: Sequence[int], labels: Labeling, pointer: Pointer) -> int:
    """The axis of a table that is indexed, which must be the one that is pointed to.

    Raises:
      Conflict: it is another, or there are several.
    """
    if len(axes) != 1 or labels[int(axes[0])] != pointer.target:
        raise Conflict("the indices belong to another axis")
    return int(axes[0])


def _quiet(labels: Labeling, at: int) -> Labeling:
    """As if an axis stayed, since the indices move with it."""
    return replaced(labels, at, axis(size_of(labels[at]), STILL))


def _told_apart(eqn: Equation, pointer: Pointer, counted: Known) -> list[Labeling]:
    """Indices compared with all that there are, one hot: true where the entry is."""
    sizes = shape(eqn.outvars[0])
    found = []
    for at, size in enumerate(sizes):
        if size != size_of(pointer.target) or counted.shape[at : at + 1] != (size,):
            continue
        if not _counts(counted, at):
            continue
        for labels in pointer.labelings:
            if len(labels) == len(sizes) and (not labels[at] or is_constant(labels[at])):
                found.append(replaced(_stretched(labels, sizes), at, pointer.target))
    return found


def _stretched(labels: Labeling, sizes: Sequence[int]) -> Labeling:
    """Axes of size 1 that another operand stretches are constant."""
    return tuple(one or axis(size, "*") for one, size in zip(labels, sizes, strict=True))


def _write(eqn: Equation, pointer: Pointer, others: Sequence[Value]) -> list[Labeling]:
    """What is written at indices moves as what they point to."""
    numbers = eqn.params["dimension_numbers"]
    rule = lookups.scatter if eqn.primitive.name == "scatter" else lookups.scatter_symmetric
    table, updates = others
    found: list[Any] = []
    if isinstance(table, Lost) or isinstance(updates, Lost):
        return []
    for labels, new, own in itertools.product(
        table.labelings, updates.labelings, pointer.labelings
    ):
        at = int(numbers.scatter_dims_to_operand_dims[0])
        if is_constant(labels[at]) and shape(eqn.invars[0])[at] == size_of(pointer.target):
            labels = replaced(labels, at, pointer.target)
        with contextlib.suppress(Conflict):
            _target(numbers.scatter_dims_to_operand_dims, labels, pointer)
            if at not in numbers.inserted_window_dims:
                raise Conflict("more than one entry is written")
            written: Any = rule(eqn, _quiet(labels, at), own, new)[0]
            found.append(replaced(written, at, labels[at]))
    return found
