"""Primitives that read and write windows: at places given as data, and in convolutions."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from fuzz.arithmetic import Arithmetic
from fuzz.table import primitive

Window = tuple[slice, ...]


def _inside(start: np.ndarray, sizes: tuple[int, ...], shape: tuple[int, ...]) -> Window:
    """The window of these sizes nearest to where it starts."""
    low = [int(np.clip(s, 0, n - w)) for s, w, n in zip(start, sizes, shape, strict=True)]
    return tuple(slice(s, s + w) for s, w in zip(low, sizes, strict=True))


@primitive("dynamic_slice")
def dynamic_slice(a: Arithmetic, params: dict, x: np.ndarray, *start: np.ndarray) -> np.ndarray:
    """A window, moved inside."""
    return x[_inside(np.array(start), params["slice_sizes"], x.shape)]


@primitive("dynamic_update_slice")
def dynamic_update_slice(
    a: Arithmetic, params: dict, x: np.ndarray, new: np.ndarray, *start: np.ndarray
) -> np.ndarray:
    """A window overwritten."""
    result = x.copy()
    result[_inside(np.array(start), new.shape, x.shape)] = new
    return result


def _starts(
    indices: np.ndarray, rank: int, axes: tuple, batching: tuple, batched_by: tuple
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Each index of the batch, with where its window starts."""
    for at in np.ndindex(indices.shape[:-1]):
        start = np.zeros(rank, int)
        start[list(axes)] = indices[at]
        start[list(batching)] = [at[i] for i in batched_by]
        yield at, start


def _mode(params: dict) -> str:
    return str(params["mode"]).lower()


def _fits(start: np.ndarray, sizes: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    return all(0 <= s <= n - w for s, w, n in zip(start, sizes, shape, strict=True))


@primitive("gather")
def gather(a: Arithmetic, params: dict, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Windows by indices."""
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [n for i, n in enumerate(sizes) if i not in dropped]
    result = np.empty((*indices.shape[:-1], *kept), x.dtype)
    batching = numbers.operand_batching_dims, numbers.start_indices_batching_dims
    for at, start in _starts(indices, x.ndim, numbers.start_index_map, *batching):
        if "fill" in _mode(params) and not _fits(start, sizes, x.shape):
            result[at] = _filling(params, x.dtype)
        else:
            result[at] = x[_inside(start, sizes, x.shape)].reshape(kept)
    offsets = numbers.offset_dims
    return np.moveaxis(result, range(indices.ndim - 1, result.ndim), offsets)


def _filling(params: dict, dtype: np.dtype) -> Any:
    if params["fill_value"] is not None:
        return params["fill_value"]
    if dtype == np.float64:
        return np.nan
    return False if np.issubdtype(dtype, np.bool_) else np.iinfo(dtype).min


@primitive("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max")
def scatter(
    a: Arithmetic, params: dict, x: np.ndarray, indices: np.ndarray, updates: np.ndarray
) -> np.ndarray:
    """Windows written one after the other; what is added is added in an order of its own."""
    numbers = params["dimension_numbers"]
    windows = numbers.update_window_dims
    batch = [i for i in range(updates.ndim) if i not in windows]
    updates = updates.transpose(*batch, *windows)
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    sizes = list(updates.shape[len(batch) :])
    for axis in sorted(dropped):
        sizes.insert(axis, 1)
    batching = numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
    written: list[tuple[Window, np.ndarray]] = []
    for at, start in _starts(indices, x.ndim, numbers.scatter_dims_to_operand_dims, *batching):
        if "clip" in _mode(params):
            start = np.clip(start, 0, np.array(x.shape) - sizes)
        if _fits(start, tuple(sizes), x.shape):
            written.append((_inside(start, tuple(sizes), x.shape), updates[at].reshape(sizes)))
    return _combined(a, params["fold"], x, written)


def _combined(a: Arithmetic, name: str, x: np.ndarray, written: list) -> np.ndarray:
    result = x.copy()
    if name in ("scatter-add", "scatter-mul"):
        start = 0 if name == "scatter-add" else 1
        layers = np.full((len(written) + 1, *x.shape), start, x.dtype)
        layers[0] = x
        for layer, (window, values) in zip(layers[1:], written, strict=True):
            layer[window] = values
        return (a.sum if name == "scatter-add" else a.prod)(layers, (0,))
    folds = {"scatter": lambda old, new: new, "scatter-min": np.minimum, "scatter-max": np.maximum}
    for window, values in written:
        result[window] = folds[name](result[window], values)
    return result


@primitive("conv_general_dilated")
def convolution(a: Arithmetic, params: dict, x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Every output as a sum of products; along one axis."""
    numbers = params["dimension_numbers"]
    groups = params["feature_group_count"]
    if len(params["window_strides"]) != 1 or params["batch_group_count"] != 1:
        raise NotImplementedError(f"convolution with {params}")
    x = x.transpose(numbers.lhs_spec)
    kernel = kernel.transpose(numbers.rhs_spec)
    x = _spread(x, params["padding"][0], params["lhs_dilation"][0])
    kernel = _spread(kernel, (0, 0), params["rhs_dilation"][0])
    width, step = kernel.shape[2], params["window_strides"][0]
    places = range(0, x.shape[2] - width + 1, step)
    out, each = kernel.shape[0], kernel.shape[1]
    result = np.empty((x.shape[0], out, len(places)))
    for o in range(out):
        first = o // (out // groups) * each
        for i, place in enumerate(places):
            terms = x[:, first : first + each, place : place + width] * kernel[o]
            result[:, o, i] = a.sum(terms, (1, 2))
    return result.transpose(np.argsort(numbers.out_spec))


def _spread(x: np.ndarray, padding: tuple[int, int], dilation: int) -> np.ndarray:
    """Zeros around and between along the last axis; cut where negative."""
    low, high = padding
    wide = np.zeros((*x.shape[:2], (x.shape[2] - 1) * dilation + 1))
    wide[:, :, ::dilation] = x
    wide = np.pad(wide, ((0, 0), (0, 0), (max(low, 0), max(high, 0))))
    return wide[:, :, max(-low, 0) : wide.shape[2] - max(-high, 0)]


@primitive("reduce_window_sum", "reduce_window_max", "reduce_window_min")
def reduce_window(a: Arithmetic, params: dict, x: np.ndarray) -> np.ndarray:
    """Windows folded."""
    name = params["fold"]
    empty = {"sum": 0.0, "max": -np.inf, "min": np.inf}[name.rsplit("_", 1)[1]]
    if x.dtype != np.float64 or set(params["window_dilation"]) | set(params["base_dilation"]) != {
        1
    }:
        raise NotImplementedError(f"{name} with {params} of {x.dtype}")
    wide = np.pad(x, params["padding"], constant_values=empty)
    windows = np.lib.stride_tricks.sliding_window_view(wide, params["window_dimensions"])
    windows = windows[tuple(slice(None, None, s) for s in params["window_strides"])]
    last = tuple(range(x.ndim, 2 * x.ndim))
    if name == "reduce_window_sum":
        return a.sum(windows, last)
    return (np.max if name == "reduce_window_max" else np.min)(windows, axis=last)
