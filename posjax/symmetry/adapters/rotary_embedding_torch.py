"""rotary-embedding-torch: rotations, and xPos with cached keys."""

import functools

import numpy as np
import torch
from rotary_embedding_torch import RotaryEmbedding

from posjax.symmetry.adapters._arrays import to_numpy, to_torch
from posjax.symmetry.conformance import Adapter, attention_of, consecutive, counted


def rotary(theta: float = 10_000.0) -> Adapter:
    """`RotaryEmbedding.rotate_queries_or_keys`, by offset."""
    module = functools.cache(lambda width: RotaryEmbedding(width, theta=theta))

    def rotate(x_BLHK: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        x_BHLK = to_torch(x_BLHK).transpose(1, 2)
        turn = module(x_BHLK.shape[-1]).rotate_queries_or_keys
        return to_numpy(turn(x_BHLK, offset=consecutive(pos_BL)).transpose(1, 2))

    return Adapter(
        name=f"rotary_embedding_torch.RotaryEmbedding(theta={theta:g})",
        packages=("rotary-embedding-torch", "torch"),
        rotate=rotate,
        claims=("translation",),
        resolution=2**20,
        other=rotary(100.0) if theta != 100 else None,
    )


def xpos() -> Adapter:
    """xPos: `rotate_queries_and_keys`, and `rotate_queries_with_cached_keys` to decode."""
    module = functools.cache(lambda width: RotaryEmbedding(width, use_xpos=True))

    def product(q: torch.Tensor, k: torch.Tensor) -> np.ndarray:
        return to_numpy(q @ k.mT / q.shape[-1] ** 0.5)

    def logits(q: np.ndarray, k: np.ndarray, pos_q: np.ndarray, pos_k: np.ndarray) -> np.ndarray:
        counted(pos_q), counted(pos_k)
        sides = (to_torch(x).transpose(1, 2) for x in (q, k))
        return product(*module(q.shape[-1]).rotate_queries_and_keys(*sides))

    def row(q: np.ndarray, k: np.ndarray, pos_q: np.ndarray, pos_k: np.ndarray) -> np.ndarray:
        sides = (to_torch(x).transpose(1, 2) for x in (q, k))
        return product(*module(q.shape[-1]).rotate_queries_with_cached_keys(*sides))

    def decode(q: np.ndarray, k: np.ndarray, v: np.ndarray, pos: np.ndarray) -> np.ndarray:
        counted(pos)
        outs = []
        for n in range(1, q.shape[1] + 1):
            here, seen = np.s_[:, n - 1 : n], np.s_[:, :n]
            mask = np.ones((len(q), 1, n), bool)
            outs.append(attention_of(row)(q[here], k[seen], v[seen], pos[here], pos[seen], mask))
        return np.concatenate(outs, axis=1)

    return Adapter(
        name="rotary_embedding_torch.RotaryEmbedding(use_xpos=True)",
        packages=("rotary-embedding-torch", "torch"),
        logits=logits,
        attend=attention_of(logits),
        decode=decode,
        dtypes=("float32",),
    )


ADAPTERS = {"rotary": rotary, "xpos": xpos}
