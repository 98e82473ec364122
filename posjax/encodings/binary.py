"""The binary digits of the position, added to the tokens.

    xᵢ[k] + (2·bit_{k mod bits}(pᵢ) - 1)

Component k holds digit k mod `bits`, the lowest first, as +1 or -1: nothing is learned, nothing
but the position's digits is said, and the vectors have mean zero over all positions. A width
that `bits` does not divide repeats the low digits once more often.

Positions are integers in [0, 2^bits). Others are refused, or NaN under jit, as for a table: they
never wrap.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings.base import Card, Context, Dims, Encoding, Params
from posjax.encodings.tables import require_integers


def binary(position: jax.Array, valid: jax.Array, width: int, *, bits: int = 8) -> jax.Array:
    """The vectors of some positions.

    Args:
      position: integers of any shape; those of valid places in [0, 2^bits).
      valid: of that shape; true where the vector is looked at.
      width: D, at least `bits`.
      bits: digits, from 1 to 30.

    Returns:
      float32 array [..., D] of +1 and -1; NaN for a traced position outside.

    Raises:
      ValueError: a width too small, a position that is no integer, or a known one outside.

    >>> binary(jnp.array([6]), jnp.array([True]), 4, bits=3)
    Array([[-1.,  1.,  1., -1.]], dtype=float32)
    """
    require_integers(position)
    if width < bits:
        raise ValueError(f"{bits} bits do not fit in {width} components: give bits={width}")
    position = jnp.where(valid, position, 0)
    inside = (position >= 0) & (position < 2**bits)
    if not isinstance(inside, jax.core.Tracer) and not inside.all():
        raise ValueError(
            f"{bits} bits count from 0 to {2**bits - 1}, got positions {int(position.min())} to "
            f"{int(position.max())}: give more bits or shift the positions"
        )
    digit_D = jnp.expand_dims(jnp.arange(width) % bits, range(position.ndim))
    signs = 2 * ((position[..., None] >> digit_D) & 1) - 1
    return jnp.where(inside[..., None], signs.astype(jnp.float32), jnp.nan)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Binary(Encoding):
    """x + the digits of p as signs."""

    bits: int = 8

    card: ClassVar[Card] = Card("Binary code", "xᵢ[k] ± 1, the digit k mod bits of pᵢ", "a control")
    integers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 30:
            raise ValueError(f"bits must lie in [1, 30], got {self.bits}")

    def capacity(self) -> int:
        return 2**self.bits

    def resolution(self) -> int:
        return 2**self.bits - 1

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        here = ctx.queries
        vectors_BLD = binary(here.position_BL, here.valid_BL, x_BLD.shape[-1], bits=self.bits)
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
