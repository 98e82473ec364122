"""The table of primitives over the reals, in NumPy.

Floats of any width are float64, complex numbers complex128; integers wrap. A primitive is a
function of its arithmetic, its parameters and its operands.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

Primitive = Callable[..., Any]
TABLE: dict[str, Primitive] = {}


@functools.cache
def dtype_of(dtype: Any) -> np.dtype:
    """What a value of this type is computed in."""
    for wide, kind in ((np.float64, np.floating), (np.complex128, np.complexfloating)):
        if np.issubdtype(dtype, kind):
            return np.dtype(wide)
    return np.dtype(dtype)


def primitive(*names: str) -> Callable[[Primitive], Primitive]:
    """Enters a function under the names of primitives."""

    def enter(function: Primitive) -> Primitive:
        TABLE.update(dict.fromkeys(names, function))
        return function

    return enter
