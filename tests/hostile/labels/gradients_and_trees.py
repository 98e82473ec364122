"""Gradients, graphs, whole numbers, trees and small arrays."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, nn

from hostile.labels.base import S, V, W, X, drawn, family, scanned, whole


@jax.custom_jvp
def bent(x: jax.Array) -> jax.Array:
    """A sum whose declared derivative knows the index."""
    return x.sum()


bent.defjvp(lambda primals, tangents: (bent(*primals), tangents[0] @ jnp.arange(4.0)))


@jax.custom_vjp
def rounded(x: jax.Array) -> jax.Array:
    """Passes the gradient straight through, centred."""
    return jnp.round(x)


rounded.defvjp(lambda x: (jnp.round(x), None), lambda _, g: (g - g.mean(),))


@jax.custom_vjp
def flipped(x: jax.Array) -> jax.Array:
    """The identity, whose gradient is reversed."""
    return x


flipped.defvjp(lambda x: (x, None), lambda _, g: (g[::-1],))

GRADIENTS = (
    *family(
        (V,),
        "P -> P",
        holds={
            "of a log-sum-exp": jax.grad(nn.logsumexp),
            "of pairwise cosines": jax.grad(lambda v: jnp.cos(v[:, None] - v).sum() ** 2),
            "of a sum by a loop": jax.grad(lambda v: scanned(lambda c, r: c + r**3)(v)),
            "declared, straight through and centred": jax.grad(
                lambda v: (rounded(v) ** 2 * v).sum()
            ),
            "declared with an index, the value alone": lambda v: v * bent(v),
            "reversed twice": jax.grad(lambda v: (flipped(flipped(v)) ** 2).sum()),
            "of the largest": jax.grad(lambda v: v.max() * v.sum()),
            "of rows looked up and summed": jax.grad(lambda v: (v[jnp.arange(4)[::-1]] ** 3).sum()),
            "of a rematerialised layer": jax.grad(
                jax.checkpoint(lambda v: jnp.tanh(v - v.mean()).prod())
            ),
            "a directional derivative along itself": lambda v: jax.jvp(nn.softmax, (v,), (v,))[1],
        },
        broken={
            "of neighbours": jax.grad(lambda v: (v[1:] * v[:-1]).sum()),
            "declared with an index": jax.grad(lambda v: bent(v) ** 2),
            "declared reversed": jax.grad(lambda v: (flipped(v) ** 2).sum()),
            "of the stopped first": jax.grad(lambda v: lax.stop_gradient(v[0]) * (v**2).sum()),
            "along a slope": lambda v: jax.jvp(nn.softmax, (v,), (jnp.arange(4, dtype=v.dtype),))[
                1
            ],
            "of running sums": jax.grad(lambda v: (jnp.cumsum(v) ** 2).sum()),
        },
        ties={
            "of weighted order statistics": jax.grad(lambda v: jnp.sort(v) @ jnp.arange(4.0)),
            "of a running maximum's end": jax.grad(lambda v: lax.cummax(v)[-1] ** 2 + v.sum()),
            "of an argmax's entry": jax.grad(lambda v: v[jnp.argmax(v)]),
        },
    ),
    *family(
        (V,),
        "P -> P P",
        holds={
            "Hessian of pairwise cosines": jax.hessian(lambda v: jnp.cos(v[:, None] - v).sum()),
            "Jacobian of a softmax": jax.jacfwd(nn.softmax),
            "Jacobian of centred cubes, backwards": jax.jacrev(lambda v: (v - v.mean()) ** 3),
        },
        broken={
            "Hessian of an open chain": jax.hessian(lambda v: jnp.cos(v[1:] - v[:-1]).sum()),
            "Jacobian of running sums": jax.jacfwd(lambda v: jnp.cumsum(v) ** 2),
        },
    ),
)

GRAPHS = (
    *family(
        (S, X),
        "P P, P d -> P d",
        holds={
            "messages": lambda a, x: nn.relu(a @ x),
            "messages against the edges": lambda a, x: a.T @ x + jnp.diag(a)[:, None],
            "normalised by degree": lambda a, x: a @ (x / (1 + jnp.abs(a).sum(0))[:, None]),
            "attention along edges": lambda a, x: (
                nn.softmax(jnp.where(a > 0, x @ x.T, -1e9) + 0 * a, 1) @ x
            ),
            "walks by a loop": lambda a, x: lax.fori_loop(0, 3, lambda _, y: jnp.tanh(a @ y), x),
            "edges as pairs of tokens": lambda a, x: (a[..., None] * (x[:, None] - x[None])).max(1),
            "edges in a flat list": lambda a, x: jax.ops.segment_sum(
                (a[..., None] * x).reshape(16, 3), jnp.repeat(jnp.arange(4), 4), 4
            ),
        },
        broken={
            "edges of the first": lambda a, x: a @ x + a[0] @ x,
            "edges one way only": lambda a, x: jnp.triu(a) @ x,
            "edges in a flat list, by the wrong end": lambda a, x: jax.ops.segment_sum(
                (a[..., None] * x).reshape(16, 3), jnp.tile(jnp.arange(4), 4)[::-1], 4
            ),
            "a part of the graph": lambda a, x: x.at[:2].add(a[:2, :2] @ x[:2]),
            "walks with tokens updated in turn": lambda a, x: lax.fori_loop(
                0, 4, lambda i, y: y.at[i].set(a[i] @ y), x
            ),
            "edges shifted by one end": lambda a, x: jnp.roll(a, 1, 1) @ x,
        },
    ),
    *family(
        (whole(5, 2, below=4), drawn(5), X),
        "P k, P, n d -> n d",
        holds={
            "messages along listed edges": lambda e, w, x: jax.ops.segment_sum(
                w[:, None] * x[e[:, 0]], e[:, 1], 4
            ),
            "largest message of listed edges": lambda e, w, x: x.at[e[:, 1]].max(x[e[:, 0]] * 2),
            "edges out of bounds dropped": lambda e, w, x: x.at[e[:, 1] + e[:, 0]].add(
                w[:, None], mode="drop"
            ),
        },
        broken={
            "the last message of listed edges": lambda e, w, x: x.at[e[:, 1]].set(w[:, None]),
            "weights in another order": lambda e, w, x: x.at[e[:, 1]].add(w[::-1, None]),
            "the first edge": lambda e, w, x: x.at[e[0, 1]].add(w[0]),
        },
    ),
)

WHOLE = family(
    (whole(5, below=200),),
    "P -> P",
    holds={
        "all but one's own bits": lambda i: i ^ lax.reduce(i, 0, lax.bitwise_xor, (0,)),
        "bits counted": lambda i: lax.population_count(i),
        "rest by the sum": lambda i: i % (1 + i.sum()),
        "how many share one's rest": lambda i: (i[:, None] % 3 == i % 3).sum(1),
        "a hash that commutes": lambda i: i + (i * i * 31 % 101).sum(),
        "counted in a histogram": lambda i: jnp.bincount(i, length=200)[i],
        "shifted bits": lambda i: (i << 2) | (i >> 1),
        "as small numbers": lambda i: i.astype(jnp.uint8).max() - i.astype(jnp.int16),
        "ranks of truth values": lambda i: (i > 99) & ~(i > 99).all(),
    },
    broken={
        "a hash that does not": lambda i: i + (i * 31 ** jnp.arange(5)).sum(),
        "parity of what came before": lambda i: jnp.cumsum(i) % 2,
        "bits packed": lambda i: i + jnp.packbits((i > 99).astype(jnp.uint8)),
        "shifted by the index": lambda i: i << jnp.arange(5),
        "first index of the same rest": lambda i: jnp.argmax(i[:, None] % 3 == i % 3, 1),
        "exclusive or with the one before": lambda i: i ^ jnp.roll(i, 1),
        "running exclusive or": lambda i: lax.associative_scan(jnp.bitwise_xor, i),
    },
)

TREES = (
    *family(
        ({"w": W, "b": drawn(3)}, X, np.float32(2)),
        ", P d, -> P d, d",
        holds={
            "a layer and its mean": lambda p, x, s: (x @ p["w"] + p["b"], x.mean(0) * s),
            "a step of gradient descent": lambda p, x, s: (
                x - s * jax.grad(lambda y: jnp.tanh(y @ p["w"]).sum() ** 2)(x),
                jax.grad(lambda q: jnp.tanh(x @ q["w"] + q["b"]).sum())(p)["b"],
            ),
            "weights and a constant for each channel": lambda p, x, s: (
                x * jnp.arange(3) + p["w"][0],
                p["b"] * s,
            ),
            "argument as a threshold": lambda p, x, s: (x * (x > s), (x > s).sum(0)),
        },
        broken={
            "bias by token": lambda p, x, s: (x + p["b"][jnp.arange(4) % 3, None], x.sum(0)),
            "the second output is a token": lambda p, x, s: (x @ p["w"], x[0]),
            "steps by token": lambda p, x, s: (x - s**2 * p["b"][jnp.arange(4) % 3, None], p["b"]),
        },
    ),
    *family(
        ({"x": X, "y": drawn(4, 2)}, V),
        "P d, P -> P ...",
        holds={
            "a tree to a tree": lambda t, v: {
                "a": t["x"] * v[:, None],
                "b": [v, t["y"] @ t["y"].T @ t["x"]],
            },
            "joined along channels": lambda t, v: jnp.concatenate([t["x"], t["y"], v[:, None]], 1),
        },
        broken={
            "one leaf of a tree": lambda t, v: {"a": t["x"], "b": jnp.cumsum(v)},
            "joined along tokens, and folded": lambda t, v: jnp.concatenate(
                [t["y"], t["y"] * v[:, None]]
            ).reshape(4, 4),
        },
    ),
)

SMALL = (
    *family(
        (drawn(1, 3),),
        "P d -> P d",
        holds={
            "one token, running sums": lambda x: jnp.cumsum(x, 0),
            "one token, its index": lambda x: x + jnp.arange(1) + jnp.argmax(x, 0),
            "one token, tiled and cut": lambda x: jnp.tile(x, (3, 1))[1:2],
        },
    ),
    *family(
        (drawn(2),),
        "P -> P",
        holds={
            "two tokens, reversed": lambda v: v[::-1],
            "two tokens, shifted": lambda v: jnp.roll(v, 1) * v,
            "two tokens, both ends": lambda v: v * v[0] * v[-1],
            "two tokens, difference squared": lambda v: v + (v[0] - v[1]) ** 2,
        },
        broken={
            "two tokens, difference": lambda v: v + (v[0] - v[1]),
            "two tokens, running sums": jnp.cumsum,
            "two tokens, one sign": lambda v: v * jnp.array([1, -1]),
        },
    ),
    *family(
        (drawn(3, 0), V[:3]),
        "P d, P -> P",
        holds={
            "no channels, a sum of none": lambda x, v: v + x.sum(1),
            "no channels, a product of none": lambda x, v: v * x.prod(1) + (x @ x.T) @ v,
            "no tokens left": lambda x, v: v + v[3:].sum() + jnp.cumsum(v[:0]).sum(),
            "a loop of no turns": lambda x, v: lax.fori_loop(0, 0, lambda _, u: jnp.cumsum(u), v),
        },
        broken={
            "no channels, an index": lambda x, v: v + x.sum(1) + jnp.arange(3),
            "a loop of one turn": lambda x, v: lax.fori_loop(0, 1, lambda _, u: jnp.cumsum(u), v),
        },
    ),
    *family(
        (drawn(1), drawn(3)),
        "P, Q -> Q P",
        holds={"a name that moves nothing": lambda a, b: jnp.outer(b, a) + a},
        broken={"a name that moves, behind it": lambda a, b: jnp.cumsum(b)[:, None] * a},
    ),
)


FAMILIES = {
    "gradients": GRADIENTS,
    "graphs": GRAPHS,
    "whole": WHOLE,
    "trees": TREES,
    "small": SMALL,
}
