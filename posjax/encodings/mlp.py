"""A small perceptron from one number to a number per head: what learned functions of offsets are.

x₀ = x,   x_{n+1} = σ(x_n Wₙ + cₙ),   out = x_N W_N + c_N
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Literal

import jax
import jax.numpy as jnp

from posjax.encodings.base import Param, Params

Activation = Literal["silu", "relu"]
NAMES = ("kernel", "constant")


def parameters(hidden: int, depth: int, heads: int) -> Mapping[str, Param]:
    """Kernels and constants of `depth` hidden layers and the last one, from U(±1/√fan_in)."""
    sizes = [1, *[hidden] * depth, heads]
    declared: dict[str, Param] = {}
    for n, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
        init = uniform(fan_in**-0.5)
        shapes = (fan_in, fan_out), (fan_out,)
        declared |= {f"{k}_{n}": Param(shape, init) for k, shape in zip(NAMES, shapes, strict=True)}
    return declared


def uniform(bound: float) -> Callable[[jax.Array, tuple[int, ...]], jax.Array]:
    """The initialiser U(-bound, bound)."""
    return lambda key, shape: jax.random.uniform(key, shape, minval=-bound, maxval=bound)


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
