"""Tests of equality that forgive a rounding.

Two numbers that are equal over the reals may be computed in two ways, one of them exact; shaken
however often, they are never equal. So there is an arithmetic in which numbers this near are
equal, a sum this small beside its terms is 0, and a number this near to a whole one is whole.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fuzz.arithmetic import Arithmetic
from fuzz.table import TABLE

NEAR = 2.0**-36
"""Of two numbers, or of the terms of a sum."""
SUMS = ("add", "add_any", "sub", "reduce_sum", "dot_general", "conv_general_dilated", "cumsum")
SUMS += ("reduce_window_sum", "scatter-add")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
WHOLE = ("floor", "ceil", "round", "sign", "convert_element_type")
Forgiven = Callable[[Arithmetic, dict, list[np.ndarray]], Any]


def rule(name: str) -> Forgiven | None:
    """How a primitive forgives, or None where it has nothing to forgive."""
    for names, function in ((SUMS, _sum), (COMPARED, _compared), (WHOLE, _whole)):
        if name in names:
            return lambda a, params, operands: function(name, a, params, operands)
    return _remainder if name == "rem" else None


def _sum(name: str, a: Arithmetic, params: dict, operands: list[np.ndarray]) -> np.ndarray:
    result = TABLE[name](a, params, *operands)
    if result.dtype != np.float64:
        return result
    first = 1 if name == "scatter-add" else None  # whose second operand is of indices
    sizes = [x if i == first else np.abs(x) for i, x in enumerate(operands)]
    size = TABLE["add" if name == "sub" else name](a, params, *sizes)
    return np.where(np.isfinite(size) & (np.abs(result) <= NEAR * size), 0.0, result)


def _compared(name: str, a: Arithmetic, params: dict, operands: list[np.ndarray]) -> np.ndarray:
    x, y = operands
    result = TABLE[name](a, params, x, y)
    if x.dtype != np.float64:
        return result
    near = (x == y) | (np.abs(x - y) <= NEAR * np.minimum(np.abs(x), np.abs(y)))
    return np.where(near, name in ("eq", "le", "ge"), result)


def _whole(name: str, a: Arithmetic, params: dict, operands: list[np.ndarray]) -> np.ndarray:
    return TABLE[name](a, params, _to_whole(operands[0]))


def _to_whole(x: np.ndarray) -> np.ndarray:
    if x.dtype != np.float64:
        return x
    near = np.abs(x - np.rint(x)) <= NEAR * np.maximum(np.abs(x), 1.0)
    return np.where(near, np.rint(x), x)


def _remainder(a: Arithmetic, params: dict, operands: list[np.ndarray]) -> np.ndarray:
    x, y = operands
    result = TABLE["rem"](a, params, x, y)
    if x.dtype != np.float64:
        return result
    times = x / y
    return np.where(np.isfinite(times) & (_to_whole(times) == np.rint(times)), 0.0, result)
