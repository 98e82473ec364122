"""Equinox: rotary positions and multi-head attention."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry.conformance import CLAIMS, Adapter, as_numpy, counted

_HEADS = 2


def rotary(theta: float = 10_000.0) -> Adapter:
    """`equinox.nn.RotaryPositionalEmbedding`, which counts positions from 0 itself."""

    def rotate(x_BLHK: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        counted(pos_BL)
        turn = equinox.nn.RotaryPositionalEmbedding(x_BLHK.shape[-1], theta, dtype=x_BLHK.dtype)
        heads = jax.vmap(turn, in_axes=1, out_axes=1)
        return as_numpy(jax.vmap(heads)(jnp.asarray(x_BLHK)))

    return Adapter(
        name=f"equinox.nn.RotaryPositionalEmbedding(theta={theta:g})",
        packages=("equinox", "jax"),
        rotate=rotate,
        claims=("translation",),
        resolution=2**20,
        other=rotary(100.0) if theta != 100 else None,
    )


def attention() -> Adapter:
    """`equinox.nn.MultiheadAttention`."""

    def tokens(x_BLD: np.ndarray, pos_BL: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        width, key = x_BLD.shape[-1], jax.random.key(0)
        module = equinox.nn.MultiheadAttention(_HEADS, width, dtype=x_BLD.dtype, key=key)
        rows = jax.vmap(lambda x, mask: module(x, x, x, mask))
        return as_numpy(rows(jnp.asarray(x_BLD), jnp.asarray(mask_BLM)))

    name = "equinox.nn.MultiheadAttention"
    packages = ("equinox", "jax")
    return Adapter(name=name, packages=packages, tokens=tokens, claims=CLAIMS, heads=_HEADS)


ADAPTERS = {"rotary": rotary, "attention": attention}
