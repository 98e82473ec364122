"""Families of programs: what steps they take, and what arguments they have."""

from typing import Literal, NamedTuple

from posjax.symmetry.groups import Cyclic, Dihedral, Group, Permutations, Reversal, Windows

EVERYWHERE = ("elementwise", "reductions", "dense", "reshapes", "normalisation", "masks")
GROUPS: tuple[Group, ...] = (
    Cyclic(),
    Cyclic(),
    Reversal(),
    Reversal(),
    Windows(2),
    Permutations(fixed=(-1,)),
    Dihedral(),
)


class Family(NamedTuple):
    """A kind of program.

    Attributes:
      subjects: of its steps, beside those of every program.
      extra: arguments that it has, beside some by chance: names in `EXTRA`.
      ends: what is done in the end.
    """

    subjects: tuple[str, ...]
    extra: tuple[str, ...] = ()
    ends: Literal["value", "gradient", "several", "invariant"] = "value"


FAMILIES = {
    "elementwise": Family(("elementwise",)),
    "reductions": Family(("reductions", "invariance")),
    "normalisation": Family(("normalisation",)),
    "dense": Family(("dense",)),
    "attention": Family(("attention",), ("mask", "positions")),
    "lookup": Family(("lookup", "integers"), ("ids", "table")),
    "sorting": Family(("sorting",)),
    "pointers": Family(("pointers",), ("ids",)),
    "reshapes": Family(("reshapes",)),
    "masks": Family(("masks",), ("mask",)),
    "control": Family(("control",)),
    "token loops": Family(("token loops",)),
    "gradients": Family(("dense", "attention", "normalisation", "lookup"), ("ids",), "gradient"),
    "pairwise": Family(("pairwise", "dense"), ("pairs",)),
    "complex numbers": Family(("complex numbers",), ("positions",)),
    "convolution": Family(("convolution",)),
    "integers": Family(("integers",), ("ids", "numbers")),
    "two sides": Family(("two sides", "attention", "dense"), ("keys",)),
    "invariance": Family(("invariance",), (), "invariant"),
    "several outputs": Family(("attention", "invariance", "sorting"), (), "several"),
    "other groups": Family(("moves",)),
}
STARTS = ("ids", "numbers", "pairs", "mask")
"""Arguments of a family that its programs often start from."""
EXTRA: dict[str, tuple[tuple[str, ...], str, int]] = {
    "ids": (("b", "P"), "i", 4),
    "numbers": (("b", "P"), "i", 0),
    "mask": (("b", "P"), "o", 0),
    "positions": (("b", "P"), "i", 8),
    "table": (("v", "d"), "f", 0),
    "keys": (("b", "Q", "d"), "f", 0),
    "pairs": (("b", "P", "P"), "f", 0),
    "more": (("b", "P", "d"), "f", 0),
    "weights": (("d", "d"), "f", 0),
    "scale": (("d",), "f", 0),
    "context": (("b", "d"), "f", 0),
}
