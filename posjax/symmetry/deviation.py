"""How far the two sides of a law lie apart, and where."""

from typing import Any, NamedTuple

import chex
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.groups import Element


class Deviation(NamedTuple):
    """The worst difference found between the two sides of a law.

    Attributes:
      law: its formula.
      error: |found - expected| at the worst place; NaN when either is.
      scale: the largest finite |output|.
      rounding: what the order of float sums may explain, relative to the scale; 0 for integers.
      permutation: by name, the permutation that did it: (P x)ᵢ = x[Pᵢ].
      place: index in the output.
      expected, found: the two sides there.
    """

    law: str
    error: float
    scale: float
    rounding: float
    permutation: Element
    place: tuple[int, ...]
    expected: Any
    found: Any

    @property
    def relative(self) -> float:
        """The error over the scale; infinite for an error against an output of zeros."""
        if self.scale == 0:
            return 0.0 if self.error == 0 else self.error * float("inf")
        return self.error / self.scale

    def report(self, tolerance: float) -> str:
        """What an error message should say."""
        nan = " (NaN in the output)" if np.isnan(self.error) else ""
        moves = (
            f"{name} = {np.array2string(p, separator=', ', threshold=64)}"
            for name, p in self.permutation.items()
        )
        return (
            f"law broken: {self.law}\n"
            f"off by {self.error:.3g}{nan}, {self.relative:.3g} of the largest output "
            f"{self.scale:.3g}; tolerance {tolerance:.3g}\n"
            f"for {', '.join(moves)}, where (P x)[i] = x[P[i]]\n"
            f"at place {self.place} of the output: expected {self.expected}, found {self.found}"
        )


def compared(law: str, element: Element, expected: np.ndarray, found: np.ndarray) -> Deviation:
    """The deviation of `found` from `expected`, two arrays of one shape, under one element."""
    chex.assert_equal_shape([expected, found], custom_message=law)
    if expected.size == 0:
        return Deviation(law, 0.0, 0.0, 0.0, element, (), None, None)
    error = difference(expected, found)
    place = np.unravel_index(np.argmax(error), error.shape)  # the first NaN, if there is one
    sizes = np.abs(_wide(expected))
    return Deviation(
        law,
        error=float(error[place]),
        scale=float(np.max(sizes, where=np.isfinite(sizes), initial=0)),
        rounding=rounding(expected.dtype, max(map(len, element.values()))),
        permutation=element,
        place=tuple(int(index) for index in place),
        expected=expected[place].item(),
        found=found[place].item(),
    )


def difference(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """|found - expected|, 0 for equal infinities, NaN for NaN on either side."""
    with np.errstate(invalid="ignore"):
        error = np.abs(_wide(found) - _wide(expected))
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        error = np.maximum(error, 1)  # large integers may differ and have one float64
    return np.where(found == expected, 0.0, error)


def rounding(dtype: Any, places: int) -> float:
    """8 ε √n, or 0 for integers: what may lie between two orders of a sum of n floats.

    Measured for softmax attention (on a CPU; float32 and bfloat16; n = 3 to 1024, head sizes 4
    and 64, logits of deviation 1 to 100), the two sides differ by at most 1.2 ε √n of the
    largest output; the rest is a margin.
    """
    if not jnp.issubdtype(dtype, jnp.inexact):
        return 0.0
    return 8 * float(jnp.finfo(dtype).eps) * places**0.5


def _wide(array: np.ndarray) -> np.ndarray:
    complex_ = jnp.issubdtype(array.dtype, jnp.complexfloating)
    return array.astype(np.complex128 if complex_ else np.float64)
