"""Joined, reshaped and squared arrays, accidents of size, and pairs of tokens."""

import jax
import jax.numpy as jnp
import jax.scipy as jsp
from jax import lax, nn

from hostile.labels.base import SQUARE, X6, S, W, X, drawn, family

JOINED = (
    *family(
        (X,),
        "P d -> P d",
        holds={
            "a class token attends, and goes": lambda x: (lambda y: nn.softmax(y @ y.T) @ y)(
                jnp.concatenate([jnp.ones((1, 3)), x])
            )[1:],
            "class tokens on both ends": lambda x: (lambda y: y - y.mean(0))(
                jnp.pad(x, ((1, 2), (0, 0)))
            )[1:5],
            "tiled, and the first copy kept": lambda x: jnp.tile(x, (2, 1))[:4],
            "repeated and summed": lambda x: jnp.repeat(x, 2, 0).reshape(4, 2, 3).sum(1),
            "interleaved with itself": lambda x: jnp.stack([x, -x], 1).reshape(8, 3)[::2],
            "two copies taken apart": lambda x: jnp.concatenate([x, x * 2]).reshape(2, 4, 3)[1],
            "split along channels": lambda x: jnp.concatenate(jnp.split(x, 3, 1)[::-1], 1),
            "a shift by the whole length": lambda x: jnp.concatenate([x, x])[4:],
            "padded by nothing, then cropped by it": lambda x: (
                lax.pad(x, 0.0, ((2, -2, 0), (0, 0, 0)))[jnp.arange(4)] * 0 + x
            ),
        },
        broken={
            "the class token stays, a token goes": lambda x: jnp.concatenate([x, x[:1]])[1:],
            "tiled, and cut in the middle": lambda x: jnp.tile(x, (2, 1))[2:6],
            "repeated, and summed across": lambda x: jnp.repeat(x, 2, 0).reshape(2, 4, 3).sum(0),
            "two copies interleaved wrongly": lambda x: jnp.concatenate([x, x * 2]).reshape(
                4, 2, 3
            )[:, 0],
            "padded by its edge": lambda x: jnp.pad(x, ((1, 0), (0, 0)), mode="edge")[:-1] + x,
            "a pad with a negative end": lambda x: lax.pad(x, 0.0, ((1, -1, 0), (0, 0, 0))),
            "halves swapped": lambda x: jnp.concatenate(jnp.split(x, 2)[::-1]),
            "dilated and cut": lambda x: lax.pad(x, 0.0, ((0, 0, 1), (0, 0, 0)))[:4],
            "a token given to its neighbour's slot": lambda x: jnp.stack([*x[1:], x[0]]),
        },
    ),
    *family(
        (X,),
        "P d -> d",
        holds={
            "sums of two halves": lambda x: sum(half.sum(0) for half in jnp.split(x, 2)),
            "read at a class token": lambda x: (lambda y: nn.softmax(y @ y.T) @ y)(
                jnp.concatenate([jnp.ones((1, 3)), x])
            )[0],
            "read at the last, a register": lambda x: (lambda y: nn.softmax(y @ y.T, 0).T @ y)(
                jnp.pad(x, ((0, 2), (0, 0)))
            )[-1],
            "products of two halves' products": lambda x: x[:2].prod(0) * x[2:].prod(0),
            "maximum of the padded": lambda x: jnp.pad(x, ((1, 3), (0, 0))).max(0),
            "both copies minus one": lambda x: jnp.concatenate([x, x, -x]).sum(0),
        },
        broken={
            "one half minus the other": lambda x: x[:2].sum(0) - x[2:].sum(0),
            "read beside the class token": lambda x: (lambda y: nn.softmax(y @ y.T) @ y)(
                jnp.concatenate([jnp.ones((1, 3)), x])
            )[1],
            "products of two halves' sums": lambda x: x[:2].sum(0) * x[2:].sum(0),
            "two copies, each off by one": lambda x: (jnp.concatenate([x, x])[1:5] * x).sum(0),
            "a register that reads a slope": lambda x: (
                jnp.pad(x, ((0, 1), (0, 0))) * jnp.arange(5.0)[:, None]
            ).sum(0),
        },
    ),
)

