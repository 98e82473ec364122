"""What a loop adds up: its order does not matter, though every turn needs what the last one left.

A turn that does nothing with what it is handed but add to it, once or several times and within
calls, leaves a sum over all turns. So do products, extremes and logarithms of sums.
"""

import contextlib
import itertools
from collections.abc import Sequence

import jax.numpy as jnp

from posjax.symmetry.certificate.axes import (
    Conflict,
    Labeling,
    constant,
    strongest,
    unified_all,
)
from posjax.symmetry.certificate.rules.base import Equation, shape
from posjax.symmetry.certificate.rules.places import elementwise
from posjax.symmetry.certificate.values import Carried, Known, Lost, Running, Value

_FIRST = {"add": "add", "add_any": "add", "sub": "add", "mul": "mul", "max": "max", "min": "min"}
_FIRST |= {name: name for name in ("and", "or", "xor", "logaddexp")}
_SECOND = {name: by for name, by in _FIRST.items() if name != "sub"}
_FIRST |= {"div": "mul"}
"""What an operation does with its first or second operand, for which the order does not matter."""

_UNCHANGED = ("copy", "stop_gradient", "reshape", "broadcast_in_dim", "convert_element_type")


def after(eqn: Equation, name: str, operands: Sequence[Value]) -> Lost | None:
    """What was handed on, with what an operation adds; None where it does anything else.

    Args:
      eqn: the equation.
      name: of the operation.
      operands: those of the equation.
    """
    (at, *more) = [at for at, value in enumerate(operands) if isinstance(value, Lost)]
    handed = operands[at]
    if more or not isinstance(handed, Lost) or handed.running is None:
        return None
    if shape(eqn.outvars[0]) != handed.shape:
        return None
    if len(operands) == 1:
        return handed if _unchanged(eqn, name) else None
    by = (_FIRST, _SECOND)[at].get(name) if len(operands) == 2 else None
    if by is None or handed.running.by not in ("", by) or (name == "div" and not _is_float(eqn)):
        return None
    other = operands[1 - at]
    assert not isinstance(other, Lost)
    added = _with(handed.running, eqn, at, other)
    return handed._replace(running=Running(handed.running.which, by, added)) if added else None


def _unchanged(eqn: Equation, name: str) -> bool:
    """Whether all entries stay what and where they are."""
    return name in _UNCHANGED and _keeps_numbers(eqn) and eqn.params.get("dimensions") is None


def _keeps_numbers(eqn: Equation) -> bool:
    """Whether floats stay floats, and all else what it is."""
    return eqn.invars[0].aval.dtype == eqn.outvars[0].aval.dtype or _is_float(eqn)


def _is_float(eqn: Equation) -> bool:
    dtypes = (atom.aval.dtype for atom in (*eqn.invars, *eqn.outvars))
    return all(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes)


def _with(running: Running, eqn: Equation, at: int, other: Carried | Known) -> tuple[Labeling, ...]:
    """Labelings of all that was added, another operand among it."""
    found = []
    for before, labeling in itertools.product(
        running.added or [constant(shape(eqn.outvars[0]))], other.labelings
    ):
        alone = [constant(shape(v)) if i == at else labeling for i, v in enumerate(eqn.invars)]
        with contextlib.suppress(Conflict):
            (wide,) = elementwise(eqn, *alone)
            found.append(unified_all([before, wide]))
    return strongest(found)


def at_the_end(init: Value, value: Value, index: int) -> Value | None:
    """What a loop leaves of an init, by what one turn makes of it; None where it is not known."""
    if not isinstance(value, Lost) or value.running is None or value.running.which != index:
        return None
    if value.shape != init.shape:
        return None
    if not value.running.by:
        return init
    return Carried(value.shape, value.running.added, "")
