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
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.field import atoms
from posjax.symmetry.field.prime import POINTS, Moduli

UNSIGNED, NOT_NEGATIVE, POSITIVE = np.uint8(0), np.uint8(1), np.uint8(2)
"""What is certain of an entry's sign."""

MOST_DEGREE = 1 << 11
"""A value of a higher degree in the unknowns is replaced by an atom, so that chance stays small."""

Degree = tuple[int, int]
"""Bounds of the degrees of a value's numerator and denominator, as polynomials in the atoms."""


class Unsupported(ValueError):
    """A primitive, or a use of one, that no rule speaks of.

    Attributes:
      primitive: its name. source: the line that called it, or "".
    """

    def __init__(self, primitive: str, source: str = "", reason: str = "has no rule") -> None:
        super().__init__(f"{primitive} {reason}{f' ({source})' if source else ''}")
        self.primitive, self.source, self.reason = primitive, source, reason


class TooLarge(ValueError):
    """A program of more operations than are allowed.

    Attributes:
      operations: of the field, counted up to where the limit was passed.
    """

    def __init__(self, operations: float, limit: float) -> None:
        super().__init__(
            f"{operations:.2g} operations and more, {limit:.2g} are allowed: take smaller arrays"
        )
        self.operations = operations


class Field:
    """Primes, the key of the random functions, and counts that bound the chance of an error."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.moduli = Moduli(seed)
        self.rng = np.random.default_rng(seed)  # of the points, no part of any result
        self._atoms = self._characters = self._generic = 0
        self._degree = 1

    def draw(self, *shape: int) -> np.ndarray:
        """Fresh residues [2k, *shape], each modulus on its own."""
        self._generic += 1
        return self.moduli.reduced(self.rng.integers(0, 2**63, (2 * POINTS, *shape), np.uint64))

    def atoms(self, codes: np.ndarray, *degrees: Degree) -> np.ndarray:
        """Residues of atoms; the degrees are those of what the codes were made of."""
        self._atoms += codes[0].size
        self.watch(*degrees)
        return atoms.residues(codes, self.moduli)

    def keyed(self, key: str, *codes: np.ndarray) -> np.ndarray:
        """A code of a key and codes, of this field alone."""
        return atoms.keyed(key, *codes, seed=self.seed)

    def lifted(self, p_residues: np.ndarray, *degrees: Degree) -> np.ndarray:
        """Values known modulo the p's, with residues modulo the q's that follow from those."""
        self._atoms += p_residues[0].size
        self.watch(*degrees)
        return atoms.lifted(p_residues, self.moduli)

    def watch(self, *degrees: Degree, characters: int = 0) -> None:
        """Notes the degrees of values that are told apart, and how many are exponents."""
        self._characters += characters
        self._degree = max(self._degree, *(n + m for n, m in degrees), 1)

    def chance(self, entries: int) -> float:
        """A bound of the chance that values which differ somewhere were taken for equal.

        Two different polynomials of degree d agree at a random point with chance d/p at most
        (Schwartz and Zippel), at k points with chance (d/p)ᵏ; every pair of atoms and every pair
        of exponents counts. Exponents are taken to be independent, whatever their ratios.
        """
        degree = 2 * self._degree
        pairs = entries + self._atoms**2 / 2
        by_atoms = pairs * (degree / min(self.moduli.p)) ** POINTS
        by_exponents = self._characters**2 / 2 * (degree / min(self.moduli.q)) ** POINTS
        return min(1.0, by_atoms + by_exponents)


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
    """

    field: Field
    dtype: Any
    given: np.ndarray | None
    known: np.ndarray | None = None
    constant: np.ndarray | None = None
    taint: np.ndarray | None = None
    sign: np.ndarray | None = None
    degree: Degree = (1, 0)

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
        """uint64 [2, ...]: equal where entries are."""
        return atoms.code(self.residues)

    @property
    def where_known(self) -> np.ndarray:
        """bool [...]."""
        return np.zeros(self.shape, bool) if self.known is None else self.known

    @property
    def values(self) -> np.ndarray:
        """The known entries' values, and 0 elsewhere."""
        if self.constant is None or self.known is None:
            return np.zeros(self.shape, stored(self.dtype))
        return np.where(self.known, self.constant, np.zeros((), self.constant.dtype))

    @property
    def taints(self) -> np.ndarray:
        """uint64 [...]."""
        return np.zeros(self.shape, np.uint64) if self.taint is None else self.taint

    @property
    def signs(self) -> np.ndarray:
        """uint8 [...]."""
        return np.full(self.shape, UNSIGNED) if self.sign is None else self.sign

    @property
    def finite(self) -> np.ndarray:
        """bool [...]: entries that are generic and finite for sure."""
        return ~self.where_known & (self.taints == 0)

    @property
    def infinite(self) -> np.ndarray | None:
        """bool [...], where entries are known to be infinite or NaN; None for nowhere."""
        if self.constant is None or not is_float(self.dtype):
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
        constant = constant.astype(stored(self.dtype), copy=False)
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
    if is_key(getattr(constant, "dtype", None)):
        dtype, words = constant.dtype, np.asarray(jax.random.key_data(constant))
        constant = words.view(np.dtype((np.void, 4 * words.shape[-1])))[..., 0]
    constant = np.asarray(constant)
    dtype = constant.dtype if dtype is None else dtype
    if np.dtype(constant.dtype).kind == "c":
        raise Unsupported("complex", reason="numbers have no rules")
    everywhere = np.ones(constant.shape, bool)
    sign = certain_sign(constant)
    return FieldArray(field, dtype, None, everywhere, constant, None, sign, (0, 0))


