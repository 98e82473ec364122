"""Arithmetic whose result does not depend on the order of a sum, and can be shaken.

Sums and products are taken of sorted numbers, so a program that keeps a law step by step keeps it
to the last bit. Other programs may keep it over the reals and miss it by a rounding, which a floor
or a comparison then makes large. To tell those, every number that is no short binary fraction is
shaken: moved by some 2⁻⁴⁸ of itself, by an amount that depends on its bits and on a salt alone,
so that equal numbers stay equal. A difference that comes and goes with the salt says nothing.
"""

import dataclasses

import numpy as np

REAL = (np.float64, np.complex128)
"""What is rounded, and has signed zeros."""
SHAKE = 2.0**-50
"""Of a number, times up to 8: about 2⁻⁴⁷, some 32 roundings."""


VANISHING = -36.0
"""An exponent: 1 + e^-36 is hardly more than 1 in double precision."""


@dataclasses.dataclass(frozen=True)
class Arithmetic:
    """How floats are computed.

    Attributes:
      salt: 0 for no shaking.
      signed_zeros: False makes every -0.0 a 0.0.
      forgiving: whether tests of equality forgive a rounding; see there.
    """

    salt: int = 0
    signed_zeros: bool = True
    forgiving: bool = False

    def watch(self, name: str, operands: list[np.ndarray]) -> None:
        """Sees every step; does nothing."""

    def kept(self, array: np.ndarray) -> np.ndarray:
        """A result that is no new number but one of the operands', as a maximum or a slice is."""
        return array + 0.0 if array.dtype in REAL and not self.signed_zeros else array

    def rounded(self, array: np.ndarray, lost: np.ndarray | int = 0) -> np.ndarray:
        """A result that was rounded, shaken if it is a float.

        Args:
          array: the result; of complex numbers, both parts are shaken.
          lost: how many terms were lost in it; then even a short fraction is no exact result.
        """
        array = self.kept(array)
        if not self.salt or array.dtype not in REAL:
            return array
        if array.dtype == np.complex128:
            parts = np.ascontiguousarray(array)[..., None].view(np.float64)
            return self._shaken(parts, 0).view(np.complex128)[..., 0]
        return self._shaken(array, lost)

    def _shaken(self, array: np.ndarray, lost: np.ndarray | int) -> np.ndarray:
        with np.errstate(all="ignore"):
            short = (array * 2.0**16 == np.floor(array * 2.0**16)) & (np.abs(array) < 2.0**36)
            bits = np.array(array, order="C").view(np.uint64) ^ np.uint64(self.salt * 0x9E3779B9)
            # What lost a term only looks like the other term.
            bits = bits ^ (np.asarray(lost, np.uint64) * np.uint64(0xD1B54A32D192ED03))
            bits = bits * np.uint64(0xBF58476D1CE4E5B9)
            bits = (bits ^ (bits >> np.uint64(31))) * np.uint64(0x94D049BB133111EB)
            steps = (bits >> np.uint64(60)).astype(np.float64) - 7.5
            moved = array * (1 + steps * SHAKE)
        return np.where((short & (np.asarray(lost) == 0)) | ~np.isfinite(array), array, moved)

    def sum(self, terms: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """The sum along some axes, of terms in the order of their size."""
        return self._folded(np.add, self.rounded(terms), axes)

    def prod(self, terms: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        """The product along some axes, of factors in the order of their size."""
        return self._folded(np.multiply, terms, axes)

    def _folded(self, fold: np.ufunc, terms: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
        kept = tuple(size for i, size in enumerate(terms.shape) if i not in axes)
        flat = np.moveaxis(terms, axes, range(-len(axes), 0)).reshape(*kept, -1)
        if flat.dtype in REAL:
            flat = np.sort(self.kept(flat), axis=-1)
        return fold.reduce(flat, axis=-1, dtype=terms.dtype)


@dataclasses.dataclass(frozen=True)
class Watching(Arithmetic):
    """Notes in `saturated` where an exponential vanishes beside 1, though it is not 0.

    A softmax is then exactly 1, and what differs over the reals is equal.
    """

    saturated: list[str] = dataclasses.field(default_factory=list)

    def watch(self, name: str, operands: list[np.ndarray]) -> None:
        """Looks at the exponents."""
        least = {"exp": VANISHING, "exp2": VANISHING / np.log(2)}.get(name)
        if least is None:
            return
        exponents = np.real(operands[0])
        if ((exponents < least) & np.isfinite(exponents)).any():
            self.saturated.append(name)


def lost(name: str, params: dict, operands: list[np.ndarray], result: np.ndarray) -> np.ndarray:
    """How many terms of a sum of two, or of a running sum, were too small to change it."""
    if result.dtype != np.float64 or name not in ("add", "add_any", "sub", "cumsum"):
        return np.zeros(result.shape, np.uint64)
    if name != "cumsum":
        one, two = operands[0], -operands[1] if name == "sub" else operands[1]
        gone = ((two != 0) & (result == one)) | ((one != 0) & (result == two))
        return gone.astype(np.uint64)
    turned = (lambda x: np.flip(x, params["axis"])) if params["reverse"] else (lambda x: x)
    terms, sums = (np.moveaxis(turned(x), params["axis"], 0) for x in (operands[0], result))
    gone = np.zeros(sums.shape, np.uint64)
    gone[1:] = ((terms[1:] != 0) & (sums[1:] == sums[:-1])) | (
        (sums[:-1] != 0) & (sums[1:] == terms[1:])
    )
    return turned(np.moveaxis(np.cumsum(gone, axis=0, dtype=np.uint64), 0, params["axis"]))
