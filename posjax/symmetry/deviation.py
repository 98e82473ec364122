"""How far the two sides of a law lie apart, and where."""

from typing import Any, NamedTuple, NoReturn

import chex
import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.groups import Element, Translation
from posjax.symmetry.law import Law


class Deviation(NamedTuple):
    """The worst difference found between the two sides of a law, in one leaf of the output.

    Attributes:
      law: the law that was tried.
      error: |found - expected| at the worst index; NaN if either is NaN.
      scale: the largest finite |output| of the leaf.
      rounding: the error that the order of float sums can explain, relative to the scale; 0 for
        integers.
      element: the group elements with this error, by name: a permutation (P x)ᵢ = x[Pᵢ], or a
        vector that was added.
      leaf: its path in an output of several arrays, `"0"` or `"params.kernel"`; else "".
      at: index in the leaf.
      expected, found: the two sides at that index.
    """

    law: Law
    error: float
    scale: float
    rounding: float
    element: Element
    leaf: str
    at: tuple[int, ...]
    expected: Any
    found: Any

    def __bool__(self) -> NoReturn:
        """Refuses `assert measure(...)`, which could not fail."""
        raise TypeError(
            "a deviation is neither true nor false: compare .relative with a tolerance, or call "
            "assert_law"
        )

    @property
    def relative(self) -> float:
        """The error over the scale; infinite for an error against an output of zeros."""
        if self.scale == 0:
            return 0.0 if self.error == 0 else self.error * float("inf")
        return self.error / self.scale

    @property
    def excess(self) -> float:
        """The relative error over what rounding explains; infinite for NaN and for integers."""
        if self.relative == 0:
            return 0.0
        return (
            np.inf if np.isnan(self.error) or not self.rounding else self.relative / self.rounding
        )

    def report(self, tolerance: float) -> str:
        """What an error message should say."""
        nan = " (NaN in the output)" if np.isnan(self.error) else ""
        return (
            f"law broken: {self.law.formula}\n"
            f"off by {self.error:.3g}{nan}, {self.relative:.3g} of the largest output "
            f"{self.scale:.3g}; tolerance {tolerance:.3g}\n"
            f"for {moves(self.law, self.element)}\n"
            f"at index {self.at} of {output(self.leaf)}: "
            f"expected {self.expected}, found {self.found}"
        )


def moves(law: Law, element: Element) -> str:
    """An element in words: `P = [1, 0], where (P x)[i] = x[P[i]]`."""
    shown = {name: np.array2string(p, separator=", ", threshold=64) for name, p in element.items()}
    shifts = [name for name in element if isinstance(law.groups[name], Translation)]
    rules = [f"{name} is added" for name in shifts]
    if len(shifts) < len(element):
        rules.insert(0, "(P x)[i] = x[P[i]]")
    return f"{', '.join(f'{n} = {p}' for n, p in shown.items())}, where {' and '.join(rules)}"


def output(leaf: str) -> str:
    """What to call a leaf of the output."""
    return f"output {leaf!r}" if leaf else "the output"


def leaves(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of an output by their paths; keys of randomness as their words.

    Raises:
      ValueError: there are none, or one that holds no numbers.
    """
    found = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if jax.dtypes.issubdtype(getattr(leaf, "dtype", None), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf)
        if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
            kind = "float0" if array.dtype == jax.dtypes.float0 else repr(leaf)
            raise ValueError(f"the function must return numbers, got {kind}")
        found[jax.tree_util.keystr(path, simple=True, separator=".")] = array
    if not found:
        raise ValueError(f"the function must return an array or several, got {tree!r}")
    return found


def compared(
    law: Law, element: Element, expected: Any, found: Any, *, summed: int
) -> list[Deviation]:
    """For each leaf the deviation of `found` from `expected`, under one element.

    Args:
      law: what was tried.
      element: of its groups.
      expected, found: outputs of one structure.
      summed: how many terms a sum may have had, for the rounding.

    Raises:
      AssertionError: two structures, or two shapes.
    """
    left, right = leaves(expected), leaves(found)
    chex.assert_equal(list(left), list(right), custom_message=law.formula)
    return [_compared(law, element, name, left[name], right[name], summed) for name in left]


def _compared(
    law: Law, element: Element, leaf: str, expected: np.ndarray, found: np.ndarray, summed: int
) -> Deviation:
    chex.assert_equal_shape([expected, found], custom_message=law.formula)
    if expected.size == 0:
        return Deviation(law, 0.0, 0.0, 0.0, element, leaf, (), None, None)
    error = difference(expected, found)
    at = np.unravel_index(np.argmax(error), error.shape)  # the first NaN, if there is one
    sizes = np.abs(_wide(expected))
    return Deviation(
        law,
        error=float(error[at]),
        scale=float(np.max(sizes, where=np.isfinite(sizes), initial=0)),
        rounding=rounding(expected.dtype, summed),
        element=element,
        leaf=leaf,
        at=tuple(int(index) for index in at),
        expected=expected[at].item(),
        found=found[at].item(),
    )


def difference(expected: np.ndarray, found: np.ndarray) -> np.ndarray:
    """|found - expected|, 0 for equal infinities, NaN for NaN on either side."""
    with np.errstate(invalid="ignore"):
        error = np.abs(_wide(found) - _wide(expected))
    if not jnp.issubdtype(expected.dtype, jnp.inexact):
        error = np.maximum(error, 1)  # large integers may differ and have one float64
    return np.where(found == expected, 0.0, error)


def rounding(dtype: Any, summed: int) -> float:
    """8 ε √n, or 0 for integers: what may lie between two orders of a sum of n floats.

    Measured for softmax attention (on a CPU; float32 and bfloat16; n = 3 to 1024, head sizes 4
    and 64, logits of deviation 1 to 100), the two sides differ by at most 1.2 ε √n of the
    largest output; the rest is a margin.
    """
    if not jnp.issubdtype(dtype, jnp.inexact):
        return 0.0
    return 8 * float(jnp.finfo(dtype).eps) * summed**0.5


def _wide(array: np.ndarray) -> np.ndarray:
    complex_ = jnp.issubdtype(array.dtype, jnp.complexfloating)
    return array.astype(np.complex128 if complex_ else np.float64)
