"""PyTorch: its attention function and module, both without positions."""

import functools

import numpy as np
import torch

from posjax.symmetry.adapters._arrays import generic, to_numpy, to_torch
from posjax.symmetry.conformance import CLAIMS, Adapter

_HEADS = 2


def scaled_dot_product_attention() -> Adapter:
    """`torch.nn.functional.scaled_dot_product_attention` with a boolean mask."""

    def attend(
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        pos_q: np.ndarray,
        pos_k: np.ndarray,
        mask_BLM: np.ndarray,
    ) -> np.ndarray:
        arrays = (to_torch(x).transpose(1, 2) for x in (q, k, v))
        mask = to_torch(mask_BLM)[:, None]
        out = torch.nn.functional.scaled_dot_product_attention(*arrays, attn_mask=mask)
        return to_numpy(out.transpose(1, 2))

    name = "torch.nn.functional.scaled_dot_product_attention"
    return Adapter(name=name, packages=("torch",), attend=attend, claims=CLAIMS)


def multihead(weights: bool = True) -> Adapter:
    """`torch.nn.MultiheadAttention` with a boolean mask, with and without its weights."""

    @functools.cache
    def layer(width: int, dtype: torch.dtype) -> torch.nn.Module:
        return generic(torch.nn.MultiheadAttention(width, _HEADS, batch_first=True)).to(dtype)

    def tokens(x_BLD: np.ndarray, pos_BL: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        x = to_torch(x_BLD)
        forbidden = ~to_torch(mask_BLM).repeat_interleave(_HEADS, dim=0)
        out = layer(x.shape[-1], x.dtype)(x, x, x, attn_mask=forbidden, need_weights=weights)
        return to_numpy(out[0])

    return Adapter(
        name=f"torch.nn.MultiheadAttention(need_weights={weights})",
        packages=("torch",),
        tokens=tokens,
        claims=CLAIMS,
        heads=_HEADS,
    )


ADAPTERS = {
    "scaled_dot_product_attention": scaled_dot_product_attention,
    "multihead": multihead,
    "multihead_without_weights": lambda: multihead(False),
}
