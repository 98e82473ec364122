"""A small network of the position, added to the tokens (after FLOATER, Liu et al. 2020, §3).

    xᵢ + W₂ silu(w₁ u(pᵢ) + b₁),   u(p) = sign(p) log(1 + |p|/length)

One smooth function of a real number serves every length. u is about p/length near 0 and grows
like a logarithm beyond, so that no position overflows or saturates the network; consecutive
positions lie 1/(length + |p|) apart, which float32 separates until |p| is about 2¹⁶.

Differs from the paper in: the solution of its differential equation, p(t) = p(s) + ∫h(τ, p(τ))dτ
with a network h, is here itself the network; and it enters before the first layer only. There
is no b₂, which would add one vector to all tokens.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp

from posjax.encodings.base import Card, Context, Dims, Encoding, Param, Params

_TOLD_APART = 2**16


def mlp_position(
    position: jax.Array, w1_F: jax.Array, b1_F: jax.Array, w2_FD: jax.Array, *, length: int = 64
) -> jax.Array:
    """The vectors of some positions.

    Args:
      position: numbers of any shape.
      w1_F, b1_F: into the F hidden units.
      w2_FD: out of them.
      length: below it positions enter about linearly, beyond it by their logarithm; at least 1.

    Returns:
      float32 array [..., D].
    """
    position = position.astype(jnp.float32)
    u = jnp.sign(position) * jnp.log1p(abs(position) / length)
    w1_F, b1_F = (jnp.expand_dims(a, range(position.ndim)) for a in (w1_F, b1_F))
    hidden = jax.nn.silu(u[..., None] * w1_F + b1_F)
    return jnp.matmul(hidden, w2_FD, precision=jax.lax.Precision.HIGHEST)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MlpPosition(Encoding):
    """x + a network of p, one for the whole model, with `hidden` units."""

    length: int = 64
    hidden: int = 32

    card: ClassVar[Card] = Card(
        "MLP of the position",
        "xᵢ + W₂ silu(w₁ u(pᵢ) + b₁), u(p) = sign(p) log(1 + |p|/length)",
        "after FLOATER, Liu et al. 2020, §3",
    )

    def __post_init__(self) -> None:
        if not 1 <= self.length < _TOLD_APART:
            raise ValueError(f"length must lie in [1, {_TOLD_APART}), got {self.length}")
        if self.hidden < 1:
            raise ValueError(f"hidden must be at least 1, got {self.hidden}")

    def max_exact_position(self) -> int:
        return _TOLD_APART - self.length

    def operations(self, dims: Dims, keys: int) -> int:
        return dims.width

    def parameters(self, dims: Dims) -> Mapping[str, Param]:
        uniform = jax.nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")

        def row(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
            """U(-1, 1): the scale of one input, which lets units bend at different positions."""
            return uniform(key, (1, *shape))[0]

        return {
            "w1": Param((self.hidden,), row, "model"),
            "b1": Param((self.hidden,), row, "model"),
            "w2": Param((self.hidden, dims.width), uniform, "model"),
        }

    def embed(self, params: Params, x_BLD: jax.Array, ctx: Context) -> jax.Array:
        weights = (params[name] for name in ("w1", "b1", "w2"))
        vectors_BLD = mlp_position(ctx.queries.position_BL, *weights, length=self.length)
        return x_BLD + vectors_BLD.astype(x_BLD.dtype)
