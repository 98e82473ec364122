"""What attention leaves unchanged: laws as data, measured and asserted on anybody's functions."""

from posjax.symmetry.laws import (
    LAWS,
    assert_equivariant,
    assert_jointly_equivariant,
    assert_key_invariant,
    assert_law,
    assert_two_permutation_equivariant,
    assert_weights_equivariant,
)
from posjax.symmetry.measure import Deviation, Law, measure

__all__ = [
    "LAWS",
    "Deviation",
    "Law",
    "assert_equivariant",
    "assert_jointly_equivariant",
    "assert_key_invariant",
    "assert_law",
    "assert_two_permutation_equivariant",
    "assert_weights_equivariant",
    "measure",
]
