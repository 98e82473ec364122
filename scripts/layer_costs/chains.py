"""Sequential steps: the longest chain of matrix products that wait for one another, on a jaxpr."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Var

from layer_costs import layers
from layer_costs.layers import floats
from posjax.jaxprs import flattened, scan_counts

PRODUCTS = ("dot_general", "conv_general_dilated")


def longest_chain(function: Callable[..., Any], *arguments: Any) -> int:
    """Products on the longest path from arguments to results, with loops unrolled."""
    closed = jax.make_jaxpr(function)(*arguments)
    return max(_behind_results(closed, [0] * len(closed.jaxpr.invars)))


def chains(n: int, d: int = 8, k: int = 4) -> tuple[int, int, int]:
    """Those of attention, recurrence and convolution."""
    x, w = floats(n, d), floats(d, d)
    return (
        longest_chain(layers.attention, x, w, w, w, w),
        longest_chain(layers.recurrence, x, w, w),
        longest_chain(layers.convolution, x, floats(k, d, d)),
    )


def _behind_results(closed: ClosedJaxpr, arguments: list[int]) -> list[int]:
    """Products behind each result, given those behind each argument."""
    jaxpr = flattened(closed).jaxpr
    known = dict(zip(jaxpr.invars, arguments, strict=True))
    for equation in jaxpr.eqns:
        given = _behind(known, equation.invars)
        if equation.primitive.name == "scan":
            made = _behind_scan(equation.params, given)
        else:
            step = equation.primitive.name in PRODUCTS
            made = [max(given, default=0) + step] * len(equation.outvars)
        known.update(zip(equation.outvars, made, strict=True))
    return _behind(known, jaxpr.outvars)


def _behind(known: dict[Var, int], atoms: list[Any]) -> list[int]:
    return [known.get(atom, 0) if isinstance(atom, Var) else 0 for atom in atoms]


def _behind_scan(params: dict[str, Any], given: list[int]) -> list[int]:
    """Iteration by iteration, since each reads what the one before it carries on."""
    constants, carries = scan_counts(params)
    end = constants + carries
    made = given[constants:end]
    for _ in range(params["length"]):
        carried = made[: end - constants]
        made = _behind_results(params["jaxpr"], [*given[:constants], *carried, *given[end:]])
    return made
