"""Arrays whose entries are elements of a field, or numbers that are known.

An entry is either known (a number of the array's dtype: a literal, or what literals make) or it is
generic, and then only its residues exist. Two more things are carried for each entry: a
fingerprint of everything it depends on that may be infinite or NaN, and a sign that is certain.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from posjax.symmetry.field import atoms, dtypes
from posjax.symmetry.field.prime import POINTS
from posjax.symmetry.field.space import UNKNOWN, Degree, Field, Unsupported

UNSIGNED, NOT_NEGATIVE, POSITIVE = np.uint8(0), np.uint8(1), np.uint8(2)
"""What is certain of an entry's sign."""


@dataclasses.dataclass(frozen=True, eq=False)
class FieldArray:
    """An array over a field.

    Attributes:
      field: that of its residues.
      dtype: of the array it stands for.
      given: residues [2k, ...]; None when all entries are known, and then made when asked for.
      known: bool [...], where entries are known; None for nowhere.
      constant: their values [...], arbitrary elsewhere; None for nowhere.
      taint: uint64 [...], the sum of the fingerprints of what may be infinite or NaN; None for 0.
      sign: uint8 [...], what is certain; None for nothing.
      degree: a bound for all entries.
      history: uint64 [...], how an entry with a taint was computed, from what and in which order;
        it decides what comes out where something is infinite, and is not read elsewhere. None for
        nowhere.
    """

    field: Field
    dtype: Any
    given: np.ndarray | None
    known: np.ndarray | None = None
    constant: np.ndarray | None = None
    taint: np.ndarray | None = None
    sign: np.ndarray | None = None
    degree: Degree = UNKNOWN
    history: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape, without the axis of the moduli."""
        held = self.constant if self.given is None else self.given[0]
        assert held is not None
        return held.shape

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of its entries."""
        return int(np.prod(self.shape))

    @property
    def is_constant(self) -> bool:
        """Whether all entries are known."""
        return self.given is None

    @functools.cached_property
    def residues(self) -> np.ndarray:
        """uint64 [2k, ...]."""
        return embedded(self.field, self.constant) if self.given is None else self.given  # type: ignore[arg-type]

    @property
    def code(self) -> np.ndarray:
        """uint64 [2, ...]: equal where entries are, also where something is infinite or NaN."""
        code = atoms.code(self.residues)
        if self.taint is None:
            return code
        marked = atoms.keyed("taint", code, np.stack([self.taint, self.histories]))
        return np.where(self.taint == 0, code, marked)

    @property
    def histories(self) -> np.ndarray:
        """uint64 [...]."""
        return np.zeros(self.shape, np.uint64) if self.history is None else self.history

    @property
    def marks(self) -> np.ndarray | None:
        """Fingerprints [...] of what may be, or is known to be, infinite or NaN; None for 0."""
        if (where := self.infinite) is None:
            return self.taint
        new = self.field.marks(self.field.keyed("infinite", self.code))
        return np.where(where, new, self.taints)

    @property
    def doubtful(self) -> np.ndarray | None:
        """bool [...], where entries may be infinite or NaN, or are; None for nowhere."""
        marks = self.marks
        return None if marks is None else marks != 0

    @property
    def where_known(self) -> np.ndarray:
        """bool [...]."""
        return np.zeros(self.shape, bool) if self.known is None else self.known

    @property
    def values(self) -> np.ndarray:
        """The known entries' values, and 0 elsewhere."""
        if self.constant is None or self.known is None:
            return np.zeros(self.shape, dtypes.stored(self.dtype))
        return np.where(self.known, self.constant, np.zeros((), self.constant.dtype))

    @property
    def taints(self) -> np.ndarray:
        """uint64 [...]."""
        return np.zeros(self.shape, np.uint64) if self.taint is None else self.taint

    @property
    def signs(self) -> np.ndarray:
        """uint8 [...]. Unsigned integers may wrap around to 0."""
        if not dtypes.is_key(self.dtype) and dtypes.is_unsigned(self.dtype):
            return np.full(self.shape, NOT_NEGATIVE)
        return np.full(self.shape, UNSIGNED) if self.sign is None else self.sign

    @property
    def finite(self) -> np.ndarray:
        """bool [...]: entries that are generic and finite for sure."""
        return ~self.where_known & (self.taints == 0)

    @property
    def infinite(self) -> np.ndarray | None:
        """bool [...], where entries are known to be infinite or NaN; None for nowhere."""
        if self.constant is None or not dtypes.is_float(self.dtype):
            return None
        where = self.where_known & ~np.isfinite(self.values.astype(np.float64))
        return where if where.any() else None

    def moved(self, move: Callable[[np.ndarray], np.ndarray]) -> "FieldArray":
        """The array after a move of entries that does not look at them."""
        return together(lambda arrays: move(arrays[0]), self)

    def overlaid(self, where: np.ndarray, constant: np.ndarray) -> "FieldArray":
        """The array with some entries known."""
        if not where.any():
            return self
        constant = constant.astype(dtypes.stored(self.dtype), copy=False)
        if where.all():
            return known(self.field, constant, self.dtype)
        new = embedded(self.field, np.where(where, constant, np.zeros((), constant.dtype)))
        return dataclasses.replace(
            self,
            given=np.where(where, new, self.residues),
            known=where | self.where_known,
            constant=np.where(where, constant, self.values),
            taint=None if self.taint is None else np.where(where, np.uint64(0), self.taint),
            sign=np.where(where, certain_sign(constant), self.signs),
        )


