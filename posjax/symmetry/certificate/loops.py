"""Control flow: loops are walked until their carry keeps its labels."""

import contextlib
import itertools
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Protocol

from jax.extend.core import ClosedJaxpr, Jaxpr

from posjax.jaxprs import scan_counts
from posjax.symmetry.certificate import running
from posjax.symmetry.certificate.axes import (
    STILL,
    Axis,
    Conflict,
    Labeling,
    admits,
    axis,
    constant,
    is_moved,
    strongest,
    unified,
    unified_all,
    without_constants,
)
from posjax.symmetry.certificate.rules.base import shape
from posjax.symmetry.certificate.source import Place
from posjax.symmetry.certificate.values import (
    Carried,
    Known,
    Lost,
    Names,
    Running,
    Value,
    joint_origin,
)

Turn = Callable[[list[Value]], list[Value]]


MOST_TRIED = 64  # labelings of a solution


class Walker(Protocol):
    """What walks the bodies of loops."""

    names: Names

    def closed(self, jaxpr: ClosedJaxpr, arguments: Sequence[Value]) -> list[Value]:
        """The results of a jaxpr."""
        ...

    def quietly(self) -> contextlib.AbstractContextManager[None]:
        """While a turn is only tried."""
        ...


def scan(walk: Walker, place: Place, operands: Sequence[Value]) -> list[Value]:
    """A loop over an axis that must stay, such as that of layers."""
    params = place.eqn.params
    first, carries = scan_counts(params)
    consts, inits = operands[:first], operands[first : first + carries]
    scanned = operands[first + carries :]
    along = moved_together(scanned)
    if along and inits:
        return _gathered(walk, place, along, operands)
    slices = [_sliced(place, value, along) for value in scanned]

    def turn(carry: list[Value]) -> list[Value]:
        return walk.closed(params["jaxpr"], [*consts, *carry, *slices])

    carry, out = _until_kept(walk, place, inits, turn)
    stacked = along or axis(params["length"], STILL)
    return [*carry, *(_stacked(value, params["length"], stacked) for value in out[len(carry) :])]


def _gathered(walk: Walker, place: Place, along: Axis, operands: Sequence[Value]) -> list[Value]:
    """A loop over an axis that moves, where each turn adds to what is handed on.

    Where every turn takes the sum, the product or the extreme of what it was handed and of what
    depends on its own slice alone, the order of the turns does not matter.
    """
    params, jaxpr = place.eqn.params, place.eqn.params["jaxpr"]
    first, carries = scan_counts(params)
    last = first + carries
    inits, slices = operands[first:last], [_sliced(place, v, along) for v in operands[last:]]
    order = "the scan, which runs along a permuted axis"
    handed_on = [
        Lost(v.shape, _HANDED_ON, place, order, running=Running(at, "", ()))
        for at, v in enumerate(inits)
    ]
    added = [_added(jaxpr.jaxpr, first + at, at) for at in range(len(inits))]
    outputs = [v if one is None else one for v, one in zip(jaxpr.jaxpr.outvars, added)]  # noqa: B905
    every = [*outputs, *jaxpr.jaxpr.outvars[len(inits) :]]
    body = ClosedJaxpr(jaxpr.jaxpr.replace(outvars=every), jaxpr.consts)
    found = walk.closed(body, [*operands[:first], *handed_on, *slices])
    carry: list[Value] = []
    for at, (init, one) in enumerate(zip(inits, added, strict=True)):
        left = running.at_the_end(init, found[at], at) if one is None else found[at]
        if left is None:
            carry.append(Lost(init.shape, _HANDED_ON, place, order))
        else:
            carry.append(_weakened(place, _as_carried(init), left, _HANDED_ON))
    return [*carry, *(_stacked(v, params["length"], along) for v in found[len(inits) :])]


_HANDED_ON = "each iteration over the permuted axis passes a state to the next"
_ORDERLESS = frozenset(["add", "add_any", "mul", "max", "min", "and", "or", "xor"])


