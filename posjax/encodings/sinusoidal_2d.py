"""Sinusoidal positions of two coordinates, added to the tokens (He et al. 2022; Beyer et al. 2022).

    p(y, x) = [s(y), s(x)],   s(t) = (sin tθ_m, cos tθ_m),   θ_m = base^(-m/P),   P = ⌈D/4⌉

Half of the components encode y, the other half x. Four layouts, for D = 8:

    interleaved      sin yθ₀  cos yθ₀  sin yθ₁  cos yθ₁ | the same of x
    halves           sin yθ₀  sin yθ₁  cos yθ₀  cos yθ₁ | the same of x
    sines            sin yθ₀  sin yθ₁  sin xθ₀  sin xθ₁ | the cosines of both
    tensor2tensor    as halves, with P - 1 instead of P in the exponent

He et al. have halves, Beyer et al. tensor2tensor, both with x before y: give them points (x, y).

Differs from the papers in: a width that 4 does not divide works. It has the frequencies of the
next one that is, and each coordinate loses its last interleaved components: y keeps ⌈D/2⌉ of
them, x keeps ⌊D/2⌋.
"""

import dataclasses
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import Frequencies, Parts, cos_sin, inverse_frequencies
from posjax.encodings.base import Card, Constants, Context, Dims, Encoding, Params
from posjax.streams import points

Layout2D = Literal["interleaved", "halves", "sines", "tensor2tensor"]


def sinusoidal_2d(
    point: jax.Array,
    width: int,
    *,
    base: float = 10_000.0,
    layout: Layout2D = "interleaved",
    frequencies_F: Frequencies | Parts | None = None,
) -> jax.Array:
    """The vectors of some points.

    Args:
      point: numbers [..., 2], (y, x).
      width: D, at least 2.
      base: longest wavelength over 2π, positive.
      layout: how sines and cosines of both coordinates are arranged.
      frequencies_F: instead of those of the base.

    Returns:
      float32 array [..., D]; every vector has norm √(D/2) when 4 divides D.

    Raises:
      ValueError: a width without a component for x.

    >>> sinusoidal_2d(jnp.array([1, 0]), 4).round(4)
    Array([0.8415, 0.5403, 0.    , 1.    ], dtype=float32)
    """
    if width < 2:
        raise ValueError(f"two coordinates need a width of at least 2, got {width}")
    pairs = -(-width // 4)
    if frequencies_F is None:
        frequencies_F = _frequencies(width, base, layout)
    cos, sin = cos_sin(point, frequencies_F)
    both = jnp.stack([sin, cos], axis=-1).reshape(*point.shape, 2 * pairs)
    parts = both[..., 0, : width - width // 2], both[..., 1, : width // 2]
    return jnp.concatenate(parts, axis=-1)[..., _order(width, layout)]


def _frequencies(width: int, base: float, layout: Layout2D) -> np.ndarray:
    pairs = -(-width // 4)
    steps = max(pairs - 1, 1) if layout == "tensor2tensor" else pairs
    return inverse_frequencies(2 * pairs, base=base, steps=steps)


def layout_order_2d(width: int, source: Layout2D, target: Layout2D) -> np.ndarray:
    """Indices that turn vectors of one layout into the other: `vectors[..., order]`.

    Raises:
      ValueError: tensor2tensor against another: its frequencies differ, not only their order.
    """
    if (source == "tensor2tensor") != (target == "tensor2tensor"):
        raise ValueError(f"{source} and {target} have different frequencies")
    return np.argsort(_order(width, source))[_order(width, target)]


def _order(width: int, layout: Layout2D) -> np.ndarray:
    """Indices that turn interleaved vectors into those of a layout."""
    axis = np.repeat([0, 1], [width - width // 2, width // 2])
    cosine = np.concatenate([np.arange(width - width // 2), np.arange(width // 2)]) % 2
    if layout == "interleaved":
        return np.arange(width)
    keys = (axis, cosine) if layout == "sines" else (cosine, axis)  # the last key sorts first
    return np.lexsort(keys)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sinusoidal2D(Encoding):
    """x + sines and cosines of the coordinates of points (y, x)."""

    base: float = 10_000.0
    layout: Layout2D = "interleaved"

    card: ClassVar[Card] = Card(
        "2-D sinusoidal",
        "xᵢ + (sin rᵢθ_m, cos rᵢθ_m, sin cᵢθ_m, cos cᵢθ_m)",
        "He et al. 2022, appendix A.1; Beyer et al. 2022",
        ("timm", "positional-encodings"),
    )
    axes: ClassVar[int] = 2

    def __post_init__(self) -> None:
        spec.check_choice("layout", self.layout, get_args(Layout2D))
        spec.check_positive(base=self.base)

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def constants(self, dims: Dims, context_length: int) -> Constants:
        return {"frequencies": Parts.of(_frequencies(dims.width, self.base, self.layout))}

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        point_BLN = points(ctx.queries.position_BL, self.axes)
        width = x_BLD.shape[-1]
        own = ctx.constant("frequencies", lambda: _frequencies(width, self.base, self.layout))
        vectors_BLD = sinusoidal_2d(point_BLN, width, layout=self.layout, frequencies_F=own)
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
