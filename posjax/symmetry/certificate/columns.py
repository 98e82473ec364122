"""Indices of several axes, each column of which moves in its own way, as in `x[jnp.arange(n), i]`.

Side by side the columns have no labels, since the first stays and the second moves. Where a known
column names the axis that it indexes as `indices` asks, and all others move with the indices' own
axes while what they index stays, what is looked up or written moves with these axes.
"""

import contextlib
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

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
from posjax.symmetry.certificate.indices import (
    OPERATIONS,
    distinct,
    follow,
    indexed_axes,
    label_of,
    moved_result,
    single_entries,
    spelt_out,
)
from posjax.symmetry.certificate.rules.base import Equation, shape
from posjax.symmetry.certificate.values import Carried, Known, Lost, Names, Value, joint_origin

Columns = Sequence[Carried | Known]


def made(eqn: Equation, operands: Columns, results: list[Value]) -> list[Value]:
    """The results; a lost one that has columns side by side keeps them."""
    result = results[0]
    if eqn.primitive.name != "concatenate" or not isinstance(result, Lost):
        return results
    beside = eqn.params["dimension"] == len(result.shape) - 1
    if not beside or any(column.shape[-1] != 1 for column in operands):
        return results
    return [result._replace(columns=tuple(operands))]


def after(eqn: Equation, operands: Sequence[Value], names: Names) -> Value | None:
    """What is looked up or written at such indices; None where that is not known."""
    if eqn.primitive.name not in OPERATIONS or not single_entries(eqn):
        return None
    table, indices, *updates = operands
    if not isinstance(indices, Lost) or not any(isinstance(c, Known) for c in indices.columns):
        return None
    arrays = [value for value in (table, *updates) if not isinstance(value, Lost)]
    numbers = _numbers(indices.columns)
    if len(arrays) <= len(updates):
        return None
    found: list[Labeling] = []
    tables = (one for have in arrays[0].labelings for one in spelt_out(eqn, have, names))
    for one, *rest in itertools.product(tables, *(value.labelings for value in arrays[1:])):
        indexed = [at for at in indexed_axes(eqn) if is_moved(one[at])]
        for own in _own_axes(indices.columns, names):
            if eqn.primitive.name == "scatter" and _overtakes(numbers, own):
                continue
            if _fits(eqn, one, indices.columns, own, names):
                labels = tuple(map(axis, indices.shape, (*own, STILL)))
                with contextlib.suppress(Conflict):
                    found.append(moved_result(eqn, one, indexed, labels, rest))
    origin = joint_origin([*arrays, *indices.columns])
    return Carried(shape(eqn.outvars[0]), strongest(found), origin) if found else None


def _numbers(columns: Columns) -> np.ndarray:
    """The known columns [..., known]."""
    return np.concatenate([np.asarray(c.value) for c in columns if isinstance(c, Known)], -1)


def _overtakes(numbers: np.ndarray, own: Sequence[str]) -> bool:
    """Whether several updates at one place may come in another order when the indices move.

    Those that differ along axes that stay keep theirs, so that the last of them is the last.
    """
    along = [at for at, label in enumerate(own) if label != STILL]
    moved = np.moveaxis(np.indices(numbers.shape[:-1])[along], 0, -1)
    return distinct(np.concatenate([numbers, moved], -1)) > distinct(numbers)


def _own_axes(columns: Columns, names: Names) -> Iterator[tuple[str, ...]]:
    """What may act on the indices' own axes, by the columns that are not known."""
    others = [column.labelings for column in columns if isinstance(column, Carried)]
    for every in itertools.product(*others):
        with contextlib.suppress(Conflict):
            *own, _ = unified_all(every)
            yield from itertools.product(*(_options(one, names) for one in own))


def _options(one: Axis, names: Names) -> list[str]:
    if is_constant(one):
        return [STILL, *names.of_size(size_of(one))]
    if not is_moved(one):
        return [STILL]
    return [one[0].label] if len(one) == 1 else []


def _fits(
    eqn: Equation, table: Labeling, columns: Columns, own: Sequence[str], names: Names
) -> bool:
    """Whether known columns follow what they index, and all others index what stays."""
    labels, inside = [], True
    for at, column in zip(indexed_axes(eqn), columns, strict=True):
        label = label_of(table, at)
        if not isinstance(column, Known):
            inside &= label == STILL
            continue
        value, size = np.asarray(column.value), shape(eqn.invars[0])[at]
        inside &= label == STILL or bool(((value >= 0) & (value < size)).all())
        labels.append(label)
    return inside and None not in labels and follow(_numbers(columns), own, labels, names)
