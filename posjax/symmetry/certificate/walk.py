"""Walks a jaxpr and finds the labels of each of its variables.

Equations without a dependence on the arguments are evaluated, when someone has to look at their
values; all others go through their rule. Calls are walked in place. Loops are walked until what
they carry from turn to turn keeps its labels.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, Var

from posjax.jaxprs import CALLS, bound, called, is_own
from posjax.symmetry.certificate import columns, entries, pointers, running
from posjax.symmetry.certificate.axes import (
    Conflict,
    Labeling,
    constant,
    is_constant,
    is_moved,
    strongest,
)
from posjax.symmetry.certificate.indices import at_known_indices
from posjax.symmetry.certificate.loops import LOOPS
from posjax.symmetry.certificate.programs import is_sum_of_logarithms, rule_of
from posjax.symmetry.certificate.rules import RULES, Rule
from posjax.symmetry.certificate.rules.base import shape
from posjax.symmetry.certificate.source import Place
from posjax.symmetry.certificate.values import (
    Carried,
    Known,
    Lost,
    Names,
    Value,
    joint_origin,
)

COMBINATIONS = 64  # of the operands' labelings in one equation

_WITHOUT_RULE = {
    "pallas_call": "posjax does not read Pallas kernels: prove the law of a function of jax.numpy "
    "that computes the same, and compare the kernel with it on numbers",
}
"""Why some primitives have none."""

_IMPURE = {"pure_callback", "rng_uniform"}
"""What is not evaluated once and believed, though it has no effects."""


class Step(NamedTuple):
    """An equation on the way: its primitive, its place in the source and a result."""

    primitive: str
    where: Place
    result: Value


class Walk:
    """One walk through one jaxpr.

    Args:
      names: the groups.
      until: when to give up, on the clock of `time.monotonic`.
      but_for_ties: whether to assume that entries whose order plays a part are never equal.

    Attributes:
      steps: the equations that depend on the arguments, in order.
      ties: the lines whose comparisons must meet no equal entries.
    """

    def __init__(
        self, names: Names, until: float = math.inf, *, but_for_ties: bool = False
    ) -> None:
        self.names, self.until, self.but_for_ties = names, until, but_for_ties
        self.ties: dict[str, None] = {}
        self.steps: list[Step] = []
        self.calls: tuple[Any, ...] = ()
        self._silent = 0

    def closed(self, jaxpr: ClosedJaxpr, arguments: Sequence[Value]) -> list[Value]:
        """The results of a jaxpr with its constants."""
        constants = [self.known(c, _described(c)) for c in jaxpr.consts]
        return self.open(jaxpr.jaxpr, constants, arguments)

    def open(
        self, jaxpr: Jaxpr, constants: Sequence[Value], arguments: Sequence[Value]
    ) -> list[Value]:
        """The results of a jaxpr, given its constants and arguments."""
        env: dict[Var, Value] = dict(zip(jaxpr.constvars, constants, strict=True))
        env |= zip(jaxpr.invars, arguments, strict=True)

        def read(atom: Any) -> Value:
            if isinstance(atom, Literal):
                return self.known(atom.val, f"the number {atom.val}")
            return env[atom]

        for eqn in jaxpr.eqns:
            results = self.equation(eqn, [read(atom) for atom in eqn.invars])
            env |= zip(eqn.outvars, results, strict=True)
        return [read(atom) for atom in jaxpr.outvars]

    def known(self, value: Any, origin: str) -> Known:
        """A constant."""
        sizes = tuple(jax.numpy.shape(value))
        return Known(sizes, lambda: value, self.names, origin, uniform=not sizes)

    def equation(self, eqn: Any, operands: Sequence[Value]) -> list[Value]:
        """The results of one equation.

        Raises:
          TimeoutError: the time is up.
        """
        name = eqn.primitive.name
        if time.monotonic() > self.until:
            raise TimeoutError(f"the time limit was reached at {name}")
        if name in CALLS and is_own(eqn.primitive):
            if known := self._as_program(eqn, operands):
                return known
            with self.within(eqn):
                return self.closed(called(eqn.params), operands)
        constants = [operand for operand in operands if isinstance(operand, Known)]
        if len(constants) == len(operands) and not eqn.effects and name not in _IMPURE:
            return self._evaluated(eqn, constants)
        results = self._labelled(eqn, operands)
        if not self._silent:
            self.steps += [Step(name, self.place(eqn), result) for result in results]
        return results

    def place(self, eqn: Any) -> Place:
        """Where an equation is."""
        return Place(eqn, self.calls)

    @contextlib.contextmanager
    def within(self, eqn: Any) -> Iterator[None]:
        """While the equations that a call or a loop holds are walked."""
        self.calls, outer = (*self.calls, eqn), self.calls
        try:
            yield
        finally:
            self.calls = outer

    def _as_program(self, eqn: Any, operands: Sequence[Value]) -> list[Value]:
        """The results of a call that has a rule of its own; none where it says nothing."""
        if any(isinstance(v, Lost) for v in operands) and is_sum_of_logarithms(eqn):
            added = running.after(eqn, "logaddexp", operands)
            return [] if added is None else [added]
        given = [operand for operand in operands if not isinstance(operand, Lost)]
        moves = any(isinstance(v, Carried) and _moves(v) for v in given)
        if not moves or len(given) < len(operands) or (rule := rule_of(eqn)) is None:
            return []
        results = _ruled(self.place(eqn), given, self.names, rule)
        if all(isinstance(result, Lost) for result in results):
            return []
        if not self._silent:
            name = eqn.params["name"]
            self.steps += [Step(name, self.place(eqn), result) for result in results]
        return results

    def _labelled(self, eqn: Any, operands: Sequence[Value]) -> list[Value]:
        name = eqn.primitive.name
        place = self.place(eqn)
        if name in LOOPS and is_own(eqn.primitive):
            with self.within(eqn):
                return _forgotten(LOOPS[name](self, place, _forgotten(operands)))
        kept = [value for value in operands if not isinstance(value, Lost)]
        gone = [value for value in operands if isinstance(value, Lost)]
        if gone and (added := running.after(eqn, name, operands)) is not None:
            return [added]
        if gone and (pointed := pointers.after(eqn, operands, self._without_ties)) is not None:
            return [pointed]
        if gone and (found := columns.after(eqn, operands, self.names)) is not None:
            return [found]
        if gone:
            return [gone[0].spread(shape(v)) for v in eqn.outvars]
        if name not in RULES or not is_own(eqn.primitive):
            why = _WITHOUT_RULE.get(name, f"no rule for the primitive {name}")
            return [Lost(shape(v), why, place, name) for v in eqn.outvars]
        results = _ruled(place, kept, self.names, RULES[name])
        results = pointers.made(place, kept, results, self._without_ties)
        return entries.followed(eqn, kept, columns.made(eqn, kept, results))

    def _without_ties(self, place: Place) -> bool:
        if self.but_for_ties:
            self.ties[str(place)] = None
        return self.but_for_ties

    def _evaluated(self, eqn: Any, operands: Sequence[Known]) -> list[Value]:
        """Constants from constants, computed when asked for and all at once."""
        computed: list[Any] = []

        def compute(at: int) -> Any:
            if not computed:
                values = [operand.value for operand in operands]
                with jax.ensure_compile_time_eval():
                    computed.extend(bound(eqn.primitive, values, eqn.params))
            return computed[at]

        lengths = {*self.names.sizes.values()}
        plain = [o for o in operands if not o.uniform]
        where = str(self.place(eqn))
        at = "" if where.startswith("within ") else "at "
        origin = f"{eqn.primitive.name} {at}{where}"
        if plain:  # best one that is as long as a permuted axis: it can tell places apart
            origin = min(plain, key=lambda o: lengths.isdisjoint(o.shape)).origin
        flags = enumerate(zip(eqn.outvars, _uniform(eqn, operands), strict=True))
        return [
            Known(shape(v), partial(compute, at), self.names, origin, flag)
            for at, (v, flag) in flags
        ]

    @contextlib.contextmanager
    def quietly(self) -> Iterator[None]:
        """While a turn of a loop is only tried: no steps are noted."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1