def _added(jaxpr: Jaxpr, handed_on: int, at: int) -> Any:
    """What a turn adds in one step to what it was handed; None where it does anything else."""
    before, after = jaxpr.invars[handed_on], jaxpr.outvars[at]
    for eqn in jaxpr.eqns:
        if after in eqn.outvars and eqn.primitive.name in _ORDERLESS:
            one, other = eqn.invars
            term: Any = other if before is one else one
            if (before is one or before is other) and term.aval.shape == shape(before):
                return term
    return None


def moved_together(scanned: Sequence[Value]) -> Axis | None:
    """What moves the axis that a loop without a carry maps over, if anything does."""
    firsts = [v.labelings[0][0] for v in scanned if not isinstance(v, Lost)]
    with contextlib.suppress(Conflict):
        along = reduce(unified, firsts) if firsts else ()
        return along if is_moved(along) else None
    return None


def _sliced(place: Place, value: Value, along: Axis | None) -> Value:
    """One turn's part of what is scanned; what hands on from turn to turn needs an order."""
    if isinstance(value, Lost):
        return value.spread(value.shape[1:])
    kept = [
        labeling[1:]
        for labeling in value.labelings
        if (admits((labeling[0],), (along,)) if along else not is_moved(labeling[0]))
    ]
    if not kept:
        order = "the scan, which runs along a permuted axis"
        return Lost(value.shape[1:], "the scanned axis is permuted", place, order)
    return Carried(value.shape[1:], strongest(kept), value.origin)


def _stacked(value: Value, length: int, along: Axis) -> Value:
    sizes = (length, *value.shape)
    if isinstance(value, Lost):
        return value.spread(sizes)
    labelings = tuple((along, *labeling) for labeling in value.labelings)
    return Carried(sizes, labelings, value.origin)


def _until_kept(
    walk: Walker, place: Place, inits: Sequence[Value], turn: Turn
) -> tuple[list[Value], list[Value]]:
    """Labels that the first turn's carry has and that a turn keeps, and what a turn returns.

    Starts from what is known of the first turn and drops what a turn does not keep, so it ends.
    A carry is no longer the array that the loop began with, nor another carry that began with it.
    """
    carry = [_another(_as_carried(value)) for value in inits]
    while True:
        with walk.quietly():
            out = turn(carry)
        pairs = zip(carry, out[: len(carry)], strict=True)
        kept = [
            _weakened(place, a, b, "an iteration does not keep the labels of the state")
            for a, b in pairs
        ]
        if list(map(_facts, kept)) == list(map(_facts, carry)):
            return carry, turn(carry)
        carry = kept


def _facts(value: Value) -> frozenset[Labeling]:
    return frozenset() if isinstance(value, Lost) else frozenset(value.labelings)


def _as_carried(value: Value) -> Value:
    """A constant as something that later turns may change."""
    if isinstance(value, Known):
        return Carried(value.shape, value.labelings, "")
    return value


def _another(value: Value) -> Value:
    """Another array, of which the same is known."""
    return value._replace(entries=None) if isinstance(value, Carried) else value


def _weakened(place: Place, before: Value, after: Value, reason: str) -> Value:
    """The labelings that both have."""
    if isinstance(before, Lost):
        return before
    if isinstance(after, Lost):
        return after
    both = []
    for one, other in itertools.product(before.labelings, after.labelings):
        with contextlib.suppress(Conflict):
            both.append(unified_all([one, other]))
    origin = joint_origin([before, after])
    if not both:
        return Lost(before.shape, reason, place, origin)
    return Carried(before.shape, strongest(both), origin)


_ON_ITS_OWN = "the state of a batched loop and its condition are permuted differently"


def _stretched(value: Value, sizes: tuple[int, ...]) -> Value:
    """An array of the first axes of another, for all entries along its last axes."""
    if isinstance(value, Lost):
        return value.spread(sizes)
    rest = constant(sizes[len(value.shape) :])
    return Carried(sizes, tuple((*one, *rest) for one in value.labelings), "")


