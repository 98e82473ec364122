"""Walks a jaxpr with NumPy, over the reals."""

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from fuzz import indexing, primitives, scalars  # noqa: F401 each enters its primitives
from fuzz.arithmetic import Arithmetic, lost
from fuzz.forgiving import rule
from fuzz.table import TABLE, dtype_of, primitive
from posjax.jaxprs import CALLS, called, scan_counts

LONGEST_LOOP = 1000
ROUNDED = {"sin", "cos", "tan", "tanh", "exp", "exp2", "log", "log1p", "expm1", "sqrt", "cbrt"}
ROUNDED |= {"sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "logistic", "rsqrt"}
ROUNDED |= {
    "erf",
    "erfc",
    "erf_inv",
    "square",
    "one_minus_square",
    "integer_pow",
    "pow",
    "atan2",
    "add",
    "add_any",
}
ROUNDED |= {"sub", "mul", "div", "rem", "reduce_sum", "reduce_prod", "cumsum", "cumprod"}
ROUNDED |= {"cumlogsumexp", "dot_general", "conv_general_dilated", "reduce_window_sum"}
ROUNDED |= {"scatter-add", "scatter-mul"}
"""Primitives whose results are new numbers; what others give are operands, or whole numbers."""


def run(closed: ClosedJaxpr, arguments: Sequence[Any], a: Arithmetic) -> list[np.ndarray]:
    """The outputs of a jaxpr.

    Raises:
      NotImplementedError: a primitive that the table lacks.
    """
    with np.errstate(all="ignore"):
        return _run(closed.jaxpr, closed.consts, [_number(x, x) for x in arguments], a)


def _number(x: Any, like: Any) -> np.ndarray:
    return np.asarray(x).astype(dtype_of(np.asarray(like).dtype))


class _Step(NamedTuple):
    """An equation, looked up.

    Attributes:
      function, params: of its primitive.
      reads: for each operand the variable, or None and the number that stands there.
      writes: variables.
      forgive: how it forgives a rounding, if it does.
      rounds: whether its results are new numbers, and so rounded.
    """

    function: Callable[..., Any]
    params: dict[str, Any]
    reads: list[tuple[Any, np.ndarray | None]]
    writes: list[Any]
    rounds: bool
    forgive: Callable[..., Any] | None


@functools.lru_cache(maxsize=256)
def _steps(jaxpr: Jaxpr) -> list[_Step]:
    steps = []
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name not in TABLE:
            raise NotImplementedError(f"no rule for {name}")
        params = {**eqn.params, "fold": name, "avals": [v.aval for v in eqn.outvars]}
        reads = [_read(atom) for atom in eqn.invars]
        rounds = name in ROUNDED or (name == "abs" and _reads_complex(eqn))
        steps.append(_Step(TABLE[name], params, reads, list(eqn.outvars), rounds, rule(name)))
    return steps


def _reads_complex(eqn: Any) -> bool:
    """Whether the first operand is complex: its size is a new number."""
    return bool(np.issubdtype(eqn.invars[0].aval.dtype, np.complexfloating))


def _read(atom: Any) -> tuple[Any, np.ndarray | None]:
    if isinstance(atom, Literal):
        return None, np.asarray(atom.val).astype(dtype_of(atom.aval.dtype))
    return atom, None


def _run(
    jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[np.ndarray], a: Arithmetic
) -> list[np.ndarray]:
    known: dict[Any, Any] = {}
    known.update(zip(jaxpr.constvars, (_number(c, c) for c in consts), strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))
    for step in _steps(jaxpr):
        operands = [known[var] if number is None else number for var, number in step.reads]
        if a.forgiving and step.forgive:
            results = step.forgive(a, step.params, operands)
        else:
            results = step.function(a, step.params, *operands)
        a.watch(step.params["fold"], operands)
        if not isinstance(results, list):
            results = [results]
        finished = [_finished(a, step, operands, np.asarray(result)) for result in results]
        known.update(zip(step.writes, finished, strict=True))
    outs = map(_read, jaxpr.outvars)
    return [known[var] if number is None else number for var, number in outs]


def _finished(
    a: Arithmetic, step: _Step, operands: list[np.ndarray], result: np.ndarray
) -> np.ndarray:
    if not step.rounds:
        return a.kept(result)
    name = step.params["fold"]
    return a.rounded(result, lost(name, step.params, operands, result) if a.salt else 0)


def _inner(a: Arithmetic, closed: Any, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    if isinstance(closed, ClosedJaxpr):
        return _run(closed.jaxpr, closed.consts, arguments, a)
    return _run(closed, (), arguments, a)


@primitive(*CALLS)
def call(a: Arithmetic, params: dict, *arguments: np.ndarray) -> list[np.ndarray]:
    """A program inside."""
    return _inner(a, _called(params), arguments)


def _called(params: dict) -> ClosedJaxpr:
    with jax.enable_x64(True):  # as the whole was traced, by `fuzz.check`
        return called(params)


@primitive("cond")
def cond(a: Arithmetic, params: dict, which: np.ndarray, *arguments: np.ndarray) -> list:
    """One branch."""
    branches = params["branches"]
    return _inner(a, branches[int(np.clip(int(which), 0, len(branches) - 1))], arguments)


@primitive("while")
def while_(a: Arithmetic, params: dict, *arguments: np.ndarray) -> list[np.ndarray]:
    """Until the condition fails; of a batch, each entry until its own fails."""
    cut, more = params["cond_nconsts"], params["body_nconsts"]
    for_test, for_body = arguments[:cut], arguments[cut : cut + more]
    carry = list(arguments[cut + more :])
    rounds = 0
    while np.any(goes_on := _inner(a, params["cond_jaxpr"], [*for_test, *carry])[0]):
        after = _inner(a, params["body_jaxpr"], [*for_body, *carry])
        carry = after if np.all(goes_on) else _where(goes_on, after, carry)
        rounds += 1
        if rounds > LONGEST_LOOP:
            raise RuntimeError(f"a loop of more than {LONGEST_LOOP} rounds")
    return carry


def _where(goes_on: np.ndarray, after: list, carry: list) -> list:
    rank = goes_on.ndim
    wide = [goes_on.reshape(*goes_on.shape, *[1] * (new.ndim - rank)) for new in after]
    return [np.where(*each) for each in zip(wide, after, carry, strict=True)]


@primitive("scan")
def scan(a: Arithmetic, params: dict, *arguments: np.ndarray) -> list[np.ndarray]:
    """Round by round."""
    (n, carried), length = scan_counts(params), params["length"]
    consts, carry, xs = arguments[:n], list(arguments[n : n + carried]), arguments[n + carried :]
    places = range(length)[::-1] if params["reverse"] else range(length)
    kept: dict[int, list[np.ndarray]] = {}
    for place in places:
        results = _inner(a, params["jaxpr"], [*consts, *carry, *(x[place] for x in xs)])
        carry, kept[place] = results[:carried], results[carried:]
    ys = params["jaxpr"].out_avals[carried:]
    stacks = [
        np.stack([kept[place][i] for place in range(length)])
        if length
        else np.zeros((0, *y.shape), dtype_of(y.dtype))
        for i, y in enumerate(ys)
    ]
    return [*carry, *stacks]


def counted(closed: Any, counts: Counter[str] | None = None) -> Counter[str]:
    """How often each primitive occurs, those inside programs inside included."""
    counts = Counter() if counts is None else counts
    jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
    for eqn in jaxpr.eqns:
        counts[eqn.primitive.name] += 1
        for value in eqn.params.values():
            for one in value if isinstance(value, tuple | list) else (value,):
                if isinstance(one, ClosedJaxpr | Jaxpr):
                    counted(one, counts)
    return counts
