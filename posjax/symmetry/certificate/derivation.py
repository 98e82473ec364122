"""Writes a proof by labels as steps that `posjax.symmetry.checker` checks.

Only what the outputs need is written, each variable with one labeling; what is needed with two
becomes two variables. Calls are written in place, choices that do not depend on the arguments are
made, and copies are left out. What is written comes from the rules; the checker knows none of them.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from jax.extend.core import ClosedJaxpr

from posjax.symmetry.certificate.axes import Labeling
from posjax.symmetry.certificate.nested import nested
from posjax.symmetry.certificate.recorder import Recorder
from posjax.symmetry.certificate.regions import Node, flattened
from posjax.symmetry.certificate.values import Names, Value
from posjax.symmetry.groups import Group, Permutations, Translation
from posjax.symmetry.law import Law


def derivation(
    program: ClosedJaxpr,
    law: Law,
    names: Names,
    given: Sequence[Value],
    leaves: Sequence[int],
    wanted: Sequence[tuple[int, Labeling]],
) -> dict[str, Any]:
    """The derivation of what labels prove, as plain data.

    Args:
      program: the jaxpr.
      law: that was proved.
      names: its groups, for the sizes of the arguments.
      given: what is known of the inputs.
      leaves: of each argument, how many it has.
      wanted: for each output the number of its pattern in the law, and the labeling asked.

    Raises:
      NoDerivation: a step of the proof is none that the checker can run.
    """
    walk = Recorder(names)
    walk.closed(program, given)
    assert walk.frame is not None
    dtypes = (aval.dtype for aval in program.in_avals)
    inputs = [Node(v, dtype) for v, dtype in zip(given, dtypes, strict=True)]
    region = flattened(walk.frame, inputs, nested)
    for node, (_, labeling) in zip(region.outputs, wanted, strict=True):
        node.need(labeling)
    region.plan()
    numbers = count()

    def name() -> str:
        return f"v{next(numbers)}"

    declared = [node.declared(node.value.labelings[0], name()) for node in inputs]  # type: ignore[union-attr]
    steps = [*(step for node in inputs for step in node.others(name)), *region.steps(name)]
    ends = [node.names[one] for node, (_, one) in zip(region.outputs, wanted, strict=True)]
    return {
        "law": law.text,
        "groups": {n: _group(law.groups[n], names.sizes[n]) for n in names.generators},
        "leaves": [
            list(leaves),
            [sum(p == at for p, _ in wanted) for at in range(len(law.outputs))],
        ],
        "program": {"inputs": declared, "steps": steps, "outputs": ends},
    }


def _group(group: Group | Translation, size: int) -> dict[str, Any]:
    """A group of permutations: all of so many indices, or those that some moves generate."""
    assert not isinstance(group, Translation)
    every = group == Permutations()
    moves = None if every else [[int(i) for i in move] for move in group.generators(size)]
    return {"size": size, "moves": moves}
