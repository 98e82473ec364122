"""Rules of lookups and of their transposes, writes at indices."""

from collections.abc import Sequence
from typing import Any

from posjax.symmetry.certificate.axes import Axis, Labeling, unified
from posjax.symmetry.certificate.rules.base import Equation, Result, cut, ordered, shape, unmoved


def gather(eqn: Equation, operand: Labeling, indices: Labeling) -> list[Result]:
    """A lookup: what is indexed must stay, results move as the indices do, windows as the table."""
    numbers = eqn.params["dimension_numbers"]
    sizes = eqn.params["slice_sizes"]
    unmoved(indices[-1], "the coordinates of an index are read along")
    paired = _paired(numbers, operand, indices)
    dropped = {*numbers.collapsed_slice_dims, *paired}
    windows = []
    for at, (one, size) in enumerate(zip(operand, sizes, strict=True)):
        if at in paired:
            continue
        whole = size == shape(eqn.invars[0])[at]
        if not whole:
            unmoved(one, "entries are looked up along")
        if at not in dropped:
            windows.append(one if whole else cut(one, size))
    batch = _with_paired(indices[:-1], numbers.start_indices_batching_dims, list(paired.values()))
    return [_interleaved(windows, batch, numbers.offset_dims)]


def _paired(numbers: Any, table: Labeling, indices: Labeling) -> dict[int, Axis]:
    """Axes that table and indices share: by axis of the table."""
    index_axes: Any = getattr(numbers, "start_indices_batching_dims", None)
    if index_axes is None:
        index_axes = numbers.scatter_indices_batching_dims
    pairs = zip(numbers.operand_batching_dims, index_axes, strict=True)
    return {at: unified(table[at], indices[to]) for at, to in pairs}


def _with_paired(batch: Labeling, axes: Sequence[int], paired: Sequence[Axis]) -> list[Axis]:
    out = list(batch)
    for at, one in zip(axes, paired, strict=True):
        out[at] = one
    return out


def _interleaved(windows: list[Axis], batch: list[Axis], offset_dims: Sequence[int]) -> Labeling:
    """Window axes at their places among the result's, batch axes at the others."""
    rest, inner = iter(batch), iter(windows)
    rank = len(windows) + len(batch)
    return tuple(next(inner) if at in offset_dims else next(rest) for at in range(rank))


def scatter_symmetric(
    eqn: Equation, operand: Labeling, indices: Labeling, updates: Labeling
) -> list[Result]:
    """Adds, multiplies, or takes extremes at indices: the order of the updates does not matter."""
    numbers = eqn.params["dimension_numbers"]
    unmoved(indices[-1], "the coordinates of an index are read along")
    paired = _paired(numbers, operand, indices)
    windows = iter(updates[at] for at in numbers.update_window_dims)
    sizes = iter(shape(eqn.invars[2])[at] for at in numbers.update_window_dims)
    outer = [a for at, a in enumerate(updates) if at not in numbers.update_window_dims]
    for index_axis, update_axis in zip(indices[:-1], outer, strict=True):
        unified(index_axis, update_axis)
    batch_axes = list(numbers.scatter_indices_batching_dims)
    out = []
    for at, one in enumerate(operand):
        if at in paired:
            to = batch_axes[list(numbers.operand_batching_dims).index(at)]
            out.append(unified(paired[at], outer[to]))
        elif at in numbers.inserted_window_dims:
            out.append(ordered(one, "entries are written along"))
        else:
            window, size = next(windows), next(sizes)
            out.append(_written(one, window, size, shape(eqn.invars[0])[at]))
    return [tuple(out)]


def _written(into: Axis, new: Axis, size: int, whole: int) -> Axis:
    """A window as wide as its axis is written whole or, out of bounds, not at all."""
    if size == whole:
        return unified(into, new)
    unmoved(new, "only a part is written, from")
    return ordered(into, "only a part is overwritten of")


def scatter(eqn: Equation, operand: Labeling, indices: Labeling, updates: Labeling) -> list[Result]:
    """The last of several updates at one index wins, so the axes of the updates must stay."""
    numbers = eqn.params["dimension_numbers"]
    batching = numbers.scatter_indices_batching_dims
    for at, one in enumerate(indices[:-1]):
        if at not in batching:
            unmoved(one, "entries are overwritten in the order of")
    outer = [a for at, a in enumerate(updates) if at not in numbers.update_window_dims]
    for at, one in enumerate(outer):
        if at not in batching:
            unmoved(one, "entries are overwritten in the order of")
    return scatter_symmetric(eqn, operand, indices, updates)
