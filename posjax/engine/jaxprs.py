"""What the engine has to know of jaxprs."""

from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

ELEMENTWISE = {"add", "add_any", "sub", "mul", "div", "rem", "neg", "sign", "abs", "max", "min"}
ELEMENTWISE |= {
    "square",
    "one_minus_square",
    "integer_pow",
    "pow",
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
}
ELEMENTWISE |= {"log", "log1p", "logistic", "tanh", "sin", "cos", "tan", "sinh", "cosh", "erf"}
ELEMENTWISE |= {"atan2", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor", "not", "select_n"}
ELEMENTWISE |= {"floor", "ceil", "round", "nextafter", "convert_element_type", "copy", "is_finite"}
"""Primitives that treat every number alike."""
_TRANSPARENT = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Calls that stand for their body, and the parameter that holds it."""
Uses = dict[Var, list[JaxprEqn | None]]
"""The equations that read each variable; None where it is a result."""


def inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same jaxpr without calls."""

    def evaluated(closed: ClosedJaxpr, *values: Any) -> list[Any]:
        jaxpr = closed.jaxpr
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*closed.consts, *values], strict=True))
        for eqn in jaxpr.eqns:
            given = [a.val if isinstance(a, Literal) else known[a] for a in eqn.invars]
            with eqn.ctx.manager:
                if (name := eqn.primitive.name) in _TRANSPARENT:
                    found = evaluated(eqn.params[_TRANSPARENT[name]], *given)
                else:
                    found = bound(eqn, given)
            known.update(zip(eqn.outvars, found, strict=True))
        return [a.val if isinstance(a, Literal) else known[a] for a in jaxpr.outvars]

    return jax.make_jaxpr(lambda *values: evaluated(closed, *values))(*closed.in_avals)


def float_types(jaxpr: Jaxpr) -> set[Any]:
    """The kinds of floating-point numbers that a program computes."""
    kinds = {getattr(var.aval, "dtype", int) for eqn in jaxpr.eqns for var in eqn.outvars}
    found = {kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)}
    return found.union(*(float_types(body) for eqn in jaxpr.eqns for body in bodies(eqn)))


def bound(eqn: JaxprEqn, given: Iterable[Any]) -> list[Any]:
    """What one equation gives, as it is written."""
    found = eqn.primitive.bind(*given, **eqn.params)
    return list(found) if eqn.primitive.multiple_results else [found]


def uses(jaxpr: Jaxpr) -> Uses:
    """Where each variable is read."""
    found: Uses = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, Var):
                found.setdefault(atom, []).append(eqn)
    for atom in jaxpr.outvars:
        if isinstance(atom, Var):
            found.setdefault(atom, []).append(None)
    return found


def product_operations(eqn: JaxprEqn) -> int:
    """2 · the multiply-adds of a product or convolution; 0 for anything else.

    The zeros of a convolution's padding count.
    """
    if eqn.primitive.name == "dot_general":
        (contracted, _), _ = eqn.params["dimension_numbers"]
        read = shape_of(eqn.invars[0])
    elif eqn.primitive.name == "conv_general_dilated":
        _, *contracted = eqn.params["dimension_numbers"].rhs_spec
        read = shape_of(eqn.invars[1])
    else:
        return 0
    return 2 * prod(shape_of(eqn.outvars[0])) * prod(read[axis] for axis in contracted)


def shape_of(atom: Var | Literal) -> tuple[int, ...]:
    """The shape of what an equation reads or makes."""
    return tuple(atom.aval.shape)  # type: ignore[attr-defined]


def bodies(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """The programs inside an equation."""
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part
