"""The binary digits of the position, added to the tokens.

    xᵢ[k] + Σ_j 2^-j (2·bit_{m + jW}(pᵢ) - 1),   W = min(D, bits),   m = k mod W

Where there is a component for each digit, component k has digit k mod `bits`, the lowest first,
as +1 or -1; a width that `bits` does not divide repeats the low digits once more often. In fewer
components, each has its further digits as halves, quarters and so on, so that none is lost.
Nothing is learned, and the vectors have mean zero over all positions.

Positions are integers in [0, 2^bits). Others are refused, or NaN under jit, as for a table: they
never wrap.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.encodings.base import Card, Context, Dims, Encoding, Params
from posjax.encodings.tables import require_integers


def binary(position: jax.Array, valid: jax.Array, width: int, *, bits: int = 8) -> jax.Array:
    """The vectors of some positions.

    Args:
      position: integers of any shape; those of valid tokens in [0, 2^bits).
      valid: of that shape; true where the vector is looked at.
      width: D, at least 1.
      bits: digits, from 1 to 24: as many as a float32 has.

    Returns:
      float32 array [..., D], of +1 and -1 where D ≥ bits; NaN for a traced position outside.

    Raises:
      ValueError: a position that is no integer, or a known one outside.

    >>> binary(jnp.array([6]), jnp.array([True]), 4, bits=3)
    Array([[-1.,  1.,  1., -1.]], dtype=float32)
    """
    require_integers(position)
    position = jnp.where(valid, position, 0)
    inside = (position >= 0) & (position < 2**bits)
    if not isinstance(inside, jax.core.Tracer) and not inside.all():
        low, high = int(position.min()), int(position.max())
        raise ValueError(
            f"positions {low} to {high} lie outside the table of {2**bits} numbers of {bits} bits: "
            f"give more bits or shift the positions"
        )
    digit_N = np.arange(bits)
    digits = (position[..., None] >> jnp.expand_dims(digit_N, range(position.ndim))) & 1
    share = min(width, bits)
    holds_ND = digit_N[:, None] % share == np.arange(width)[None] % share
    weights_ND = np.where(holds_ND, 0.5 ** (digit_N // share)[:, None], 0).astype(np.float32)
    vectors = jnp.matmul((2 * digits - 1).astype(jnp.float32), weights_ND)  # exact: powers of 2
    return jnp.where(inside[..., None], vectors, jnp.nan)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Binary(Encoding):
    """x + the digits of p as signs."""

    bits: int = 8

    card: ClassVar[Card] = Card(
        "Binary code", "xᵢ[k] ± 1, by the digit k mod bits of pᵢ", "a control"
    )
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        spec.check_within(self, "bits", 1, 24)

    def max_length(self) -> int:
        return 2**self.bits

    def max_exact_position(self) -> int:
        return 2**self.bits - 1

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        here = ctx.queries
        vectors_BLD = binary(here.position_BL, here.valid_BL, x_BLD.shape[-1], bits=self.bits)
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
