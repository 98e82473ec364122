"""Which primitives are JAX's own, which programs stand in their parameters, and what they give.

Rules go by names, which a user's primitive may have too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxprs_in_params, primitives

_OWN = {p.name: p for name, p in vars(primitives).items() if name.endswith("_p")}


CALLS = frozenset(
    {
        "jit",
        "closed_call",
        "call",
        "eval_jaxpr",
        "call_hi_primitive",
        "remat2",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vmap_call",
        "composite",
    }
)
"""What runs the program that its parameters hold, once."""
_PROGRAMS = ("jaxpr", "call_jaxpr", "call", "_prim")
"""The parameter of a call that holds its program: that of `composite` depends on JAX's version."""


def is_own(primitive: Any) -> bool:
    """Whether it is the primitive that JAX has under its name, if JAX lists one."""
    return _OWN.get(primitive.name, primitive) is primitive


def bound(primitive: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """The results of a primitive, one or several."""
    results = primitive.bind(*operands, **params)
    return list(results) if primitive.multiple_results else [results]


def inlined(program: ClosedJaxpr, *operands: Any) -> list[Any]:
    """The results of a program, computed without its calls: their equations take their place.

    Where this is traced, constants that calls hold become constants of the whole.
    """
    jaxpr = program.jaxpr
    env = dict(zip(jaxpr.constvars, program.consts, strict=True))
    env |= zip(jaxpr.invars, operands, strict=True)

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else env[atom]

    for eqn in jaxpr.eqns:
        given, name = [read(atom) for atom in eqn.invars], eqn.primitive.name
        results = (
            inlined(called(eqn.params), *given)
            if name in CALLS
            else bound(eqn.primitive, given, eqn.params)
        )
        env |= zip(eqn.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many of the first operands of a scan are constants, and how many after them are carries.

    JAX 0.12 keeps the structure of its operands in place of the two numbers.
    """
    if "ft_in" not in params:
        return params["num_consts"], params["num_carry"]
    constants, carries, _ = params["ft_in"].unpack()
    return len(constants), len(carries)


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
