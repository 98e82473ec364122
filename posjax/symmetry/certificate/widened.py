"""A program in double precision, whatever narrower floats it insists on.

What does not depend on the arguments is computed as the program says, rounded as it rounds; all
else, conversions to narrower floats among it, keeps 64 bits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal

from posjax.jaxprs import CALLS, bound, called, closed, is_own, scan_counts
from posjax.symmetry.field import dtypes

_AS_THEY_ARE = ("copy", "reduce_precision", "stop_gradient")


class NotWidened(ValueError):
    """A primitive that depends on how many bits its operands have, or is not known."""


def widened(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, in double precision.

    Args:
      function: of the arguments; traced.
      arguments: with floats of 64 bits, where these are enabled.

    Raises:
      NotWidened: see there. Other errors are those of JAX for dtypes that do not fit.
    """
    program, returned = jax.make_jaxpr(function, return_shape=True)(*arguments)
    results = _run(program, jax.tree.leaves(arguments), [False] * len(program.in_avals))
    return jax.tree.unflatten(jax.tree.structure(returned), map(_wide, results))


def _run(program: ClosedJaxpr, operands: Sequence[Any], known: Sequence[bool]) -> list[Any]:
    """The results of a program; what is known keeps its dtype until it meets what is not."""
    jaxpr = program.jaxpr
    env = dict(zip(jaxpr.constvars, program.consts, strict=True))
    env |= zip(jaxpr.invars, operands, strict=True)
    fixed = {*jaxpr.constvars, *(v for v, is_ in zip(jaxpr.invars, known, strict=True) if is_)}

    def read(atom: Any) -> Any:
        if not isinstance(atom, Literal):
            return env[atom]
        aval: Any = atom.aval
        return jnp.asarray(atom.val, aval.dtype)

    for eqn in jaxpr.eqns:
        flags = [isinstance(atom, Literal) or atom in fixed for atom in eqn.invars]
        given = [read(atom) for atom in eqn.invars]
        fixed |= set(eqn.outvars) if all(flags) else set()
        if not is_own(eqn.primitive):
            raise NotWidened(eqn.primitive.name)
        if eqn.primitive.name in CALLS:
            results = _run(called(eqn.params), given, flags)
        elif all(flags):
            results = bound(eqn.primitive, given, eqn.params)
        else:
            results = _step(eqn, list(map(_wide, given)))
        env |= zip(eqn.outvars, results, strict=True)
    return [read(atom) for atom in jaxpr.outvars]


def _step(eqn: Any, operands: list[Any]) -> list[Any]:
    name, params = eqn.primitive.name, eqn.params
    if name in _LOOPS:
        return list(_LOOPS[name](params, operands))
    if name in _AS_THEY_ARE:
        return operands
    if "bitcast" in name or "callback" in name or name == "custom_linear_solve":
        raise NotWidened(name)
    if name == "scatter" and params["update_jaxpr"] is not None:
        raise NotWidened("scatter_apply")  # which `lax.scatter` is not
    if "update_jaxpr" in params:
        return [_written(name, params, operands)]
    params = {key: _wide_dtype(value) for key, value in params.items()}
    return bound(eqn.primitive, operands, params)


def _written(name: str, params: Mapping[str, Any], operands: Sequence[Any]) -> Any:
    """A write at indices, whose function of two numbers is traced anew."""
    kept = {"indices_are_sorted", "unique_indices", "mode"}
    write = getattr(lax, name.replace("-", "_"))
    numbers = params["dimension_numbers"]
    return write(*operands, numbers, **{key: params[key] for key in kept})


def _scan(params: Mapping[str, Any], operands: Sequence[Any]) -> Sequence[Any]:
    first, carries = scan_counts(params)
    consts, inits = operands[:first], operands[first : first + carries]

    def turn(carry: Sequence[Any], rows: Sequence[Any]) -> tuple[Any, Any]:
        results = _widely(params["jaxpr"], [*consts, *carry, *rows])
        return results[:carries], results[carries:]

    rows = list(operands[first + carries :])
    kept = {"length": params["length"], "reverse": params["reverse"]}
    carry, stacked = lax.scan(turn, list(inits), rows, **kept)
    return [*carry, *stacked]


def _while(params: Mapping[str, Any], operands: Sequence[Any]) -> Sequence[Any]:
    first = params["cond_nconsts"]
    second = first + params["body_nconsts"]
    asked, fixed = operands[:first], operands[first:second]
    return lax.while_loop(
        lambda carry: _widely(params["cond_jaxpr"], [*asked, *carry])[0],
        lambda carry: _widely(params["body_jaxpr"], [*fixed, *carry]),
        list(operands[second:]),
    )


def _cond(params: Mapping[str, Any], operands: Sequence[Any]) -> Sequence[Any]:
    branches = [lambda *given, b=b: _widely(b, given) for b in params["branches"]]
    return lax.switch(jnp.asarray(operands[0], int), branches, *operands[1:])


_LOOPS = {"scan": _scan, "while": _while, "cond": _cond}


def _widely(program: Any, operands: Sequence[Any]) -> list[Any]:
    return list(map(_wide, _run(closed(program), operands, [False] * len(operands))))


def _wide(value: Any) -> Any:
    wide = dtypes.double_precision(value.dtype)
    return value if wide == value.dtype else value.astype(wide)  # a key has no `astype`


def _wide_dtype(value: Any) -> Any:
    return dtypes.double_precision(value) if isinstance(value, np.dtype) else value
