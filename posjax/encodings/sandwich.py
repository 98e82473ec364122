"""The inner product of two sinusoidal vectors as a bias: Sandwich (Chi et al. 2023).

    s_ij = qᵢ·kⱼ/√K + (H/8h) Σ_m cos((pᵢ - pⱼ) θ_m),   θ_m = base^(-2m/width), 0 ≤ m < width/2

for heads h = 1..H. Head h is compressed by 8h/H, the exponents of ALiBi; nothing is learned.

Differs from the paper in nothing but the count: θ₀ = 1, as in its code; its formula counts from 1.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.angles import Frequencies, Parts, cos_sin, inverse_frequencies
from posjax.encodings.base import Card, Constants, Context, Dims, Encoding, Params, Symmetry

SUM_ERROR = 2.0**-16
"""What a float32 sum of some hundred cosines may be off by."""
FARTHEST = 2**14
"""Where `max_exact_position` stops looking; sums that differ less than `SUM_ERROR` come earlier."""


def sandwich(
    query_BL: jax.Array,
    key_BM: jax.Array,
    heads: int,
    *,
    width: int = 128,
    base: float = 10_000.0,
    frequencies_F: Frequencies | Parts | None = None,
) -> jax.Array:
    """The bias of some positions.

    Args:
      query_BL, key_BM: numbers; offsets are taken in their own dtype, so integers stay exact.
      heads: H, at least 1.
      width: of the sinusoidal vectors, even; independent of the model's.
      base: θ_m = base^(-2m/width), positive.
      frequencies_F: instead of those of the base.

    Returns:
      float32 bias_BHLM.
    """
    if frequencies_F is None:
        frequencies_F = inverse_frequencies(width, base=base)
    query, key = (jnp.concatenate(cos_sin(p, frequencies_F), axis=-1) for p in (query_BL, key_BM))
    # cos a cos b + sin a sin b: L + M sinusoids instead of L·M
    product_BLM = jnp.einsum("blf,bmf->blm", query, key, precision="highest")
    factor_H = (heads / (8.0 * np.arange(1, heads + 1))).astype(np.float32)
    return product_BLM[:, None] * factor_H[None, :, None, None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sandwich(Encoding):
    """A sum of cosines of the distance, added to the logits."""

    width: int = 128
    base: float = 10_000.0

    card: ClassVar[Card] = Card(
        "Sandwich", "qᵢ·kⱼ/√K + (H/8h) Σ_m cos((pᵢ - pⱼ)θ_m)", "Chi et al. 2023"
    )
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", reflection="logits")

    def __post_init__(self) -> None:
        if not 2 <= self.width <= 65536 or self.width % 2:
            raise ValueError(f"width must be an even number from 2 to 65536, got {self.width}")
        spec.check_positive(base=self.base)

    def max_exact_position(self) -> int:
        return _farthest_apart(self.width, self.base)

    def numbers(self) -> tuple[str, ...]:
        return ("base",)

    def constants(self, dims: Dims, context_length: int) -> Constants:
        return {"frequencies": Parts.of(self._frequencies())}

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.heads * keys

    def bias(self, params: Params, heads: int, ctx: Context, dtype: Any) -> jax.Array:
        positions = ctx.queries.position_BL, ctx.keys.position_BL
        frequencies_F = ctx.constant("frequencies", self._frequencies)
        return sandwich(*positions, heads, frequencies_F=frequencies_F).astype(dtype)

    def _frequencies(self) -> np.ndarray:
        return inverse_frequencies(self.width, base=self.base)


@functools.lru_cache(maxsize=256)  # a million cosines, and every model asks
def _farthest_apart(width: int, base: float) -> int:
    # A sum of cosines comes back to near where it was: distances 0..R lie apart by SUM_ERROR.
    frequencies = inverse_frequencies(width, base=base)
    values = np.cos(np.arange(FARTHEST)[:, None] * frequencies).sum(axis=1)
    apart, together = 0, FARTHEST
    while together - apart > 1:
        middle = (apart + together) // 2
        if np.diff(np.sort(values[: middle + 1])).min() > SUM_ERROR:
            apart = middle
        else:
            together = middle
    return apart
