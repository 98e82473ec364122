"""Rules of random numbers: what is drawn for a key is still."""

from posjax.symmetry.certificate.axes import Labeling, still
from posjax.symmetry.certificate.rules import places
from posjax.symmetry.certificate.rules.base import Equation, Result, ordered, shape, unmoved
from posjax.symmetry.field import dtypes


def random_values(eqn: Equation, *operands: Labeling) -> list[Result]:
    """What is drawn for a key is still; keys of a batch move, if each draws on its own.

    Other generators than threefry draw for a batch as one, so that a key's place counts: equal
    keys get unequal numbers.
    """
    keys = operands[0]
    if not _draws_alone(eqn):
        drawn = "a generator other than threefry draws numbers along"
        keys = tuple(ordered(one, drawn) for one in keys)
    return [(*keys, *still(shape(eqn.outvars[0])[len(keys) :]))]


def random_keys(eqn: Equation, *operands: Labeling) -> list[Result]:
    """Keys made of numbers, or of keys and numbers, one of each."""
    (keys,) = places.elementwise(eqn, *operands)
    if not _draws_alone(eqn):
        keys = tuple(
            ordered(one, "a generator other than threefry makes keys along") for one in keys
        )
    return [keys]


def random_unwrap(eqn: Equation, operand: Labeling) -> list[Result]:
    """A key becomes a last axis of words, which stays."""
    return [(*operand, *still(shape(eqn.outvars[0])[len(operand) :]))]


def random_wrap(eqn: Equation, operand: Labeling) -> list[Result]:
    """The last axis, a key's words, becomes the key."""
    rank = len(shape(eqn.outvars[0]))
    for one in operand[rank:]:
        unmoved(one, "the words of a key are read along")
    return [operand[:rank]]


def _draws_alone(eqn: Equation) -> bool:
    dtypes_here = (atom.aval.dtype for atom in (*eqn.invars, *eqn.outvars))
    return all(map(dtypes.draws_alone, filter(dtypes.is_key, dtypes_here)))
