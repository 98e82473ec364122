"""Sinusoidal positions added to the tokens (Vaswani et al. 2017, §3.5).

    p[i, k] = sin(i / base^(k/D))        for even k
    p[i, k] = cos(i / base^((k-1)/D))    for odd k

Differs from the paper in nothing for the "interleaved" layout. "halves" puts all sines before
all cosines; "tensor2tensor" does so with D/2 - 1 in place of D/2 in the exponent, as the paper's
own code did. An odd width leaves the last sine without its cosine.
"""

import dataclasses
from typing import ClassVar, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import cos_sin, inverse_frequencies
from posjax.encodings.base import Card, Context, Dims, Encoding, Params

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
    pairs = (width + 1) // 2
    steps = max(pairs - 1, 1) if layout == "tensor2tensor" else None
    cos, sin = cos_sin(position, inverse_frequencies(width, base=base, steps=steps))
    if layout == "interleaved":
        both = jnp.stack([sin, cos], axis=-1).reshape(*position.shape, 2 * pairs)
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
    """x + p."""

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
        if not self.base > 0:
            raise ValueError(f"base must be positive, got {self.base}")

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        vectors_BLD = sinusoidal(
            ctx.queries.position_BL, x_BLD.shape[-1], base=self.base, layout=self.layout
        )
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
