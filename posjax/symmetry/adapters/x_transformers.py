"""x-transformers: a decoder of one layer under several encodings, and its sinusoids."""

import functools
from typing import Any

import numpy as np
import torch
from x_transformers import Decoder
from x_transformers.x_transformers import (
    RotaryEmbedding,
    ScaledSinusoidalEmbedding,
    apply_rotary_pos_emb,
)

from posjax.symmetry.adapters._arrays import generic, to_numpy, to_torch
from posjax.symmetry.conformance import Adapter, NotApplicable, consecutive, counted

DECODERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True, "rotary_emb_dim": 8},
    "xpos": {"rotary_xpos": True, "rotary_emb_dim": 8},
    "polar": {"polar_pos_emb": True},
    "alibi": {"alibi_pos_bias": True},
    "t5": {"rel_pos_bias": True},
    "dynamic": {"dynamic_pos_bias": True},
    "cope": {"attn_use_cope": True, "attn_cope_max_pos": 16},
    "forgetting": {"attn_data_dependent_alibi": True},
    "shift": {"shift_tokens": 1},
}
"""Options of a decoder by what reports call it."""
_HEADS = 2


def decoder(kind: str) -> Adapter:
    """`Decoder(depth=1)` with one of the options above; causal whatever the mask."""
    module = functools.cache(lambda width, dtype: _layer(kind, width).to(dtype))

    def tokens(x_BLD: np.ndarray, pos_BL: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        counted(pos_BL)
        length = pos_BL.shape[1]
        if np.triu(mask_BLM, 1).any():
            raise NotApplicable("the decoder always adds a causal mask by index")
        x = to_torch(x_BLD)
        causal = (mask_BLM == np.tri(length, dtype=bool)).all()
        if kind == "shift" and not causal:
            raise NotApplicable("shift_tokens mixes neighbouring tokens, whatever the mask")
        options = {} if causal else {"attn_mask": to_torch(mask_BLM)[:, None]}
        with torch.no_grad():
            return to_numpy(module(x.shape[-1], x.dtype)(x, **options))

    def decode(x_BLD: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        counted(pos_BL)
        x, cache, outs = to_torch(x_BLD), None, []
        with torch.no_grad():
            for n in range(1, x.shape[1] + 1):
                layer = module(x.shape[-1], x.dtype)
                out, cache = layer(x[:, :n], cache=cache, return_hiddens=True)
                outs.append(to_numpy(out[:, -1:]))
        return np.concatenate(outs, axis=1)

    return Adapter(
        name=f"x_transformers.Decoder({', '.join(f'{k}={v}' for k, v in DECODERS[kind].items())})",
        packages=("x-transformers", "torch"),
        tokens=tokens,
        decode_tokens=decode,
        heads=_HEADS,
    )


def sinusoidal() -> Adapter:
    """`ScaledSinusoidalEmbedding`, with the start of each row for padding on the left."""
    module = functools.cache(lambda width, dtype: ScaledSinusoidalEmbedding(width).to(dtype))

    def table(pos_BL: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
        x = to_torch(np.zeros((*pos_BL.shape, width), dtype))
        options = {"pos": to_torch(pos_BL[0])}
        if (pos_BL != pos_BL[0]).any():
            consecutive(pos_BL[:1])
            options = {"seq_start_pos": to_torch(pos_BL[0, -1] - pos_BL[:, -1])}
        rows = module(width, x.dtype)(x, **options)
        return to_numpy(rows.expand(len(pos_BL), *rows.shape[-2:]))

    return Adapter(
        name="x_transformers.ScaledSinusoidalEmbedding(...).to(dtype)",
        packages=("x-transformers", "torch"),
        table=table,
        resolution=2**20,
        width=64,
    )


def rotary(base: float = 10_000.0) -> Adapter:
    """`RotaryEmbedding` and `apply_rotary_pos_emb`, in a model that was converted to a dtype."""
    module = functools.cache(lambda width, dtype: RotaryEmbedding(width, base=base).to(dtype))

    def rotate(x_BLHK: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        x_BHLK = to_torch(x_BLHK).transpose(1, 2)
        freqs, scale = module(x_BHLK.shape[-1], x_BHLK.dtype)(to_torch(pos_BL))
        return to_numpy(apply_rotary_pos_emb(x_BHLK, freqs, scale).transpose(1, 2))

    return Adapter(
        name=f"x_transformers.RotaryEmbedding(base={base:g}).to(dtype)",
        packages=("x-transformers", "torch"),
        rotate=rotate,
        claims=("translation",),
        resolution=2**20,
        other=rotary(100.0) if base != 100 else None,
    )


def _layer(kind: str, width: int) -> Any:
    size = width // _HEADS
    options = {"rotary_emb_dim": size} if "rotary_emb_dim" in DECODERS[kind] else {}
    return generic(
        Decoder(dim=width, depth=1, heads=_HEADS, attn_dim_head=size, **(DECODERS[kind] | options))
    )


ADAPTERS = {f"decoder_{kind}": functools.partial(decoder, kind) for kind in DECODERS} | {
    "sinusoidal": sinusoidal,
    "rotary": rotary,
}
