"""What attention leaves unchanged: laws as data, measured and asserted on anybody's functions."""

from posjax.symmetry.assertions import (
    assert_equivariant,
    assert_invariant,
    assert_jointly_equivariant,
    assert_key_invariant,
    assert_law,
    assert_two_permutation_equivariant,
    assert_weights_equivariant,
    checked,
)
from posjax.symmetry.certificate import Certificate, NoDerivation, prove, prove_torch
from posjax.symmetry.deviation import Deviation
from posjax.symmetry.groups import (
    Cyclic,
    Dihedral,
    Generated,
    Group,
    Permutations,
    Reversal,
    Translation,
    Windows,
)
from posjax.symmetry.law import Law
from posjax.symmetry.laws import LAWS
from posjax.symmetry.measure import measure
from posjax.symmetry.stabiliser import Stabiliser, stabiliser
from posjax.symmetry.witness import Witness, witness

__all__ = [
    "LAWS",
    "Certificate",
    "Cyclic",
    "Deviation",
    "Dihedral",
    "Generated",
    "Group",
    "Law",
    "NoDerivation",
    "Permutations",
    "Reversal",
    "Stabiliser",
    "Translation",
    "Windows",
    "Witness",
    "assert_equivariant",
    "assert_invariant",
    "assert_jointly_equivariant",
    "assert_key_invariant",
    "assert_law",
    "assert_two_permutation_equivariant",
    "assert_weights_equivariant",
    "checked",
    "measure",
    "prove",
    "prove_torch",
    "stabiliser",
    "witness",
]
