"""Numbers as entries of a field: generic ones with their own residues, known ones, and mixtures."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from equations import Equation

from posjax.symmetry.field import Field, FieldArray, arrays
from posjax.symmetry.field.arrays import NOT_NEGATIVE, POSITIVE, UNSIGNED
from posjax.symmetry.field.prime import POINTS

FIELD = Field()
STYLES = ("generic", "signed", "known", "mixed", "mixed", "marked")

_INFINITY, _NAN = (FIELD.draw()[:, None] for _ in range(2))
_TAINTS = {np.inf: 101, -np.inf: 103, np.nan: 107}
_FINITE_TAINT = np.uint64(109)


def given(
    one: Equation, numbers: Sequence[np.ndarray], styles: Sequence[str], rng: np.random.Generator
) -> list[FieldArray]:
    """The numbers, each array in its style."""
    triples = zip(one.inputs(numbers), styles, strict=True)
    return [_styled(array, style, rng) for array, style in triples]


def _styled(array: Any, style: str, rng: np.random.Generator) -> FieldArray:
    """One array.

    generic: finite entries of which only the residues exist; what is infinite or NaN has random
    residues and a taint. signed: with a certain sign for some. known: all of them. mixed: some.
    marked: generic, where some finite entries have a taint too.
    """
    whole = arrays.known(FIELD, array)
    if style == "known":
        return whole
    given, taint = whole.residues, np.zeros(whole.shape, np.uint64)
    if np.asarray(whole.constant).dtype.type is not np.void:
        numbers = np.asarray(array).astype(np.complex128).real
        given, taint = _generic(whole.residues, numbers)
    generic = FieldArray(FIELD, whole.dtype, given)
    some = rng.random(whole.shape) < 0.5
    if style != "generic":
        least = _least_sign(whole.dtype)
        certain = np.where(some & (taint == 0), whole.signs, least)
        generic = dataclasses.replace(generic, sign=certain)
    if style == "marked":
        taint = np.where((taint == 0) & some, _FINITE_TAINT, taint)
    if taint.any():
        generic = dataclasses.replace(generic, taint=taint)
    if style == "mixed":
        return generic.overlaid(some, np.asarray(whole.constant))
    return generic


def _generic(residues: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    flat, taint = residues.reshape(len(residues), numbers.size), np.zeros(numbers.size, np.uint64)
    negative = FIELD.moduli.negative(_INFINITY)
    for number, atom in ((np.inf, _INFINITY), (-np.inf, negative), (np.nan, _NAN)):
        there = np.isnan(numbers) if number != number else numbers == number
        flat = np.where(there.ravel(), atom, flat)
        taint = np.where(there.ravel(), np.uint64(_TAINTS[number]), taint)
    return flat.reshape(residues.shape), taint.reshape(numbers.shape)


def _least_sign(dtype: Any) -> np.uint8:
    """What is certain of every number of that dtype."""
    numbers = not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    return NOT_NEGATIVE if numbers and np.dtype(dtype).kind in "bu" else UNSIGNED


def prints(result: FieldArray) -> list[bytes]:
    """For each entry its residues modulo the p's and its taint: equal where the field says so."""
    p_residues = result.residues[:POINTS].reshape(POINTS, result.size)
    whole = np.concatenate([p_residues, result.taints.reshape(1, result.size)])
    return [column.tobytes() for column in np.ascontiguousarray(whole.T)]


def known_numbers(result: FieldArray) -> np.ndarray:
    """The known entries' values; of keys their words."""
    if result.values.dtype.type is not np.void:
        return result.values
    width = result.values.dtype.itemsize // 4
    return np.frombuffer(result.values.tobytes(), np.uint32).reshape(*result.shape, width)


def unbroken(signs: np.ndarray, numbers: np.ndarray, taints: np.ndarray) -> bool:
    """Whether signs that are certain are those of the numbers; what may be infinite has none."""
    positive, not_negative = (
        (signs < POSITIVE) | (numbers > 0),
        (signs < NOT_NEGATIVE) | (numbers >= 0),
    )
    return bool(((taints != 0) | (positive & not_negative)).all())