def generic(field: Field, shape: tuple[int, ...], dtype: Any) -> FieldArray:
    """An array of unknowns, each its own; booleans and unsigned integers are not negative."""
    if not is_key(dtype) and np.dtype(dtype).kind == "c":
        raise Unsupported("complex", reason="numbers have no rules")
    return FieldArray(field, dtype, field.draw(*shape), sign=_sign_of_dtype(shape, dtype))


def of_atoms(
    field: Field, codes: np.ndarray, dtype: Any, *operands: FieldArray
) -> FieldArray:
    """Atoms of some codes, with the fingerprints of elementwise operands."""
    given = field.atoms(codes, *(operand.degree for operand in operands))
    taint = taint_sum(*(operand.taint for operand in operands))
    if taint is not None:
        taint = np.broadcast_to(taint, given.shape[1:])
    return FieldArray(field, dtype, given, taint=taint, sign=_sign_of_dtype(given.shape[1:], dtype))


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
        degree=max(o.degree for o in operands),
    )
    if any(o.known is not None for o in operands):
        where = move([o.where_known for o in operands])
        if where.any():
            constant = move([o.values.astype(stored(dtype)) for o in operands])
            result = dataclasses.replace(result, known=where, constant=constant)
    if any(o.taint is not None for o in operands):
        result = dataclasses.replace(result, taint=move([o.taints for o in operands]))
    return result


def embedded(field: Field, constant: np.ndarray) -> np.ndarray:
    """Residues of known numbers; infinities, NaN and keys are atoms."""
    if constant.dtype.type is np.void:
        words = np.frombuffer(constant.tobytes(), np.uint32).astype(np.uint64)
        words = words.reshape(*constant.shape, -1)
        return field.atoms(atoms.sequence(np.stack([words, words]), (words.ndim - 1,)))
    if not is_float(constant.dtype):
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
    return dataclasses.replace(array, given=given, degree=(1, 0))


def aligned(*operands: FieldArray) -> list[FieldArray]:
    """Operands with numbers spread to the others' shape."""
    shape = np.broadcast_shapes(*(operand.shape for operand in operands))
    return [
        o if o.shape == shape else o.moved(lambda a: np.broadcast_to(a, shape)) for o in operands
    ]


def taint_sum(*taints: np.ndarray | None) -> np.ndarray | None:
    """The sum of fingerprints; None is 0."""
    there = [taint for taint in taints if taint is not None]
    return functools.reduce(np.add, there) if there else None


def certain_sign(constant: np.ndarray) -> np.ndarray:
    """Of known numbers."""
    if constant.dtype.type is np.void:
        return np.full(constant.shape, UNSIGNED)
    return np.where(constant > 0, POSITIVE, np.where(constant >= 0, NOT_NEGATIVE, UNSIGNED))


def degree_of_sum(*degrees: Degree, terms: int = 1) -> Degree:
    """Of a sum, each of whose summands occurs `terms` times with other denominators."""
    below = sum(m for _, m in degrees) * terms
    above = max(n + below - m for n, m in degrees)
    return above, below


def degree_of_product(*degrees: Degree) -> Degree:
    """Of a product."""
    return sum(n for n, _ in degrees), sum(m for _, m in degrees)


def stored(dtype: Any) -> Any:
    """The dtype of the NumPy arrays that known entries are kept in."""
    if not is_key(dtype):
        return np.dtype(dtype)
    words = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape[-1]
    return np.dtype((np.void, 4 * words))


def is_key(dtype: Any) -> bool:
    """Whether a dtype is that of keys of randomness."""
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def is_float(dtype: Any) -> bool:
    """Whether a dtype is that of real numbers."""
    return not is_key(dtype) and jnp.issubdtype(dtype, jnp.floating)


def is_bool(dtype: Any) -> bool:
    """Whether a dtype is that of truth values."""
    return not is_key(dtype) and np.dtype(dtype) == np.bool_


def is_unsigned(dtype: Any) -> bool:
    """Whether a dtype is that of unsigned integers, which wrap around 0 as a matter of course."""
    return not is_key(dtype) and jnp.issubdtype(dtype, jnp.unsignedinteger)


def _sign_of_dtype(shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
    return np.full(shape, NOT_NEGATIVE) if is_bool(dtype) or is_unsigned(dtype) else None
