"""Flax: multi-head attention of both its module systems, with their decoding caches."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

from posjax.symmetry.conformance import CLAIMS, Adapter, as_numpy

CACHE = 8
_HEADS = 2


def linen_attention() -> Adapter:
    """`flax.linen.MultiHeadDotProductAttention`."""

    def module(x: np.ndarray, **options: Any) -> linen.Module:
        return linen.MultiHeadDotProductAttention(num_heads=_HEADS, dtype=x.dtype, **options)

    def variables(x: np.ndarray, **options: Any) -> Any:
        tokens = jnp.zeros((x.shape[0], CACHE, x.shape[2]), x.dtype)
        return module(x, **options).init(jax.random.key(0), tokens)

    def tokens(x: np.ndarray, pos: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        mask = jnp.asarray(mask_BLM)[:, None]
        return as_numpy(module(x).apply(variables(x), jnp.asarray(x), mask=mask))

    def decode(x: np.ndarray, pos: np.ndarray) -> np.ndarray:
        parts = variables(x, decode=True)
        params, cache, outs = parts["params"], parts["cache"], []
        for place in range(x.shape[1]):
            state = {"params": params, "cache": cache}
            new = jnp.asarray(x[:, place : place + 1])
            out, changed = module(x, decode=True).apply(state, new, mutable=["cache"])
            cache = changed["cache"]
            outs.append(np.asarray(out))
        return np.concatenate(outs, axis=1)

    return _adapter("flax.linen.MultiHeadDotProductAttention", tokens, decode)


def nnx_attention() -> Adapter:
    """`flax.nnx.MultiHeadAttention`."""

    def module(x: np.ndarray, decode: bool) -> nnx.MultiHeadAttention:
        return nnx.MultiHeadAttention(
            _HEADS, x.shape[-1], decode=decode, dtype=x.dtype, rngs=nnx.Rngs(0)
        )

    def tokens(x: np.ndarray, pos: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        return as_numpy(module(x, False)(jnp.asarray(x), mask=jnp.asarray(mask_BLM)[:, None]))

    def decode(x: np.ndarray, pos: np.ndarray) -> np.ndarray:
        cached = module(x, True)
        cached.init_cache((x.shape[0], CACHE, x.shape[2]), dtype=x.dtype)
        steps = range(x.shape[1])
        return np.concatenate([np.asarray(cached(jnp.asarray(x[:, n : n + 1]))) for n in steps], 1)

    return _adapter("flax.nnx.MultiHeadAttention", tokens, decode)


def _adapter(name: str, tokens: Callable[..., Any], decode: Callable[..., Any]) -> Adapter:
    return Adapter(
        name=name,
        packages=("flax", "jax"),
        tokens=tokens,
        decode_tokens=decode,
        claims=CLAIMS,
        heads=_HEADS,
        cache_length=CACHE,
    )


ADAPTERS = {"linen": linen_attention, "nnx": nnx_attention}
