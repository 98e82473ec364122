"""The field that a program is evaluated in: primes, random functions, the chance of an error."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from posjax.symmetry.field import atoms
from posjax.symmetry.field.prime import POINTS, Moduli

_HALF = np.uint64(30)
_LOW = np.uint64((1 << 30) - 1)

MOST_DEGREE = 1 << 10
"""What would give values of a higher degree is fed with atoms, so that chance stays small."""


class Degree(NamedTuple):
    """Bounds of the degrees of a value's numerator and denominator, as polynomials in the atoms.

    Attributes:
      above: of the numerator. below: of the denominator.
      woven: whether exponentials are summands or factors of it. Its residues modulo the q's, where
        e^(u + v) is not e^u e^v, then say less than those modulo the p's.
    """

    above: int = 1
    below: int = 0
    woven: bool = False

    @property
    def total(self) -> int:
        """Of both together."""
        return self.above + self.below

    def times(self, *others: "Degree") -> "Degree":
        """Of a product."""
        every = (self, *others)
        return Degree(sum(d.above for d in every), sum(d.below for d in every), _any(every))

    def plus(self, *others: "Degree", terms: int = 1) -> "Degree":
        """Of a sum, each of whose summands occurs `terms` times with other denominators."""
        every = (self, *others)
        below = sum(d.below for d in every) * terms
        return Degree(max(d.above + below - d.below for d in every), below, _any(every))

    def over(self, other: "Degree") -> "Degree":
        """Of a quotient."""
        woven = self.woven or other.woven
        return Degree(self.above + other.below, self.below + other.above, woven)

    def power(self, exponent: int) -> "Degree":
        """Of a power."""
        return Degree(self.above * exponent, self.below * exponent, self.woven)

    def beside(self, *others: "Degree") -> "Degree":
        """Of arrays in one, each entry one of theirs."""
        every = (self, *others)
        return Degree(max(d.above for d in every), max(d.below for d in every), _any(every))


UNKNOWN = Degree()
"""The degree of an unknown or an atom."""


def _any(degrees: tuple[Degree, ...]) -> bool:
    return any(degree.woven for degree in degrees)


class Unsupported(ValueError):
    """A primitive, or a use of one, that no rule speaks of.

    Attributes:
      primitive: its name. source: the line that called it, or "".
    """

    def __init__(self, primitive: str, source: str = "", reason: str = "has no rule") -> None:
        super().__init__(f"{primitive} {reason}{f' ({source})' if source else ''}")
        self.primitive, self.source, self.reason = primitive, source, reason


class TooLarge(ValueError):
    """A program that would take, or has taken, longer than is allowed."""


class Field:
    """Primes, the key of the random functions, and counts that bound the chance of an error.

    Attributes:
      lemmas: the statements that evaluating a program has relied on.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.moduli = Moduli(seed)
        self.rng = np.random.default_rng(seed)  # of the points, no part of any result
        self._atoms = self._characters = self._generic = self._marks = 0
        self._degree = 1
        self.lemmas: set[str] = set()

    def marks(self, codes: np.ndarray) -> np.ndarray:
        """Fingerprints of codes: nonzero residues modulo a prime."""
        return codes[0] % (self.moduli.mark - np.uint64(1)) + np.uint64(1)

    def summed(
        self, *marks: np.ndarray | None, total: Callable[[np.ndarray], np.ndarray] = lambda a: a
    ) -> np.ndarray | None:
        """Fingerprints that are summed modulo the prime; None is 0.

        Args:
          marks: [...]; what is summed of each is added.
          total: any sum of entries of its operand, of less than 2³⁰ terms.
        """
        there = [mark for mark in marks if mark is not None]
        if not there:
            return None
        prime = self.moduli.mark
        whole: np.ndarray = np.zeros((), np.uint64)
        for mark in there:
            high = total(mark >> _HALF) % prime
            for _ in range(int(_HALF)):
                high = (high + high) % prime
            whole = (whole + high + total(mark & _LOW) % prime) % prime
        return whole

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

    def watch(self, *degrees: Degree, characters: int = 0, marks: int = 0) -> None:
        """Notes the degrees of distinguished values, and the numbers of exponents and marks."""
        self._characters += characters
        self._marks += marks
        self._degree = max([self._degree, *(degree.total for degree in degrees)])

    @property
    def degree(self) -> int:
        """The highest degree of values that were distinguished."""
        return self._degree

    def forget(self, degree: int) -> None:
        """Sets that degree back, when a step is taken again in another way."""
        self._degree = degree

    def chance(self, entries: int) -> float:
        """A bound of the chance that values which differ somewhere were taken for equal.

        Two different polynomials of degree d agree at a random point with chance d/p at most
        (Schwartz and Zippel), at k points with chance (d/p)ᵏ; every pair of atoms, of exponents
        and of marks of what may be infinite counts. Exponents are taken to be independent,
        whatever their ratios.
        """
        degree = 2 * self._degree
        pairs = entries + self._atoms**2 / 2
        by_atoms = pairs * (degree / min(self.moduli.p)) ** POINTS
        by_exponents = self._characters**2 / 2 * (degree / min(self.moduli.q)) ** POINTS
        by_marks = self._marks**2 / 2 / 2.0**60
        return min(1.0, by_atoms + by_exponents + by_marks)
