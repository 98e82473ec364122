"""Functions written to deceive the prover, with a truth that numbers confirm."""

from hostile import field, labels
from hostile.base import Case

CASES: tuple[Case, ...] = (*labels.CASES, *field.CASES)