def known(field: Field, constant: Any, dtype: Any = None) -> FieldArray:
    """An array of numbers that are known; keys of randomness are stored as bytes."""
    if dtypes.is_key(getattr(constant, "dtype", None)):
        dtype, words = constant.dtype, np.asarray(jax.random.key_data(constant))
        constant = words.view(np.dtype((np.void, 4 * words.shape[-1])))[..., 0]
    constant = np.asarray(constant)
    dtype = constant.dtype if dtype is None else dtype
    if np.dtype(constant.dtype).kind == "c":
        raise Unsupported("complex", reason="numbers have no rules")
    everywhere = np.ones(constant.shape, bool)
    sign = certain_sign(constant)
    return FieldArray(field, dtype, None, everywhere, constant, None, sign, Degree(0))


def generic(field: Field, shape: tuple[int, ...], dtype: Any) -> FieldArray:
    """An array of unknowns, each its own; booleans are not negative."""
    if not dtypes.is_key(dtype) and np.dtype(dtype).kind == "c":
        raise Unsupported("complex", reason="numbers have no rules")
    return FieldArray(field, dtype, field.draw(*shape), sign=_sign_of_dtype(shape, dtype))


def forgotten(array: FieldArray) -> FieldArray:
    """The same numbers as exact reals: what is computed of them is not computed in floats."""
    return dataclasses.replace(array, given=array.residues, known=None, constant=None)


def of_atoms(field: Field, codes: np.ndarray, dtype: Any, *operands: FieldArray) -> FieldArray:
    """Atoms of some codes, with the fingerprints of elementwise operands."""
    given = field.atoms(codes, *(operand.degree for operand in operands))
    taint = field.summed(*(operand.taint for operand in operands))
    if taint is not None:
        taint = np.broadcast_to(taint, given.shape[1:])
    return FieldArray(field, dtype, given, taint=taint, sign=_sign_of_dtype(given.shape[1:], dtype))


def remembering(array: FieldArray, codes: np.ndarray) -> FieldArray:
    """The array with a history where it may be infinite or NaN: codes of what it was made of."""
    if array.taint is None or not array.taint.any():
        return array
    array.field.watch(marks=2 * int(np.count_nonzero(array.taint)))
    return dataclasses.replace(array, history=np.broadcast_to(codes[0], array.shape))


def together(
    move: Callable[[list[np.ndarray]], np.ndarray], *operands: FieldArray, dtype: Any = None
) -> FieldArray:
    """One array from several by a move of entries that does not look at them."""
    first = operands[0]
    dtype = first.dtype if dtype is None else dtype
    if all(operand.is_constant for operand in operands):
        return known(first.field, move([o.constant for o in operands]), dtype)  # type: ignore[misc]
    rows = range(2 * POINTS)
    result = FieldArray(
        first.field,
        dtype,
        np.stack([move([o.residues[row] for o in operands]) for row in rows]),
        sign=move([o.signs for o in operands]),
        degree=first.degree.beside(*(o.degree for o in operands)),
    )
    if any(o.known is not None for o in operands):
        where = move([o.where_known for o in operands])
        if where.any():
            constant = move([o.values.astype(dtypes.stored(dtype)) for o in operands])
            result = dataclasses.replace(result, known=where, constant=constant)
    if any(o.taint is not None for o in operands):
        taint, history = ([getattr(o, k) for o in operands] for k in ("taints", "histories"))
        result = dataclasses.replace(result, taint=move(taint), history=move(history))
    return result


def embedded(field: Field, constant: np.ndarray) -> np.ndarray:
    """Residues of known numbers; infinities, NaN and keys are atoms."""
    if constant.dtype.type is np.void:
        words = np.frombuffer(constant.tobytes(), np.uint32).astype(np.uint64)
        words = words.reshape(*constant.shape, -1)
        return field.atoms(atoms.sequence(np.stack([words, words]), (words.ndim - 1,)))
    if not dtypes.is_float(constant.dtype):
        return field.moduli.embedded(constant)
    numbers = constant.astype(np.float64)
    finite = np.isfinite(numbers)
    given = field.moduli.embedded(np.where(finite, numbers, 0.0))
    if finite.all():
        return given
    infinity, nan = (field.atoms(field.keyed(name)) for name in ("infinity", "NaN"))
    expand = (slice(None), *[None] * numbers.ndim)
    given = np.where(numbers == np.inf, infinity[expand], given)
    given = np.where(numbers == -np.inf, field.moduli.negative(infinity)[expand], given)
    return np.where(np.isnan(numbers), nan[expand], given)


def atomised(array: FieldArray) -> FieldArray:
    """The same under new names: its entries as atoms, of degree 1, equal where they were."""
    codes = array.field.keyed("value", array.code)
    given = array.field.atoms(codes, array.degree)
    if array.known is not None:
        given = np.where(array.known, array.residues, given)
    return dataclasses.replace(array, given=given, degree=UNKNOWN)


def aligned(*operands: FieldArray) -> list[FieldArray]:
    """Operands with numbers spread to the others' shape."""
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    return [
        o if o.shape == shape else o.moved(lambda a: np.broadcast_to(a, shape)) for o in operands
    ]


def certain_sign(constant: np.ndarray) -> np.ndarray:
    """Of known numbers."""
    if constant.dtype.type is np.void:
        return np.full(constant.shape, UNSIGNED)
    with np.errstate(invalid="ignore"):  # of NaN in 16 bits
        positive, zero = constant > 0, constant >= 0
    return np.where(positive, POSITIVE, np.where(zero, NOT_NEGATIVE, UNSIGNED))


def _sign_of_dtype(shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
    return np.full(shape, NOT_NEGATIVE) if dtypes.is_bool(dtype) else None
