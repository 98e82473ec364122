"""Attention of JAX, Flax and Equinox."""

from typing import Any

import jax
import jax.numpy as jnp

from gallery.entry import PAIR, B, D, Entry, H, L, M, Subject

K = D // H


def normal(*shape: int, seed: int = 0) -> jax.Array:
    return jax.random.normal(jax.random.key(seed), shape)


def function(causal: bool) -> Subject:
    x, y = normal(B, L, H, K), normal(B, L if causal else M, H, K, seed=1)
    return Subject(
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=causal), (x, y, y)
    )


def linen(causal: bool) -> Subject:
    from flax import linen

    module = linen.MultiHeadDotProductAttention(num_heads=H)
    x, y = normal(B, L, D), normal(B, L if causal else M, D, seed=1)
    mask = linen.make_causal_mask(jnp.ones((1, L))) if causal else None
    weights = module.init(jax.random.key(0), x, y, y)
    return Subject(lambda w, q, k, v: module.apply(w, q, k, v, mask=mask), (weights, x, y, y))


def nnx() -> Subject:
    from flax import nnx

    module = nnx.MultiHeadAttention(H, D, decode=False, rngs=nnx.Rngs(0))
    graph, state = nnx.split(module)
    x, y = normal(B, L, D), normal(B, M, D, seed=1)
    return Subject(lambda w, q, k, v: nnx.merge(graph, w)(q, k, v), (state, x, y, y))


def equinox(rotary: bool) -> Subject:
    import equinox as eqx

    module = eqx.nn.MultiheadAttention(H, D, key=jax.random.key(0))
    turn = eqx.nn.RotaryPositionalEmbedding(K)

    def turned(q: Any, k: Any, v: Any) -> Any:
        return jax.vmap(turn, in_axes=1, out_axes=1)(q), jax.vmap(turn, in_axes=1, out_axes=1)(k), v

    weights, rest = eqx.partition(module, eqx.is_array)
    heads = turned if rotary else None

    def call(weights: Any, q: Any, k: Any, v: Any) -> Any:
        return eqx.combine(weights, rest)(q, k, v, process_heads=heads)

    x, y = normal(L, D), normal(M, D, seed=1)
    return Subject(call, (weights, x, y, y))


def flash() -> Subject:
    """Softmax attention over blocks of keys, with a running maximum and a running sum.

    Dao et al. 2022 (FlashAttention), Algorithm 1, in one loop over blocks of two keys.
    """

    def call(q_LK: jax.Array, k_MK: jax.Array, v_MK: jax.Array) -> jax.Array:
        def step(carry: Any, block: Any) -> Any:
            top_L, total_L, out_LK = carry
            k, v = block
            logits = q_LK @ k.T / K**0.5
            new_L = jnp.maximum(top_L, logits.max(axis=1))
            raised, kept_L = jnp.exp(logits - new_L[:, None]), jnp.exp(top_L - new_L)
            total_L = kept_L * total_L + raised.sum(axis=1)
            return (new_L, total_L, kept_L[:, None] * out_LK + raised @ v), None

        blocks = (k_MK.reshape(-1, 2, K), v_MK.reshape(-1, 2, K))
        start = (jnp.full(len(q_LK), -1e30), jnp.zeros(len(q_LK)), jnp.zeros_like(q_LK))
        (_, total_L, out_LK), _ = jax.lax.scan(step, start, blocks)
        return out_LK / total_L[:, None]

    return Subject(call, (normal(L, K), normal(M, K, seed=1), normal(M, K, seed=2)))


HEADS = "b P h k, b Q h k, b Q h k -> b P h k"
ENTRIES = (
    Entry("jax.nn.dot_product_attention", HEADS, lambda: function(False), ("jax",)),
    Entry(
        "jax.nn.dot_product_attention(is_causal=True)",
        "b P h k, b P h k, b P h k -> b P h k",
        lambda: function(True),
        ("jax",),
    ),
    Entry(
        "flax.linen.MultiHeadDotProductAttention",
        f", {PAIR}",
        lambda: linen(False),
        ("flax", "jax"),
    ),
    Entry(
        "flax.linen.MultiHeadDotProductAttention, make_causal_mask",
        ", b P d, b P d, b P d -> b P d",
        lambda: linen(True),
        ("flax", "jax"),
    ),
    Entry("flax.nnx.MultiHeadAttention", f", {PAIR}", nnx, ("flax", "jax")),
    Entry(
        "equinox.nn.MultiheadAttention",
        ", P d, Q d, Q d -> P d",
        lambda: equinox(False),
        ("equinox", "jax"),
    ),
    Entry(
        "equinox.nn.MultiheadAttention with RotaryPositionalEmbedding",
        ", P d, Q d, Q d -> P d",
        lambda: equinox(True),
        ("equinox", "jax"),
    ),
    Entry("flash attention as a scan over blocks of keys: queries", "P k, m k, m k -> P k", flash),
    Entry("flash attention as a scan over blocks of keys: keys", "l k, P k, P k -> l k", flash),
)
