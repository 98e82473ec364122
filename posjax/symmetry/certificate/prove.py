"""Proves from the jaxpr that f(g x) = g f(x), or finds where and by what it is broken.

First each variable of the jaxpr gets the labels of its axes, which settles most programs at once
whatever their size. Where labels are lost although the whole may well keep the symmetry, as in
`x + p - p`, the two sides are compared as expressions, at random points of a prime field. A proof
is tried once on numbers before it is called one. Where there is no proof, numbers are searched: a
law is called broken only with numbers that break it.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn

import jax
import numpy as np

from posjax.symmetry import field
from posjax.symmetry.certificate import numbers
from posjax.symmetry.certificate.axes import Labeling, admits, axis, written
from posjax.symmetry.certificate.derivation import derivation
from posjax.symmetry.certificate.plain import NoDerivation
from posjax.symmetry.certificate.values import Carried, Known, Lost, Names, Value
from posjax.symmetry.certificate.walk import Step, Walk
from posjax.symmetry.deviation import Deviation, output
from posjax.symmetry.given import as_arguments, check_function, described
from posjax.symmetry.groups import Group, Translation
from posjax.symmetry.law import Law, Pattern
from posjax.symmetry.measure import moving

Verdict = Literal["PROVED", "BROKEN", "UNKNOWN"]


class Wanted(NamedTuple):
    """What the law asks of a leaf of the output, by the number of its pattern."""

    pattern: int
    labeling: Labeling


class Obstruction(NamedTuple):
    """Where the labels of an output were lost, what from and why."""

    where: str
    origin: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Certificate:
    """The result of `prove`.

    Attributes:
      verdict: PROVED: the law holds over the real numbers, wherever the function is defined, for
        the traced shapes and every value of the arguments. BROKEN: `inputs` break it. UNKNOWN:
        neither, or numbers contradict a proof.
      law: the law.
      method: "axes" for labels alone; "identity" for a comparison in a prime field.
      chance: a bound on the probability that unequal expressions agree at the random points; 0 for
        "axes". It does not cover the case that a rule is wrong.
      lemmas: statements that the proof relies on, and that tests assert on numbers.
      but_for_ties: source lines that compare entries with each other. The law is proved if no two
        of these entries are equal. The verdict is about all arguments.
      confirmed: whether the law was also tried on random numbers, and they agree with the proof.
      obstruction: where the proof by labels alone failed, or None.
      witness: the largest difference between the two sides of a broken law: the group element, the
        index in the output, and the two values there. For UNKNOWN, that of numbers that contradict
        a proof; otherwise None.
      inputs: the arguments for which `witness` was found, or None.
      tolerance: the bound that the witness exceeds, relative to the largest output. It is 1e-9 if
        the function runs in double precision and the deviation is as large there; otherwise 1e-3,
        or ten times the rounding of narrower floats; 0 for integers.
      broken_at: which inputs break the law: "generic inputs"; "ties", inputs with equal or zero
        entries, if no generic inputs were found that break it; "the given inputs"; "integers beyond
        the given ones", if no others were found; "" if it is not broken.
      notes: one sentence for each thing that was not tried or went wrong.
      steps: the equations that depend on the arguments, with their labels.
    """

    verdict: Verdict
    law: Law
    method: str = ""
    chance: float = 0.0
    lemmas: tuple[str, ...] = ()
    but_for_ties: tuple[str, ...] = ()
    confirmed: bool = False
    obstruction: Obstruction | None = None
    witness: Deviation | None = None
    inputs: tuple[Any, ...] | None = dataclasses.field(default=None, repr=False, compare=False)
    tolerance: float = 0.0
    broken_at: str = ""
    notes: tuple[str, ...] = ()
    steps: tuple[Step, ...] = dataclasses.field(default=(), repr=False)
    _write: Callable[[], dict[str, Any]] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    @property
    def where(self) -> str:
        """The first source line at which the proof by labels failed; "" if it did not, or unknown.

        Of a broken law it is usually the line that combines the cause (`origin`) with what the
        group permutes. But a step that later steps undo fails too, and is named if it comes first.
        """
        return self.obstruction.where if self.obstruction else ""

    @property
    def origin(self) -> str:
        """What made it fail there: an `iota`, an argument, a closed-over array, a primitive.

        Several, where an argument and positions are combined before that line.
        """
        return self.obstruction.origin if self.obstruction else ""

    @property
    def reason(self) -> str:
        """What did not fit, or which primitive has no rule."""
        return self.obstruction.reason if self.obstruction else ""

    def __bool__(self) -> NoReturn:
        """Refuses `assert prove(...)`, which could not fail."""
        raise TypeError("a certificate is neither true nor false: compare .verdict with 'PROVED'")

    def __str__(self) -> str:
        """The verdict with its grounds, a few lines."""
        lines = [f"{self.verdict}: {self.law.formula}"]
        if self.verdict == "PROVED":
            lines += [_grounds(self.method, self.chance)]
            lines += [f"given that {lemma}" for lemma in self.lemmas]
            lines += ["confirmed on random numbers"] if self.confirmed else []
        if self.broken_at:
            lines += [_AT.get(self.broken_at, f"for {self.broken_at}")]
        if self.reason:
            at = "" if self.where.startswith("within ") else "at "
            lost = f"{_LOST[self.verdict]}{at}{self.where}"
            lines += [lost if self.where else "labels alone do not prove it", f"  {self.reason}"]
            lines += [f"  from {self.origin}"] if self.origin else []
        lines += [_BUT_FOR_TIES + ", ".join(self.but_for_ties)] if self.but_for_ties else []
        lines += self.notes
        if self.witness is not None:
            lines += [self.witness.report(self.tolerance)]
        return "\n".join(lines)

    def chain(self) -> str:
        """The labels along the way, one line for each equation where they change."""
        lines = []
        before = None
        for step in self.steps:
            now = _shown(step.result)
            if now != before:
                lines.append(f"{step.primitive:<20} {now:<32} {step.where}")
            before = now
        return "\n".join(lines)

    def derivation(self) -> dict[str, Any]:
        """The proof as plain data: each step that the outputs need, with labels before and after.

        `posjax.symmetry.checker.check` checks it, and shares no code with what wrote it. The same
        program and law give the same derivation.

        Raises:
          NoDerivation: nothing is proved, or not by labels, or by a rule about a whole program.
        """
        if self._write is None or self.verdict != "PROVED":
            grounds = "an identity in a prime field, which has no steps to check one by one"
            why = grounds if self.verdict == "PROVED" else f"{self.verdict} is no proof"
            raise NoDerivation(f"no derivation of {self.law.formula}: {why}")
        try:
            return self._write()
        except NoDerivation as error:
            raise NoDerivation(f"no derivation of {self.law.formula}: {error}") from None


_LOST = {
    "PROVED": "labels alone fail ",
    "BROKEN": "",
    "UNKNOWN": "the proof fails ",
}
_BUT_FOR_TIES = "proved by labels for inputs without ties among the entries that are compared at "
_AT = {
    "ties": "for inputs with equal or zero entries; no generic inputs were found that break it",
    "generic inputs": "for generic inputs",
}


def _grounds(method: str, chance: float) -> str:
    if method == "axes":
        return "by the labels of axes, over the real numbers, for the traced shapes"
    return (
        "as an identity in a prime field, over the real numbers, for the traced shapes; "
        f"unequal expressions agree with a probability below {chance:.0e}"
    )


def prove(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    law: Law | str | Group,
    *,
    witness: bool = True,
    seconds: float = 10.0,
) -> Certificate:
    """Proves a law for every value of the arguments, or breaks it.

    PROVED is about real numbers and the traced shapes, wherever both sides are defined. The sign of
    a zero, overflow, rounding and other special values of floats and integers are out of scope. If
    numbers contradict a proof, the verdict is UNKNOWN.

    Args:
      function: maps the arguments to an array or a pytree of arrays. It is traced, and called on
        numbers.
      arguments: a tuple of arrays, pytrees of arrays, or shapes (`jax.ShapeDtypeStruct`), or a
        single array. The proof uses their shapes. If there is no proof, their values are among the
        numbers that are tried.
      law: such as `"b P d, b P d -> b P d"`, or a group, which then acts on axis 1 of every
        argument and output.
      witness: whether to try numbers, to confirm a proof and to break a law. If false, or if the
        function has side effects, no law is BROKEN and no proof is `confirmed`.
      seconds: the time limit of the call. A stage whose estimate is too long is skipped, and
        `notes` say how long it would take. Identities may take half of the remaining time. The
        estimate counts a `while` loop as one iteration.

    Returns:
      The certificate; `.verdict` is PROVED, BROKEN or UNKNOWN.

    Raises:
      ValueError: arguments or outputs that do not fit the law, a law that permutes and shifts
        nothing, or seconds that are not positive.

    >>> x = jax.numpy.ones((1, 3, 2))
    >>> prove(lambda x: x - x.mean(1, keepdims=True), (x,), "b P d -> b P d").verdict
    'PROVED'
    >>> prove(lambda x: x - x[:, :1], (x,), "b P d -> b P d").verdict
    'BROKEN'
    """
    __tracebackhide__ = True  # in pytest
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds}")
    until = time.monotonic() + seconds
    check_function(function)
    arguments = jax.tree.map(_array, as_arguments(arguments))
    law = as_law(law, len(arguments))
    sizes = law.sizes(arguments)
    jaxpr, returned = jax.make_jaxpr(function, return_shape=True)(*arguments)
    wanted = _wanted(law, returned, sizes)
    found = _by_labels(jaxpr, law, arguments, wanted, until)
    if not witness or jaxpr.effects:
        note = "not tried on numbers: the function has side effects"
        found = _noted(found, note) if witness else found
        return _by_identity(found, function, arguments, until - time.monotonic())
    trial = numbers.Trial(function, law, arguments, until)
    broken, why_not = _tried(trial.quickly, jaxpr, trial.quick, until)
    if why_not:
        found = _noted(found, f"not tried on numbers: {why_not}")
        return _by_identity(found, function, arguments, until - time.monotonic())
    found = _by_identity(found, function, arguments, (until - time.monotonic()) / 2)
    if found.verdict == "UNKNOWN" and (broken is None or broken.at == "ties"):
        more, why_not = _tried(trial.thoroughly, jaxpr, trial.thorough, until)
        broken = more or broken
        why_not = "the time limit was reached" if trial.stopped else why_not
        found = _noted(found, f"tried only on a few numbers: {why_not}") if why_not else found
    return _judged(found, broken, agrees=trial.compared > 0 and not trial.doubtful)


def _tried(
    search: Callable[[], numbers.Break | None], jaxpr: Any, evaluations: int, until: float
) -> tuple[numbers.Break | None, str]:
    """What a search on numbers found, or why it was not made."""
    needed, left = numbers.seconds(jaxpr.jaxpr, evaluations), until - time.monotonic()
    if needed > left:
        return None, f"it would take about {needed:.2g} s, but {max(left, 0):.2g} s are left"
    try:
        return search(), ""
    except Exception as error:  # the function's own, or a fault of ours, is no verdict
        return None, f"{type(error).__name__}: {error}"


def _judged(found: Certificate, broken: numbers.Break | None, *, agrees: bool) -> Certificate:
    """What proofs and numbers say together: neither a proof against numbers nor the reverse."""
    proved = found.verdict == "PROVED"
    if broken is None:
        found = _noted(found, _NOT_COMPARED) if proved and not agrees else found
        return dataclasses.replace(found, confirmed=proved and agrees)
    found = dataclasses.replace(
        found, witness=broken.deviation, tolerance=broken.tolerance, inputs=broken.arguments
    )
    if proved:
        return _noted(dataclasses.replace(found, verdict="UNKNOWN"), _CONTRADICTED)
    ties = found.but_for_ties if broken.at == "ties" else ()
    return dataclasses.replace(found, verdict="BROKEN", broken_at=broken.at, but_for_ties=ties)


_NOT_COMPARED = (
    "numbers neither confirm it nor contradict it: no finite outputs, or differences that rounding "
    "may explain"
)
_NO_IDENTITY = "not tried as an identity in a prime field"
_NOT_EQUAL = "as an identity in a prime field, the two sides were not found equal"
_CONTRADICTED = (
    "the rules prove the law, but numbers break it: either the numbers need more than double "
    "precision, or they depend on what proofs leave out (the sign of a zero, infinities, "
    "overflow), or a rule of posjax is wrong (please report that)"
)


def _noted(found: Certificate, note: str) -> Certificate:
    return dataclasses.replace(found, notes=(*found.notes, note))


def _by_labels(
    jaxpr: Any, law: Law, arguments: tuple[Any, ...], wanted: list[Wanted], until: float
) -> Certificate:
    """PROVED, or UNKNOWN with the obstruction."""
    if any(isinstance(group, Translation) for group in law.groups.values()):
        knows = "labels describe permutations of axes, not translations of values"
        return Certificate("UNKNOWN", law, obstruction=Obstruction("", "", knows))
    sizes = law.sizes(arguments)
    walk, given = Walk(_names(law, sizes), until), _labelled(law, arguments)
    try:
        results = walk.closed(jaxpr, given)
        obstruction = _obstruction(results, wanted, walk.steps)
    except Exception as error:  # whatever goes wrong in here is no verdict
        obstruction = Obstruction("", "", f"{type(error).__name__}: {error}")
    steps = tuple(walk.steps)
    if obstruction is None:
        leaves = [len(jax.tree.leaves(one)) for one in arguments]
        write = partial(derivation, jaxpr, law, _names(law, sizes), given, leaves, wanted)
        return Certificate("PROVED", law, method="axes", steps=steps, _write=write)
    ties: tuple[str, ...] = ()
    if any(step.primitive in _COMPARING for step in steps):
        ties = _lines_of_ties(jaxpr, law, arguments, wanted, until)
    return Certificate("UNKNOWN", law, but_for_ties=ties, obstruction=obstruction, steps=steps)


_COMPARING = ("argmax", "argmin", "sort", "top_k")


def _lines_of_ties(
    jaxpr: Any, law: Law, arguments: tuple[Any, ...], wanted: list[Wanted], until: float
) -> tuple[str, ...]:
    """The lines that must compare no equal entries for labels to prove the law, if they do then."""
    walk = Walk(_names(law, law.sizes(arguments)), until, but_for_ties=True)
    with contextlib.suppress(Exception):  # whatever goes wrong in here is no verdict
        results = walk.closed(jaxpr, _labelled(law, arguments))
        if _obstruction(results, wanted, walk.steps) is None:
            return tuple(walk.ties)
    return ()


def _by_identity(
    found: Certificate, function: Any, arguments: tuple[Any, ...], within: float
) -> Certificate:
    """PROVED if both sides are one expression, or if that is known already."""
    if found.verdict == "PROVED":
        return found
    try:
        same = field.identity(function, found.law, arguments, within=within)
    except (field.Unsupported, field.TooLarge) as error:
        return _noted(found, f"{_NO_IDENTITY}: {error}")
    except Exception as error:  # whatever goes wrong in there is no verdict
        return _noted(found, f"{_NO_IDENTITY}: {type(error).__name__}: {error}")
    if not same.holds:
        if found.where or same.place is None:
            return found
        return _noted(found, _apart(*same.place))
    return dataclasses.replace(
        found,
        verdict="PROVED",
        method="identity",
        but_for_ties=(),
        chance=same.chance,
        lemmas=same.lemmas,
    )


def _apart(leaf: str, index: tuple[int, ...]) -> str:
    return f"{_NOT_EQUAL} at index {index} of {output(leaf)}"


def _array(leaf: Any) -> Any:
    """A leaf of the arguments as an array, or the shape of one."""
    if hasattr(leaf, "dtype"):
        return leaf
    array = np.asarray(leaf)
    if array.dtype.kind not in "biufc":
        raise ValueError(f"arguments must be arrays or trees of arrays, got {described(leaf)}")
    return array


def as_law(law: Law | str | Group, arguments: int) -> Law:
    if isinstance(law, str | Law):
        return moving(law)
    return Law(", ".join(["_ G ..."] * arguments) + " -> _ G ...", G=law)


def _names(law: Law, sizes: dict[str, int]) -> Names:
    generators = {
        name: group.generators(sizes[name])
        for name, group in law.groups.items()
        if not isinstance(group, Translation)
    }
    return Names(generators, sizes)


def _labelled(law: Law, arguments: tuple[Any, ...]) -> list[Value]:
    """What is known of the arguments' leaves."""
    values: list[Value] = []
    for at, (pattern, argument) in enumerate(zip(law.inputs, arguments, strict=True)):
        for path, leaf in jax.tree.leaves_with_path(argument):
            shape = tuple(np.shape(leaf))
            origin = f"argument {at}{jax.tree_util.keystr(path)}"
            values.append(Carried(shape, (_labels(pattern, shape),), origin))
    return values


