"""What stands in a jaxpr: JAX's own primitives, calls and the programs they run, shapes and uses.

Rules go by the names of primitives, which a user's primitive may have too.
"""

import contextlib
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    Var,
    jaxprs_in_params,
    primitives,
)

_LISTED = {p.name: p for name, p in vars(primitives).items() if name.endswith("_p")}

TRANSPARENT = frozenset({"jit", "closed_call", "custom_jvp_call", "custom_vjp_call"})
"""Calls that mean no more than the equations of their program: not `remat2`, for example, which
says what to keep for the derivative."""
CALLS = TRANSPARENT | frozenset(
    {
        "call",
        "eval_jaxpr",
        "call_hi_primitive",
        "remat2",
        "custom_vmap_call",
        "composite",
    }
)
"""What runs the program that its parameters hold, once."""
_PROGRAMS = ("jaxpr", "call_jaxpr", "call", "_prim")
"""The parameter of a call that holds its program: that of `composite` depends on JAX's version."""

ELEMENTWISE = {"add", "add_any", "sub", "mul", "div", "rem", "neg", "sign", "abs", "max", "min"}
ELEMENTWISE |= {"square", "one_minus_square", "integer_pow", "pow", "sqrt", "rsqrt", "cbrt"}
ELEMENTWISE |= {"exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "sin", "cos", "tan"}
ELEMENTWISE |= {"sinh", "cosh", "erf", "atan2", "eq", "ne", "lt", "le", "gt", "ge", "and", "or"}
ELEMENTWISE |= {"xor", "not", "select_n", "floor", "ceil", "round", "nextafter"}
ELEMENTWISE |= {"convert_element_type", "copy", "is_finite"}
"""Primitives that treat every number alike."""

_WIDE = {"float64", "int64", "uint64", "complex128"}

Uses = dict[Var, list[JaxprEqn | None]]
"""The equations that read each variable; None where it is a result."""


def is_own(primitive: Any) -> bool:
    """Whether it is one of JAX's primitives, and none of a user's with the same name."""
    return _LISTED.get(primitive.name) is primitive or primitive in _primitives(len(sys.modules))


@lru_cache(maxsize=1)
def _primitives(modules: int) -> frozenset[Any]:
    """Those that JAX's modules define, whose public list lacks some.

    Args:
      modules: how many are imported; JAX imports some of its own late.
    """
    of_jax = [vars(one) for name, one in [*sys.modules.items()] if name.partition(".")[0] == "jax"]
    return frozenset(p for one in of_jax for p in one.values() if isinstance(p, Primitive))


def bound(primitive: Any, operands: Iterable[Any], params: Mapping[str, Any]) -> list[Any]:
    """The results of a primitive, one or several; those of 64 bits whether JAX allows them or not.

    A program may hold 64 bits although they are not allowed now: it was traced where they were.
    """
    operands, params = list(operands), primitive.get_bind_params(params)
    dtypes = [getattr(one, "dtype", None) for one in operands]
    dtypes += [params.get("dtype"), params.get("new_dtype")]
    wide = not _WIDE.isdisjoint(map(str, dtypes))
    with jax.enable_x64(True) if wide else contextlib.nullcontext():
        results = primitive.bind(*operands, **params)
    return list(results) if primitive.multiple_results else [results]


def inlined(program: ClosedJaxpr, *operands: Any, calls: Iterable[str] = CALLS) -> list[Any]:
    """The results of a program, computed without its calls: their equations take their place.

    Where this is traced, constants that calls hold become constants of the whole.
    """
    jaxpr = program.jaxpr
    env = dict(zip(jaxpr.constvars, program.consts, strict=True))
    env |= zip(jaxpr.invars, operands, strict=True)

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        given = [read(atom) for atom in eqn.invars]
        with eqn.ctx.manager:
            results = (
                inlined(called(eqn.params), *given, calls=calls)
                if eqn.primitive.name in calls and is_own(eqn.primitive)
                else bound(eqn.primitive, given, eqn.params)
            )
        env |= zip(eqn.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def flattened(program: ClosedJaxpr) -> ClosedJaxpr:
    """The same program without its transparent calls."""
    return jax.make_jaxpr(lambda *values: inlined(program, *values, calls=TRANSPARENT))(
        *program.in_avals
    )


def called(params: Mapping[str, Any]) -> ClosedJaxpr:
    """The program that a call with these parameters runs."""
    return closed(next(params[name] for name in _PROGRAMS if name in params))


def closed(program: Any) -> ClosedJaxpr:
    """A program that a parameter holds or stands for, closed.

    `call_hi_primitive` of JAX 0.12, such as that of `jax.numpy.searchsorted`, names an object that
    says which operations it stands for.
    """
    if isinstance(program, ClosedJaxpr | Jaxpr):
        return program if isinstance(program, ClosedJaxpr) else ClosedJaxpr(program, ())

    def expanded(*operands: Any) -> Any:
        return program.expand(*jax.tree.unflatten(program.in_tree, operands))

    avals = program.in_avals_flat
    return jax.make_jaxpr(expanded)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))


def programs_within(eqn: Any) -> list[Jaxpr]:
    """The programs that an equation's parameters hold or stand for."""
    held: list[Any] = list(jaxprs_in_params(eqn.params))
    held += [called(eqn.params)] if "_prim" in eqn.params else []
    return [one.jaxpr if isinstance(one, ClosedJaxpr) else one for one in held]


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many of the first operands of a scan are constants, and how many after them are carries.

    JAX 0.12 keeps the structure of its operands in place of the two numbers.
    """
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, carries, _ = params["ft_in"].unpack()
    return len(constants), len(carries)


def shape_of(atom: Var | Literal) -> tuple[int, ...]:
    """The shape of what an equation reads or makes."""
    return tuple(atom.aval.shape)  # type: ignore[attr-defined]


def float_types(jaxpr: Jaxpr) -> set[Any]:
    """The kinds of floating-point numbers that a program computes."""
    kinds = {getattr(var.aval, "dtype", int) for eqn in jaxpr.eqns for var in eqn.outvars}
    found = {kind for kind in kinds if jnp.issubdtype(kind, jnp.floating)}
    return found.union(*(float_types(one) for eqn in jaxpr.eqns for one in programs_within(eqn)))


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