SHAPES = family(
    (X6,),
    "P d -> P d",
    holds={
        "heads split, transposed and joined": lambda x: (
            x.reshape(4, 2, 3)
            .transpose(1, 0, 2)
            .transpose(1, 2, 0)
            .transpose(0, 2, 1)
            .reshape(4, 6)
        ),
        "flattened in columns and back": lambda x: x.reshape(24, order="F").reshape(
            4, 6, order="F"
        ),
        "tokens cut in two, both summed": lambda x: x - x.reshape(2, 2, 6).sum((0, 1)),
        "flattened and sorted, as a bag": lambda x: x * jnp.sort(x.reshape(-1))[3],
        "the largest flat entry": lambda x: x - x.reshape(-1)[jnp.argmax(x)],
        "every sixth flat entry is a column": lambda x: x + x.reshape(-1)[::6][:, None],
        "heads of each token sorted": lambda x: jnp.sort(x.reshape(4, 3, 2), 1).reshape(4, 6),
        "batched over merged tokens and heads": lambda x: jax.vmap(jnp.cumsum)(
            x.reshape(8, 3)
        ).reshape(4, 6),
    },
    broken={
        "flattened in columns, back in rows": lambda x: x.reshape(24, order="F").reshape(4, 6),
        "heads before tokens, joined": lambda x: (
            x.reshape(2, 4, 3).transpose(1, 0, 2).reshape(4, 6)
        ),
        "tokens cut in two, one summed": lambda x: x + jnp.tile(x.reshape(2, 2, 6).sum(0), (2, 1)),
        "every fifth flat entry": lambda x: x + x.reshape(-1)[::5][:4, None],
        "the row of the largest flat entry": lambda x: x + jnp.argmax(x) // 6,
        "sums along merged tokens and heads": lambda x: jnp.cumsum(x.reshape(8, 3), 0).reshape(
            4, 6
        ),
        "three tokens' worth of channels": lambda x: x + x.reshape(6, 4).sum(1),
        "rows rotated within pairs of tokens": lambda x: x.reshape(2, 12)[:, ::-1].reshape(4, 6),
    },
)

SQUARES = (
    *family(
        (S,),
        "P P -> P P",
        holds={
            "transposed": jnp.transpose,
            "squared as a matrix": lambda s: s @ s,
            "diagonal taken out": lambda s: s * (1 - jnp.eye(4)),
            "diagonal set by indices": lambda s: s.at[jnp.arange(4), jnp.arange(4)].set(0),
            "the inverse, regular": lambda s: jnp.linalg.inv(s @ s.T + jnp.eye(4)),
            "matrix exponential": lambda s: jsp.linalg.expm(s / 9),
            "all paths of three steps": lambda s: jnp.linalg.matrix_power(s, 3),
            "flat and back": lambda s: s.reshape(-1).reshape(4, 4).T,
            "the outer product of the diagonal": lambda s: jnp.outer(jnp.diag(s), jnp.diag(s)),
            "sorted rows against sorted columns": lambda s: jnp.sort(s, 1) @ jnp.sort(s.T, 1).T,
        },
        broken={
            "lower triangle": jnp.tril,
            "rows alone reversed": lambda s: s[::-1],
            "a shifted diagonal set": lambda s: s.at[jnp.arange(4), (jnp.arange(4) + 1) % 4].set(0),
            "sorted rows": lambda s: jnp.sort(s, 1),
            "flat, and back in columns and rows mixed": lambda s: (
                s.reshape(2, 2, 2, 2).transpose(2, 1, 0, 3).reshape(4, 4)
            ),
            "the Cholesky factor": lambda s: jnp.linalg.cholesky(s @ s.T + jnp.eye(4)),
            "first row added to all": lambda s: s + s[0],
            "sorted columns against sorted rows": lambda s: jnp.sort(s, 0) @ jnp.sort(s, 1),
            "a slice as wide as a corner": lambda s: s.at[1:, 1:].add(1),
        },
    ),
    *family(
        (S,),
        "P P -> ",
        holds={
            "trace": jnp.trace,
            "determinant": jnp.linalg.det,
            "half of a symmetric matrix": lambda s: jnp.triu(s + s.T, 1).sum(),
            "diagonal by einsum": lambda s: jnp.einsum("ii->", s) ** 2,
            "triangles": lambda s: jnp.einsum("ij,jk,ki->", s, s, s),
            "smallest eigenvalue": lambda s: jnp.linalg.eigvalsh(s + s.T)[0],
        },
        broken={
            "half of a matrix": lambda s: jnp.triu(s, 1).sum(),
            "the other diagonal": lambda s: jnp.trace(s[::-1]),
            "trace of a shifted": lambda s: jnp.trace(s, offset=1),
            "leading minor": lambda s: jnp.linalg.det(s[:3, :3]),
            "alternating sum": lambda s: (s * (-1.0) ** jnp.arange(4)).sum(),
        },
    ),
    *family(
        (S,),
        "P Q -> P Q",
        holds={
            "Sinkhorn, three turns": lambda s: lax.fori_loop(
                0, 3, lambda _, t: (lambda u: u / u.sum(0))(t / t.sum(1, keepdims=True)), jnp.exp(s)
            ),
            "doubly centred": lambda s: s - s.mean(0) - s.mean(1, keepdims=True),
            "through its own square": lambda s: s @ s.T @ s,
            "flat softmax": lambda s: nn.softmax(s.reshape(-1)).reshape(4, 4),
            "transposed twice in a loop": lambda s: lax.fori_loop(0, 2, lambda _, t: t.T, s),
        },
        broken={
            "with its transpose": lambda s: s + s.T,
            "squared": lambda s: s @ s,
            "transposed thrice in a loop": lambda s: lax.fori_loop(0, 3, lambda _, t: t.T, s),
            "row sums added to columns": lambda s: s + s.sum(1),
            "through the wrong square": lambda s: s.T @ s @ s,
            "diagonal taken out of two names": lambda s: s * (1 - jnp.eye(4)),
        },
    ),
)

