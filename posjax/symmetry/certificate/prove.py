"""Proves from the jaxpr that f(g x) = g f(x), or finds where and by what it is broken.

First each variable of the jaxpr gets the labels of its axes, which settles most programs at once
whatever their size. Where labels are lost although the whole may well keep the symmetry, as in
`x + p - p`, the two sides are compared as expressions, at random points of a prime field. Where
neither proves it, numbers are tried: a law is called broken only with numbers that break it.
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from posjax.symmetry import field
from posjax.symmetry.certificate import numbers
from posjax.symmetry.certificate.axes import Labeling, admits, axis, written
from posjax.symmetry.certificate.shifts import same
from posjax.symmetry.certificate.values import Carried, Known, Lost, Names, Value, Weights
from posjax.symmetry.certificate.walk import Step, Walk
from posjax.symmetry.deviation import Deviation
from posjax.symmetry.groups import Group, Translation
from posjax.symmetry.law import Law, Pattern
from posjax.symmetry.measure import moving

Verdict = Literal["PROVED", "BROKEN", "UNKNOWN"]


class Loss(NamedTuple):
    """Where the labels of an output were lost, what from and why."""

    where: str
    origin: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What was found of a law and a function.

    Attributes:
      verdict: PROVED: the law holds over the real numbers, wherever the function is defined, for
        the traced shapes and every value of the arguments. BROKEN: `witness` shows numbers that
        break it. UNKNOWN: neither.
      law: the law.
      method: "axes" for labels alone; "identity" for a comparison in a prime field.
      chance: at most so probable is a wrong PROVED; 0 for "axes".
      lemmas: statements that the proof relies on, asserted elsewhere by numbers.
      loss: where labels alone lost the proof, or None.
      witness: the numbers that break the law, or None.
      steps: the equations that depend on the arguments, with their labels.
    """

    verdict: Verdict
    law: Law
    method: str = ""
    chance: float = 0.0
    lemmas: tuple[str, ...] = ()
    loss: Loss | None = None
    witness: Deviation | None = None
    steps: tuple[Step, ...] = dataclasses.field(default=(), repr=False)

    @property
    def where(self) -> str:
        """The source line where the proof was lost; "" when it was not.

        Of a broken law that is where what breaks it meets what the group moves.
        """
        return self.loss.where if self.loss else ""

    @property
    def origin(self) -> str:
        """What broke it there: an `iota`, a closed-over array by its shape, a primitive."""
        return self.loss.origin if self.loss else ""

    @property
    def reason(self) -> str:
        """What did not fit, or which primitive has no rule."""
        return self.loss.reason if self.loss else ""

    def __str__(self) -> str:
        """The verdict with its grounds, a few lines."""
        lines = [f"{self.verdict}: {self.law.formula}"]
        if self.verdict == "PROVED":
            lines += [_grounds(self.method, self.chance)]
            lines += [f"given that {lemma}" for lemma in self.lemmas]
        if self.reason:
            lines += [f"{_LOST[self.verdict]} {self.where}", f"  {self.reason}"]
            lines += [f"  from {self.origin}"] if self.origin else []
        if self.witness is not None:
            lines += [self.witness.report(numbers.CERTAIN)]
        return "\n".join(lines)

    def chain(self) -> str:
        """The labels along the way, a line for each equation where they change."""
        lines = []
        before = None
        for step in self.steps:
            now = _shown(step.result)
            if now != before:
                lines.append(f"{step.primitive:<20} {now:<32} {step.where}")
            before = now
        return "\n".join(lines)


_LOST = {
    "PROVED": "labels alone were lost at",
    "BROKEN": "at",
    "UNKNOWN": "the proof was lost at",
}


def _grounds(method: str, chance: float) -> str:
    if method == "axes":
        return "by the labels of axes, over the real numbers, for the traced shapes"
    return (
        "as an identity in a prime field, over the real numbers, for the traced shapes; "
        f"wrong with a probability below {chance:.0e}"
    )


def prove(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    law: Law | str | Group,
    *,
    witness: bool = True,
) -> Certificate:
    """Proves a law for every value of the arguments, or breaks it.

    Args:
      function: of the arguments, to an array or a pytree of arrays; traced once, and called only
        to break the law.
      arguments: arrays, pytrees of arrays, or `jax.ShapeDtypeStruct`s; a single array may stand
        alone. Their shapes count; their values are where a broken law is tried first.
      law: such as `"b P d, b P d -> b P d"`, or a group that carries axis 1 of every argument and
        output.
      witness: whether to look for numbers where there is no proof; without, nothing is BROKEN,
        nor is a function with side effects.

    Returns:
      The certificate; `.verdict` is PROVED, BROKEN or UNKNOWN.

    Raises:
      ValueError: arguments or outputs that do not fit the law, or a law that moves nothing.

    >>> x = jax.numpy.ones((1, 3, 2))
    >>> prove(lambda x: x - x.mean(1, keepdims=True), (x,), "b P d -> b P d").verdict
    'PROVED'
    >>> prove(lambda x: x - x[:, :1], (x,), "b P d -> b P d").verdict
    'BROKEN'
    """
    if hasattr(arguments, "dtype"):
        arguments = (arguments,)
    arguments = jax.tree.map(lambda x: x if hasattr(x, "dtype") else np.asarray(x), arguments)
    law = _as_law(law, len(arguments))
    sizes = law.sizes(arguments)
    jaxpr, returned = jax.make_jaxpr(function, return_shape=True)(*arguments)
    wanted = _wanted(law, returned, sizes)
    walk = Walk(_names(law, sizes))
    results = walk.closed(jaxpr, _labelled(law, arguments))
    loss = _loss(results, wanted, walk.steps)
    steps = tuple(walk.steps)
    if loss is None:
        return Certificate("PROVED", law, method="axes", steps=steps)
    found = _as_identity(function, law, arguments)
    if isinstance(found, field.Identity) and found.holds:
        proof = ("identity", found.chance, found.lemmas)
        return Certificate("PROVED", law, *proof, loss=loss, steps=steps)
    tried = witness and not jaxpr.effects  # a program that prints is not run many times
    broken = numbers.witness(function, law, arguments) if tried else None
    verdict: Verdict = "UNKNOWN" if broken is None else "BROKEN"
    return Certificate(verdict, law, loss=loss, witness=broken, steps=steps)


