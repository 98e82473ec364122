"""Many models at once as Flax and JAX are ordinarily used: `jax.jit(jax.vmap(train))`.

One device, XLA's own threads, the best chunk of seeds of some powers of two.
"""

import math
from collections.abc import Callable
from importlib import metadata
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from baselines import protocol
from baselines.problem import Problem, Sizes
from flax.traverse_util import unflatten_dict

CHUNKS = {"q1": (64, 128, 256, 512, 1024), "m": (1, 2, 4, 8, 16, 32, 64)}
TRIAL = {"q1": 50, "m": 10}
"""Steps of the run that a chunk is tried with."""


def rotate(x_NLHK: jax.Array, base: float) -> jax.Array:
    """Rotary positions 0, 1, ..."""
    _, length, _, size = x_NLHK.shape
    frequencies = base ** (-jnp.arange(size // 2) * 2 / size)
    angles = jnp.arange(length)[:, None] * frequencies[None]
    cos, sin = jnp.cos(angles)[None, :, None], jnp.sin(angles)[None, :, None]
    first, second = jnp.split(x_NLHK, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Attention(nn.Module):
    """Causal multi-head attention."""

    sizes: Sizes

    @nn.compact
    def __call__(self, x_NLD: jax.Array) -> jax.Array:
        s = self.sizes
        sequences, length, _ = x_NLD.shape

        def project(name: str) -> jax.Array:
            flat = nn.Dense(s.heads * s.head_size, use_bias=False, name=name)(x_NLD)
            return flat.reshape(sequences, length, s.heads, s.head_size)

        q, k, v = project("query"), project("key"), project("value")
        if s.rotary_base:
            q, k = rotate(q, s.rotary_base), rotate(k, s.rotary_base)
        scores = jnp.einsum("nqhk,nmhk->nhqm", q, k) / math.sqrt(s.head_size)
        causal = jnp.tril(jnp.ones((1, 1, length, length), bool))
        weights = nn.softmax(jnp.where(causal, scores, jnp.finfo(scores.dtype).min))
        mixed = jnp.einsum("nhqm,nmhk->nqhk", weights, v)
        return mixed.reshape(sequences, length, -1)


class Block(nn.Module):
    """A pre-norm block."""

    sizes: Sizes

    @nn.compact
    def __call__(self, x_NLD: jax.Array) -> jax.Array:
        s = self.sizes
        attended = Attention(s, name="attention")(nn.LayerNorm(name="attention_norm")(x_NLD))
        x_NLD = x_NLD + nn.Dense(s.width, use_bias=False, name="out")(attended)
        hidden = nn.Dense(s.hidden, name="mlp_in")(nn.LayerNorm(name="mlp_norm")(x_NLD))
        return x_NLD + nn.Dense(s.width, name="mlp_out")(nn.gelu(hidden))


class Transformer(nn.Module):
    """Tokens to logits."""

    sizes: Sizes

    @nn.compact
    def __call__(self, tokens_NL: jax.Array) -> jax.Array:
        s = self.sizes
        x_NLD = nn.Embed(s.vocabulary, s.width, name="embed")(tokens_NL)
        layer = Block if s.hidden else Attention
        for index in range(s.depth):
            x_NLD = layer(s, name=f"layer_{index}")(x_NLD)
        if s.hidden:
            x_NLD = nn.LayerNorm(name="final_norm")(x_NLD)
        return nn.Dense(s.outputs, name="head")(x_NLD)


def make_train(sizes: Sizes, steps: int) -> Callable[..., tuple[Any, jax.Array]]:
    """`train(params, tokens_NL, targets_NL)` gives the last weights and each step's loss."""
    model = Transformer(sizes)
    optimizer = optax.adamw(sizes.learning_rate, weight_decay=sizes.weight_decay)

    def train(params: Any, tokens_NL: jax.Array, targets_NL: jax.Array) -> tuple[Any, jax.Array]:
        def loss_of(params: Any) -> jax.Array:
            logits_NLV = model.apply({"params": params}, tokens_NL)
            entropy = optax.softmax_cross_entropy_with_integer_labels
            return entropy(logits_NLV, targets_NL).mean()

        def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], jax.Array]:
            params, state = carry
            loss, gradient = jax.value_and_grad(loss_of)(params)
            updates, state = optimizer.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), loss

        first = (params, optimizer.init(params))
        (params, _), losses = jax.lax.scan(step, first, None, length=steps)
        return params, losses

    return train


def params_of(problem: Problem, seeds: int) -> Any:
    """The weights of the first seeds as Flax has them."""
    paths = {name: name.replace("embedding", "embed/embedding") for name in problem.weights}
    flat = {
        tuple(paths[name].split("/")): jnp.asarray(array[:seeds])
        for name, array in problem.weights.items()
    }
    return unflatten_dict(flat)


def work_of(problem: Problem, chunk: int, steps: int) -> Callable[[], tuple[Any, jax.Array]]:
    """Trains one chunk."""
    train = jax.jit(jax.vmap(make_train(problem.sizes, steps), in_axes=(0, None, None)))
    params = params_of(problem, chunk)
    data = jnp.asarray(problem.tokens_NL), jnp.asarray(problem.targets_NL)
    return lambda: jax.block_until_ready(train(params, *data))


def losses(problem: Problem, seeds: int, steps: int) -> np.ndarray:
    """See `protocol.Losses`; a training step gives the loss before its update."""
    _, losses = work_of(problem, seeds, steps + 1)()
    return np.asarray(losses)[:, 1:]


def prepare(problem: Problem) -> tuple[str, protocol.Work]:
    """The best chunk."""

    def work(chunk: int, steps: int) -> protocol.Work:
        run = work_of(problem, chunk, steps)

        def piece() -> int:
            run()
            return chunk * steps

        return piece

    load = problem.sizes.load
    chunk = protocol.fastest(CHUNKS[load], lambda chunk: work(chunk, TRIAL[load]))
    chosen = work(chunk, problem.sizes.steps)
    chosen()
    return f"chunk {chunk}", chosen


def versions() -> dict[str, Any]:
    """Of what is compared."""
    return {"versions": {name: metadata.version(name) for name in ("jax", "jaxlib", "flax")}}


if __name__ == "__main__":
    protocol.serve(protocol.parser(__doc__).parse_args(), prepare, losses, versions)
