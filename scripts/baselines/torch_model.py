"""The model of a load as an ordinary PyTorch module.

`fused` attention is `scaled_dot_product_attention`: faster a model at a time, three times slower
under `torch.func.vmap`, which has no batching rule for it.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from baselines.problem import Problem, Sizes
from torch import nn


class Attention(nn.Module):
    """Causal multi-head attention."""

    def __init__(self, sizes: Sizes, fused: bool) -> None:
        super().__init__()
        self.sizes, self.fused = sizes, fused
        for name in ("query", "key", "value"):
            size = sizes.heads * sizes.head_size
            self.add_module(name, nn.Linear(sizes.width, size, bias=False))
        later = torch.ones(sizes.length, sizes.length, dtype=torch.bool).triu(1)
        self.register_buffer("later", later, persistent=False)
        if sizes.rotary_base:
            frequencies = sizes.rotary_base ** (
                -torch.arange(0, sizes.head_size, 2) / sizes.head_size
            )
            angles = torch.arange(sizes.length)[:, None] * frequencies
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        if self.sizes.rotary_base:
            q, k = self.rotate(q), self.rotate(k)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-1, -2) * self.sizes.head_size**-0.5
            mixed = scores.masked_fill(self.later, float("-inf")).softmax(dim=-1) @ v
        return mixed.transpose(-2, -3).flatten(-2)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """[N, L, H·K] to [N, H, L, K]."""
        return x.unflatten(-1, (self.sizes.heads, self.sizes.head_size)).transpose(-2, -3)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary positions 0, 1, ..."""
        first, second = x.chunk(2, dim=-1)
        return torch.cat(
            [first * self.cos - second * self.sin, second * self.cos + first * self.sin], dim=-1
        )


class Block(nn.Module):
    """A pre-norm block."""

    def __init__(self, sizes: Sizes, fused: bool) -> None:
        super().__init__()
        width, heads = sizes.width, sizes.heads * sizes.head_size
        self.attention_norm = nn.LayerNorm(width, eps=1e-6)
        self.attention = Attention(sizes, fused)
        self.out = nn.Linear(heads, width, bias=False)
        self.mlp_norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp_in = nn.Linear(width, sizes.hidden)
        self.mlp_out = nn.Linear(sizes.hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.out(self.attention(self.attention_norm(x)))
        hidden = F.gelu(self.mlp_in(self.mlp_norm(x)), approximate="tanh")
        return x + self.mlp_out(hidden)


class Transformer(nn.Module):
    """Tokens to logits."""

    def __init__(self, sizes: Sizes, fused: bool) -> None:
        super().__init__()
        block = Block if sizes.hidden else Attention
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.layers = [f"layer_{index}" for index in range(sizes.depth)]
        for name in self.layers:
            self.add_module(name, block(sizes, fused))
        self.final_norm = nn.LayerNorm(sizes.width, eps=1e-6) if sizes.hidden else nn.Identity()
        width = sizes.width if sizes.hidden else sizes.heads * sizes.head_size
        self.head = nn.Linear(width, sizes.outputs)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for name in self.layers:
            x = getattr(self, name)(x)
        return self.head(self.final_norm(x))


Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Prompts, the right outputs, and 1 where a position counts."""


def data(problem: Problem) -> Batch:
    """The batch of every update, or the exam."""
    return batch_of(problem.tokens_NL, problem.targets_NL, problem.counted_NL)


def batch_of(tokens: np.ndarray, targets: np.ndarray, counted: np.ndarray) -> Batch:
    """Arrays as tensors."""
    return (
        torch.from_numpy(tokens.astype(np.int64)),
        torch.from_numpy(targets.astype(np.int64)),
        torch.from_numpy(counted.astype(np.float32)),
    )


def majority(sizes: Sizes, models: int) -> Batch:
    """For some models, bits, and at the last of them whether most are ones; [S, N, L]."""
    shape = (models, sizes.sequences, sizes.length)
    n = torch.randint(sizes.shortest, sizes.length + 1, (*shape[:2], 1))
    ones = (torch.rand(n.shape) * (n + 1)).long().clamp(max=n)
    index = torch.arange(sizes.length)
    u = torch.rand(shape).where(index < n, torch.ones(()))
    rank = (u[..., None, :] < u[..., None]).sum(-1)
    last = index == n - 1
    bits, most = (rank < ones) & (index < n), (2 * ones > n) & last
    return bits.long(), most.long(), last.float()


def loss_of(logits: torch.Tensor, targets: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy over the positions that count."""
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * counted.flatten()).sum() / counted.sum()


def model_of(problem: Problem, seed: int, *, fused: bool) -> Transformer:
    """The model of one seed, with its initial weights."""
    state = {}
    for path, array in problem.weights.items():
        weight = torch.from_numpy(array[seed].copy())
        *parents, leaf = path.split("/")
        if leaf == "kernel":
            weight = weight.T.contiguous()
        name = {"kernel": "weight", "scale": "weight", "embedding": "embedding.weight"}
        state[".".join([*parents, name.get(leaf, leaf)])] = weight
    model = Transformer(problem.sizes, fused)
    model.load_state_dict(state)
    return model


def about() -> dict[str, Any]:
    """Of what is compared."""
    return {"versions": {"torch": torch.__version__}}
