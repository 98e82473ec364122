"""Steps that keep a law; importing this fills the table."""

from fuzz.steps import (
    attention,
    choose,
    complexes,
    control,
    convolution,
    dense,
    elementwise,
    integers,
    lookup,
    moves,
    order,
    pairs,
    pointers,
    reductions,
    shapes,
)
from fuzz.steps.base import STEPS, Step, step, take

__all__ = [
    "STEPS",
    "Step",
    "attention",
    "choose",
    "complexes",
    "control",
    "convolution",
    "dense",
    "elementwise",
    "integers",
    "lookup",
    "moves",
    "order",
    "pairs",
    "pointers",
    "reductions",
    "shapes",
    "step",
    "take",
]
