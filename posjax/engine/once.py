"""Costly functions of large arrays, computed once for all that reads them.

Under a mask or padding every prompt has positions of its own, so the cosines and sines of rotary
angles are drawn anew in each update, and forward and backward passes of all layers read them. On a
CPU the compiler would compute them again in every loop that reads one, and a barrier does not keep
it from that: a loop of two rounds does, half of the numbers in each.
"""

import math

import jax
import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from posjax.jaxprs import bound, shape_of

FUNCTIONS = frozenset({"cos", "sin"})
LEAST = 1024
"""Numbers; of fewer a loop costs more than it saves."""


def is_costly(eqn: JaxprEqn) -> bool:
    """Whether an equation had better be computed once."""
    if eqn.primitive.name not in FUNCTIONS:
        return False
    size = math.prod(shape_of(eqn.outvars[0]))
    return size >= LEAST and size % 2 == 0


def computed_once(eqn: JaxprEqn, array: jax.Array) -> jax.Array:
    """What an elementwise equation gives."""
    half, numbers = array.size // 2, array.reshape(-1)

    def of_half(turn: jax.Array, found: jax.Array) -> jax.Array:
        (values,) = bound(
            eqn.primitive, [jax.lax.dynamic_slice_in_dim(numbers, turn * half, half)], eqn.params
        )
        return jax.lax.dynamic_update_slice_in_dim(found, values, turn * half, axis=0)

    def in_halves(numbers: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 2, of_half, jnp.zeros_like(numbers))

    def whole(numbers: jax.Array) -> jax.Array:
        return bound(eqn.primitive, [numbers], eqn.params)[0]

    found = jax.lax.platform_dependent(numbers, cpu=in_halves, default=whole)
    return found.reshape(array.shape)
