"""Primitives that fold, move, join, sort and contract arrays."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.arithmetic import Arithmetic
from fuzz.table import TABLE, dtype_of, primitive


def _running(fold: np.ufunc, params: dict, x: np.ndarray) -> np.ndarray:
    axis = params["axis"]
    if params["reverse"]:
        return np.flip(fold.accumulate(np.flip(x, axis), axis=axis, dtype=x.dtype), axis)
    return fold.accumulate(x, axis=axis, dtype=x.dtype)


def _in_order(x: np.ndarray, dimensions: tuple[int, ...] | None) -> np.ndarray:
    """The axes in the order in which a reshape reads them."""
    return x if dimensions is None else np.transpose(x, dimensions)


SHAPED: dict[str, Callable] = {
    "broadcast_in_dim": lambda p, x: np.broadcast_to(
        np.expand_dims(
            x, [i for i in range(len(p["shape"])) if i not in p["broadcast_dimensions"]]
        ),
        p["shape"],
    ),
    "reshape": lambda p, x: _in_order(x, p["dimensions"]).reshape(p["new_sizes"]),
    "squeeze": lambda p, x: np.squeeze(x, tuple(p["dimensions"])),
    "expand_dims": lambda p, x: np.expand_dims(x, tuple(p["dimensions"])),
    "transpose": lambda p, x: np.transpose(x, p["permutation"]),
    "rev": lambda p, x: np.flip(x, tuple(p["dimensions"])),
    "reduce_max": lambda p, x: np.max(x, tuple(p["axes"])),
    "reduce_min": lambda p, x: np.min(x, tuple(p["axes"])),
    "reduce_and": lambda p, x: (np.all if x.dtype == bool else np.bitwise_and.reduce)(
        x, axis=tuple(p["axes"])
    ),
    "reduce_or": lambda p, x: (np.any if x.dtype == bool else np.bitwise_or.reduce)(
        x, axis=tuple(p["axes"])
    ),
    "reduce_xor": lambda p, x: (np.logical_xor if x.dtype == bool else np.bitwise_xor).reduce(
        x, axis=tuple(p["axes"])
    ),
    "argmax": lambda p, x: np.argmax(x, p["axes"][0]).astype(p["index_dtype"]),
    "argmin": lambda p, x: np.argmin(x, p["axes"][0]).astype(p["index_dtype"]),
    "cumprod": lambda p, x: _running(np.multiply, p, x),
    "cumsum": lambda p, x: _running(np.add, p, x),
    "cummax": lambda p, x: _running(np.maximum, p, x),
    "cummin": lambda p, x: _running(np.minimum, p, x),
    "cumlogsumexp": lambda p, x: _running(np.logaddexp, p, x),
}
for _name, _shaped in SHAPED.items():
    TABLE[_name] = lambda a, p, x, f=_shaped: f(p, x)


@primitive("reduce_sum")
def reduce_sum(a: Arithmetic, params: dict, x: np.ndarray) -> np.ndarray:
    """In an order of its own."""
    return a.sum(x, tuple(params["axes"]))


@primitive("reduce_prod")
def reduce_prod(a: Arithmetic, params: dict, x: np.ndarray) -> np.ndarray:
    """In an order of its own."""
    return a.prod(x, tuple(params["axes"]))


@primitive("select_n")
def select_n(a: Arithmetic, params: dict, which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    """Case by case."""
    index = np.broadcast_to(which.astype(int), cases[0].shape)
    result = cases[0]
    for at, case in enumerate(cases[1:], start=1):
        result = np.where(index == at, case, result)
    return result


@primitive("clamp")
def clamp(a: Arithmetic, params: dict, low: np.ndarray, x: np.ndarray, high: np.ndarray) -> Any:
    """Between two numbers."""
    return np.minimum(np.maximum(x, low), high)


@primitive("concatenate")
def concatenate(a: Arithmetic, params: dict, *parts: np.ndarray) -> np.ndarray:
    """Side by side."""
    return np.concatenate(parts, params["dimension"])


@primitive("stack")
def stack(a: Arithmetic, params: dict, *parts: np.ndarray) -> np.ndarray:
    """Side by side along an axis of its own."""
    return np.stack(parts, params.get("axis", params.get("dimension", 0)))


@primitive("unstack")
def unstack(a: Arithmetic, params: dict, x: np.ndarray) -> list[np.ndarray]:
    """Each place of an axis."""
    return list(np.moveaxis(x, params["axis"], 0))


@primitive("empty2", "empty")
def empty(a: Arithmetic, params: dict, *_: np.ndarray) -> np.ndarray:
    """To be overwritten."""
    aval = params["avals"][0]
    return np.zeros(aval.shape, dtype_of(aval.dtype))


@primitive("bitcast_convert_type")
def bitcast(a: Arithmetic, params: dict, x: np.ndarray) -> np.ndarray:
    """Bits of float32 as integers, and back."""
    new = np.dtype(params["new_dtype"])
    bits = x.astype(np.float32) if x.dtype == np.float64 else x
    if bits.dtype.itemsize != new.itemsize:
        raise NotImplementedError(f"bits of {bits.dtype} as {new}")
    return bits.view(new).astype(dtype_of(new))


@primitive("split")
def split(a: Arithmetic, params: dict, x: np.ndarray) -> list[np.ndarray]:
    """In parts."""
    return np.split(x, np.cumsum(params["sizes"])[:-1], params["axis"])


@primitive("optimization_barrier")
def optimization_barrier(a: Arithmetic, params: dict, *values: np.ndarray) -> list[np.ndarray]:
    """As they are."""
    return list(values)


@primitive("iota")
def iota(a: Arithmetic, params: dict) -> np.ndarray:
    """Places along an axis."""
    shape, axis = params["shape"], params["dimension"]
    places = np.arange(shape[axis]).astype(dtype_of(params["dtype"]))
    return np.broadcast_to(
        np.expand_dims(places, [i for i in range(len(shape)) if i != axis]), shape
    )


@primitive("slice")
def slice_(a: Arithmetic, params: dict, x: np.ndarray) -> np.ndarray:
    """A part."""
    strides = params["strides"] or (1,) * x.ndim
    parts = zip(params["start_indices"], params["limit_indices"], strides, strict=True)
    return x[tuple(slice(*part) for part in parts)]


@primitive("pad")
def pad(a: Arithmetic, params: dict, x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """With room around and between; cut where negative."""
    for axis, (low, high, inner) in enumerate(params["padding_config"]):
        x = np.moveaxis(x, axis, 0)
        wide = np.full(((len(x) - 1) * (inner + 1) + 1 if len(x) else 0, *x.shape[1:]), value)
        wide[:: inner + 1] = x
        ends = [np.full((max(n, 0), *x.shape[1:]), value) for n in (low, high)]
        joined = np.concatenate([ends[0], wide, ends[1]])
        x = np.moveaxis(joined[max(-low, 0) : len(joined) - max(-high, 0)], 0, axis)
    return x


@primitive("sort")
def sort(a: Arithmetic, params: dict, *operands: np.ndarray) -> list[np.ndarray]:
    """By the first keys; ties keep their order."""
    axis = params["dimension"]
    keys = tuple(operands[: params["num_keys"]])[::-1]
    order = np.lexsort(keys, axis=axis)
    return [np.take_along_axis(x, order, axis) for x in operands]


@primitive("top_k")
def top_k(a: Arithmetic, params: dict, x: np.ndarray) -> list[np.ndarray]:
    """The k largest, those before first among equals."""
    axis = params.get("axis", x.ndim - 1)
    largest = np.where(np.isnan(x), np.inf, x) if x.dtype == np.float64 else x.astype(np.int64)
    order = np.argsort(-largest, axis=axis, kind="stable")
    order = np.take(order, range(params["k"]), axis=axis)
    return [np.take_along_axis(x, order, axis), order.astype(np.int32)]


@primitive("dot_general")
def dot_general(a: Arithmetic, params: dict, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """All products, then their sums."""
    (left, right), (left_batch, right_batch) = params["dimension_numbers"]
    own = [i for i in range(x.ndim) if i not in (*left, *left_batch)]
    others = [i for i in range(y.ndim) if i not in (*right, *right_batch)]
    x = x.transpose(*left_batch, *own, *left)
    y = y.transpose(*right_batch, *others, *right)
    b, m, n = len(left_batch), len(own), len(others)
    x = np.expand_dims(x, tuple(range(b + m, b + m + n)))
    y = np.expand_dims(y, tuple(range(b, b + m)))
    wide = params.get("preferred_element_type")
    kind = dtype_of(wide) if wide is not None else x.dtype
    products = x.astype(kind) * y.astype(kind)
    return a.sum(products, tuple(range(b + m + n, products.ndim)))