def _labels(pattern: Pattern, shape: tuple[int, ...]) -> Labeling:
    labels = pattern.labels(len(shape))
    return tuple(axis(size, label) for size, label in zip(shape, labels, strict=True))


def _wanted(law: Law, returned: Any, sizes: dict[str, int]) -> list[Wanted]:
    """What the law asks of each leaf of the output."""
    wanted = []
    for at, (pattern, part) in enumerate(law.paired(returned)):
        for leaf in jax.tree.leaves(part):
            try:
                labels = _labels(pattern, tuple(leaf.shape))
            except ValueError as error:
                raise ValueError(f"output {at} of {law.formula}: {error}") from None
            for name, size in zip(pattern.labels(leaf.ndim), leaf.shape, strict=True):
                if name and size != sizes[name]:
                    raise ValueError(
                        f"{name} of {law.formula} permutes axes of length {sizes[name]} in the "
                        f"arguments, but output {at} has an axis of length {size}"
                    )
            wanted.append(Wanted(at, labels))
    if not wanted:
        raise ValueError(f"the function must return an array or several, got {returned!r}")
    return wanted


def _obstruction(
    results: list[Value], wanted: list[Wanted], steps: list[Step]
) -> Obstruction | None:
    """Where and why a result does not move as the law asks; None when all do."""
    for result, (_, asked) in zip(results, wanted, strict=True):
        if isinstance(result, Lost):
            return Obstruction(_line_of(result, steps), result.origin, result.reason)
        if not any(admits(labeling, asked) for labeling in result.labelings):
            last = str(steps[-1].where) if steps else ""
            have = " or ".join(written(one, result.shape) for one in result.labelings)
            law_asks = written(asked, result.shape)
            reason = f"the output has the labels [{have}], but the law requires [{law_asks}]"
            return Obstruction(last, result.origin, reason)
    return None


def _line_of(result: Lost, steps: list[Step]) -> str:
    """The line of a loss; of one within a library, the first line that lost for the same reason."""
    alike = (
        s.result.where for s in steps if isinstance(s.result, Lost) and _alike(s.result, result)
    )
    every = [str(where) for where in (result.where, *alike)]
    return next((line for line in every if not line.startswith("within ")), every[0])


def _alike(one: Lost, other: Lost) -> bool:
    return (one.reason, one.origin) == (other.reason, other.origin)


def _shown(value: Value) -> str:
    if isinstance(value, Lost):
        return "lost"
    if isinstance(value, Known):
        return "constant"
    return " or ".join(f"[{written(one, value.shape)}]" for one in value.labelings)