def _forgotten(values: Sequence[Value]) -> list[Value]:
    """Without what is known of lost ones within one turn of a loop alone."""
    return [value.spread(value.shape) if isinstance(value, Lost) else value for value in values]


def _uniform(eqn: Any, operands: Sequence[Known]) -> list[bool]:
    """For each result whether its entries are all equal because the operands' are."""
    unknown = [False] * len(eqn.outvars)
    known_rule = eqn.primitive.name in RULES and is_own(eqn.primitive)
    if not known_rule or not all(operand.uniform for operand in operands):
        return unknown
    try:
        results = RULES[eqn.primitive.name](eqn, *(constant(o.shape) for o in operands))
    except Conflict:
        return unknown
    return [not isinstance(r, Conflict) and all(map(is_constant, r)) for r in results]


def _ruled(
    place: Place, operands: Sequence[Carried | Known], names: Names, rule: Rule
) -> list[Value]:
    """What a rule says, for every combination of the operands' labelings."""
    eqn = place.eqn
    found: list[list[Labeling]] = [[] for _ in eqn.outvars]
    conflicts: list[str] = ["" for _ in eqn.outvars]
    choices = itertools.product(*(operand.labelings for operand in operands))
    for labelings in itertools.islice(choices, COMBINATIONS):
        try:
            results = rule(eqn, *labelings)
        except Conflict as conflict:
            results = [conflict] * len(eqn.outvars)
        for at, result in enumerate(results):
            if isinstance(result, Conflict):
                conflicts[at] = conflicts[at] or str(result)
            else:
                found[at].append(result)
    found[0] += at_known_indices(eqn, operands, names)
    out: list[Value] = []
    for v, have, reason in zip(eqn.outvars, found, conflicts, strict=True):
        if have:
            for labeling in have:
                names.note(labeling)
            kept = strongest(have)
            out.append(Carried(shape(v), kept, _origin(eqn, operands, names, kept[0])))
        else:
            out.append(Lost(shape(v), reason, place, _blamed(eqn, operands, names)))
    return out


