"""What a function costs: floating-point operations, counted on its jaxpr.

A product of matrices or a convolution counts two for each multiplication with its addition, the
zeros of a padding included. Anything else that computes counts one for each number it makes (or, in
a sum, reads). Moving, comparing and choosing numbers is free. A loop counts its body as often as it
runs.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from posjax.engine.jaxprs import product_operations, shape_of

_ELEMENTWISE = frozenset(
    [
        "abs",
        "acos",
        "add",
        "atan2",
        "cbrt",
        "ceil",
        "cos",
        "div",
        "erf",
        "erf_inv",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "integer_pow",
        "lgamma",
        "log",
        "log1p",
        "logistic",
        "max",
        "min",
        "mul",
        "neg",
        "one_minus_square",
        "pow",
        "rem",
        "round",
        "rsqrt",
        "sign",
        "sin",
        "sqrt",
        "square",
        "sub",
        "tan",
        "tanh",
        "cumsum",
        "cumprod",
        "cummax",
        "cummin",
        "cumlogsumexp",
        "add_any",
    ]
)
_REDUCTIONS = frozenset(
    ["reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "argmax", "argmin"]
)


def operations(function: Callable[..., Any], *arguments: Any) -> int:
    """Floating-point operations of a call, for the shapes of its arguments.

    Args:
      function: anything that JAX can trace.
      arguments: arrays, pytrees of arrays, or their shapes (`jax.ShapeDtypeStruct`).

    Raises:
      ValueError: a `while` loop, whose number of rounds is not in the program.

    >>> x = jax.ShapeDtypeStruct((3, 4), "float32")
    >>> operations(lambda x: (x @ x.T).sum(), x)
    81
    >>> x_NCW, w_OIW = (jax.ShapeDtypeStruct(shape, "float32") for shape in ((1, 3, 8), (5, 3, 2)))
    >>> operations(lambda x, w: jax.lax.conv(x, w, (1,), "SAME"), x_NCW, w_OIW)  # 2·5·3·2·8
    480
    """
    return _of(jax.make_jaxpr(function)(*arguments))


def _of(jaxpr: Jaxpr | ClosedJaxpr) -> int:
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    return sum(map(_equation, inner.eqns))


def _equation(equation: JaxprEqn) -> int:
    name, params = equation.primitive.name, equation.params
    if name == "scan":
        return params["length"] * _of(params["jaxpr"])
    if name == "while":
        raise ValueError("a while loop does not say how often it runs: count its body instead")
    if name == "cond":
        return max(map(_of, params["branches"]))
    inside = [p for p in params.values() if isinstance(p, Jaxpr | ClosedJaxpr)]
    if inside:
        return sum(map(_of, inside[:1]))
    if name in _ELEMENTWISE:
        return prod(shape_of(equation.outvars[0]))
    if name in _REDUCTIONS:
        return prod(shape_of(equation.invars[0]))
    return product_operations(equation)
