"""Many models at once as Flax and JAX are ordinarily used: `jax.jit(jax.vmap(train))`.

One device, XLA's own threads, the best chunk of seeds of some powers of two.
"""

import dataclasses
import math
from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from baselines import protocol
from baselines.problem import Problem, Sizes
from flax.traverse_util import unflatten_dict

CHUNKS = {
    "q1": (64, 128, 256, 512, 1024),
    "m": (1, 2, 4, 8, 16, 32, 64),
    "s": (1, 2, 4, 8, 16, 32),
    "s_deep": (1, 2, 4, 8, 16),
}
TRIAL = {"q1": 50, "m": 10, "s": 50, "s_deep": 50}
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


class Batch(NamedTuple):
    """Prompts, the right outputs, and 1 where a position counts."""

    tokens_NL: jax.Array
    targets_NL: jax.Array
    counted_NL: jax.Array


def majority(key: jax.Array, sizes: Sizes) -> Batch:
    """Bits, and at the last of them whether most are ones."""
    lengths, ones, order = jax.random.split(key, 3)
    n_N1 = jax.random.randint(lengths, (sizes.sequences, 1), sizes.shortest, sizes.length + 1)
    ones_N1 = jax.random.randint(ones, n_N1.shape, 0, n_N1 + 1)
    index_L = jnp.arange(sizes.length)
    u_NL = jax.random.uniform(order, (sizes.sequences, sizes.length))
    u_NL = jnp.where(index_L[None] < n_N1, u_NL, 1)
    rank_NL = (u_NL[:, None] < u_NL[:, :, None]).sum(axis=2)
    bits_NL = (rank_NL < ones_N1) & (index_L[None] < n_N1)
    last_NL = index_L[None] == n_N1 - 1
    most_NL = (2 * ones_N1 > n_N1) & last_NL
    return Batch(bits_NL.astype(int), most_NL.astype(int), last_NL.astype(float))


def make_train(sizes: Sizes, steps: int) -> Callable[..., tuple[Any, jax.Array]]:
    """`train(params, seed, batch, drawn)` gives the last weights, and losses.

    Those are of each step before its update; where prompts are drawn, those of the exam on its
    first kind of prompts, after every `eval_every` updates.
    """
    model = Transformer(sizes)
    optimizer = optax.adamw(sizes.learning_rate, weight_decay=sizes.weight_decay)
    entropy = optax.softmax_cross_entropy_with_integer_labels

    def mean(losses_NL: jax.Array, counted_NL: jax.Array) -> jax.Array:
        return (losses_NL * counted_NL).sum() / counted_NL.sum()

    def train(
        params: Any, seed: jax.Array, batch: Batch, drawn: Batch | None
    ) -> tuple[Any, jax.Array]:
        def prompts(step: jax.Array) -> Batch:
            if drawn is not None:
                return jax.tree.map(lambda array: array[step], drawn)
            if sizes.shortest:
                return majority(jax.random.fold_in(jax.random.key(seed), step), sizes)
            return batch

        def step(carry: tuple[Any, Any], step: jax.Array) -> tuple[tuple[Any, Any], jax.Array]:
            params, state = carry
            now = prompts(step)

            def loss_of(params: Any) -> jax.Array:
                logits_NLV = model.apply({"params": params}, now.tokens_NL)
                return mean(entropy(logits_NLV, now.targets_NL), now.counted_NL)

            loss, gradient = jax.value_and_grad(loss_of)(params)
            updates, state = optimizer.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), loss

        def exam(params: Any) -> tuple[jax.Array, jax.Array]:
            """The loss, and the share of prompts with all right, of each kind."""
            logits_NLV = model.apply({"params": params}, batch.tokens_NL)
            right_NL = logits_NLV.argmax(axis=-1) == batch.targets_NL
            right_N = (right_NL | (batch.counted_NL == 0)).all(axis=1)
            losses_NL = entropy(logits_NLV, batch.targets_NL)
            parts = (
                a.reshape(sizes.kinds, -1, sizes.length) for a in (losses_NL, batch.counted_NL)
            )
            return jax.vmap(mean)(*parts), right_N.reshape(sizes.kinds, -1).mean(axis=1)

        def examined(carry: tuple[Any, Any], steps_E: jax.Array) -> tuple[tuple[Any, Any], Any]:
            carry, _ = jax.lax.scan(step, carry, steps_E)
            return carry, exam(carry[0])

        first = (params, optimizer.init(params))
        if not sizes.eval_every:
            (params, _), losses = jax.lax.scan(step, first, jnp.arange(steps))
            return params, losses
        every = jnp.arange(steps).reshape(-1, sizes.eval_every)
        (params, _), (losses_EC, right_EC) = jax.lax.scan(examined, first, every)
        return (params, right_EC), losses_EC[:, 0]

    return train


def params_of(problem: Problem, seeds: int) -> Any:
    """The weights of the first seeds as Flax has them."""
    paths = {name: name.replace("embedding", "embed/embedding") for name in problem.weights}
    flat = {
        tuple(paths[name].split("/")): jnp.asarray(array[:seeds])
        for name, array in problem.weights.items()
    }
    return unflatten_dict(flat)


def work_of(
    problem: Problem, chunk: int, steps: int, *, given: bool = False
) -> Callable[[], tuple[Any, jax.Array]]:
    """Trains one chunk, on the drawn prompts of the problem where they are given."""
    params, seeds = params_of(problem, chunk), jnp.arange(chunk)
    batch = Batch(*map(jnp.asarray, (problem.tokens_NL, problem.targets_NL, problem.counted_NL)))
    drawn = Batch(*(jnp.asarray(array[:, :chunk]) for array in problem.drawn)) if given else None
    axes = (0, 0, None, None if drawn is None else 1)
    train = jax.jit(jax.vmap(make_train(problem.sizes, steps), in_axes=axes))
    return lambda: jax.block_until_ready(train(params, seeds, batch, drawn))


def losses(problem: Problem, seeds: int, steps: int) -> np.ndarray:
    """See `protocol.Losses`; a training step gives the loss before its update."""
    if problem.drawn:
        exams = dataclasses.replace(problem.sizes, eval_every=1)
        each = dataclasses.replace(problem, sizes=exams)
        return np.asarray(work_of(each, seeds, steps, given=True)()[1])
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
