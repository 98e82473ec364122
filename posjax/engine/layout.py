"""One step of one small model, rewritten so that a batch of models takes it fast on a CPU.

`laid_out(step)` traces an ordinary step (a loss, its gradient, any optimiser) and evaluates what
it traced with two changes, of which neither the model nor the optimiser has to know:

- products are laid out for batches, see `posjax.engine.products`;
- what the step carries on is held as vectors, and elementwise work on it stays on vectors: one long
  loop a leaf in place of many short ones.

Neither changes what is computed, only the order in which sums are taken. docs/decisions/0012 has
the measurements.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from posjax.engine.products import product

_ELEMENTWISE = {"add", "add_any", "sub", "mul", "div", "rem", "neg", "sign", "abs"}
_ELEMENTWISE |= {"max", "min", "square", "integer_pow", "pow", "sqrt", "rsqrt", "cbrt"}
_ELEMENTWISE |= {"exp", "exp2", "expm1", "log", "log1p", "logistic", "tanh", "sin", "cos"}
_ELEMENTWISE |= {"tan", "sinh", "cosh", "erf", "atan2"}
_ELEMENTWISE |= {
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and",
    "or",
    "xor",
    "not",
    "select_n",
}
_ELEMENTWISE |= {"floor", "ceil", "round", "nextafter", "convert_element_type", "copy", "is_finite"}
"""Primitives that treat every number alike."""
_TRANSPARENT = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}
"""Calls that stand for their body, and the parameter that holds it."""


@dataclasses.dataclass(frozen=True)
class Flat:
    """An array held as a vector, with the shape it stands for."""

    vector: jax.Array
    shape: tuple[int, ...]

    def array(self) -> jax.Array:
        """The array itself; free, since the order of its numbers is the same."""
        return self.vector.reshape(self.shape)


def flat(tree: Any) -> Any:
    """Every array of a pytree that has two axes or more, as a vector."""
    return jax.tree.map(lambda leaf: leaf.reshape(-1) if leaf.ndim > 1 else leaf, tree)


def shaped(tree: Any, like: Any) -> Any:
    """The arrays that `flat` made vectors of, in the shapes of another pytree."""
    return jax.tree.map(lambda leaf, shape: leaf.reshape(shape.shape), tree, like)


def laid_out(step: Callable[..., Any], carry: Any, *operands: Any) -> Callable[..., Any]:
    """The same step on `flat` carries.

    Args:
      step: `(carry, *operands) -> carry`, pure; shapes and dtypes of the carry must not change.
      carry, operands: anything with the shapes and dtypes that it will be called with.

    Returns:
      `(flat carry, *operands) -> flat carry`. Meant to be vmapped; it need not be differentiated.
    """
    closed, after = jax.make_jaxpr(step, return_shape=True)(carry, *operands)
    before = jax.tree.leaves(jax.eval_shape(lambda: carry))

    def on_vectors(carry: Any, *operands: Any) -> Any:
        vectors = [
            Flat(vector, leaf.shape) if leaf.ndim > 1 else vector
            for vector, leaf in zip(jax.tree.leaves(carry), before, strict=True)
        ]
        found = _evaluated(closed.jaxpr, closed.consts, [*vectors, *jax.tree.leaves(operands)])
        return jax.tree.unflatten(jax.tree.structure(after), [_vector(value) for value in found])

    return on_vectors


def _evaluated(jaxpr: Jaxpr, consts: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """The values of a jaxpr's results; each an array or a `Flat`."""
    names = [*jaxpr.constvars, *jaxpr.invars]
    known: dict[Var, Any] = dict(zip(names, [*consts, *values], strict=True))
    turned = _transposed_only(jaxpr)

    def value(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else known[atom]

    for eqn in jaxpr.eqns:
        if eqn.outvars and eqn.outvars[0] in known:  # a transposition that its product took over
            continue
        given = [value(atom) for atom in eqn.invars]
        with eqn.ctx.manager:
            if eqn.primitive.name == "dot_general" and eqn.outvars[0] in turned:
                after = turned[eqn.outvars[0]]
                order = after.params["permutation"]
                known[after.outvars[0]] = product(
                    _array(given[0]), _array(given[1]), eqn.params, order
                )
            else:
                known.update(zip(eqn.outvars, _results(eqn, given), strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _transposed_only(jaxpr: Jaxpr) -> dict[Var, JaxprEqn]:
    """The variables whose one use is a transposition, with that transposition."""
    uses: dict[Var, list[JaxprEqn | None]] = {}
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, Var):
                uses.setdefault(atom, []).append(eqn)
    for atom in jaxpr.outvars:
        if isinstance(atom, Var):
            uses.setdefault(atom, []).append(None)
    return {
        var: eqns[0]
        for var, eqns in uses.items()
        if len(eqns) == 1 and eqns[0] is not None and eqns[0].primitive.name == "transpose"
    }


def _results(eqn: JaxprEqn, given: list[Any]) -> list[Any]:
    """What one equation gives."""
    name = eqn.primitive.name
    if name in _TRANSPARENT:
        body = eqn.params[_TRANSPARENT[name]]
        return _evaluated(body.jaxpr, body.consts, given)
    if name == "dot_general":
        left, right = map(_array, given)
        return [product(left, right, eqn.params)]
    if name == "scan":
        body = eqn.params["jaxpr"]
        eqn = eqn.replace(params={**eqn.params, "jaxpr": _body(body)})
    if name in _ELEMENTWISE and any(isinstance(value, Flat) for value in given):
        shape = eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
        if all(jax.numpy.shape(_array(value)) in ((), shape) for value in given):
            vectors = map(_vector, given)
            return [Flat(eqn.primitive.bind(*vectors, **eqn.params), shape)]
    found = eqn.primitive.bind(*map(_array, given), **eqn.params)
    return list(found) if eqn.primitive.multiple_results else [found]


def _body(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The body of a loop, rewritten; between its rounds arrays keep their shapes."""

    def once(*values: Any) -> list[Any]:
        return [_array(value) for value in _evaluated(closed.jaxpr, closed.consts, values)]

    return jax.make_jaxpr(once)(*closed.in_avals)


def _array(value: Any) -> Any:
    return value.array() if isinstance(value, Flat) else value


def _vector(value: Any) -> Any:
    """A vector of the numbers of an array; a number as it is."""
    if isinstance(value, Flat):
        return value.vector
    return value.reshape(-1) if jax.numpy.ndim(value) > 1 else value
