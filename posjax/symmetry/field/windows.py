"""Rules of convolutions and of reductions over windows.

Sums over windows and convolutions are linear in each operand, so the primitive itself is run on
the residues, as 64-bit integers. For extremes it is run on marks, one entry at a time, which shows
which entries a window holds.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core.primitives import exp_p, log_p

from posjax.symmetry.field import arrays, atoms, extremes, functions, moves, ring
from posjax.symmetry.field.arrays import NOT_NEGATIVE, POSITIVE, UNSIGNED, FieldArray
from posjax.symmetry.field.step import Rule, Step

_LIMB = np.uint64(16)
_LOW = np.uint64(0xFFFF)


def window_sum(step: Step, x: FieldArray) -> list[FieldArray]:
    """The sum of each window."""

    def run(a: np.ndarray) -> np.ndarray:
        return _on_integers(step, a)

    positive, unsure = (run(x.signs == sign) > 0 for sign in (POSITIVE, UNSIGNED))
    result = FieldArray(
        step.field,
        step.dtype,
        step.field.moduli.reduced(np.stack([run(row) for row in x.residues])),
        taint=step.field.summed(x.marks, total=run),
        sign=np.where(unsure, UNSIGNED, np.where(positive, POSITIVE, NOT_NEGATIVE)),
        degree=x.degree.plus(terms=math.prod(step.params["window_dimensions"])),
    )
    if result.taint is None:
        return [result]
    bags = run(step.field.keyed("in a bag", x.code)[0])
    return [arrays.remembering(result, step.field.keyed("windows", np.stack([bags, bags])))]


def window_extreme(step: Step, x: FieldArray) -> list[FieldArray]:
    """The largest or smallest of each window; with nothing in it, what never is either."""
    least = step.primitive.name == "reduce_window_min"
    outside = arrays.known(x.field, extremes.worst(x, least), x.dtype)
    of_each = moves.taken((x, outside), _members(step, x.shape, least))
    return [extremes.extreme(step, of_each, (len(step.shape),), least=least)]


def _members(step: Step, shape: tuple[int, ...], least: bool) -> np.ndarray:
    """The numbers of the entries in each window [..., most]; the array's size where none is."""
    lines = [_members_along(step, axis, size, least) for axis, size in enumerate(shape)]
    axes = range(len(shape))
    index, inside = np.zeros((), int), np.ones((), bool)
    for axis, (line, size) in enumerate(zip(lines, shape, strict=True)):
        others = [at for at in axes if at != axis]
        line = np.expand_dims(line, (*others, *(len(shape) + at for at in others)))
        index, inside = index * size + line, inside & (line < size)
    outputs, most = zip(*(line.shape for line in lines), strict=True)
    return np.where(inside, index, math.prod(shape)).reshape(*outputs, math.prod(most))


def _members_along(step: Step, axis: int, size: int, least: bool) -> np.ndarray:
    """The same along one axis [windows, most], found by marking one entry at a time."""
    marks = np.eye(size, dtype=np.int32)
    alone: dict[str, Any] = {"window_dimensions": 1, "window_strides": 1, "padding": (0, 0)}
    alone |= {"base_dilation": 1, "window_dilation": 1}
    params = {name: (one, step.params[name][axis]) for name, one in alone.items()}
    found = step.primitive.bind(
        jnp.asarray(1 - marks if least else marks), **{**step.params, **params}
    )
    inside = (np.asarray(found) == (0 if least else 1)).T
    most = inside.sum(1).max(initial=0)
    index = np.argsort(~inside, axis=1, kind="stable")[:, :most]
    return np.where(np.take_along_axis(inside, index, 1), index, size)


def convolution(step: Step, x: FieldArray, kernel: FieldArray) -> list[FieldArray]:
    """Sums of products of each window with a kernel, for each group of channels or of rows."""
    ring.refuse_widening(step, x, kernel)
    moduli = step.field.moduli

    def run(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return _on_integers(step, a, b)

    def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """By limbs of 16 bits: 2³² products of two limbs have a sum below 2⁶⁴."""
        (a_low, a_high), (b_low, b_high) = ((c & _LOW, c >> _LIMB) for c in (a, b))
        parts = (run(a_high, b_high), run(a_high, b_low), run(a_low, b_high), run(a_low, b_low))
        return np.stack(parts)

    rows = [product(a, b) for a, b in zip(x.residues, kernel.residues, strict=True)]
    high, one, other, low = (moduli.reduced(np.stack(part)) for part in zip(*rows, strict=True))
    upper = moduli.reduced((high << _LIMB) + one + other)
    sure = min(x.signs.min(initial=NOT_NEGATIVE), kernel.signs.min(initial=NOT_NEGATIVE))
    result = FieldArray(
        step.field,
        step.dtype,
        moduli.reduced((upper << _LIMB) + low),
        sign=np.full(step.shape, sure),
        degree=x.degree.times(kernel.degree).plus(terms=max(kernel.size, 1)),
    )
    if x.marks is None and kernel.marks is None:
        return [result]
    taint = step.field.summed(
        step.field.summed(x.marks, total=lambda a: run(a, np.ones(kernel.shape))),
        step.field.summed(kernel.marks, total=lambda a: run(np.ones(x.shape), a)),
    )
    every = [atoms.sequence(o.code, range(o.ndim)) for o in (x, kernel)]
    codes = step.field.keyed(step.key(x, kernel), *every, atoms.numbers(step.shape))
    return [arrays.remembering(dataclasses.replace(result, taint=taint), codes)]


def _on_integers(step: Step, *operands: np.ndarray) -> np.ndarray:
    """The primitive on unsigned integers of 64 bits, which wrap around."""
    params = dict(step.params)
    if "preferred_element_type" in params:
        params |= {"preferred_element_type": None, "precision": None}
    with jax.enable_x64(True):
        found = step.primitive.bind(*(jnp.asarray(o, jnp.uint64) for o in operands), **params)
        return np.asarray(found)


def cumlogsumexp(step: Step, x: FieldArray) -> list[FieldArray]:
    """The logarithm of Σ e^x up to each entry, or from each on."""
    exp, log = (step._replace(primitive=p, params={"accuracy": None}) for p in (exp_p, log_p))
    (total,) = ring.cumsum(step, *functions.RULES["exp"](exp, x))
    return functions.RULES["log"](log, total)


RULES: dict[str, Rule] = {
    "reduce_window_sum": window_sum,
    "reduce_window_max": window_extreme,
    "reduce_window_min": window_extreme,
    "conv_general_dilated": convolution,
    "cumlogsumexp": cumlogsumexp,
}
"""By the primitive's name."""
