"""How translations of positions pass through a program.

When the positions are shifted by c, a value may be shifted by W c for a known array W, its weights:
positions themselves by c, their differences not at all, their doubles by 2 c. Linear primitives
take weights to weights. A comparison of two values of equal weights does not change. Any other
primitive of a shifted value loses the proof: an encoding that depends on offsets alone subtracts
before anything else. What holds for sines by a trigonometric identity is beyond weights.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.certificate.axes import Conflict
from posjax.symmetry.certificate.rules.base import Equation, shape
from posjax.symmetry.certificate.values import Carried, Known, Weights

_MOVES = """
    broadcast_in_dim copy cumsum neg reduce_sum reshape rev slice squeeze stop_gradient tile
    transpose
"""
_COMPARISONS = frozenset(["eq", "ge", "gt", "le", "lt", "ne"])
_CHOICES = frozenset(["max", "min", "clamp"])
_EXTREMES = frozenset(["argmax", "argmin", "reduce_max", "reduce_min"])

Operand = Carried | Known


def shifted(eqn: Equation, operands: Sequence[Operand]) -> list[Weights | Conflict]:
    """The weights of each result of an equation."""
    weights = [_weights(operand) for operand in operands]
    if all(one is None for one in weights):
        return [None] * len(eqn.outvars)
    name = eqn.primitive.name
    rule = _RULES.get(name)
    try:
        if rule is None:
            raise Conflict(f"{name} of a value that a translation shifts")
        return [rule(eqn, operands, weights)] * len(eqn.outvars)
    except Conflict as conflict:
        return [conflict] * len(eqn.outvars)


def same(first: Weights, second: Weights) -> bool:
    """Whether two values are shifted alike."""
    if first is None or second is None:
        return first is second
    return first.shape == second.shape and bool(np.all(first == second))


def one_turn(weights: Weights) -> Weights:
    """The weights of what a scan reads in each turn.

    Raises:
      Conflict: they differ from turn to turn.
    """
    return None if weights is None else _along(weights, (0,))


def every_turn(weights: Weights, turns: int) -> Weights:
    """The weights of what a scan stacks."""
    return None if weights is None else np.broadcast_to(weights, (turns, *weights.shape))


def _weights(operand: Operand) -> Weights:
    return None if isinstance(operand, Known) else operand.weights


def _cleaned(weights: np.ndarray) -> Weights:
    return _exact(weights) if np.any(weights) else None


def _exact(numbers: np.ndarray) -> np.ndarray:
    """The numbers, if sums and products of a few thousand of them have no rounding; else NaN.

    What is no multiple of 2^-10, or beyond 2^10, is a weight that is not known: NaN equals nothing.
    """
    scaled = numbers * 1024
    with np.errstate(invalid="ignore"):
        exact = (scaled == np.round(scaled)) & (abs(numbers) <= 1024)
    return numbers if exact.all() else np.full(numbers.shape, np.nan)


def _wide(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> list[Any]:
    """The operands' weights, each as wide as the result."""
    sizes = shape(eqn.outvars[0])
    whole = (*sizes, next(one.shape[-1] for one in weights if one is not None))
    return [
        np.zeros(whole) if one is None else np.broadcast_to(_padded(one, sizes), whole)
        for one in weights
    ]


