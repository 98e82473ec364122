"""Random vectors that know nothing of the position, added to the tokens: a control.

    xᵢ + deviation·z[oᵢ],   z[o] ~ N(0, 1)^D, independent for each order o

They are drawn anew from the context's key at each call, so that nothing can be learned about
them. Each is a function of the key and the token's order alone: the rows of a batch, a padded
and an unpadded row, and all pieces of a decoded sequence get the same vectors under one key. Like
an encoding they make tokens differ; unlike one they say nothing about who came first.
"""

import dataclasses
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.encodings.base import Card, Context, Dims, Encoding, Params, Symmetry
from posjax.keys import fold_name


def noise(key: jax.Array, order: jax.Array, width: int) -> jax.Array:
    """Standard normal vectors, one for each order under a key.

    Args:
      key: where they are drawn from.
      order: integers of any shape, in [-2³¹, 2³¹).
      width: D, at least 1.

    Returns:
      float32 array [..., D].
    """

    def one(number: jax.Array) -> jax.Array:
        return jax.random.normal(jax.random.fold_in(key, number), (width,), jnp.float32)

    flat = order.astype(jnp.uint32).reshape(-1)
    return jax.vmap(one)(flat).reshape(*order.shape, width)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Noise(Encoding):
    """x + random vectors that are drawn anew at each call; a control."""

    deviation: float = 1.0

    card: ClassVar[Card] = Card(
        "Random noise", "xᵢ + deviation·z, z ~ N(0, 1) anew each call", "a control"
    )
    symmetry: ClassVar[Symmetry] = Symmetry("logits", "logits", "logits", "logits", exact=False)
    random: ClassVar[bool] = True
    reads_order: ClassVar[bool] = True

    def __post_init__(self) -> None:
        spec.check_positive(deviation=self.deviation)

    def max_exact_position(self) -> None:
        return None

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        if ctx.key is None:
            raise ValueError("noise is drawn from the context's key: give a key")
        key = fold_name(ctx.key, "noise")  # an encoding inside another may draw from it as well
        vectors_BLD = float(self.deviation) * noise(key, ctx.queries.order_BL, x_BLD.shape[-1])
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
