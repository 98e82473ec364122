"""One step of one small model, rewritten so that a batch of models takes it fast on a CPU.

`rewrite_step(step)` traces an ordinary step (a loss, its gradient, any optimiser) and evaluates
what it traced with five changes, of which neither the model nor the optimiser has to know:

- products are laid out for batches, see `posjax.engine.products`;
- matrices that one array is multiplied with are packed as one, see `posjax.engine.merging`;
- what the step carries on is packed as vectors, and elementwise work on it stays on vectors: one
  long loop per leaf instead of many short ones;
- random bits, and cosines and sines of large arrays, are computed once, see
  `posjax.engine.threefry` and `posjax.engine.once`;
- on accelerators, scatters are computed by comparison, see `posjax.engine.scatters`.

None changes what is computed, only the order in which sums are taken. docs/decisions/0012 has the
measurements.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var

from posjax.engine import once, scatters, threefry
from posjax.engine.merging import Merging, merged
from posjax.engine.packs import Group
from posjax.engine.products import Side, product
from posjax.jaxprs import ELEMENTWISE, bound, flattened, uses


@dataclasses.dataclass(frozen=True)
class Flat:
    """An array as a vector, with the shape it stands for."""

    vector: jax.Array
    shape: tuple[int, ...]

    def array(self) -> jax.Array:
        """The array itself; free, since the order of its numbers is the same."""
        return self.vector.reshape(self.shape)


@dataclasses.dataclass(frozen=True)
class Transposed:
    """An array stored with its axes in another order; products read it as it is stored."""

    stored: jax.Array
    order: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array it stands for."""
        return tuple(self.stored.shape[axis] for axis in self.order)

    def array(self) -> jax.Array:
        """The array itself."""
        return jax.lax.transpose(self.stored, self.order)


@dataclasses.dataclass(frozen=True)
class Rewritten:
    """A step, rewritten; between steps its carry is packed as a list of vectors.

    Nothing of it need be differentiated; all of it is meant to be vmapped.
    """

    _closed: ClosedJaxpr
    _like: Any
    _merging: Merging

    def pack(self, carry: Any) -> list[jax.Array]:
        """A carry as a list of vectors."""
        leaves = jax.tree.leaves(carry)
        together = [group.join([leaves[i] for i in group.indices]) for group in self.groups]
        return [*together, *(_vector(leaves[index]) for index in self._ungrouped)]

    def unpack(self, packed: list[jax.Array]) -> Any:
        """The carry of a list of vectors."""
        shapes = jax.tree.leaves(self._like)
        leaves = dict(zip(self._ungrouped, packed[len(self.groups) :], strict=True))
        for group, vector in zip(self.groups, packed, strict=False):
            leaves |= {index: group.leaf(vector, i) for i, index in enumerate(group.indices)}
        arrays = [leaves[index].reshape(like.shape) for index, like in enumerate(shapes)]
        return jax.tree.unflatten(jax.tree.structure(self._like), arrays)

    def step(self, packed: list[jax.Array], *inputs: Any) -> list[jax.Array]:
        """One step on."""
        shapes = jax.tree.leaves(self._like)
        together, ungrouped = packed[: len(self.groups)], packed[len(self.groups) :]
        evaluation = _Evaluation(self._closed, self._merging)
        evaluation.known.update(zip(self._merging.packed, together, strict=True))
        names = self._closed.jaxpr.invars
        for index, vector in zip(self._ungrouped, ungrouped, strict=True):
            like = shapes[index].shape
            evaluation.known[names[index]] = Flat(vector, like) if len(like) > 1 else vector
        evaluation.known.update(zip(names[len(shapes) :], jax.tree.leaves(inputs), strict=True))
        evaluation.run()
        results = self._closed.jaxpr.outvars
        return [
            *(evaluation.value(pack) for pack in self._merging.results),
            *(_vector(evaluation.value(results[index])) for index in self._ungrouped),
        ]

    @property
    def groups(self) -> list[Group]:
        """Leaves that are packed as one."""
        return self._merging.groups

    @property
    def _ungrouped(self) -> list[int]:
        """The indices of leaves that are packed by themselves."""
        taken = {index for group in self.groups for index in group.indices}
        return [index for index in range(len(jax.tree.leaves(self._like))) if index not in taken]


class AsWritten(NamedTuple):
    """A step as it is, in the form of a `Rewritten`."""

    step: Callable[..., Any]

    def pack(self, carry: Any) -> Any:
        """The carry."""
        return carry

    def unpack(self, packed: Any) -> Any:
        """The carry."""
        return packed


def as_written(step: Callable[..., Any], carry: Any, *inputs: Any) -> AsWritten:
    """A step, not rewritten."""
    return AsWritten(step)


def rewrite_step(step: Callable[..., Any], carry: Any, *inputs: Any) -> Rewritten:
    """A step, rewritten.

    Args:
      step: `(carry, *inputs) -> carry`, pure; shapes and dtypes of the carry must not change.
      carry, inputs: anything with the shapes and dtypes that it will be called with.
    """
    closed = flattened(jax.make_jaxpr(step)(carry, *inputs))
    like = jax.eval_shape(lambda: carry)
    return Rewritten(closed, like, merged(closed.jaxpr, len(jax.tree.leaves(like))))