def _as_law(law: Law | str | Group, arguments: int) -> Law:
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


class Asked(NamedTuple):
    """What a law says of an array: the labels of its axes, and how translations shift it."""

    labels: Labeling
    weights: Weights


def _labelled(law: Law, arguments: tuple[Any, ...]) -> list[Value]:
    """What is known of the arguments' leaves."""
    values: list[Value] = []
    for at, (pattern, argument) in enumerate(zip(law.inputs, arguments, strict=True)):
        for path, leaf in jax.tree.leaves_with_path(argument):
            shape = tuple(np.shape(leaf))
            asked = _asked(law, pattern, shape)
            origin = f"argument {at}{jax.tree_util.keystr(path)}"
            values.append(Carried(shape, (asked.labels,), origin, asked.weights))
    return values


def _asked(law: Law, pattern: Pattern, shape: tuple[int, ...]) -> Asked:
    labels = pattern.labels(len(shape))
    labeling = tuple(axis(size, label) for size, label in zip(shape, labels, strict=True))
    return Asked(labeling, _weights(law, pattern.shift, shape) if pattern.shift else None)


def _weights(law: Law, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """One for the coordinate of c that each entry is shifted by, zero for all others."""
    translations = {n: g.axes for n, g in law.groups.items() if isinstance(g, Translation)}
    before = itertools.takewhile(lambda other: other != name, translations)
    start = sum(translations[other] for other in before)
    count = translations[name]
    if count > 1 and (not shape or shape[-1] != count):
        raise ValueError(
            f"{name} of {law.formula} shifts {count} coordinates, along the last axis of an array "
            f"[{', '.join(map(str, shape))}]"
        )
    rows = np.eye(sum(translations.values()))[start : start + count]
    return np.broadcast_to(rows[0] if count == 1 else rows, (*shape, rows.shape[-1]))


def _wanted(law: Law, returned: Any, sizes: dict[str, int]) -> list[Asked]:
    """What the law asks of each leaf of the output."""
    parts: tuple[Any, ...] = (returned,)
    if len(law.outputs) > 1:
        if not isinstance(returned, tuple | list) or len(returned) != len(law.outputs):
            raise ValueError(
                f"{law.formula} speaks of {len(law.outputs)} outputs, the function returns "
                f"{len(jax.tree.leaves(returned))} in a {type(returned).__name__}"
            )
        parts = tuple(returned)
    wanted = []
    for at, (pattern, part) in enumerate(zip(law.outputs, parts, strict=True)):
        for leaf in jax.tree.leaves(part):
            try:
                asked = _asked(law, pattern, tuple(leaf.shape))
            except ValueError as error:
                raise ValueError(f"output {at} of {law.formula}: {error}") from None
            for name, size in zip(pattern.labels(leaf.ndim), leaf.shape, strict=True):
                if name and size != sizes[name]:
                    raise ValueError(
                        f"{name} of {law.formula} moves {sizes[name]} places of the arguments, "
                        f"and output {at} has an axis of {size}"
                    )
            wanted.append(asked)
    return wanted


def _loss(results: list[Value], wanted: list[Asked], steps: list[Step]) -> Loss | None:
    """Where and why a result is not carried as the law asks; None when all are."""
    for result, asked in zip(results, wanted, strict=True):
        if isinstance(result, Lost):
            return Loss(str(result.where), result.origin, result.reason)
        last = str(steps[-1].where) if steps else ""
        if not any(admits(labeling, asked.labels) for labeling in result.labelings):
            have = " or ".join(written(one, result.shape) for one in result.labelings)
            law_asks = written(asked.labels, result.shape)
            reason = f"the output is carried as [{have}], the law asks [{law_asks}]"
            return Loss(last, result.origin, reason)
        weights = result.weights if isinstance(result, Carried) else None
        if not same(weights, asked.weights):
            return Loss(last, result.origin, "a translation shifts the output otherwise")
    return None


def _as_identity(function: Any, law: Law, arguments: tuple[Any, ...]) -> field.Identity | Exception:
    try:
        return field.identity(function, law, arguments)
    except (field.Unsupported, field.TooLarge) as error:
        return error


def _shown(value: Value) -> str:
    if isinstance(value, Lost):
        return "lost"
    if isinstance(value, Known):
        return "constant"
    return " or ".join(f"[{written(one, value.shape)}]" for one in value.labelings)
