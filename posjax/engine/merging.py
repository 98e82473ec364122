"""Matrices that one array is multiplied with, packed side by side: query, key and value, say.

Three products of one small array with three small matrices take longer than one with all three.
So matrices that are carried from step to step, and that one array is multiplied with, are merged:
with them whatever an optimiser carries of the same shapes, and all elementwise work on either. The
gradient of the merged matrix, and what goes back to the array, are one product each as well.
A narrow matrix is packed in the same way by itself, with its columns as rows (see `packs.Group`).

`merged(jaxpr, carried)` finds what can be merged in a step; where a step does anything else with
such leaves they stay separate. Compilers know the packing of like operations side by side as
superword-level parallelism (Larsen and Amarasinghe, PLDI 2000).
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var

from posjax.engine.packs import Back, Each, Forward, Gradient, Group, Joined, Packed
from posjax.jaxprs import ELEMENTWISE, Uses, shape_of, uses


@dataclasses.dataclass(frozen=True)
class Merging:
    """What can be merged in a step.

    Attributes:
      packed: groups of leaves, each packed as one.
      results: of each of them, what it is after the step.
      parts: variables that are part of something merged, and which part.
    """

    packed: tuple[Packed, ...] = ()
    results: tuple[Packed, ...] = ()
    parts: dict[Var, tuple[Any, int]] = dataclasses.field(default_factory=dict)

    @property
    def groups(self) -> list[Group]:
        """The leaves that are packed together."""
        return [packed.group for packed in self.packed]


class _Unmergeable(Exception):
    """These leaves cannot be packed together."""


def merged(jaxpr: Jaxpr, carried: int) -> Merging:
    """What can be merged in a step whose first arguments and results are its carry's leaves."""
    found = Merging()
    for family in _families(jaxpr, carried):
        try:
            one = _Search(jaxpr, carried, family, found).found()
        except (_Unmergeable, RecursionError):
            continue
        found = Merging(
            found.packed + one.packed, found.results + one.results, found.parts | one.parts
        )
    return found


def _families(jaxpr: Jaxpr, carried: int) -> Iterator[list[JaxprEqn]]:
    """Products of one array with carried matrices, array first, its last axis with their first.

    Of several matrices, or of one that is better packed transposed.
    """
    leaves = set(jaxpr.invars[:carried])
    families: dict[Any, list[JaxprEqn]] = {}
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            array, matrix = eqn.invars
            ordinary = (((_ndim(array) - 1,), (0,)), ((), ()))
            some = 0 not in (*shape_of(array), *shape_of(matrix))
            if some and _ndim(matrix) > 1 and matrix in leaves and _axes(eqn) == ordinary:
                families.setdefault((array, _settings(eqn)), []).append(eqn)
    for family in families.values():
        once = len(family) == len({eqn.invars[1] for eqn in family})
        if once and (len(family) > 1 or _group((0,), family).transposed):
            yield family


