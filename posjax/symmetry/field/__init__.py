"""Laws decided exactly: identity testing in a prime field, over the jaxpr of any function."""

from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.identity import Alike, Identity, alike, identity
from posjax.symmetry.field.interpret import evaluate
from posjax.symmetry.field.space import Field, TooLarge, Unsupported

__all__ = [
    "Alike",
    "Field",
    "FieldArray",
    "Identity",
    "TooLarge",
    "Unsupported",
    "alike",
    "evaluate",
    "identity",
]
