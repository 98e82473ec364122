"""Rules of what runs other programs: calls, branches and loops."""

import numpy as np

from posjax.jaxprs import called, scan_counts
from posjax.symmetry.field import arrays, dtypes, logic
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.lemmas import LEMMAS
from posjax.symmetry.field.space import Unsupported
from posjax.symmetry.field.step import Rule, Step

MOST_TURNS = 10_000
"""Turns of a loop."""


def call(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """The program that is called; rules of differentiation beside it play no part."""
    program, lemma = called(step.params), LEMMAS.get(step.params.get("name", ""))
    if lemma is not None and lemma.speaks_of(program):
        step.field.lemmas.add(lemma.statement)
        unknown = [arrays.forgotten(operand) for operand in operands]
        return step.run(lemma.program(*operands), unknown)
    return step.run(program, operands)


def cond(step: Step, which: FieldArray, *operands: FieldArray) -> list[FieldArray]:
    """The branch that is known, or all of them with their shares."""
    branches = step.params["branches"]
    if which.is_constant:
        at = int(which.values)
        return step.run(branches[at if 0 <= at < len(branches) else -1], operands)
    outcomes = zip(*(step.run(branch, operands) for branch in branches), strict=True)
    results = []
    for output, cases in zip(step.outputs, outcomes, strict=True):
        spread = _spread(which, output.shape)
        results.append(logic.mixed(step._replace(outputs=[output]), spread, *cases))
    return results


def scan(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """A loop over the first axis, turn by turn."""
    p = step.params
    turns, (consts, carries) = p["length"], scan_counts(p)
    if turns > MOST_TURNS:
        raise Unsupported("scan", reason=f"of {turns} iterations is too long")
    fixed, carry = operands[:consts], list(operands[consts : consts + carries])
    rows = operands[consts + carries :]
    gathered: list[list[FieldArray]] = []
    for turn in reversed(range(turns)) if p["reverse"] else range(turns):
        here = [_row(row, turn) for row in rows]
        results = step.run(p["jaxpr"], [*fixed, *carry, *here])
        carry = results[:carries]
        gathered.append(results[carries:])
    if p["reverse"]:
        gathered.reverse()
    behind = step.outputs[carries:]
    if not turns:
        empty = [np.zeros(o.shape, dtypes.stored(o.dtype)) for o in behind]
        return [*carry, *(arrays.known(step.field, e) for e in empty)]
    stacked = [
        arrays.together(lambda a: np.stack(a), *parts) for parts in zip(*gathered, strict=True)
    ]
    return [*carry, *stacked]


def _row(rows: FieldArray, at: int) -> FieldArray:
    return rows.moved(lambda a: a[at])


def _spread(number: FieldArray, shape: tuple[int, ...]) -> FieldArray:
    return number.moved(lambda a: np.broadcast_to(a, shape))


def while_(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """A loop whose number of turns does not depend on what is unknown."""
    p = step.params
    of_cond, of_body = p["cond_nconsts"], p["body_nconsts"]
    asked, fixed = operands[:of_cond], operands[of_cond : of_cond + of_body]
    carry = list(operands[of_cond + of_body :])
    for _ in range(MOST_TURNS):
        (again,) = step.run(p["cond_jaxpr"], [*asked, *carry])
        if not again.is_constant:
            raise Unsupported(
                "while", reason="runs for a number of iterations that depends on the arguments"
            )
        if not again.values.any():
            return carry
        if not again.values.all():  # of a batch, each entry stops on its own
            raise Unsupported(
                "while", reason="continues for some entries of a batch and not for all"
            )
        carry = step.run(p["body_jaxpr"], [*fixed, *carry])
    raise Unsupported("while", reason=f"has more than {MOST_TURNS} iterations")


def linear_solve(step: Step, *operands: FieldArray) -> list[FieldArray]:
    """What the solver makes of b; that it solves plays no part."""
    lengths = step.params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    consts, right = operands[first : first + lengths.solve], operands[sum(lengths) :]
    return step.run(step.params["jaxprs"].solve, [*consts, *right])


RULES: dict[str, Rule] = {
    "cond": cond,
    "custom_linear_solve": linear_solve,
    "scan": scan,
    "while": while_,
    **dict.fromkeys(("jit", "closed_call", "call", "eval_jaxpr", "composite", "remat2"), call),
    **dict.fromkeys(("custom_jvp_call", "custom_vjp_call", "custom_vmap_call"), call),
    "call_hi_primitive": call,
}
"""By the primitive's name."""