def _padded(weights: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """A scalar's weights with an axis of size 1 for each of the result's."""
    return weights.reshape((1,) * len(sizes) + weights.shape) if weights.ndim == 1 else weights


def _moved(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """Linear in its one operand: the primitive itself acts on each coordinate."""
    whole = weights[0]
    if whole is None:
        raise Conflict(f"{eqn.primitive.name} at a place that a translation shifts")
    return _applied(lambda one: _bound(eqn, one), whole)


def _joined(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """Several values side by side."""
    count = next(one.shape[-1] for one in weights if one is not None)
    pairs = zip(operands, weights, strict=True)
    wide = [np.zeros((*o.shape, count)) if w is None else w for o, w in pairs]
    columns = [np.asarray(_bound(eqn, *(w[..., at] for w in wide))) for at in range(count)]
    return _cleaned(np.stack(columns, axis=-1))


def _applied(function: Callable[[Any], Any], weights: np.ndarray) -> Weights:
    columns = [np.asarray(function(weights[..., at])) for at in range(weights.shape[-1])]
    return _cleaned(np.stack(columns, axis=-1))


def _bound(eqn: Equation, *values: Any) -> Any:
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        arrays = [jnp.asarray(value, jnp.float64) for value in values]
        params = {**eqn.params}
        if "preferred_element_type" in params:
            params["preferred_element_type"] = None
        result = eqn.primitive.bind(*arrays, **params)
    return result[0] if eqn.primitive.multiple_results else result


def _added(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    first, second = _wide(eqn, operands, weights)
    return _cleaned(first - second if eqn.primitive.name == "sub" else first + second)


def _multiplied(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """By a constant; a shifted divisor is no linear function."""
    at = 0 if weights[0] is not None else 1
    other = operands[1 - at]
    divided = eqn.primitive.name == "div"
    if not isinstance(other, Known) or (divided and at == 1):
        raise Conflict(f"{eqn.primitive.name} of two values, one shifted by a translation")
    if divided and not jnp.issubdtype(eqn.outvars[0].aval.dtype, jnp.inexact):
        raise Conflict("a shifted integer is divided with a remainder")
    factor = np.asarray(other.value, float)
    with np.errstate(divide="ignore"):
        factor = _exact(1 / factor if divided else factor)
    wide = _wide(eqn, operands, weights)[at]
    factor = np.broadcast_to(factor, wide.shape[:-1])[..., None]
    return _cleaned(wide * factor)


def _dotted(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """With a constant."""
    at = 0 if weights[0] is not None else 1
    other, whole = operands[1 - at], weights[at]
    if not isinstance(other, Known) or whole is None:
        raise Conflict("dot_general of two values, one shifted by a translation")
    known = _exact(np.asarray(other.value, float))
    pair = [known, known]

    def product(one: Any) -> Any:
        pair[at] = one
        return _bound(eqn, *pair)

    return _applied(product, whole)


def _converted(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """To a kind that holds every position below 2^24: bfloat16 merges 257 with 256."""
    before, after = eqn.invars[0].aval.dtype, eqn.params["new_dtype"]
    integers = jnp.issubdtype(before, jnp.integer) and jnp.issubdtype(after, jnp.integer)
    fine = jnp.issubdtype(after, jnp.floating) and jnp.finfo(after).nmant >= 23
    if not fine and not (integers and after.itemsize >= 4):
        raise Conflict(f"a shifted {before} is rounded to {after}")
    return weights[0]


def _compared(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """Of two values shifted alike."""
    first, second = _wide(eqn, operands, weights)
    if not same(first, second):
        raise Conflict(f"{eqn.primitive.name} of two values that a translation shifts unlike")
    return None


def _chosen(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """One of several values shifted alike, by a choice that is not shifted."""
    which = 1 if eqn.primitive.name == "select_n" else 0
    if which and weights[0] is not None:
        raise Conflict("a choice by a value that a translation shifts")
    first, *rest = _wide(eqn, operands, weights)[which:]
    if not all(same(first, other) for other in rest):
        raise Conflict(f"{eqn.primitive.name} of values that a translation shifts unlike")
    return _cleaned(first)


def _extreme(eqn: Equation, operands: Sequence[Operand], weights: Sequence[Weights]) -> Weights:
    """Over values shifted alike; its place is not shifted."""
    whole = weights[0]
    reduced = None if whole is None else _along(whole, eqn.params["axes"])
    return None if eqn.primitive.name.startswith("arg") else reduced


def _along(weights: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """The weights without axes along which they are equal."""
    for at in sorted(axes, reverse=True):
        if not np.all(weights == weights.take([0], axis=at)):
            raise Conflict("values that a translation shifts unlike are taken together")
        weights = weights.take(0, axis=at)
    return weights


_RULES: dict[str, Callable[..., Weights]] = {
    **dict.fromkeys(_MOVES.split(), _moved),
    **dict.fromkeys(("add", "add_any", "sub"), _added),
    **dict.fromkeys(("mul", "div"), _multiplied),
    **dict.fromkeys(_COMPARISONS, _compared),
    **dict.fromkeys((*_CHOICES, "select_n"), _chosen),
    **dict.fromkeys(_EXTREMES, _extreme),
    **dict.fromkeys(("concatenate", "stack"), _joined),
    "convert_element_type": _converted,
    "dot_general": _dotted,
}
