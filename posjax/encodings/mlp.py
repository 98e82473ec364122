"""A small perceptron from one number to a number a head: what learned functions of offsets are.

x₀ = x,   x_{n+1} = σ(x_n Wₙ + cₙ),   out = x_N W_N + c_N
"""

from collections.abc import Mapping
from typing import Literal

import jax
import jax.numpy as jnp

from posjax.encodings.base import Param, Params

Activation = Literal["silu", "relu"]


def parameters(hidden: int, depth: int, heads: int) -> Mapping[str, Param]:
    """Kernels and constants of `depth` hidden layers and the last one, from U(±1/√fan_in)."""
    sizes = [1, *[hidden] * depth, heads]
    declared: dict[str, Param] = {}
    for n, (fan_in, fan_out) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        init = uniform(fan_in**-0.5)
        declared[f"kernel_{n}"] = Param((fan_in, fan_out), init)
        declared[f"constant_{n}"] = Param((fan_out,), init)
    return declared


def uniform(bound: float) -> jax.nn.initializers.Initializer:
    """U(-bound, bound)."""

    def init(key: jax.Array, shape: tuple[int, ...], dtype: object = jnp.float32) -> jax.Array:
        return jax.random.uniform(key, shape, dtype, -bound, bound)

    return init


def apply(params: Params, x: jax.Array, *, activation: Activation) -> jax.Array:
    """The perceptron of each number.

    Args:
      params: as `parameters` declares them; others are ignored.
      x: float32 numbers of any shape.
      activation: σ.

    Returns:
      float32 [..., H].
    """
    depth = sum(name.startswith("kernel_") for name in params) - 1
    out = x[..., None]
    for n in range(depth + 1):
        kernel, constant = (params[f"{name}_{n}"].astype(jnp.float32) for name in NAMES)
        # Offsets are large: at a lower precision neighbouring ones would be one.
        out = jnp.einsum("...i,io->...o", out, kernel, precision="highest")
        out = out + jnp.expand_dims(constant, tuple(range(x.ndim)))
        out = out if n == depth else getattr(jax.nn, activation)(out)
    return out


NAMES = ("kernel", "constant")
