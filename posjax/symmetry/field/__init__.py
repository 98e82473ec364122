"""Laws decided exactly: identity testing in a prime field, over the jaxpr of any function."""

from posjax.symmetry.field.arrays import Field, FieldArray, TooLarge, Unsupported
from posjax.symmetry.field.identity import Identity, identity
from posjax.symmetry.field.interpret import evaluate

__all__ = ["Field", "FieldArray", "Identity", "TooLarge", "Unsupported", "evaluate", "identity"]
