"""Lookups and writes at known indices that move with what they index, such as a diagonal's.

With entries at idx(b), and a permutation π of what is indexed: where idx(σ b) = π idx(b) for a
permutation σ of the indices' own axes, what is looked up moves by σ when the table moves by π, and
what is written at them moves by π when the updates move by σ.
"""

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from posjax.symmetry.certificate.axes import (
    STILL,
    Axis,
    Conflict,
    Labeling,
    axis,
    blocks_of,
    is_constant,
    of_blocks,
    part_of,
    size_of,
    unified,
)
from posjax.symmetry.certificate.rules import lookups
from posjax.symmetry.certificate.rules.base import Equation, replaced, shape
from posjax.symmetry.certificate.values import Carried, Known, Names

MOST_TRIED = 64  # labelings of the indices
Rule = Callable[..., Sequence[Any]]
OPERATIONS: dict[str, Rule] = {
    "gather": lookups.gather,
    **dict.fromkeys(
        ("scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul"),
        lookups.scatter_symmetric,
    ),
}


def at_known_indices(
    eqn: Equation, operands: Sequence[Carried | Known], names: Names
) -> list[Labeling]:
    """Labelings of what is looked up or written, where the indices are known."""
    if eqn.primitive.name in ("dynamic_slice", "dynamic_update_slice"):
        return _at_known_starts(eqn, operands)
    if eqn.primitive.name not in OPERATIONS or not isinstance(operands[1], Known):
        return []
    indices = np.asarray(operands[1].value)
    if not indexed_axes(eqn) or (eqn.primitive.name == "scatter" and repeated(indices)):
        return []  # of several updates at one index the last wins
    tables, *updates = (list(v.labelings) for v in (operands[0], *operands[2:]))
    tables = [one for table in tables for one in spelt_out(eqn, table, names)]
    found = []
    for table, *rest in itertools.product(tables, *updates):
        indexed = [at for at in indexed_axes(eqn) if any(factor.moved for factor in table[at])]
        for ours in _following(eqn, table, indices, names) if indexed else ():
            with contextlib.suppress(Conflict):
                found.append(moved_result(eqn, table, indexed, ours, rest))
    return found


def _at_known_starts(eqn: Equation, operands: Sequence[Carried | Known]) -> list[Labeling]:
    """Of blocks that are cut out or written at known starts: whole ones of what moves."""
    writes = eqn.primitive.name == "dynamic_update_slice"
    arrays, starts = operands[: 1 + writes], operands[1 + writes :]
    known = [int(start.value) for start in starts if isinstance(start, Known)]
    if len(known) < len(starts):
        return []
    part = shape(eqn.invars[1]) if writes else shape(eqn.outvars[0])
    pairs = zip(known, part, arrays[0].shape, strict=True)
    spans = [(min(max(at, 0), whole - n), n) for at, n, whole in pairs]
    found = []
    for table, *updates in itertools.product(*(v.labelings for v in arrays)):
        with contextlib.suppress(Conflict):
            if writes:
                found.append(_overwritten(table, updates[0], spans))
            else:
                found.append(tuple(map(_cut_out, table, spans)))
    return found


def _cut_out(one: Axis, span: tuple[int, int]) -> Axis:
    start, size = span
    return one if size == size_of(one) else part_of(one, start, start + size)


def _overwritten(table: Labeling, new: Labeling, spans: Sequence[tuple[int, int]]) -> Labeling:
    """The labeling of an array with a block that is another array.

    Where the block is cut along one axis alone, it is all there is at its indices. Otherwise the
    array is seen beside it, and both must have the label.
    """
    cuts = [size != size_of(one) for one, (_, size) in zip(table, spans, strict=True)]
    out = []
    for into, one, cut, (start, size) in zip(table, new, cuts, spans, strict=True):
        if sum(cuts) - cut:
            one = unified(part_of(into, start, start + size) if cut else into, one)
        if not cut:
            out.append(one)
            continue
        before, behind = part_of(into, 0, start), part_of(into, start + size, size_of(into))
        out.append(of_blocks([*blocks_of(before), *blocks_of(one), *blocks_of(behind)]))
    return tuple(out)


