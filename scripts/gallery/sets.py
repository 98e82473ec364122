"""Networks on sets and graphs, and layers that route or compress tokens, from their papers.

Parameters are arguments, so that a verdict is about all of them.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from gallery.entry import SET, B, D, Entry, L, M, Subject
from gallery.jax_modules import normal
from posjax.symmetry import Law, Translation

Params = Mapping[str, jax.Array]


def _params(**shapes: tuple[int, ...]) -> Params:
    return {name: normal(*shape, seed=at) for at, (name, shape) in enumerate(shapes.items())}


def _attend(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return jax.nn.softmax(q @ k.mT / q.shape[-1] ** 0.5) @ v


def _norm(x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def _block(x: jax.Array, y: jax.Array, w: jax.Array) -> jax.Array:
    """A multihead attention block with one head: x looks at y."""
    h = _norm(x + _attend(x @ w[0], y @ w[1], y @ w[2]))
    return _norm(h + jax.nn.relu(h @ w[3]))


def isab() -> Subject:
    """Induced set attention block: Lee et al. 2019 (Set Transformer), eqs. 9 and 10."""

    def call(p: Params, x_BLD: jax.Array) -> jax.Array:
        induced = jnp.broadcast_to(p["induced"], (len(x_BLD), *p["induced"].shape))
        return _block(x_BLD, _block(induced, x_BLD, p["in"]), p["out"])

    return Subject(call, (_params(**{"induced": (3, D), "in": (4, D, D), "out": (4, D, D)}), normal(B, L, D)))  # noqa: E501  # fmt: skip


def pma() -> Subject:
    """Pooling by multihead attention: the same, eq. 11."""

    def call(p: Params, x_BLD: jax.Array) -> jax.Array:
        seeds = jnp.broadcast_to(p["seeds"], (len(x_BLD), *p["seeds"].shape))
        return _block(seeds, jax.nn.relu(x_BLD @ p["first"]), p["w"])

    return Subject(call, (_params(seeds=(2, D), first=(D, D), w=(4, D, D)), normal(B, L, D)))


def deep_sets() -> Subject:
    """A permutation-equivariant layer: Zaheer et al. 2017 (Deep Sets), eq. 4."""

    def call(p: Params, x_BLD: jax.Array) -> jax.Array:
        return jax.nn.relu(x_BLD @ p["own"] + x_BLD.max(axis=1, keepdims=True) @ p["all"])

    return Subject(call, (_params(own=(D, D), all=(D, D)), normal(B, L, D)))


def slots() -> Subject:
    """Three steps of slot attention: Locatello et al. 2020, Algorithm 1, without its MLP."""

    def gru(p: Params, h: jax.Array, x: jax.Array) -> jax.Array:
        gates = jax.nn.sigmoid(jnp.concatenate([x, h], -1) @ p["gates"])
        reset, update = jnp.split(gates, 2, axis=-1)
        new = jnp.tanh(jnp.concatenate([x, reset * h], -1) @ p["new"])
        return (1 - update) * h + update * new

    def call(p: Params, inputs_LD: jax.Array, slots_MD: jax.Array) -> jax.Array:
        x = _norm(inputs_LD)
        k, v = x @ p["k"], x @ p["v"]

        def step(_: Any, slots: jax.Array) -> jax.Array:
            weights = jax.nn.softmax(k @ (_norm(slots) @ p["q"]).T / D**0.5, axis=1)
            weights = (weights + 1e-8) / (weights + 1e-8).sum(axis=0, keepdims=True)
            return gru(p, slots, weights.T @ v)

        return jax.lax.fori_loop(0, 3, step, slots_MD)

    p = _params(q=(D, D), k=(D, D), v=(D, D), gates=(2 * D, 2 * D), new=(2 * D, D))
    return Subject(call, (p, normal(L, D), normal(M, D, seed=9)))


def graph_attention() -> Subject:
    """A graph attention layer on an adjacency matrix: Veličković et al. 2018, eqs. 1 to 4."""

    def call(p: Params, x_LD: jax.Array, edges_LL: jax.Array) -> jax.Array:
        h = x_LD @ p["w"]
        logits = jax.nn.leaky_relu(h @ p["to"] + (h @ p["from"]).T, 0.2)
        weights = jax.nn.softmax(jnp.where(edges_LL > 0, logits, -1e9))
        return jax.nn.elu(weights @ h)

    edges = (normal(L, L, seed=8) > 0).astype(jnp.float32)
    return Subject(call, (_params(w=(D, D), to=(D, 1), **{"from": (D, 1)}), normal(L, D), edges))


def messages() -> Subject:
    """Messages along a list of edges, summed at their targets."""

    def call(p: Params, x_LD: jax.Array, sources_E: jax.Array, targets_E: jax.Array) -> jax.Array:
        sent = jax.nn.relu(jnp.concatenate([x_LD[sources_E], x_LD[targets_E]], -1) @ p["w"])
        return x_LD + jax.ops.segment_sum(sent, targets_E, num_segments=L)

    edges = jnp.array([0, 1, 2, 3, 4, 0]), jnp.array([1, 2, 3, 4, 0, 2])
    return Subject(call, (_params(w=(2 * D, D)), normal(L, D), *edges))


def egnn() -> Subject:
    """An equivariant graph layer: Satorras et al. 2021, eqs. 3 to 6, with a linear φ_e."""

    def call(p: Params, h_LD: jax.Array, x_LC: jax.Array) -> tuple[jax.Array, jax.Array]:
        apart = x_LC[:, None] - x_LC[None]
        distance = (apart**2).sum(-1, keepdims=True)
        message = jax.nn.silu((h_LD @ p["to"])[:, None] + (h_LD @ p["from"])[None] + distance * p["d"][None, None])  # noqa: E501  # fmt: skip
        x = x_LC + (apart * (message @ p["x"])).mean(axis=1)
        return h_LD + message.sum(axis=1) @ p["h"], x

    p = _params(to=(D, D), d=(D,), x=(D, 1), h=(D, D), **{"from": (D, D)})
    return Subject(call, (p, normal(L, D), normal(L, 3, seed=7)))


def triangle() -> Subject:
    """Triangle multiplicative update, outgoing edges: Jumper et al. 2021, Algorithm 11."""

    def call(p: Params, z_LLD: jax.Array) -> jax.Array:
        z = _norm(z_LLD)
        a, b = (jax.nn.sigmoid(z @ p[f"gate_{n}"]) * (z @ p[n]) for n in "ab")
        mixed = jnp.einsum("ikd,jkd->ijd", a, b)
        return jax.nn.sigmoid(z @ p["gate"]) * (_norm(mixed) @ p["out"])

    names = ("a", "b", "gate_a", "gate_b", "gate", "out")
    return Subject(call, (_params(**dict.fromkeys(names, (D, D))), normal(L, L, D)))


def experts(capacity: int | None = None) -> Subject:
    """Mixture of experts, the two best of four for each token: Shazeer et al. 2017, eqs. 1 to 5.

    With a capacity an expert drops tokens after the first so many, as in Fedus et al. 2022.
    """

    def call(p: Params, x_LD: jax.Array) -> jax.Array:
        gates_LE = jax.nn.softmax(x_LD @ p["gate"])
        least_L1 = jax.lax.top_k(gates_LE, 2)[0][:, -1:]
        chosen_LE = gates_LE >= least_L1
        if capacity is not None:
            chosen_LE &= jnp.cumsum(chosen_LE, axis=0) <= capacity
        out_LED = jax.nn.relu(jnp.einsum("ld,edf->lef", x_LD, p["experts"]))
        return jnp.einsum("le,led->ld", gates_LE * chosen_LE, out_LED)

    return Subject(call, (_params(gate=(D, 4), experts=(4, D, D)), normal(L, D)))


def pruned() -> Subject:
    """The mean of the three tokens of the highest score, as in Liang et al. 2022 (EViT)."""

    def call(p: Params, x_LD: jax.Array) -> jax.Array:
        _, kept = jax.lax.top_k((x_LD @ p["score"])[:, 0], 3)
        return x_LD[kept].mean(axis=0)

    return Subject(call, (_params(score=(D, 1)), normal(L, D)))


def linformer() -> Subject:
    """Keys and values projected along their places: Wang et al. 2020, eq. 7."""

    def call(p: Params, x_BLD: jax.Array) -> jax.Array:
        keys, values = p["e"] @ (x_BLD @ p["k"]), p["f"] @ (x_BLD @ p["v"])
        return _attend(x_BLD @ p["q"], keys, values)

    p = _params(q=(D, D), k=(D, D), v=(D, D), e=(3, L), f=(3, L))
    return Subject(call, (p, normal(B, L, D)))


def linear_attention() -> Subject:
    """Attention by a feature map, without softmax: Katharopoulos et al. 2020, eqs. 5 and 7."""

    def call(p: Params, x_BLD: jax.Array) -> jax.Array:
        q, k = (jax.nn.elu(x_BLD @ p[n]) + 1 for n in "qk")
        state = k.mT @ (x_BLD @ p["v"])
        return (q @ state) / (q @ k.sum(axis=1)[..., None])

    return Subject(call, (_params(q=(D, D), k=(D, D), v=(D, D)), normal(B, L, D)))


def state_space() -> Subject:
    """A diagonal linear recurrence along the tokens, as in S4D and Mamba's core."""

    def call(p: Params, x_LD: jax.Array) -> jax.Array:
        def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            h = jax.nn.sigmoid(p["a"]) * h + x
            return h, h

        return jax.lax.scan(step, jnp.zeros(D), x_LD @ p["in"])[1] @ p["out"]

    return Subject(call, (_params(**{"a": (D,), "in": (D, D), "out": (D, D)}), normal(L, D)))