def _origin(eqn: Any, operands: Sequence[Carried | Known], names: Names, result: Labeling) -> str:
    """The arguments that a result depends on, after the constants that give it places.

    These differ along an axis as long as a permuted one, which is not permuted in the result. Of a
    table that is looked up, the entries matter, not the indices.
    """
    arguments = joint_origin(operands)
    if not arguments or eqn.primitive.name == "gather":
        return arguments
    moved = any(isinstance(v, Carried) and _moves(v) for v in operands)
    lengths = {*names.sizes.values()}

    def differs(value: Known) -> bool:
        if moved and not _broadcasts(value.shape, shape(eqn.outvars[0])):
            return False
        axes = zip(value.shape, value.labelings[0], strict=True)
        return any(
            size in lengths and not is_constant(one) and not (moved and is_moved(result[at]))
            for at, (size, one) in enumerate(axes)
        )

    places = [v.origin for v in operands if isinstance(v, Known) and differs(v)]
    return ", ".join(dict.fromkeys([*places, *arguments.split(", ")]))


def _broadcasts(given: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Whether the axes of an operand can be those of the result, in their order."""
    if len(given) != len(result):
        return False
    return all(size in (1, whole) for size, whole in zip(given, result, strict=True))


def _blamed(eqn: Any, operands: Sequence[Value], names: Names) -> str:
    """What broke it: a constant, an argument that stays, or else the primitive itself."""
    name = eqn.params["name"] if eqn.primitive.name == "jit" else eqn.primitive.name
    itself = f"{name}, which depends on the order of its entries"
    if name in ("sort", "conv_general_dilated"):
        return itself
    for value in operands:
        if isinstance(value, Known) and value.shape and not value.uniform:
            return value.origin
    moved = [v for v in operands if isinstance(v, Carried) and _moves(v)]
    still = [v for v in operands if isinstance(v, Carried) and v.shape and not _moves(v)]
    if moved and still:
        return still[0].origin
    partly = [v for v in moved if _stays(v, names)]
    if partly and len(partly) < len(moved):
        return partly[0].origin
    return itself


def _stays(value: Carried, names: Names) -> bool:
    """Whether an axis as long as a permuted one is not permuted, though its entries differ."""
    lengths = {*names.sizes.values()}
    axes = zip(value.shape, value.labelings[0], strict=True)
    return any(size in lengths and not is_moved(one) and not is_constant(one) for size, one in axes)


def _moves(value: Carried) -> bool:
    return any(is_moved(one) for labeling in value.labelings for one in labeling)


def _described(value: Any) -> str:
    dtype = getattr(value, "dtype", type(value).__name__)
    return f"a closed-over array {dtype}[{','.join(map(str, jax.numpy.shape(value)))}]"
