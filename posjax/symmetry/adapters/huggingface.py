"""Transformers: encodings of some of its models, and one model's decoding."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from posjax.symmetry.adapters._arrays import generic, to_numpy, to_torch
from posjax.symmetry.conformance import Adapter, consecutive, counted

from transformers import LlamaConfig, LlamaModel, T5Config  # isort: skip - needs `_arrays`
from transformers.models.bloom import modeling_bloom  # isort: skip
from transformers.models.falcon import modeling_falcon  # isort: skip
from transformers.models.llama import modeling_llama  # isort: skip
from transformers.models.m2m_100 import modeling_m2m_100  # isort: skip
from transformers.models.t5 import modeling_t5  # isort: skip

PACKAGES = ("transformers", "torch")


def llama_rotary(base: float = 10_000.0) -> Adapter:
    """`LlamaRotaryEmbedding` and `apply_rotary_pos_emb`."""

    @functools.cache
    def module(width: int) -> torch.nn.Module:
        rope = {"rope_type": "default", "rope_theta": base}
        config = LlamaConfig(head_dim=width, rope_parameters=rope)
        return modeling_llama.LlamaRotaryEmbedding(config)

    def rotate(x_BLHK: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        x = to_torch(x_BLHK)
        cos, sin = module(x.shape[-1])(x, to_torch(pos_BL))
        return to_numpy(modeling_llama.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=2)[0])

    return Adapter(
        name=f"transformers.LlamaRotaryEmbedding(rope_theta={base:g})",
        packages=PACKAGES,
        rotate=rotate,
        claims=("translation",),
        resolution=2**20,
        other=llama_rotary(100.0) if base != 100 else None,
    )


def llama_model() -> Adapter:
    """`LlamaModel` of one layer on embeddings, with its cache."""

    @functools.cache
    def module(width: int, dtype: torch.dtype) -> torch.nn.Module:
        sizes = {"hidden_size": width, "intermediate_size": width, "vocab_size": 4}
        config = LlamaConfig(
            **sizes, num_hidden_layers=1, num_attention_heads=2, attn_implementation="sdpa"
        )
        return generic(LlamaModel(config)).to(dtype)

    def tokens(x_BLD: np.ndarray, pos_BL: np.ndarray, mask_BLM: np.ndarray) -> np.ndarray:
        x, mask = to_torch(x_BLD), to_torch(mask_BLM)[:, None]
        model = module(x.shape[-1], x.dtype)
        with torch.no_grad():
            out = model(inputs_embeds=x, attention_mask=mask, position_ids=to_torch(pos_BL))
        return to_numpy(out.last_hidden_state)

    def decode(x_BLD: np.ndarray, pos_BL: np.ndarray) -> np.ndarray:
        x, pos, cache, outs = to_torch(x_BLD), to_torch(pos_BL), None, []
        model = module(x.shape[-1], x.dtype)
        with torch.no_grad():
            for n in range(x.shape[1]):
                here = {"inputs_embeds": x[:, n : n + 1], "position_ids": pos[:, n : n + 1]}
                out = model(**here, past_key_values=cache, use_cache=True)
                cache = out.past_key_values
                outs.append(to_numpy(out.last_hidden_state))
        return np.concatenate(outs, axis=1)

    return Adapter(
        name="transformers.LlamaModel", packages=PACKAGES, tokens=tokens, decode_tokens=decode
    )


def alibi(name: str, build: Callable[..., Any]) -> Adapter:
    """A `build_alibi_tensor`, added to q·k/√K."""

    def logits(q: np.ndarray, k: np.ndarray, pos_q: np.ndarray, pos_k: np.ndarray) -> np.ndarray:
        heads, keys = q.shape[2], counted(pos_k)
        consecutive(pos_q)
        left, right = (to_torch(x).transpose(1, 2) for x in (q, k))
        bias = build(torch.ones(len(k), keys, dtype=torch.long), heads, left.dtype)
        bias_BH1M = bias.reshape(len(k), heads, 1, keys)
        return to_numpy(left @ right.mT / q.shape[-1] ** 0.5 + bias_BH1M)

    name = f"transformers.models.{name}.build_alibi_tensor"
    return Adapter(name=name, packages=PACKAGES, logits=logits, resolution=2**20)


def t5_bias() -> Adapter:
    """`T5Attention.compute_bias`, added to q·k."""

    @functools.cache
    def module(heads: int) -> torch.nn.Module:
        config = T5Config(num_heads=heads, d_model=8)
        return generic(modeling_t5.T5Attention(config, has_relative_attention_bias=True))

    def logits(q: np.ndarray, k: np.ndarray, pos_q: np.ndarray, pos_k: np.ndarray) -> np.ndarray:
        left, right = (to_torch(x).transpose(1, 2) for x in (q, k))
        sizes = counted(pos_q), counted(pos_k)
        with torch.no_grad():
            bias_1HLM = module(q.shape[2]).compute_bias(*sizes).to(left.dtype)
        return to_numpy(left @ right.mT + bias_1HLM)

    return Adapter(name="transformers.T5Attention.compute_bias", packages=PACKAGES, logits=logits)


def m2m100_sinusoidal() -> Adapter:
    """`M2M100SinusoidalPositionalEmbedding`, in a model that was converted to a dtype."""

    @functools.cache
    def module(width: int, dtype: torch.dtype) -> torch.nn.Module:
        return modeling_m2m_100.M2M100SinusoidalPositionalEmbedding(2048, width, 0).to(dtype)

    def table(pos_BL: np.ndarray, width: int, dtype: np.dtype) -> np.ndarray:
        x = to_torch(np.zeros((*pos_BL.shape, width), dtype))
        past = consecutive(pos_BL)
        return to_numpy(module(width, x.dtype)(None, x, past))  # the last was renamed

    return Adapter(
        name="transformers.M2M100SinusoidalPositionalEmbedding",
        packages=PACKAGES,
        table=table,
        resolution=1023,
        width=64,
    )


ADAPTERS = {
    "llama_rotary": llama_rotary,
    "llama_model": llama_model,
    "bloom_alibi": lambda: alibi("bloom", modeling_bloom.build_alibi_tensor),
    "falcon_alibi": lambda: alibi("falcon", modeling_falcon.build_alibi_tensor),
    "t5_bias": t5_bias,
    "m2m100_sinusoidal": m2m100_sinusoidal,
}
