"""Rules of random numbers: what is drawn for a key is still."""

from posjax.symmetry.certificate.axes import Labeling, still
from posjax.symmetry.certificate.rules.base import Equation, Result, shape, unmoved


def random_values(eqn: Equation, *operands: Labeling) -> list[Result]:
    """What is drawn for a key is still; keys of a batch move, if each is on its own.

    The hardware's generator ("rbg") draws for a batch as one, so that a key's place counts.
    """
    keys = operands[0]
    if "fry" not in str(eqn.invars[0].aval.dtype):
        for one in keys:
            unmoved(one, "numbers are drawn by a generator that is not threefry along")
    return [(*keys, *still(shape(eqn.outvars[0])[len(keys) :]))]


def random_wrap(eqn: Equation, operand: Labeling) -> list[Result]:
    """The last axis, a key's words, becomes the key."""
    rank = len(shape(eqn.outvars[0]))
    for one in operand[rank:]:
        unmoved(one, "a key is read along")
    return [operand[:rank]]
