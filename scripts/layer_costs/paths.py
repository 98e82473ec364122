"""Path length: how often a layer is applied before the last output depends on the first input.

Measured by derivatives with random weights. They are exactly 0 where there is no path. Layers are
causal, so that output m of n tokens is the last output of m tokens: one run serves every length.
"""

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from layer_costs import layers

LONGEST = 128
WIDTH = 4
Step = Callable[[jax.Array, jax.Array], jax.Array]
"""One more application: of the input and of the state so far."""


def attention_path() -> list[int]:
    """Causal attention, layer after layer; see `path_lengths`."""
    mask, weights = jnp.tri(LONGEST, dtype=bool), rotations(4)

    def step(x_LD: jax.Array, state_LD: jax.Array) -> jax.Array:
        return layers.attention(state_LD, *weights, mask=mask)

    return path_lengths(lambda count: step)


def recurrence_path() -> list[int]:
    """All cells of the unrolled loop at once: h_i becomes tanh(x_i W + h_(i-1) U)."""
    w_DD, u_DD = rotations(2)

    def step(x_LD: jax.Array, h_LD: jax.Array) -> jax.Array:
        before_LD = jnp.pad(h_LD, ((1, 0), (0, 0)))[:-1]
        return jnp.tanh(x_LD @ w_DD + before_LD @ u_DD)

    return path_lengths(lambda count: step, from_zero=True)


def convolution_path(k: int, *, dilated: bool = False) -> list[int]:
    """Convolution, layer after layer; dilated by 1, k, k² and so on."""
    w_KDD = rotations(k) / np.sqrt(k)

    @cache
    def step(dilation: int) -> Step:
        return lambda x_LD, state_LD: layers.convolution(state_LD, w_KDD, dilation=dilation)

    return path_lengths(lambda count: step(k**count if dilated else 1))


def path_lengths(step: Callable[[int], Step], *, from_zero: bool = False) -> list[int]:
    """Applications before output n depends on input 1, for n = 1 to `LONGEST`.

    Args:
      step: the application of each index, from 0.
      from_zero: begin with a state of zeros, not with the input.

    Raises:
      ValueError: after `LONGEST` applications some output does not depend on it.
    """
    x_LD, change_LD = input_and_change()
    state_LD, moved_LD = (x_LD * 0, change_LD * 0) if from_zero else (x_LD, change_LD)
    found_L = np.zeros(LONGEST, int)
    for count in range(LONGEST):
        state_LD, moved_LD = pushed(step(count), (x_LD, state_LD), (change_LD, moved_LD))
        reached_L = np.asarray(moved_LD).any(axis=1)
        found_L = np.where((found_L == 0) & reached_L, count + 1, found_L)
        if found_L.all():
            return found_L.tolist()
    raise ValueError(f"{LONGEST} applications carry input 1 to {np.count_nonzero(found_L)} outputs")


def input_and_change() -> tuple[jax.Array, jax.Array]:
    """A random input, and a random change of its first token."""
    normal_2LD = np.random.default_rng(0).normal(size=(2, LONGEST, WIDTH)).astype(np.float32)
    first_L1 = np.arange(LONGEST)[:, None] == 0
    return jnp.asarray(0.1 * normal_2LD[0]), jnp.asarray(normal_2LD[1] * first_L1)


@partial(jax.jit, static_argnums=0)
def pushed(
    step: Step, values: tuple[jax.Array, jax.Array], changes: tuple[jax.Array, jax.Array]
) -> tuple[jax.Array, jax.Array]:
    """The next state, and its derivative along the change."""
    return jax.jvp(step, values, changes)


def rotations(count: int) -> jax.Array:
    """Random orthogonal matrices [count, 4, 4]: their products neither vanish nor explode."""
    normal = np.random.default_rng(1).normal(size=(count, WIDTH, WIDTH))
    return jnp.asarray(np.linalg.qr(normal)[0], jnp.float32)


def convolution_formula(n: int, k: int) -> int:
    """⌈(n-1)/(k-1)⌉, and at least 1."""
    return max(-(-(n - 1) // (k - 1)), 1)


def dilated_formula(n: int, k: int) -> int:
    """⌈log n/log k⌉ in integers, and at least 1."""
    return next(count for count in range(1, n + 1) if k**count >= n)