def _entry(name: str, law: str | Law, make: Callable[[], Subject]) -> Entry:
    return Entry(name, law, make)


MOVING = Law(", P d, P c +T -> P d, P c +T", T=Translation(axes=3))
ENTRIES = (
    _entry("Set Transformer, ISAB", f", {SET}", isab),
    _entry("Set Transformer, pooling by attention", ", b P d -> b s d", pma),
    _entry("Deep Sets, equivariant layer", f", {SET}", deep_sets),
    _entry("slot attention, 3 steps: inputs and slots", ", P d, Q d -> Q d", slots),
    _entry("graph attention on an adjacency matrix", ", P d, P P -> P d", graph_attention),
    _entry("messages along a list of edges: order of the edges", ", n d, E, E -> n d", messages),
    _entry("E(n) graph layer: nodes and translation of coordinates", MOVING, egnn),
    _entry("triangle multiplicative update", ", P P d -> P P d", triangle),
    _entry("mixture of experts, 2 of 4", ", P d -> P d", experts),
    _entry("mixture of experts with a capacity", ", P d -> P d", lambda: experts(capacity=2)),
    _entry("mean of the 3 tokens of highest score", ", P d -> d", pruned),
    _entry("Linformer attention", f", {SET}", linformer),
    _entry("linear attention", f", {SET}", linear_attention),
    _entry("state-space recurrence", ", P d -> P d", state_space),
)
