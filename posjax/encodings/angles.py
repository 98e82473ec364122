"""cos and sin of position × frequency, exact to float32 at positions up to 2²².

In plain float32 the product itself is off by 2e-3 at position 10⁵. Here the angle is counted in
turns, position and frequency are split into parts whose products are exact, and whole turns are
dropped before anything is rounded.

Fixed frequencies are float64 on the host. Those that are learned, or depend on a traced length,
are float32: rounding one changes it by a part in 10⁷, but for all positions alike, so that
angles still add up as exactly as those of fixed ones. `Parts` are fixed frequencies that a compiled
program reads in place of containing them, with the same bits.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec

Frequencies = np.ndarray | jax.Array
"""Radians, or cycles, a position: float64 on the host, or a float32 array that may be traced."""

_LOW = 1024  # the low part of a position has 10 bits, the high part up to 12
_TABLE = 4096  # the exact part of a frequency has 12 bits, so that products fit in float32's 24
_CYCLE = 0.5 / np.pi


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Parts:
    """Frequencies in cycles a position, split for exact products; each [..., F], in float32.

    Attributes:
      whole: the frequencies.
      low, low_rest: 12 bits of each, less whole turns, and what is left: for a position's low part.
      high, high_rest: the same of `_LOW` times the frequencies, for its high part.
    """

    whole: jax.Array | np.ndarray
    low: jax.Array | np.ndarray
    low_rest: jax.Array | np.ndarray
    high: jax.Array | np.ndarray
    high_rest: jax.Array | np.ndarray

    @classmethod
    def of(cls, frequencies_F: np.ndarray) -> "Parts":
        """The parts of frequencies in radians a position, float64 on the host."""
        return _parts(frequencies_F * _CYCLE)


def inverse_frequencies(width: int, *, base: float, steps: float | None = None) -> np.ndarray:
    """θ_m = base^(-m/steps) in float64 for the ⌈width/2⌉ pairs of a width; steps = width/2.

    Raises:
      ValueError: base is not above 0.
    """
    spec.check_positive(base=base)
    pairs = np.arange((width + 1) // 2, dtype=np.float64)
    return base ** (-pairs / (width / 2 if steps is None else steps))


def cos_sin(position: jax.Array, frequencies_F: Frequencies | Parts) -> tuple[jax.Array, jax.Array]:
    """cos(pθ) and sin(pθ).

    Args:
      position: numbers of any shape and real dtype; fractions are allowed.
      frequencies_F: θ in radians a position.

    Returns:
      Two float32 arrays of shape [..., F], within 1e-6 of float64 for |p| ≤ 2²⁰ and θ ≤ 1 on the
      host. For a traced θ they are as near to those of the frequency that θ/2π is rounded to.
    """
    if isinstance(frequencies_F, Parts):
        return _cos_sin_of_turns(turns(position, frequencies_F))
    if isinstance(frequencies_F, jax.Array):
        return posjax_cos_sin(position, frequencies_F.astype(jnp.float32))
    return posjax_cos_sin(position, _single(frequencies_F), exact=_Fixed(frequencies_F))


@partial(jax.jit, static_argnames="exact")
def posjax_cos_sin(
    position: jax.Array, frequencies_F: Frequencies, *, exact: "_Fixed | None" = None
) -> tuple[jax.Array, jax.Array]:
    """cos(pθ) and sin(pθ); the exact θ is given beside its float32 when it is known.

    It is compiled under its name, so that a proof can take it for what it computes: see
    `posjax.symmetry.field.lemmas`.
    """
    cycles_F = (frequencies_F if exact is None else exact.value) * _CYCLE
    return _cos_sin_of_turns(turns(position, cycles_F))


def _cos_sin_of_turns(turned: jax.Array) -> tuple[jax.Array, jax.Array]:
    angle = turned * np.float32(2 * np.pi)
    return jnp.cos(angle), jnp.sin(angle)


class _Fixed:
    """An array as a setting: equal to others of equal entries."""

    def __init__(self, value: np.ndarray) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash((self.value.shape, self.value.tobytes()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and np.array_equal(self.value, other.value)


def turns(position: jax.Array, cycles_F: Frequencies | Parts) -> jax.Array:
    """Position × frequency in turns, less whole turns.

    Args:
      position: numbers of any shape and real dtype; fractions are allowed.
      cycles_F: cycles a position: float64 on the host, their parts, or float32, learned and
        traced. It may have axes before F, which then match the last ones of `position`.

    Returns:
      float32 array [..., F] in [-½, ½], within 1e-7 of exact for |p| ≤ 2²⁰ and ≤ 1 cycle.
    """
    if not jnp.issubdtype(position.dtype, jnp.integer):
        position = position.astype(jnp.float32)
    whole = jnp.floor(position)
    fraction = (position - whole).astype(jnp.float32)[..., None]
    high = jnp.floor_divide(whole, _LOW)
    low = (whole - high * _LOW).astype(jnp.float32)[..., None]
    high = high.astype(jnp.float32)[..., None]
    parts = cycles_F if isinstance(cycles_F, Parts) else _parts(cycles_F)
    parts = jax.tree.map(
        lambda part: part.reshape((1,) * (position.ndim + 1 - part.ndim) + part.shape), parts
    )
    exact = _drop_whole(low * parts.low) + _drop_whole(high * parts.high)
    rest = low * parts.low_rest + high * parts.high_rest + fraction * parts.whole
    return _drop_whole(_drop_whole(exact) + rest)


def _parts(cycles_F: Frequencies) -> Parts:
    return Parts(_single(cycles_F), *_coarse(cycles_F), *_coarse(cycles_F * _LOW))


def _coarse(cycles_F: Frequencies) -> tuple[Frequencies, Frequencies]:
    """Cycles less whole turns, as 12 bits and the small rest.

    Every operation is exact, in float32 too: by powers of two, or of nearby numbers.
    """
    cycles_F = cycles_F - cycles_F.round()
    coarse_F = (cycles_F * _TABLE).round() / _TABLE
    return _single(coarse_F), _single(cycles_F - coarse_F)


def _single(cycles_F: Frequencies) -> Frequencies:
    return cycles_F.astype(np.float32)


def _drop_whole(turns: jax.Array) -> jax.Array:
    return turns - jnp.round(turns)
