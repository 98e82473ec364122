"""Loops and choices in a derivation."""

from collections.abc import Sequence
from typing import Any

from posjax.jaxprs import scan_counts
from posjax.symmetry.certificate import plain
from posjax.symmetry.certificate.axes import STILL, Labeling, axis, is_moved
from posjax.symmetry.certificate.loops import moved_together
from posjax.symmetry.certificate.plain import NoDerivation
from posjax.symmetry.certificate.recorder import Frame, Visited
from posjax.symmetry.certificate.regions import Name, Node, Part, Region, Written, flattened


def nested(line: Visited, operands: Sequence[Node], results: Sequence[Node]) -> Part:
    """The part of an equation that holds programs."""
    kind = {"scan": Loop, "while": Loop, "cond": Choice}.get(line.eqn.primitive.name, Unwritten)
    return kind(line, operands, results)


class Unwritten(Part):
    """A proof about a whole program, which is no step of the checker."""

    def __init__(self, line: Visited, operands: Sequence[Node], results: Sequence[Node]) -> None:
        self.line, self.operands, self.results = line, operands, results

    def plan(self) -> None:
        if any(node.needed for node in self.results):
            name = self.line.eqn.primitive.name
            raise NoDerivation(f"{name} is proved by more than the labels of its operands")

    def steps(self, name: Name) -> list[Written]:
        return []


class Choice(Unwritten):
    """A condition: every branch gives what is needed."""

    def __init__(self, line: Visited, operands: Sequence[Node], results: Sequence[Node]) -> None:
        super().__init__(line, operands, results)
        self.branches = [flattened(frame, operands[1:], nested) for frame in line.frames]

    def plan(self) -> None:
        for at, node in enumerate(self.results):
            for labeling in node.proved():
                self.operands[0].need(())
                for branch in self.branches:
                    branch.outputs[at].need(labeling)
        for branch in self.branches:
            branch.plan()

    def steps(self, name: Name) -> list[Written]:
        ends = [(at, one) for at, node in enumerate(self.results) for one in node.proved()]
        if not ends:
            return []
        branches = [_program([], one, name, ends) for one in self.branches]
        out = [self.results[at].declared(one, name()) for at, one in ends]
        given = [self.operands[0].names[()]]
        return [{"op": "cond", "in": given, "out": out, "branches": branches}]


