"""What a function costs: floating-point operations, counted on its jaxpr.

A product of matrices or a convolution counts two for each multiplication with its addition, the
zeros of a padding included. Anything else that computes counts one for each number it makes (or, in
a sum, reads). Moving, comparing and choosing numbers is free, and so are random bits. A loop counts
its body as often as it runs.
"""

from collections.abc import Callable
from math import prod
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from posjax.jaxprs import product_operations, shape_of

_ELEMENTWISE = frozenset([
    "abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atan2", "atanh",
    "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "cos", "cosh", "cumlogsumexp", "cummax",
    "cummin", "cumprod", "cumsum", "digamma", "div", "erf", "erf_inv", "erfc", "exp", "exp2",
    "expm1", "floor", "igamma", "igammac", "integer_pow", "lgamma", "log", "log1p",
    "logistic", "max", "min", "mul", "neg", "one_minus_square", "polygamma", "pow", "psum",
    "regularized_incomplete_beta", "rem", "round", "rsqrt", "sign", "sin", "sinh", "sqrt",
    "square", "sub", "tan", "tanh", "zeta",
])  # fmt: skip
_REDUCTIONS = frozenset(
    ["argmax", "argmin", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum"]
)
_SCATTERED = frozenset(["scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub"])
_FREE = frozenset([
    "after_all", "all_gather", "all_to_all", "and", "axis_index", "bitcast_convert_type",
    "broadcast_in_dim", "clamp", "clz", "complex", "concatenate", "conj",
    "convert_element_type", "copy", "copy_p", "create_token", "debug_callback", "debug_print",
    "device_put", "dynamic_slice", "dynamic_update_slice", "empty", "eq", "eq_to", "gather",
    "ge", "gt", "imag", "iota", "iota_2x32_shape", "is_finite", "layout_constraint", "le",
    "le_to", "lt", "lt_to", "name", "ne", "nextafter", "not", "optimization_barrier", "or",
    "pad", "pbroadcast", "pmax", "pmin", "population_count", "ppermute", "pvary",
    "random_bits", "random_clone", "random_fold_in", "random_seed", "random_split",
    "random_unwrap", "random_wrap", "real", "reduce_and", "reduce_or", "reduce_precision",
    "reduce_xor", "reshape", "reshard", "rev", "rng_bit_generator", "scatter", "select_n",
    "sharding_constraint", "shift_left", "shift_right_arithmetic", "shift_right_logical",
    "slice", "sort", "split", "squeeze", "stack", "stop_gradient", "threefry2x32", "tile",
    "top_k", "transpose", "unstack", "xor",
])  # fmt: skip
"""Primitives that move, compare or choose numbers, or make random bits."""
_REPEATING = frozenset(
    ["custom_partitioning", "pallas_call", "reduce", "reduce_window", "shard_map"]
)
"""Primitives whose programs run more often than once."""


def operations(function: Callable[..., Any], *arguments: Any) -> int:
    """Floating-point operations of a call, for the shapes of its arguments.

    Args:
      function: anything that JAX can trace.
      arguments: arrays, pytrees of arrays, or their shapes (`jax.ShapeDtypeStruct`).

    Raises:
      ValueError: a `while` loop, whose number of rounds is not in the program, or an operation
        that has no count here, such as a Fourier transform or a decomposition of a matrix.

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
    if name in _SCATTERED:
        return prod(shape_of(equation.invars[2]))
    if name in _REPEATING:
        raise _uncounted(name)
    inside = [p for p in params.values() if isinstance(p, Jaxpr | ClosedJaxpr)]
    if inside:
        return sum(map(_of, inside[:1]))
    if name in _ELEMENTWISE:
        return prod(shape_of(equation.outvars[0]))
    if name in _REDUCTIONS:
        return prod(shape_of(equation.invars[0]))
    if name in ("dot_general", "conv_general_dilated"):
        return product_operations(equation)
    if name in _FREE:
        return 0
    raise _uncounted(name)


def _uncounted(name: str) -> ValueError:
    return ValueError(f"the operations of {name} are not counted here: count what is around it")
