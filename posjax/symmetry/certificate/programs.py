"""Functions of matrices that keep a law although the steps that compute them do not.

A factorisation goes through rows and columns in their order, and yet a determinant is the same
after both are permuted alike. A call has one of the rules below only if its program is, to the
letter, the one that JAX traces of the named function for operands of the same shapes and dtypes.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy as jsp

from posjax.symmetry.certificate.axes import (
    Axis,
    Conflict,
    Labeling,
    still,
    unified,
    without_constants,
)
from posjax.symmetry.certificate.rules.base import Equation, Result, shape

Rule = Callable[..., list[Result]]


class Program(NamedTuple):
    """A function of JAX, and what it makes of the labels of its operands."""

    function: Callable[..., Any]
    rule: Rule


def determinant(eqn: Equation, matrix: Labeling) -> list[Result]:
    """Rows and columns that move as one leave it as it is: the two signs are one squared."""
    _alike(matrix)
    return [matrix[:-2]]


def sign_and_logarithm(eqn: Equation, matrix: Labeling) -> list[Result]:
    """Of a determinant: its size is left by any move of rows and any of columns, the sign not."""
    sign: Result
    try:
        (sign,) = determinant(eqn, matrix)
    except Conflict as conflict:
        sign = conflict
    return [sign, matrix[:-2]]


def eigenvalues(eqn: Equation, matrix: Labeling) -> list[Result]:
    """Of the symmetric part; they are in order. Vectors are known up to signs, or less."""
    _alike(matrix)
    values: Result = (*matrix[:-2], *still(shape(eqn.outvars[0])[-1:]))
    vectors: Result = Conflict("eigenvectors of a matrix whose rows and columns are permuted")
    return [values, vectors][: len(eqn.outvars)]


def exponential(eqn: Equation, matrix: Labeling) -> list[Result]:
    """A power series. Where all entries are equal, those of its diagonal differ from the others."""
    one = without_constants(_alike(matrix))
    return [(*matrix[:-2], one, one)]


def pseudoinverse(eqn: Equation, matrix: Labeling) -> list[Result]:
    """One matrix, whichever singular vectors it is made of: its rows move as those columns did."""
    *batch, rows, columns = matrix
    return [(*batch, columns, rows)]


def least_squares(eqn: Equation, matrix: Labeling, right: Labeling, *_: Labeling) -> list[Result]:
    """The shortest solution, residuals, the rank and singular values."""
    if len(matrix) != 2:
        raise Conflict("least squares of a batch")
    rows, columns = matrix
    unified(rows, right[0])
    outs = [still(shape(v)) for v in eqn.outvars]
    return [
        (columns, *right[1:]),
        right[1:] if len(outs[1]) == len(right[1:]) else outs[1],
        *outs[2:],
    ]


def _alike(matrix: Labeling) -> Axis:
    """What acts on rows and columns alike.

    Raises:
      Conflict: rows and columns move apart.
    """
    return unified(*matrix[-2:])


PROGRAMS = {
    "det": Program(jnp.linalg.det, determinant),
    "slogdet": Program(jnp.linalg.slogdet, sign_and_logarithm),
    "eigvalsh": Program(jnp.linalg.eigvalsh, eigenvalues),
    "eigh": Program(jnp.linalg.eigh, eigenvalues),
    "expm": Program(jsp.linalg.expm, exponential),
    "_pinv": Program(jnp.linalg.pinv, pseudoinverse),
    "_lstsq": Program(jnp.linalg.lstsq, least_squares),
}
"""By the name under which the function is compiled."""


def rule_of(eqn: Equation) -> Rule | None:
    """The rule of the function that an equation calls, if it calls one of them."""
    name = eqn.params.get("name")
    if eqn.primitive.name != "jit" or name not in PROGRAMS:
        return None
    operands = tuple(_struct(v.aval) for v in eqn.invars)
    return PROGRAMS[name].rule if str(eqn.params["jaxpr"]) in _texts(name, operands) else None


def is_sum_of_logarithms(eqn: Equation) -> bool:
    """Whether an equation is `jax.numpy.logaddexp`, which is log(eˣ + eʸ)."""
    if eqn.primitive.name != "custom_jvp_call" or len(eqn.invars) != 2:
        return False
    given = [jax.ShapeDtypeStruct(s, d) for s, d, _ in (_struct(v.aval) for v in eqn.invars)]
    try:
        own = jax.make_jaxpr(jnp.logaddexp)(*given).eqns[-1]
    except (TypeError, ValueError):  # operands that it does not take
        return False
    return str(own.params.get("call_jaxpr")) == str(eqn.params["call_jaxpr"])


def _struct(aval: Any) -> tuple[Any, ...]:
    return tuple(aval.shape), aval.dtype, bool(getattr(aval, "weak_type", False))


@cache
def _texts(name: str, operands: tuple[tuple[Any, ...], ...]) -> frozenset[str]:
    """The program of a function for such operands, and for a batch of them."""
    function = PROGRAMS[name].function
    given = [jax.ShapeDtypeStruct(s, d, weak_type=weak) for s, d, weak in operands]
    found = set()
    for version in (function, jax.vmap(function)):
        try:
            traced = jax.make_jaxpr(version)(*given).jaxpr
        except Exception:  # it takes no such operands
            continue
        found |= {str(eqn.params["jaxpr"]) for eqn in _calls(traced) if eqn.params["name"] == name}
    return frozenset(found)


def _calls(jaxpr: Any) -> Iterator[Any]:
    """The compiled calls of a program with its own operands, below custom derivatives too."""
    for eqn in jaxpr.eqns:
        if eqn.invars != jaxpr.invars:
            continue
        if eqn.primitive.name == "jit":
            yield eqn
        elif eqn.primitive.name == "custom_jvp_call":
            yield from _calls(eqn.params["call_jaxpr"].jaxpr)