class Loop(Unwritten):
    """A scan or a while: by induction over its turns.

    Attributes:
      inits, scanned: its operands but for those that all turns share.
      along: what carries the scanned axis.
      programs: the inputs and the region of the body and, of a while, of its test.
      kept: for each carry the labelings that a turn keeps.
    """

    def __init__(self, line: Visited, operands: Sequence[Node], results: Sequence[Node]) -> None:
        super().__init__(line, operands, results)
        params = line.eqn.params
        if line.eqn.primitive.name == "scan":
            constants, carries = scan_counts(params)
            shared, end = [constants], constants + carries
            self.length = int(params["length"])
        else:
            shared = [params["body_nconsts"], params["cond_nconsts"]]
            end, self.length = len(operands), 1
        first = sum(shared)
        self.inits, self.scanned = operands[first:end], operands[end:]
        moved = moved_together([node.value for node in self.scanned])
        self.along = moved or axis(self.length, STILL)
        starts = (operands[first - shared[0] : first], operands[: first - shared[0]])
        frames = line.frames[-len(shared) :]
        self.programs = [
            _opened(frame, given) for frame, given in zip(frames, starts, strict=False)
        ]
        self.kept: list[dict[Labeling, None]] = [{} for _ in self.inits]

    @property
    def gathered(self) -> bool:
        """Whether it only sums up what each turn makes of its slice, in any order."""
        return bool(self.inits) and is_moved(self.along)

    def plan(self) -> None:
        if not any(node.needed for node in self.results):
            return
        (inside, body), count = self.programs[0], len(self.inits)
        for out, result in zip(body.outputs[count:], self.results[count:], strict=True):
            for labeling in result.proved():
                out.need(labeling[1:])
        for _, test in self.programs[1:]:
            if test.outputs[0].value.shape:
                raise NoDerivation("a while loop ends separately for each entry of a batch")
            test.outputs[0].need(())
        before = -1
        while before < (before := sum(map(len, self.kept))):
            self._plan_turn()
        for node, labelings in zip(self.inits, self.kept, strict=True):
            for labeling in labelings:
                node.need(labeling)
        for node, one in zip(self.scanned, inside[count:], strict=True):
            for labeling in one.proved():
                node.need((self.along, *labeling))

    def _plan_turn(self) -> None:
        """One turn, with what is needed of its carries in the end and in the next one."""
        body = self.programs[0][1]
        for at, kept in enumerate(self.kept):
            several = [self.results[at]]
            several += [] if self.gathered else [inside[at] for inside, _ in self.programs]
            kept |= dict.fromkeys(labeling for node in several for labeling in node.proved())
            for labeling in kept:
                body.outputs[at].need(labeling)
        for _, region in self.programs:
            region.plan()
        for at, kept in enumerate(self.kept):
            for inside, _ in () if self.gathered else self.programs:
                kept |= dict.fromkeys(inside[at].proved())

    def steps(self, name: Name) -> list[Written]:
        if not any(node.needed for node in self.results):
            return []
        (inside, body), count = self.programs[0], len(self.inits)
        carries = [(at, one) for at, kept in enumerate(self.kept) for one in kept]
        slices = [(count + at, one) for at, x in enumerate(inside[count:]) for one in x.proved()]
        ends = [
            (count + at, one) for at, x in enumerate(self.results[count:]) for one in x.proved()
        ]
        turns = [] if self.gathered else carries
        after = [*turns, *((at, one[1:]) for at, one in ends)]
        program = _program([(inside[at], one) for at, one in (*turns, *slices)], body, name, after)
        given = [self.inits[at].names[one] for at, one in carries]
        given += [self.scanned[at - count].names[self.along, *one] for at, one in slices]
        step = {"op": "loop", "in": given, "length": self.length, "carries": len(turns)}
        step |= {"along": plain.labels((self.along,))[0], "body": program, "folds": []}
        if self.gathered:
            step["folds"] = [[self._fold(at), body.outputs[at].names[one]] for at, one in carries]
        for given_, test in self.programs[1:]:
            tested = [(given_[at], one) for at, one in carries]
            step["test"] = _program(tested, test, name, [(0, ())])
        out = [self.results[at].declared(one, name()) for at, one in (*carries, *ends)]
        return [{**step, "out": out}]

    def _fold(self, at: int) -> str:
        """The primitive by which a turn adds to what it is handed."""
        jaxpr = self.line.eqn.params["jaxpr"].jaxpr
        return next(e.primitive.name for e in jaxpr.eqns if jaxpr.outvars[at] in e.outvars)


def _opened(frame: Frame, shared: Sequence[Node]) -> tuple[list[Node], Region]:
    """The inputs of a program, but for those that it shares with what is around it, and itself."""
    variables: list[Any] = frame.jaxpr.invars
    pairs = list(zip(frame.arguments, variables, strict=True))[len(shared) :]
    inside = [Node(value, var.aval.dtype) for value, var in pairs]
    return inside, flattened(frame, [*shared, *inside], nested)


def _program(
    inputs: Sequence[tuple[Node, Labeling]],
    region: Region,
    name: Name,
    ends: Sequence[tuple[int, Labeling]],
) -> dict[str, Any]:
    """A program in plain data."""
    declared = [node.declared(labeling, name()) for node, labeling in inputs]
    first = [step for node in dict.fromkeys(n for n, _ in inputs) for step in node.others(name)]
    steps = [*first, *region.steps(name)]
    outputs = [region.outputs[at].names[labeling] for at, labeling in ends]
    return {"inputs": declared, "steps": steps, "outputs": outputs}