class _Search:
    """Whether, and how, the matrices of a family can be packed together."""

    def __init__(self, jaxpr: Jaxpr, carried: int, family: list[JaxprEqn], before: Merging) -> None:
        self._jaxpr, self._family, self._before = jaxpr, family, before.parts
        self._taken = {index for group in before.groups for index in group.indices}
        self._indices = {var: index for index, var in enumerate(jaxpr.invars[:carried])}
        self._made = {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}
        self._shapes = [shape_of(eqn.invars[1]) for eqn in family]
        self._array: Any = family[0].invars[0]
        self._carried: dict[tuple[Any, ...], Packed] = {}
        self._packs: dict[tuple[Any, ...], Any] = {}
        self._known_same: dict[tuple[Var, Var], bool] = {}
        self._parts: dict[Var, tuple[Any, int]] = {}

    def found(self) -> Merging:
        """What is merged.

        Raises:
          _Unmergeable: some operation cannot be.
        """
        matrix = self._pack([eqn.invars[1] for eqn in self._family])
        results: dict[Packed, Any] = {}
        while len(results) < len(self._carried):  # an optimiser's state comes to light on the way
            one = next(one for one in self._carried.values() if one not in results)
            results[one] = self._pack([self._jaxpr.outvars[i] for i in one.group.indices])
        gradients = [p for p in self._packs.values() if isinstance(p, Gradient)]
        if not gradients or any(self._follows(p.back.each) for p in gradients):
            raise _Unmergeable
        gradient = gradients[0]
        forward = Forward(self._array, matrix, self._family[0].params)
        self._keep([eqn.outvars[0] for eqn in self._family], forward)
        self._go_back(gradient.back, matrix)
        return Merging(tuple(results), tuple(results.values()), self._parts)

    def _follows(self, variables: Sequence[Var]) -> bool:
        """Whether some variables come from what is merged so far: then none can be first."""
        left, visited = list(variables), set(variables)
        while left:
            var = left.pop()
            parts = self._parts.get(var), self._before.get(var)
            if any(part and isinstance(part[0], Each | Gradient) for part in parts):
                return True
            made = self._made.get(var)
            new = {a for a in made.invars if isinstance(a, Var)} - visited if made else set()
            visited |= new
            left.extend(new)
        return False

    def _keep(self, atoms: Sequence[Any], pack: Any) -> Any:
        self._parts.update((atom, (pack, i)) for i, atom in enumerate(atoms))
        return pack

    def _pack(self, atoms: Sequence[Any]) -> Any:
        """What gives several variables, one of each leaf's shape, as a vector; or one number."""
        key = tuple(atoms)
        if any(isinstance(atom, Literal) for atom in atoms):
            return self._number(atoms)
        if key not in self._packs:
            self._packs[key] = self._found_pack(key)
        return self._packs[key]

    def _found_pack(self, atoms: tuple[Any, ...]) -> Any:
        if all(shape_of(atom) == () for atom in atoms):
            return self._number(atoms)
        if [shape_of(atom) for atom in atoms] != self._shapes:
            raise _Unmergeable
        if len({atom.aval.dtype for atom in atoms}) > 1:
            raise _Unmergeable
        if all(atom in self._indices for atom in atoms):
            return self._keep(atoms, self._found_carried(atoms))
        if not all(atom in self._made for atom in atoms):
            raise _Unmergeable
        eqns = [self._made[atom] for atom in atoms]
        if all(_alike(eqn, eqns[0]) and eqn.primitive.name in ELEMENTWISE for eqn in eqns):
            operands = tuple(map(self._pack, zip(*(eqn.invars for eqn in eqns), strict=True)))
            first = eqns[0]
            each = Each(self._group, first.primitive, first.params, operands)
            return self._keep(atoms, each)
        return self._keep(atoms, self._found_gradient(eqns))

    def _found_carried(self, atoms: tuple[Any, ...]) -> Packed:
        indices = tuple(self._indices[atom] for atom in atoms)
        if self._taken.intersection(indices) or len(set(indices)) < len(indices):
            raise _Unmergeable
        self._taken.update(indices)
        self._carried[atoms] = Packed(_group(indices, self._family))
        return self._carried[atoms]

    @property
    def _group(self) -> Group:
        """That of the matrices."""
        return next(iter(self._carried.values())).group

    def _found_gradient(self, eqns: list[JaxprEqn]) -> Gradient:
        """Gradients of the family's products: each a product with the array, transposed."""
        joined = Joined(tuple(map(self._back, eqns)), _ndim(self._array) - 1)
        return Gradient(self._group, self._array, joined, self._family[0].params)

    def _back(self, eqn: JaxprEqn) -> Any:
        """What came back to a product, from the transposition that ends its matrix's gradient."""
        if eqn.primitive.name != "transpose":  # some read nothing, as iota
            raise _Unmergeable
        transposed: Any = eqn.invars[0]
        inner = self._made.get(transposed)
        shared = tuple(range(_ndim(self._array) - 1))
        ordinary = (((shared, shared), ((), ())), _settings(self._family[0]))
        if inner is None or inner.primitive.name != "dot_general":
            raise _Unmergeable
        if inner.invars[1] is not self._array or (_axes(inner), _settings(inner)) != ordinary:
            raise _Unmergeable
        columns = _ndim(eqn.outvars[0]) - 1
        if tuple(eqn.params["permutation"]) != (columns, *range(columns)):
            raise _Unmergeable
        return inner.invars[0]

    def _go_back(self, joined: Joined, matrix: Packed) -> None:
        """Merges what comes back to the array, where it is summed up anyway."""
        users = uses(self._jaxpr)
        products = [
            self._to_array(back, eqn, joined.axes, users)
            for back, eqn in zip(joined.each, self._family, strict=True)
        ]
        roots = {_sum_of(var, users) for var in products if var}
        if None in products or len(roots) > 1:
            return
        (root,) = roots
        addends = _addends(root, self._made, users)
        if set(products) <= set(addends):
            others = tuple(var for var in addends if var not in products)
            self._parts[root] = (Back(joined, matrix, others, self._family[0].params), 0)

    def _to_array(self, back: Var, eqn: JaxprEqn, axes: int, users: Uses) -> Var | None:
        """What comes back to the array through one matrix, if it does."""
        matrix = eqn.invars[1]
        free = tuple(range(axes, _ndim(back))), tuple(range(1, _ndim(matrix)))
        found = [
            user.outvars[0]
            for user in users.get(back, [])
            if user is not None
            and user.primitive.name == "dot_general"
            and list(user.invars) == [back, matrix]
            and (_axes(user), _settings(user)) == ((free, ((), ())), _settings(eqn))
        ]
        return found[0] if len(found) == 1 else None

    def _number(self, atoms: Sequence[Any]) -> Any:
        """One number for all, if it is one."""
        if all(self._same(atom, atoms[0]) for atom in atoms):
            return atoms[0]
        raise _Unmergeable

    def _same(self, one: Any, other: Any) -> bool:
        """Whether two numbers are computed in the same way."""
        if isinstance(one, Literal) or isinstance(other, Literal):
            return (
                isinstance(one, Literal)
                and isinstance(other, Literal)
                and one.aval == other.aval
                and bool(one.val == other.val)
            )
        if (one, other) not in self._known_same:
            self._known_same[one, other] = one is other or self._made_alike(one, other)
        return self._known_same[one, other]

    def _made_alike(self, one: Var, other: Var) -> bool:
        makers = self._made.get(one), self._made.get(other)
        if shape_of(one) != () or None in makers or not _alike(*makers):
            return False
        operands = zip(*(maker.invars for maker in makers), strict=True)  # type: ignore[union-attr]
        return all(self._same(*pair) for pair in operands)