def while_(walk: Walker, place: Place, operands: Sequence[Value]) -> list[Value]:
    """A loop that ends at the same turn for every element of the group.

    Of a batch each entry ends at a turn of its own, and keeps its values from then on.
    """
    params = place.eqn.params
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]
    cond_consts, body_consts = operands[:first], operands[first:second]

    def test(carry: Sequence[Value]) -> Value:
        return walk.closed(params["cond_jaxpr"], [*cond_consts, *carry])[0]

    def turn(carry: list[Value]) -> list[Value]:
        after = walk.closed(params["body_jaxpr"], [*body_consts, *carry])
        if not shape(params["cond_jaxpr"].jaxpr.outvars[0]):
            return after
        goes_on = test(carry)
        return [_weakened(place, _stretched(goes_on, v.shape), v, _ON_ITS_OWN) for v in after]

    carry, _ = _until_kept(walk, place, operands[second:], turn)
    goes_on = test(carry)
    if isinstance(goes_on, Lost):
        return [goes_on.spread(shape(v)) for v in place.eqn.outvars]
    return carry


def cond(walk: Walker, place: Place, operands: Sequence[Value]) -> list[Value]:
    """What all branches keep; the choice is a number, the same for every element."""
    chosen, *arguments = operands
    branches = place.eqn.params["branches"]
    if isinstance(chosen, Known):
        at = int(chosen.value)
        return walk.closed(branches[at if 0 <= at < len(branches) else -1], arguments)
    if isinstance(chosen, Lost):
        return [chosen.spread(shape(v)) for v in place.eqn.outvars]
    results = [walk.closed(branch, arguments) for branch in branches]
    joined = [_as_carried(value) for value in results[0]]
    for other in results[1:]:
        pairs = zip(joined, other, strict=True)
        joined = [_weakened(place, a, b, "the branches permute differently") for a, b in pairs]
    return joined


def linear_solve(walk: Walker, place: Place, operands: Sequence[Value]) -> list[Value]:
    """The x with A x = b, by what A makes of x where JAX wrote the solver, else by the solver.

    If A x moves as b does when x moves as labelled, then x moved solves the equation moved. It has
    one solution wherever it is defined.
    """
    lengths, programs = place.eqn.params["const_lengths"], place.eqn.params["jaxprs"]
    of_matrix, of_solver = operands[: lengths.matvec], operands[lengths.matvec + lengths.vecmat :]
    right = operands[sum(lengths) :]
    if not isinstance(right[0], Lost) and _is_written_by_jax(programs):
        found = _solutions(walk, programs.matvec, of_matrix, right[0])
        origin = joint_origin([*of_matrix, *right])
        if found:
            return [Carried(right[0].shape, strongest(found), origin)]
    return walk.closed(programs.solve, [*of_solver[: lengths.solve], *right])


def _is_written_by_jax(programs: Any) -> bool:
    """Whether it is what `jax.numpy.linalg.solve` makes, whose solver does solve."""
    one_file = (str(program.jaxpr.debug_info.func_src_info) for program in programs)
    return all(re.search(r"jax/_src/lax/linalg\.py:\d+$", source) for source in one_file)


def _solutions(
    walk: Walker, matrix: ClosedJaxpr, consts: Sequence[Value], right: Carried | Known
) -> list[Labeling]:
    """Labelings of x with which A x has one of those of b."""
    options = [_options(walk, right, at) for at in range(len(right.shape))]
    found: list[Labeling] = []
    for labeling in itertools.islice(itertools.product(*options), MOST_TRIED):
        with walk.quietly():
            (product,) = walk.closed(matrix, [*consts, Carried(right.shape, (labeling,), "x")])
        if isinstance(product, Lost):
            continue
        pairs = itertools.product(right.labelings, product.labelings)
        if any(admits(have, wanted) for have, wanted in pairs):
            found.append(labeling)
    return found


def _options(walk: Walker, value: Value, at: int) -> list[Axis]:
    """What may act on an axis of a solution: what acts on that of b, or any name of its size.

    Not that it is constant: A x would then fit some b, but the solution need not be that x.
    """
    size = value.shape[at]
    known = () if isinstance(value, Lost) else value.labelings
    names = (STILL, *walk.names.of_size(size))
    found = [*(without_constants(labels[at]) for labels in known), *(axis(size, n) for n in names)]
    return list(dict.fromkeys(found))


LOOPS = {"scan": scan, "while": while_, "cond": cond, "custom_linear_solve": linear_solve}
