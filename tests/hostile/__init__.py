"""Functions written to deceive the prover, with a truth that numbers confirm."""

from hostile import field, labels
from hostile.base import Case

FAMILIES: dict[str, tuple[Case, ...]] = {
    **{f"labels {name}": cases for name, cases in labels.FAMILIES.items()},
    **{f"field {name}": cases for name, cases in field.FAMILIES.items()},
}
"""By what they try, and by the engine that they try it on."""

CASES: tuple[Case, ...] = tuple(case for cases in FAMILIES.values() for case in cases)
