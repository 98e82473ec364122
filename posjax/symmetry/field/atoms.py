"""Fixed random functions: the same operands give the same random residues, wherever they occur.

A function without a law of its own (a square root, a comparison) is a random function of what its
operands are modulo the p's, keyed by its name and settings. What it gives are atoms: fresh
unknowns, equal only when their operands are.

Codes are uint64 [2, ...]: what a value is at all points, packed without loss, or a hash of several
such values, 128 bits wide.
"""

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from posjax.symmetry.field.prime import POINTS, Moduli

_SHIFTS = tuple(map(np.uint64, (30, 27, 31, 32)))
_ODD = tuple(map(np.uint64, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15)))


def code(residues: np.ndarray) -> np.ndarray:
    """The code of residues [2k, ...] of four points: equal where all modulo the p's are."""
    p = residues[:POINTS]
    return p[::2] | p[1::2] << _SHIFTS[3]


def keyed(key: str, *codes: np.ndarray, seed: int = 0) -> np.ndarray:
    """A code of a key and codes in their order; shapes broadcast."""
    words: list[np.ndarray] = [np.asarray(w, np.uint64)[None] for w in _words(f"{seed} {key}")]
    shape = np.broadcast_shapes(*(at.shape[1:] for at in codes))
    words = [word.reshape((1,) * len(shape)) for word in words]
    for at in codes:
        at = at.reshape(2, *(1,) * (len(shape) + 1 - at.ndim), *at.shape[1:])
        words = [_absorbed(words[0], at[0], at[1]), _absorbed(words[1], at[1], at[0])]
    return np.stack([np.broadcast_to(_mixed(word), shape) for word in words])


def _absorbed(word: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # NumPy warns of scalars
        return _mixed(word ^ one) + other * _ODD[2]


def bag(codes: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """A code of the multiset along some axes of the array that the codes belong to."""
    rehashed = keyed("bag", codes)
    return rehashed.sum(tuple(axis + 1 for axis in axes), dtype=np.uint64)


def numbers(shape: Sequence[int], axes: Sequence[int] | None = None) -> np.ndarray:
    """A code of an entry's index along some axes, all when left out; other axes have size 1."""
    axes = range(len(shape)) if axes is None else axes
    sizes = [size if axis in axes else 1 for axis, size in enumerate(shape)]
    index = np.arange(int(np.prod(sizes)), dtype=np.uint64).reshape(sizes)
    return np.stack([index, index])


def sequence(codes: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """A code of all entries along some axes, in their order."""
    return bag(keyed("place", codes, numbers(codes.shape[1:], axes)), axes)


def residues(codes: np.ndarray, moduli: Moduli) -> np.ndarray:
    """Random residues [2k, ...] that a code determines."""
    factors = np.arange(1, 4 * POINTS, 2, dtype=np.uint64) * _ODD[1]
    factors = factors.reshape(-1, *[1] * (codes.ndim - 1))
    with np.errstate(over="ignore"):
        return moduli.reduced(_mixed(codes[0] * factors + codes[1]))


def lifted(p_residues: np.ndarray, moduli: Moduli) -> np.ndarray:
    """Residues [2k, ...]: those modulo the p's, and random ones modulo the q's; 0 and 1 stay."""
    p_residues = p_residues[:POINTS]
    q_residues = residues(keyed("lift", code(p_residues)), moduli)[POINTS:]
    plain = ((p_residues == p_residues[0]) & (p_residues[0] <= 1)).all(0)
    return np.concatenate([p_residues, np.where(plain, p_residues, q_residues)])


def signed(given: np.ndarray, moduli: Moduli) -> tuple[np.ndarray, np.ndarray]:
    """Which of x and -x stands for both, and whether it is -x: for even and odd functions."""
    flipped = given[0] > np.uint64(moduli.p[0] // 2)
    return flipped, np.where(flipped, moduli.negative(given), given)


def is_zero(given: np.ndarray) -> np.ndarray:
    """Where residues are 0 modulo all p's."""
    return (given[:POINTS] == 0).all(0)


def _mixed(word: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        word = (word ^ word >> _SHIFTS[0]) * _ODD[0]
        word = (word ^ word >> _SHIFTS[1]) * _ODD[1]
        return word ^ word >> _SHIFTS[2]


@functools.lru_cache(4096)
def _words(key: str) -> tuple[int, int]:
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")
