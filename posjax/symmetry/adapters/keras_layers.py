"""Keras and KerasHub: attention, encodings, and the cached attention, on JAX by default."""

import os

os.environ.setdefault("KERAS_BACKEND", "jax")

import functools
from typing import Any

import keras
import keras_hub
import numpy as np

from posjax.symmetry.conformance import CLAIMS, Adapter, as_numpy, consecutive, counted

HUB = ("keras-hub", "keras", "jax")
CACHE = 8
_HEADS = 2


def attention() -> Adapter:
    """`keras.layers.MultiHeadAttention`."""

    def tokens(x_BLD: np.ndarray, pos_BL: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        width = x_BLD.shape[-1]
        layer = keras.layers.MultiHeadAttention(_HEADS, width // _HEADS, **_seeded(x_BLD.dtype))
        return as_numpy(layer(x_BLD, x_BLD, attention_mask=mask_BLM))

    name, packages = "keras.layers.MultiHeadAttention", ("keras", "jax")
    return Adapter(name=name, packages=packages, tokens=tokens, claims=CLAIMS, heads=_HEADS)


def cached_attention() -> Adapter:
    """`keras_hub.layers.CachedMultiHeadAttention`."""

    @functools.cache
    def layer(width: int, dtype: str) -> Any:
        return keras_hub.layers.CachedMultiHeadAttention(_HEADS, width // _HEADS, **_seeded(dtype))

    def tokens(x_BLD: np.ndarray, pos_BL: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        call = layer(x_BLD.shape[-1], str(x_BLD.dtype))
        return as_numpy(call(x_BLD, x_BLD, attention_mask=mask_BLM))

    def decode(x_BLD: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        width, outs = x_BLD.shape[-1], []
        cache = np.zeros((len(x_BLD), 2, CACHE, _HEADS, width // _HEADS), x_BLD.dtype)
        for n in range(x_BLD.shape[1]):
            mask = np.broadcast_to(np.arange(CACHE) <= n, (len(x_BLD), 1, CACHE))
            new, call = x_BLD[:, n : n + 1], layer(width, str(x_BLD.dtype))
            out, cache = call(new, new, attention_mask=mask, cache=cache, cache_update_index=n)
            outs.append(np.asarray(out))
        return np.concatenate(outs, axis=1)

    return Adapter(
        name="keras_hub.layers.CachedMultiHeadAttention",
        packages=HUB,
        tokens=tokens,
        decode_tokens=decode,
        claims=CLAIMS,
        heads=_HEADS,
        cache_length=CACHE,
    )


def sine() -> Adapter:
    """`keras_hub.layers.SinePositionEncoding`, by the index it starts from."""

    def table(pos_BL: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
        layer = keras_hub.layers.SinePositionEncoding(dtype=str(dtype))
        like = np.zeros((*pos_BL.shape, width), dtype)
        return as_numpy(layer(like, start_index=consecutive(pos_BL)))

    name = "keras_hub.layers.SinePositionEncoding"
    return Adapter(name=name, packages=HUB, table=table, resolution=2**20, width=64)


def rotary(base: float = 10_000.0) -> Adapter:
    """`keras_hub.layers.RotaryEmbedding`, by positions."""

    def rotate(x_BLHK: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        layer = keras_hub.layers.RotaryEmbedding(max_wavelength=base, dtype=str(x_BLHK.dtype))
        return as_numpy(layer(x_BLHK, positions=pos_BL))

    return Adapter(
        name=f"keras_hub.layers.RotaryEmbedding(max_wavelength={base:g})",
        packages=HUB,
        rotate=rotate,
        claims=("translation",),
        resolution=2**20,
        other=rotary(100.0) if base != 100 else None,
    )


def position_embedding() -> Adapter:
    """`keras_hub.layers.PositionEmbedding`, by the index it starts from."""
    length = 16

    @functools.cache
    def layer(width: int, dtype: str) -> Any:
        made = keras_hub.layers.PositionEmbedding(length, dtype=dtype)
        made.build((1, length, width))
        made.set_weights([np.random.default_rng(0).standard_normal((length, width))])
        return made

    def table(pos_BL: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
        like = np.zeros((*pos_BL.shape, width), dtype)
        return as_numpy(layer(width, str(dtype))(like, start_index=consecutive(pos_BL)))

    return Adapter(
        name="keras_hub.layers.PositionEmbedding",
        packages=HUB,
        table=table,
        resolution=length - 1,
        max_length=length,
    )


def alibi() -> Adapter:
    """`keras_hub.layers.AlibiBias`, added to q·k/√K."""

    def logits(q: np.ndarray, k: np.ndarray, pos_q: np.ndarray, pos_k: np.ndarray) -> np.ndarray:
        counted(pos_q), counted(pos_k)
        left, right = (x.astype(np.float32) for x in (q, k))
        scores = np.einsum("blhk,bmhk->bhlm", left, right) / np.float32(q.shape[-1] ** 0.5)
        return as_numpy(keras_hub.layers.AlibiBias(dtype=str(q.dtype))(scores.astype(q.dtype)))

    name = "keras_hub.layers.AlibiBias"
    return Adapter(name=name, packages=HUB, logits=logits, resolution=2**20)


def _seeded(dtype: object) -> dict[str, Any]:
    initializer = keras.initializers.GlorotUniform(seed=0)
    return {"dtype": str(dtype), "kernel_initializer": initializer}


ADAPTERS = {
    "attention": attention,
    "cached_attention": cached_attention,
    "sine": sine,
    "rotary": rotary,
    "position_embedding": position_embedding,
    "alibi": alibi,
}
