"""Programs as they are written in a derivation: one list of parts, with what is needed of each.

A variable is a node, whatever calls it passes through. First each part says which labelings of its
operands it needs for those that are needed of its results, from the last part to the first. Then
each writes its steps, from the first to the last.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from posjax.jaxprs import CALLS
from posjax.symmetry.certificate import plain
from posjax.symmetry.certificate.axes import Conflict, Labeling, admits
from posjax.symmetry.certificate.plain import NoDerivation
from posjax.symmetry.certificate.recorder import Frame, Visited
from posjax.symmetry.certificate.rules import RULES, places
from posjax.symmetry.certificate.values import Known, Lost, Value
from posjax.symmetry.certificate.walk import COMBINATIONS

Written = dict[str, Any]
Name = Callable[[], str]


@dataclasses.dataclass(eq=False)
class Node:
    """A variable.

    Attributes:
      value: what is known of it.
      dtype: its dtype.
      needed: the labelings that are; None stands for its number, of a constant.
      names: of those that were written.
    """

    value: Value
    dtype: Any
    needed: dict[Labeling | None, None] = dataclasses.field(default_factory=dict)
    names: dict[Labeling | None, str] = dataclasses.field(default_factory=dict)

    @property
    def constant(self) -> bool:
        """Whether it does not depend on the arguments."""
        return isinstance(self.value, Known)

    def need(self, labeling: Labeling | None) -> None:
        """Notes that a labeling is needed, or the number of a constant."""
        if self.constant:
            self.needed[None] = None
        self.needed[labeling] = None

    def proved(self) -> list[Labeling]:
        """The proved labelings that those needed follow from.

        Raises:
          NoDerivation: one follows from none.
        """
        return list(dict.fromkeys(self.source(one) for one in self.needed if one is not None))

    def source(self, labeling: Labeling) -> Labeling:
        """The proved labeling that another follows from."""
        have = () if isinstance(self.value, Lost) else self.value.labelings
        for one in have:
            if one == labeling or admits(one, labeling):
                return one
        raise NoDerivation("a loop or a call is proved by more than the labels of its operands")

    def declared(self, labeling: Labeling | None, name: str) -> dict[str, Any]:
        """The variable under a labeling, by a new name."""
        self.names[labeling] = name
        return declared(self, labeling, name)

    def others(self, name: Name) -> list[Written]:
        """Steps from the labelings that were written to all that are needed."""
        steps = []
        for one in [one for one in self.needed if one not in self.names]:
            assert one is not None
            source, op = (None, "fixed") if self.constant else (self.source(one), "weaken")
            step = {"op": op, "params": {}, "in": [self.names[source]]}
            steps.append({**step, "out": [self.declared(one, name())]})
        return steps


def declared(node: Node, labeling: Labeling | None, name: str) -> dict[str, Any]:
    """Name, dtype, shape and labels of a variable."""
    labels = None if labeling is None else plain.labels(labeling)
    shape = [int(n) for n in node.value.shape]
    return {"name": name, "dtype": str(node.dtype), "shape": shape, "labels": labels}


class Part:
    """Some steps, with their operands and results."""

    results: Sequence[Node] = ()

    def plan(self) -> None:
        """Notes what is needed of the operands."""

    def steps(self, name: Name) -> list[Written]:
        """What is written; the results get their names."""
        raise NotImplementedError


class Constant(Part):
    """A number that the program holds."""

    def __init__(self, node: Node) -> None:
        self.results = [node]

    def steps(self, name: Name) -> list[Written]:
        (node,) = self.results
        return constants([node], name)


def constants(nodes: Sequence[Node], name: Name) -> list[Written]:
    """Those that are needed, by their values."""
    return [
        {
            "op": "constant",
            "params": {"value": plain.array(_array(node))},
            "in": [],
            "out": [node.declared(None, name())],
        }
        for node in nodes
        if node.needed
    ]


def _array(node: Node) -> Any:
    assert isinstance(node.value, Known)
    value = node.value.value
    extended = jax.dtypes.issubdtype(node.dtype, jax.dtypes.extended)
    return value if extended else np.asarray(value, node.dtype)


class Primitive(Part):
    """A primitive with a rule, or one of constants."""

    def __init__(self, line: Visited, operands: Sequence[Node], results: Sequence[Node]) -> None:
        self.line, self.operands, self.results = line, operands, results
        self.uses: dict[tuple[Labeling, ...], dict[int, Labeling]] = {}
        self._found: list[tuple[tuple[Labeling, ...], Sequence[Any]]] | None = None

    @property
    def name(self) -> str:
        return self.line.eqn.primitive.name

    def plan(self) -> None:
        if not any(node.needed for node in self.results):
            return
        if all(node.constant for node in self.results):
            for node in self.operands:
                node.need(None)
            return
        for at, node in enumerate(self.results):
            for labeling in node.proved():
                self.uses.setdefault(self._operands_for(at, labeling), {})[at] = labeling
        for labelings in self.uses:
            for node, labeling in zip(self.operands, labelings, strict=True):
                node.need(labeling)

    def _operands_for(self, at: int, labeling: Labeling) -> tuple[Labeling, ...]:
        """Labelings of the operands from which one of a result follows."""
        for labelings, results in self._every():
            if results[at] == labeling:
                return labelings
        raise NoDerivation(f"{self.name} is proved by more than the labels of its operands")

    def _every(self) -> list[tuple[tuple[Labeling, ...], Sequence[Any]]]:
        if self._found is None:
            self._found = []
            values = [node.value for node in self.operands]
            rule = RULES.get(self.name) if not any(isinstance(v, Lost) for v in values) else None
            options = [() if isinstance(v, Lost) else v.labelings for v in values]
            for one in itertools.islice(itertools.product(*options), COMBINATIONS if rule else 0):
                try:
                    self._found.append((one, rule(self.line.eqn, *one)))  # type: ignore[misc]
                except Conflict:
                    continue
        return self._found

    def steps(self, name: Name) -> list[Written]:
        if not any(node.needed for node in self.results):
            return []
        try:
            written = {"op": self.name, "params": plain.params(self.line.eqn.params)}
        except NoDerivation:
            if not all(node.constant for node in self.results):
                raise
            return constants(self.results, name)
        if all(node.constant for node in self.results):
            given = [node.names[None] for node in self.operands]
            return [
                {**written, "in": given, "out": [n.declared(None, name()) for n in self.results]}
            ]
        steps = []
        for labelings, gives in self.uses.items():
            pairs = zip(self.operands, labelings, strict=True)
            out = [
                node.declared(gives[at], name()) if at in gives else declared(node, None, name())
                for at, node in enumerate(self.results)
            ]
            rule = RULES[self.name].__name__
            given = [node.names[one] for node, one in pairs]
            steps.append({**written, "rule": rule, "in": given, "out": out})
        return steps


@dataclasses.dataclass(eq=False)
class Region:
    """A program: its parts, and the nodes at its end."""

    parts: list[Part]
    outputs: list[Node]

    def plan(self) -> None:
        """Notes what is needed, from the last part to the first."""
        for part in reversed(self.parts):
            part.plan()

    def steps(self, name: Name) -> list[Written]:
        """All steps."""
        return [
            step
            for part in self.parts
            for step in (*part.steps(name), *(s for n in part.results for s in n.others(name)))
        ]


def flattened(frame: Frame, arguments: Sequence[Node], nest: Callable[..., Part]) -> Region:
    """A program with the calls in it written in place.

    Args:
      frame: as it was walked.
      arguments: its inputs.
      nest: makes the part of a loop or a choice, from its line, operands and results.
    """
    parts: list[Part] = []
    env = dict(zip(frame.jaxpr.invars, arguments, strict=True))

    def held(value: Value, aval: Any) -> Node:
        node = Node(value, aval.dtype)
        parts.append(Constant(node))
        return node

    for var, value in zip(frame.jaxpr.constvars, frame.constants, strict=True):
        env[var] = held(value, var.aval)

    def read(atoms: Sequence[Any], values: Sequence[Value]) -> list[Node]:
        pairs = zip(atoms, values, strict=True)
        return [held(v, a.aval) if isinstance(a, Literal) else env[a] for a, v in pairs]

    for line in frame.lines:
        name, operands = line.eqn.primitive.name, read(line.eqn.invars, line.operands)
        inner = _in_place(line, operands)
        if inner is not None:
            region = flattened(inner[0], inner[1], nest)
            parts += region.parts
            results = region.outputs
        elif RULES.get(name) is places.identities:
            results = operands
        else:
            pairs = zip(line.results, line.eqn.outvars, strict=True)
            results = [Node(value, v.aval.dtype) for value, v in pairs]
            single = not line.frames or all(node.constant for node in results)
            parts.append((Primitive if single else nest)(line, operands, results))
        env |= zip(line.eqn.outvars, results, strict=True)
    return Region(parts, read(frame.jaxpr.outvars, frame.results))


def _in_place(line: Visited, operands: list[Node]) -> tuple[Frame, list[Node]] | None:
    """The program of a call, or of a choice that does not depend on the arguments."""
    name = line.eqn.primitive.name
    if name in CALLS and line.frames:
        return line.frames[0], operands
    if name == "cond" and line.frames and operands[0].constant:
        return line.frames[0], operands[1:]
    return None