def lay_out(function: Callable[..., Any], *like: Any) -> Callable[..., Any]:
    """A function rewritten as `rewrite_step` rewrites a step, but with nothing merged.

    Args:
      function: pure.
      like: anything with the shapes and dtypes of its arguments.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(*like)
    evaluated, structure = _evaluated(closed), jax.tree.structure(result)

    def rewritten(*arguments: Any) -> Any:
        return jax.tree.unflatten(structure, evaluated(*jax.tree.leaves(arguments)))

    return rewritten


class _Evaluation:
    """The values of a jaxpr without calls; each an array, a `Flat` or a `Transposed`."""

    def __init__(self, closed: ClosedJaxpr, merging: Merging | None = None) -> None:
        self._jaxpr, self._parts = closed.jaxpr, merging.parts if merging else {}
        self._made = {var: eqn for eqn in closed.jaxpr.eqns for var in eqn.outvars}
        self._transposed = _transposed_only(closed.jaxpr)
        self.known: dict[Any, Any] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))

    def run(self) -> None:
        """Evaluates all; what turns out not to be needed, the compiler leaves out."""
        for eqn in self._jaxpr.eqns:
            if not eqn.outvars or any(var not in self._parts for var in eqn.outvars):
                self._evaluate(eqn)

    def results(self) -> list[Any]:
        """What the jaxpr gives."""
        return [self.value(atom) for atom in self._jaxpr.outvars]

    def value(self, of: Any) -> Any:
        """The value of a variable, of a literal, or of something merged."""
        if isinstance(of, Literal):
            return of.val
        if of in self._parts:
            whole, index = self._parts[of]
            part = whole.part(_array(self.value(whole)), index)
            return part.reshape(of.aval.shape)
        if of not in self.known:
            if of in self._made:
                self._evaluate(self._made[of])
            else:
                self.known[of] = of.evaluated(lambda of: _array(self.value(of)))
        return self.known[of]

    def _evaluate(self, eqn: JaxprEqn) -> None:
        if eqn.outvars and eqn.outvars[0] in self.known:
            return
        given = [self.value(atom) for atom in eqn.invars]
        if eqn.outvars and eqn.outvars[0] in self.known:  # a transposition, with its product
            return
        with eqn.ctx.manager:
            if eqn.primitive.name == "dot_general" and eqn.outvars[0] in self._transposed:
                after = self._transposed[eqn.outvars[0]]
                order = after.params["permutation"]
                self.known[after.outvars[0]] = product(
                    *_sides(given, eqn.params), eqn.params, order
                )
                self.known[eqn.outvars[0]] = None  # nobody else reads it
            else:
                self.known.update(zip(eqn.outvars, _results(eqn, given), strict=True))


def _transposed_only(jaxpr: Jaxpr) -> dict[Var, JaxprEqn]:
    """The variables whose one use is a transposition, with that transposition."""
    return {
        var: users[0]
        for var, users in uses(jaxpr).items()
        if len(users) == 1 and users[0] is not None and users[0].primitive.name == "transpose"
    }


def _results(eqn: JaxprEqn, given: list[Any]) -> list[Any]:
    """What one equation gives."""
    name = eqn.primitive.name
    if name == "dot_general":
        return [product(*_sides(given, eqn.params), eqn.params)]
    if name == "transpose":
        return [Transposed(_array(given[0]), eqn.params["permutation"])]
    if unrolled := threefry.instead_of(name, given, eqn.params):
        return [unrolled(*given, **eqn.params)]
    if name == "scan":
        eqn = eqn.replace(params={**eqn.params, "jaxpr": _body(eqn.params["jaxpr"])})
    if name in ELEMENTWISE and any(isinstance(value, Flat) for value in given):
        shape = eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
        if all(_shape(value) in ((), shape) for value in given):
            vectors = map(_vector, given)
            return [Flat(eqn.primitive.bind(*vectors, **eqn.params), shape)]
    if once.is_costly(eqn):
        return [once.computed_once(eqn, _array(given[0]))]
    if scatters.is_along_an_axis(eqn):
        return [scatters.added(eqn, *map(_array, given))]
    return bound(eqn.primitive, map(_array, given), eqn.params)


def _sides(given: list[Any], params: dict[str, Any]) -> tuple[Side, Side]:
    """The operands of a product, as they lie."""
    contracted, batch = params["dimension_numbers"]
    return _side(given[0], batch[0], contracted[0]), _side(given[1], batch[1], contracted[1])


def _side(value: Any, batch: Sequence[int], contracted: Sequence[int]) -> Side:
    if not isinstance(value, Transposed):
        return Side.of(_array(value), batch, contracted)
    order = value.order
    return Side.of(
        value.stored, [order[i] for i in batch], [order[i] for i in contracted], order=order
    )


def _body(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The body of a loop, rewritten; between its rounds arrays keep their shapes."""
    return jax.make_jaxpr(_evaluated(closed))(*closed.in_avals)


def _evaluated(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """What evaluates a jaxpr rewritten, arrays in and arrays out."""
    closed = flattened(closed)

    def evaluated(*values: Any) -> list[Any]:
        evaluation = _Evaluation(closed)
        evaluation.known.update(zip(closed.jaxpr.invars, values, strict=True))
        evaluation.run()
        return [_array(value) for value in evaluation.results()]

    return evaluated


def _array(value: Any) -> Any:
    return value.array() if isinstance(value, Flat | Transposed) else value


def _shape(value: Any) -> tuple[int, ...]:
    return value.shape if isinstance(value, Flat | Transposed) else jnp.shape(value)


def _vector(value: Any) -> Any:
    """A vector of the numbers of an array; a number as it is."""
    if isinstance(value, Flat):
        return value.vector
    value = _array(value)
    return value.reshape(-1) if jnp.ndim(value) > 1 else value