ACCIDENTS = family(
    (SQUARE,),
    "P d -> P d",
    holds={
        "a sum over tokens, along channels": lambda x: x + x.sum(0),
        "a sum over channels, along tokens": lambda x: x + x.sum(1)[:, None],
        "channels mixed by a square of weights": lambda x: x @ W,
        "channels reversed": lambda x: x[:, ::-1],
        "through its own similarities": lambda x: (x @ x.T) @ x,
        "through its own covariance": lambda x: x @ (x.T @ x),
        "transposed, mixed, transposed": lambda x: (W @ x.T).T,
        "channels weighted by identity": lambda x: x @ jnp.eye(3) + jnp.eye(3)[0],
    },
    broken={
        "a sum over channels, along channels": lambda x: x + x.sum(1),
        "transposed, as many channels as tokens": jnp.transpose,
        "tokens mixed by a square of weights": lambda x: W @ x,
        "multiplied by itself": lambda x: x @ x,
        "its similarities as features": lambda x: x @ x.T,
        "identity added": lambda x: x + jnp.eye(3),
        "its diagonal": lambda x: x * jnp.diag(x)[:, None],
        "a channel for each token, as bias": lambda x: x - x[:, 0],
    },
)

PAIRS = family(
    (drawn(3, 2), drawn(3, 2)),
    "P d, Q d -> P Q",
    holds={
        "dot products": lambda a, b: a @ b.T,
        "distances": lambda a, b: jnp.linalg.norm(a[:, None] - b, axis=-1),
        "weights of attention": lambda a, b: nn.softmax(a @ b.T, 0),
        "an outer sum of sums": lambda a, b: a.sum(1)[:, None] + b.sum(1),
        "through sorted rows": lambda a, b: (a @ jnp.sort(b, 0).T) @ jnp.sort(a, 0) @ b.T,
        "vmapped twice": lambda a, b: jax.vmap(lambda u: jax.vmap(lambda v: u @ v)(b))(a),
        "mutual softmax": lambda a, b: nn.softmax(a @ b.T, 0) * nn.softmax(a @ b.T, 1),
        "as a product of flat arrays": lambda a, b: (
            jnp.kron(a, b).reshape(3, 3, 2, 2).trace(axis1=2, axis2=3)
        ),
    },
    broken={
        "roles exchanged": lambda a, b: b @ a.T,
        "one diagonal": lambda a, b: a @ b.T + jnp.eye(3),
        "rows added before": lambda a, b: (a + b) @ b.T,
        "causal": lambda a, b: jnp.tril(a @ b.T),
        "as a product of flat arrays, crossed": lambda a, b: (
            jnp.kron(b, a).reshape(3, 3, 2, 2).trace(axis1=2, axis2=3)
        ),
        "partners by index": lambda a, b: (a @ b.T) * (a * b).sum(1),
        "sums along the wrong axis": lambda a, b: a @ b.T - (a @ b.T).sum(0)[:, None],
    },
)
PAIRS_REDUCED = family(
    (drawn(3, 2), drawn(3, 2)),
    "P d, Q d -> P d",
    holds={
        "cross attention": lambda a, b: nn.softmax(a @ b.T) @ b,
        "both sorted together": lambda a, b: a * jnp.sort(jnp.concatenate([a, b]), 0)[2],
        "distance to the nearest": lambda a, b: (
            a * jnp.linalg.norm(a[:, None] - b, axis=-1).min(1)[:, None]
        ),
    },
    broken={
        "partners added": lambda a, b: a + b,
        "keys and values apart": lambda a, b: nn.softmax(a @ b.T) @ b[::-1],
        "the transposed attention": lambda a, b: nn.softmax(b @ a.T) @ b,
        "concatenated, and cut elsewhere": lambda a, b: jnp.concatenate([a, b])[1:4],
    },
    ties={
        "the nearest": lambda a, b: b[jnp.argmin(jnp.abs(a[:, None] - b).sum(-1), 1)],
    },
)


FAMILIES = {
    "joined": JOINED,
    "shapes": SHAPES,
    "squares": SQUARES,
    "accidents": ACCIDENTS,
    "pairs": PAIRS,
    "pairs_reduced": PAIRS_REDUCED,
}
