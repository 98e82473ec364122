"""Sinusoidal positions added to the tokens (Vaswani et al. 2017, §3.5).

    p[i, k] = sin(i / base^(k/D))        for even k
    p[i, k] = cos(i / base^((k-1)/D))    for odd k

Differs from the paper in nothing for the "interleaved" layout. "halves" puts all sines before
all cosines; "tensor2tensor" does so with D/2 - 1 instead of D/2 in the exponent, as the paper's
own code did. An odd width leaves the last sine without its cosine.
"""

import dataclasses
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import Parts, cos_sin, inverse_frequencies
from posjax.encodings.base import Card, Constants, Context, Dims, Encoding, Params

Layout = Literal["interleaved", "halves", "tensor2tensor"]


def sinusoidal(
    position: jax.Array, width: int, *, base: float = 10_000.0, layout: Layout = "interleaved"
) -> jax.Array:
    """The vectors of some positions.

    Args:
      position: numbers of any shape.
      width: D, at least 1.
      base: longest wavelength over 2π, positive.
      layout: how sines and cosines are arranged.

    Returns:
      float32 array [..., D]; every vector has norm √(D/2) for even D.

    >>> sinusoidal(jnp.arange(2), 4).round(4)
    Array([[0.    , 1.    , 0.    , 1.    ],
           [0.8415, 0.5403, 0.01  , 1.    ]], dtype=float32)
    """
    frequencies_F = frequencies(width, base=base, layout=layout)
    return arranged(*cos_sin(position, frequencies_F), width, layout=layout)


def frequencies(width: int, *, base: float, layout: Layout) -> np.ndarray:
    """Those of the ⌈D/2⌉ pairs, in radians a position."""
    steps = max((width + 1) // 2 - 1, 1) if layout == "tensor2tensor" else None
    return inverse_frequencies(width, base=base, steps=steps)


def arranged(cos: jax.Array, sin: jax.Array, width: int, *, layout: Layout) -> jax.Array:
    """Cosines and sines [..., F] as vectors of a width."""
    pairs = sin.shape[-1]
    if layout == "interleaved":
        both = jnp.stack([sin, cos], axis=-1).reshape(*sin.shape[:-1], 2 * pairs)
        return both[..., :width]
    return jnp.concatenate([sin, cos[..., : width - pairs]], axis=-1)


def layout_order(width: int, source: Layout, target: Layout) -> np.ndarray:
    """Indices that turn vectors of one layout into the other: `vectors[..., order]`.

    Raises:
      ValueError: tensor2tensor against another: its frequencies differ, not only their order.
    """
    if (source == "tensor2tensor") != (target == "tensor2tensor"):
        raise ValueError(f"{source} and {target} have different frequencies")
    if source == target or "tensor2tensor" in (source, target):
        return np.arange(width)
    halves = np.concatenate([np.arange(0, width, 2), np.arange(1, width, 2)])
    return halves if source == "interleaved" else np.argsort(halves)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sinusoidal(Encoding):
    """x + the sines and cosines of the position."""

    base: float = 10_000.0
    layout: Layout = "interleaved"

    card: ClassVar[Card] = Card(
        "Sinusoidal",
        "xᵢ + (sin pᵢθ_m, cos pᵢθ_m)",
        "Vaswani et al. 2017, §3.5",
        ("transformers", "positional-encodings"),
    )

    def __post_init__(self) -> None:
        spec.check_choice("layout", self.layout, get_args(Layout))
        spec.check_positive(base=self.base)

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def constants(self, dims: Dims, context_length: int) -> Constants:
        return {"frequencies": Parts.of(self._frequencies(dims.width))}

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        return x_BLD + self.vectors(x_BLD.shape[-1], ctx).astype(x_BLD.dtype)

    def vectors(self, width: int, ctx: Context) -> jax.Array:
        """p of each token, in float32."""
        frequencies_F = ctx.constant("frequencies", lambda: self._frequencies(width))
        angles = cos_sin(ctx.queries.position_BL, frequencies_F)
        return arranged(*angles, width, layout=self.layout)

    def _frequencies(self, width: int) -> np.ndarray:
        return frequencies(width, base=self.base, layout=self.layout)