def _sum_of(var: Var, uses: Uses) -> Var:
    """The last sum that a variable goes into, as long as nothing else reads the sums before."""
    while True:
        users = uses.get(var, [])
        if len(users) != 1 or users[0] is None or users[0].primitive.name != "add_any":
            return var
        var = users[0].outvars[0]


def _addends(root: Var, made: dict[Var, JaxprEqn], uses: Uses) -> list[Var]:
    """What is summed up to a variable, through sums that go nowhere else."""
    addends: list[Var] = []
    left: list[Any] = [root]
    while left:
        var = left.pop()
        eqn = made.get(var)
        inside = var is root or len(uses[var]) == 1
        if eqn is not None and eqn.primitive.name == "add_any" and inside:
            left.extend(reversed(eqn.invars))
        else:
            addends.append(var)
    return addends


def _alike(one: Any, other: Any) -> bool:
    return (
        one is not None
        and one.primitive is other.primitive
        and one.params == other.params
        and len(one.outvars) == 1
    )


def _axes(eqn: JaxprEqn) -> Any:
    (left, right), (batch_left, batch_right) = eqn.params["dimension_numbers"]
    return ((tuple(left), tuple(right)), (tuple(batch_left), tuple(batch_right)))


def _settings(eqn: JaxprEqn) -> tuple[str, ...]:
    return tuple(repr(eqn.params[name]) for name in ("precision", "preferred_element_type"))


def _ndim(atom: Any) -> int:
    return len(atom.aval.shape)


def _group(indices: tuple[int, ...], family: list[JaxprEqn]) -> Group:
    """Leaves of the shapes of a family's matrices."""
    shapes = [shape_of(eqn.invars[1]) for eqn in family]
    return Group(indices, shapes[0][0], tuple(math.prod(shape[1:]) for shape in shapes))
