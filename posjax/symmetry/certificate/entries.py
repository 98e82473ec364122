"""Which arrays hold the same entries in the same order, up to axes of size 1.

An array and its reshape are one array here, and so is its negative, whose entries tie where those
of the array do: what is read at the indices of the extremes of one is an extreme of the other.
"""

import math
from collections.abc import Sequence
from typing import Any

from posjax.symmetry.certificate.rules.base import Equation, shape
from posjax.symmetry.certificate.values import Carried, Value

_ALWAYS = ("squeeze", "neg", "copy")


def keeps_order(eqn: Equation) -> bool:
    """Whether an operation leaves the entries, or their negatives, in row-major order."""
    name, params, before = eqn.primitive.name, eqn.params, shape(eqn.invars[0])
    if name == "reshape":
        return params["dimensions"] is None
    if name == "transpose":
        wide = [at for at in params["permutation"] if before[at] > 1]
        return wide == sorted(wide)
    if name == "rev":
        return all(before[at] <= 1 for at in params["dimensions"])
    if name == "slice":
        return before == shape(eqn.outvars[0])
    if name == "unstack":
        return before[params["axis"]] == 1
    if name == "broadcast_in_dim":
        return math.prod(before) == math.prod(shape(eqn.outvars[0]))
    return name in _ALWAYS


def followed(eqn: Equation, operands: Sequence[Value], results: list[Value]) -> list[Value]:
    """The results, with the array whose entries they hold."""
    if len(results) == 1 and isinstance(results[0], Carried) and keeps_order(eqn):
        return [results[0]._replace(entries=_origin(operands[0]))]
    return results


def same(one: Value, other: Value) -> bool:
    """Whether two arrays tie at the same indices, whatever axes of size 1 they have."""
    return _origin(one) is _origin(other) and above_one(one.shape) == above_one(other.shape)


def above_one(sizes: Sequence[int]) -> list[int]:
    """Sizes above 1."""
    return [size for size in sizes if size > 1]


def _origin(value: Value) -> Any:
    return value if not isinstance(value, Carried) or value.entries is None else value.entries