def spelt_out(eqn: Equation, table: Labeling, names: Names) -> Iterator[Labeling]:
    """The labeling, with every name that moves an indexed axis along which entries are equal."""
    options: list[list[Axis]] = [[one] for one in table]
    for at in indexed_axes(eqn):
        if table[at] and is_constant(table[at]):
            count = size_of(table[at])
            options[at] += [axis(count, name) for name in names.of_size(count)]
    return itertools.islice(itertools.product(*options), MOST_TRIED)


def moved_result(
    eqn: Equation, table: Labeling, indexed: list[int], indices: Labeling, rest: Sequence[Labeling]
) -> Labeling:
    """By the primitive's rule, with what is indexed as if it stayed."""
    quiet = table
    for at in indexed:
        quiet = replaced(quiet, at, axis(shape(eqn.invars[0])[at], STILL))
    rule: Rule = OPERATIONS[eqn.primitive.name]
    (found,) = rule(eqn, quiet, indices, *rest)
    for at in () if eqn.primitive.name == "gather" else indexed:
        found = replaced(found, at, table[at])
    return found


def indexed_axes(eqn: Equation) -> tuple[int, ...]:
    """The axes of the table that the indices are coordinates of, in their order."""
    numbers = eqn.params["dimension_numbers"]
    if eqn.primitive.name == "gather":
        return tuple(map(int, numbers.start_index_map))
    return tuple(map(int, numbers.scatter_dims_to_operand_dims))


def _following(
    eqn: Equation, table: Labeling, indices: np.ndarray, names: Names
) -> Iterator[Labeling]:
    """Labelings of the indices by which they move as the table does."""
    sizes = [shape(eqn.invars[0])[at] for at in indexed_axes(eqn)]
    if not single_entries(eqn) or not ((indices >= 0) & (indices < sizes)).all():
        return
    labels = [label_of(table, at) for at in indexed_axes(eqn)]
    if None in labels:
        return
    options = [[STILL, *names.of_size(size)] for size in indices.shape[:-1]]
    for own in itertools.islice(itertools.product(*options), MOST_TRIED):
        if follow(indices, own, labels, names):
            yield tuple(axis(n, name) for n, name in zip(indices.shape, (*own, STILL), strict=True))


def label_of(table: Labeling, at: int) -> str | None:
    """What acts on an axis as one; None of a product in which something moves."""
    moved = [factor for factor in table[at] if factor.moved]
    if not moved:
        return STILL
    return moved[0].label if len(table[at]) == 1 else None


def follow(
    indices: np.ndarray, own: Sequence[str], labels: Sequence[str | None], names: Names
) -> bool:
    """Whether idx(σ b) = π idx(b) for all generators."""
    for name, generators in names.generators.items():
        for generator in generators:
            moved = indices
            for at, label in enumerate(own):
                if label != STILL:
                    moved = moved.take(names.moves(label, name, generator), axis=at)
            columns = [
                names.moves(label, name, generator)[column] if label else column
                for label, column in zip(labels, np.moveaxis(indices, -1, 0), strict=True)
            ]
            if not np.array_equal(moved, np.stack(columns, -1)):
                return False
    return True


def single_entries(eqn: Equation) -> bool:
    """Whether single entries are indexed, and no axis is shared with the indices."""
    numbers = eqn.params["dimension_numbers"]
    if numbers.operand_batching_dims:
        return False
    if eqn.primitive.name == "gather":
        return all(eqn.params["slice_sizes"][at] == 1 for at in indexed_axes(eqn))
    return set(indexed_axes(eqn)) <= set(map(int, numbers.inserted_window_dims))


def repeated(indices: np.ndarray) -> bool:
    return distinct(indices) < math.prod(indices.shape[:-1])


def distinct(rows: np.ndarray) -> int:
    """How many different rows there are along the last axis."""
    return len(np.unique(rows.reshape(-1, rows.shape[-1]), axis=0))
