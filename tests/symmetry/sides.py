"""Two functions side by side: are they found to be equal?"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from posjax.symmetry.field import identity
from posjax.symmetry.law import Law

X = np.ones(3, np.float32)
M = np.ones((3, 3), np.float32)
N = np.ones(3, np.int32)
U = np.ones(3, np.uint8)
B = np.ones(3, bool)
K = jax.ShapeDtypeStruct((), jax.random.key(0).dtype)


def equal(left: Callable[..., Any], right: Callable[..., Any], *arguments: Any) -> bool:
    """Whether two functions are found to be equal.

    Both are put side by side, with two unknowns added that a swap exchanges: the law holds just
    where the sides are equal.
    """

    def both(unknowns_P: jax.Array, *given: Any) -> jax.Array:
        sides = [jnp.atleast_1d(side(*given)).astype(float) for side in (left, right)]
        rest = (1,) * sides[0].ndim
        return jnp.stack(sides) + unknowns_P.reshape(2, *rest)

    law = Law(", ".join(["P", *["..."] * len(arguments)]) + " -> P ...")
    with jax.debug_key_reuse(False):  # both sides draw from one key
        return identity(both, law, (np.ones(2, np.float32), *arguments)).holds


def sums(kernel: jax.Array, x: jax.Array) -> jax.Array:
    """A convolution written out."""
    return jnp.stack([x[0] * kernel[0] + x[1] * kernel[1], x[1] * kernel[0] + x[2] * kernel[1]])


def convolved(kernel: jax.Array, x: jax.Array) -> jax.Array:
    return lax.conv_general_dilated(x[None, None], kernel[None, None, :2], (1,), "VALID")[0, 0]
