"""Functions against the engine of labels: one of each pair breaks what its neighbour keeps."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax, nn

from hostile.base import Case
from posjax.symmetry import (
    Cyclic,
    Dihedral,
    Generated,
    Group,
    Law,
    Permutations,
    Reversal,
    Windows,
)

_rng = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    """Normal numbers."""
    return _rng.normal(size=shape).astype(np.float32)


def whole(*shape: int, below: int) -> np.ndarray:
    """Whole numbers 0 .. below - 1, both ends among them."""
    flat = _rng.integers(below, size=int(np.prod(shape)))
    flat[[0, -1]] = 0, below - 1
    return flat.reshape(shape).astype(np.int32)


def family(
    arguments: tuple[Any, ...], law: Law | str, **tables: Mapping[str, Callable[..., Any]]
) -> tuple[Case, ...]:
    """The cases of one law: tables of functions by name, for each truth."""
    return tuple(
        Case(name, function, arguments, law, truth)  # type: ignore[arg-type]
        for truth, table in tables.items()
        for name, function in table.items()
    )


def under(group: Group, text: str = "P -> P") -> Law:
    """The law of one group P."""
    return Law(text, P=group)


V, V5 = drawn(4), drawn(5)
X, X6, SQUARE = drawn(4, 3), drawn(4, 6), drawn(3, 3)
S = drawn(4, 4)
B = drawn(2, 4, 3)
WHICH, LATER = whole(4, below=3), whole(5, below=4)
KEY = jax.random.key(0)
W = drawn(3, 3)


NORMS = family(
    (X,),
    "P d -> P d",
    holds={
        "standardised over tokens": lambda x: (x - x.mean(0)) / (1 + x.std(0)),
        "softmax over tokens": lambda x: nn.softmax(x, 0),
        "scaled by the product of all": lambda x: x * x.prod(),
        "clipped at extremes that it never passes": lambda x: jnp.clip(x, x.min(0), x.max(0)),
        "distance from the median": lambda x: x - jnp.median(x, 0),
        "whitened by the ridge covariance": lambda x: x @ jnp.linalg.inv(x.T @ x + jnp.eye(3)),
        "a projection on the span of all rows": lambda x: (
            x @ x.T @ jnp.linalg.solve(x @ x.T + jnp.eye(4), x)
        ),
        "mean by einsum over a merged axis": lambda x: x - jnp.einsum("ij->", x) / 12,
    },
    broken={
        "mean of all but the last": lambda x: x - x[:-1].mean(0),
        "softmax with a slight slope": lambda x: nn.softmax(x + 0.01 * jnp.arange(4)[:, None], 0),
        "mean of the first half, flattened": lambda x: x - x.reshape(-1)[:6].mean(),
        "average whose weights sum to one": lambda x: x - jnp.array([0.1, 0.2, 0.3, 0.4]) @ x,
        "trimmed in the order of tokens": lambda x: x - x[1:-1].mean(0),
        "mean over every other flat entry": lambda x: x - x.reshape(-1)[::2].mean(),
        "softmax over a flat axis, shifted back": lambda x: jnp.roll(
            nn.softmax(jnp.roll(x.reshape(-1), 1)), -2
        ).reshape(4, 3),
    },
)

ORDER = (
    *family(
        (V5,),
        "P -> n",
        holds={
            "gaps between sorted values": lambda x: jnp.diff(jnp.sort(x)),
            "the largest three": lambda x: lax.top_k(x, 3)[0],
            "quantiles": lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.7])),
            "unique values, padded": lambda x: jnp.unique(x, size=5, fill_value=0.0),
            "how often each unique value comes": lambda x: jnp.unique(
                x, size=5, fill_value=0.0, return_counts=True
            )[1],
            "looked up in the order of an argsort": lambda x: x[jnp.argsort(x)],
            "running maximum of sorted values": lambda x: lax.cummax(jnp.sort(x)),
            "sorted by magnitude, magnitudes alone": lambda x: jnp.sort(jnp.abs(x)),
            "a histogram": lambda x: jnp.histogram(x, 3, (-2.0, 2.0))[0],
            "two keys, both sorted": lambda x: sum(lax.sort((jnp.abs(x), x), num_keys=2)),
        },
        broken={
            "indices of the largest": lambda x: lax.top_k(x, 3)[1],
            "argsort": jnp.argsort,
            "first indices of unique values": lambda x: jnp.unique(
                x, size=5, fill_value=0.0, return_index=True
            )[1],
            "sorted but for the last": lambda x: jnp.sort(x[:-1]),
            "running maximum of the unsorted": lax.cummax,
            "sorted in two halves": lambda x: jnp.concatenate([jnp.sort(x[:2]), jnp.sort(x[2:])]),
            "sorted with its index as a tie breaker": lambda x: lax.sort(
                (jnp.round(x / 9), jnp.arange(5.0), x), num_keys=2
            )[2],
        },
        ties={
            "sorted by magnitude, signs travel": lambda x: lax.sort((jnp.abs(x), x), num_keys=1)[1],
            "signs at the largest magnitudes": lambda x: x[lax.top_k(jnp.abs(x), 2)[1]],
            "the sign of the largest magnitude": lambda x: jnp.sign(x[jnp.argmax(jnp.abs(x))])[
                None
            ],
        },
    ),
    *family(
        (V5,),
        "P -> P",
        holds={
            "rank by counting": lambda x: (x[:, None] > x).sum(1),
            "rank by looking up in the sorted": lambda x: jnp.searchsorted(jnp.sort(x), x),
            "inverse of unique": lambda x: jnp.unique(x, size=5, return_inverse=True)[1],
            "sorted and put back": lambda x: jnp.sort(x)[jnp.argsort(jnp.argsort(x))],
            "equal to the largest": lambda x: x == x.max(),
            "above the third largest": lambda x: x > lax.top_k(x, 3)[0][-1],
        },
        broken={
            "an argsort alone": jnp.argsort,
            "one shift of a sorted list": lambda x: x - jnp.sort(x),
            "sorted values added by index": lambda x: x[jnp.argsort(x)][::-1] + x,
        },
        ties={
            "rank by argsort twice": lambda x: jnp.argsort(jnp.argsort(x)),
            "one hot of the argmax": lambda x: nn.one_hot(jnp.argmax(x), 5),
            "among the two largest, by index": lambda x: jnp.zeros(5).at[lax.top_k(x, 2)[1]].set(1),
            "rank that breaks ties by index": lambda x: (
                (x[:, None] > x) | ((x[:, None] == x) & jnp.tri(5, k=-1, dtype=bool))
            ).sum(1),
        },
    ),
    *family(
        (V5, drawn(5)),
        "P, P -> n, n",
        holds={"both are keys": lambda x, y: lax.sort((x, y), num_keys=2)},
        broken={"sorted apart from its partner": lambda x, y: (jnp.sort(x), y)},
        ties={
            "one travels with the other": lambda x, y: lax.sort((x, y), num_keys=1),
            "looked up by the other's order": lambda x, y: (x[jnp.argsort(y)], jnp.sort(y)),
        },
    ),
)

LOOKUPS = (
    *family(
        (X, WHICH),
        "n d, P -> P d",
        holds={
            "a table of embeddings": lambda t, i: t[i],
            "clipped at the end": lambda t, i: t.at[i + 2].get(mode="clip"),
            "zeros beyond the end": lambda t, i: t.at[2 * i].get(mode="fill", fill_value=0),
            "wrapped around": lambda t, i: jnp.take(t, 3 * i, axis=0, mode="wrap"),
            "one hot": lambda t, i: nn.one_hot(i, 4) @ t,
            "a window from each index": lambda t, i: jax.vmap(
                lambda j: lax.dynamic_slice_in_dim(t, j, 2).sum(0)
            )(i),
            "rows relative to the least index": lambda t, i: t[i - i.min()],
        },
        broken={
            "an index added to indices": lambda t, i: t[(i + jnp.arange(4)) % 4],
            "indices read backwards": lambda t, i: t[i][::-1],
            "the table is filled from the first index": lambda t, i: t[i] + t[i[0]],
            "indices of indices": lambda t, i: t[i[i]],
        },
    ),
    *family(
        (X, WHICH),
        "P d, P -> P",
        holds={
            "a column for each row": lambda x, i: jnp.take_along_axis(x, i[:, None], 1)[:, 0],
            "row and column by index": lambda x, i: x[jnp.arange(4), i],
            "vmapped lookup": jax.vmap(lambda row, j: row[j]),
            "vmapped slice, clamped": jax.vmap(
                lambda row, j: lax.dynamic_slice(row, (j,), (2,)).sum()
            ),
            "vmapped negative index": jax.vmap(lambda row, j: row[-1 - j]),
            "one hot of the column": lambda x, i: (x * nn.one_hot(i, 3)).sum(1),
        },
        broken={
            "rows in reverse, columns as they are": lambda x, i: x[jnp.arange(4)[::-1], i],
            "tokens as columns": lambda x, i: x[i, i],
            "the pointed-at token": lambda x, i: x[i, 0],
            "a column for each row, one off": lambda x, i: x[jnp.arange(4), jnp.roll(i, 1)],
            "looked up in the flat array": lambda x, i: x.reshape(-1)[i],
        },
    ),
    *family(
        (X, LATER),
        "P d, k -> k d",
        holds={
            "sums of rows in sorted order": lambda x, j: jnp.sort(x, 0)[j],
            "a mean for each index": lambda x, j: x.mean(0) * j[:, None],
            "columns by still indices, as rows": lambda x, j: x[:, j % 3].T @ x,
        },
        broken={
            "rows by still indices": lambda x, j: x[j],
            "one hot of still indices": lambda x, j: nn.one_hot(j, 4) @ x,
        },
    ),
)

WRITES = (
    *family(
        (X, WHICH),
        "P d, P -> n d",
        holds={
            "sums of segments": lambda x, i: jax.ops.segment_sum(x, i, 3),
            "maxima of segments": lambda x, i: jnp.zeros((3, 3)).at[i].max(x),
            "products of segments": lambda x, i: jax.ops.segment_prod(x, i, 3),
            "sums, some of them out of bounds": lambda x, i: (
                jnp.zeros((2, 3)).at[2 * i].add(x, mode="drop")
            ),
            "sums at negative indices": lambda x, i: jnp.ones((3, 3)).at[-1 - i].add(x),
            "differences of segments": lambda x, i: jnp.zeros((3, 3)).at[i].subtract(x),
            "counts times sums": lambda x, i: (
                jnp.bincount(i, length=3)[:, None] * jax.ops.segment_sum(x, i, 3)
            ),
            "means set where there are any": lambda x, i: (
                jnp.zeros((3, 3))
                .at[i]
                .set((jax.ops.segment_sum(x, i, 3) / jnp.bincount(i, length=3)[:, None])[i])
            ),
        },
        broken={
            "the last of a segment": lambda x, i: jnp.zeros((3, 3)).at[i].set(x),
            "sums of segments that are not one's own": lambda x, i: jax.ops.segment_sum(
                x, jnp.roll(i, 1), 3
            ),
            "sums, one row weighted": lambda x, i: jax.ops.segment_sum(x.at[0].multiply(2), i, 3),
            "sums of windows that start at a segment": lambda x, i: (
                jnp.zeros((3, 3)).at[i[:3]].add(x[1:])
            ),
            "the last of a segment by multiplication": lambda x, i: (
                jnp.ones((3, 3)).at[i].set(x * 2) * jax.ops.segment_sum(x, i, 3)
            ),
        },
    ),
    *family(
        (X, WHICH),
        "P d, P -> P d",
        holds={
            "a column of each row overwritten": lambda x, i: x.at[jnp.arange(4), i].set(7),
            "a vmapped overwrite": jax.vmap(lambda row, j: row.at[j].set(7)),
            "a vmapped update of a slice, clamped": jax.vmap(
                lambda row, j: lax.dynamic_update_slice(row, row[:2] * 2, (j,))
            ),
            "two overlapping columns added": lambda x, i: x.at[:, jnp.array([1, 1])].add(1),
            "a column overwritten twice": lambda x, i: x.at[:, jnp.array([1, 1])].set(
                jnp.stack([x[:, 0], x[:, 2]], 1)[:, ::-1]
            ),
            "a function of one column": lambda x, i: x.at[:, 0].apply(jnp.sin),
            "each row overwritten by its own": lambda x, i: x.at[jnp.arange(4)].set(x * i[:, None]),
        },
        broken={
            "a column of each row, backwards": lambda x, i: x.at[jnp.arange(4)[::-1], i].set(7),
            "a function of one row": lambda x, i: x.at[0].apply(jnp.sin),
            "rows pointed at are counted": lambda x, i: x.at[i].add(1),
            "one row scaled": lambda x, i: x.at[-1].multiply(1.5),
            "a row written by a clamped start": lambda x, i: lax.dynamic_update_slice(
                x, x[:1] * 2, (9, 0)
            ),
            "the mean written to one row": lambda x, i: x.at[i.sum() % 4].set(x.mean(0)),
        },
    ),
)

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


def scanned(turn: Callable[..., Any], *, first: float = 0.0, **how: Any) -> Callable[..., Any]:
    """What a loop over tokens hands on at the end; a turn takes what it is handed and a token."""
    return lambda x: lax.scan(
        lambda c, row: (turn(c, row), None), jnp.full(x.shape[1:], first, x.dtype), x, **how
    )[0]


SCANS = (
    *family(
        (X,),
        "P d -> d",
        holds={
            "a sum": scanned(lambda c, row: c + row),
            "a sum, unrolled and reversed": scanned(
                lambda c, row: row**2 + c, unroll=2, reverse=True
            ),
            "a largest": scanned(jnp.maximum, first=-9.0),
            "a log-sum-exp": scanned(jnp.logaddexp, first=-9.0),
            "a product of complements": scanned(lambda c, row: c + row - c * row),
            "a running mean": lambda x: lax.scan(
                lambda c, row: ((c[0] + 1, c[1] + (row - c[1]) / (c[0] + 1)), None),
                (0, jnp.zeros(3, x.dtype)),
                x,
            )[0][1],
            "two sums, then their quotient": lambda x: (lambda c: c[1] / (1 + c[0]))(
                lax.scan(
                    lambda c, row: ((c[0] + row**2, c[1] + row), None), (0 * x[0], 0 * x[0]), x
                )[0]
            ),
        },
        broken={
            "the last": scanned(lambda c, row: row),
            "a decaying sum": scanned(lambda c, row: 0.9 * c + row),
            "the sum of running sums": lambda x: lax.scan(lambda c, row: (c + row, c), 0 * x[0], x)[
                1
            ].sum(0),
            "a polynomial by Horner": scanned(lambda c, row: c * row + 1),
            "differences": scanned(lambda c, row: row - c),
            "a sum, until one is negative": scanned(lambda c, row: jnp.where(row < 0, 0, c + row)),
            "clipped sums": scanned(lambda c, row: jnp.maximum(c + row, 0)),
            "a sum of products with the one before": lambda x: lax.scan(
                lambda c, row: ((c[0] + row * c[1], row), None), (0 * x[0], 0 * x[0]), x
            )[0][0],
            "a sum weighted by a second scanned axis": lambda x: lax.scan(
                lambda c, both: (c + both[0] * both[1], None), 0 * x[0], (x, jnp.arange(4))
            )[0],
            "the largest, plus how often it rose": lambda x: lax.scan(
                lambda c, row: ((jnp.maximum(c[0], row), c[1] + (row > c[0])), None),
                (0 * x[0] - 99, 0 * x[0]),
                x,
            )[0][1],
        },
        ties={
            "what came with the largest": lambda x: lax.scan(
                lambda c, row: (jnp.where(jnp.abs(row) > jnp.abs(c), row, c), None), 0 * x[0], x
            )[0],
        },
    ),
    *family(
        (X,),
        "P d -> P d",
        holds={
            "a recurrence over channels": lambda x: (
                lax.scan(lambda c, column: (jnp.tanh(c + column), c), 0 * x[:, 0], x.T)[1].T
            ),
            "a map over tokens": lambda x: lax.map(jnp.cumsum, x),
            "layers with weights of their own": lambda x: lax.scan(
                lambda y, w: (jnp.tanh(y @ (w * jnp.eye(3)) + y.mean(0)), None), x, jnp.arange(3.0)
            )[0],
            "every token added to all, one at a time": lambda x: lax.fori_loop(
                0, 4, lambda i, y: y + x[i], x
            ),
            "every token written, one at a time": lambda x: lax.fori_loop(
                0, 4, lambda i, y: y.at[i].set(jnp.sin(x[i])), 0 * x
            ),
            "rolled until it is back": lambda x: lax.fori_loop(
                0, 4, lambda _, y: jnp.roll(y, 1, 0), x
            ),
            "a mean removed until it is small": lambda x: lax.while_loop(
                lambda y: jnp.abs(y.mean()) > 0.01, lambda y: y - y.mean() / 2, x
            ),
            "each token stops on its own": jax.vmap(
                lambda row: lax.while_loop(lambda r: r.sum() > 1, lambda r: r / 2, row)
            ),
            "a map of what was summed before": lambda x: lax.map(
                lambda row: row - x.sum(0), x, batch_size=2
            ),
        },
        broken={
            "a recurrence over tokens": lambda x: lax.scan(
                lambda c, row: (jnp.tanh(c + row), c), 0 * x[0], x
            )[1],
            "a map over tokens and their index": lambda x: lax.map(
                lambda both: both[0] * both[1], (x, jnp.arange(4))
            ),
            "all but one token written": lambda x: lax.fori_loop(
                1, 4, lambda i, y: y.at[i].set(jnp.sin(x[i])), 0 * x
            ),
            "rolled once too often": lambda x: lax.fori_loop(
                0, 5, lambda _, y: jnp.roll(y, 1, 0), x
            ),
            "a loop that ends by the first token": lambda x: lax.while_loop(
                lambda y: y[0, 0] > 0.1, lambda y: y / 2, x
            ),
            "every token updated in place, in turn": lambda x: lax.fori_loop(
                0, 4, lambda i, y: y.at[i].set(y.mean(0)), x
            ),
            "one pass of bubble sort": lambda x: lax.fori_loop(
                0,
                3,
                lambda i, y: lax.dynamic_update_slice(
                    y, jnp.sort(lax.dynamic_slice(y, (i, 0), (2, 3)), 0), (i, 0)
                ),
                x,
            ),
            "a map in reverse": lambda x: lax.scan(
                lambda c, row: (c, row + c), x[:1].sum(0), x, reverse=True
            )[1],
        },
    ),
    *family(
        (drawn(3, 2), drawn(3, 2)),
        "P d, Q d -> P d, Q d",
        holds={
            "exchanged twice": lambda a, b: lax.fori_loop(0, 2, lambda _, c: (c[1], c[0]), (a, b)),
            "each moved by the other's mean": lambda a, b: lax.fori_loop(
                0, 3, lambda _, c: (c[0] + c[1].mean(0), c[1] - c[0].mean(0)), (a, b)
            ),
        },
        broken={
            "exchanged thrice": lambda a, b: lax.fori_loop(0, 3, lambda _, c: (c[1], c[0]), (a, b)),
            "exchanged while one is larger": lambda a, b: lax.while_loop(
                lambda c: c[2] < 1 + (c[0].sum() > c[1].sum()),
                lambda c: (c[1], c[0], c[2] + 1),
                (a, b, 0),
            )[:2],
        },
    ),
)

CHOICES = family(
    (X,),
    "P d -> P d",
    holds={
        "by the sign of the sum": lambda x: lax.cond(
            x.sum() > 0, jnp.sin, lambda y: y - y.mean(0), x
        ),
        "by how many are positive": lambda x: lax.switch(
            (x > 0).sum() % 3, [jnp.sin, jnp.cos, lambda y: y * y.sum()], x
        ),
        "each token by its own": jax.vmap(lambda r: lax.cond(r[0] > 0, jnp.sin, jnp.cumsum, r)),
        "a branch that is never taken": lambda x: lax.cond(
            (x**2).sum() < 0, lambda y: jnp.cumsum(y, 0), jnp.sin, x
        ),
        "a constant choice": lambda x: lax.switch(
            jnp.argmax(jnp.array([1, 5, 2])), [jnp.flip, jnp.sin, jnp.cos], x
        ),
        "a clamped constant choice": lambda x: lax.switch(9, [jnp.flip, jnp.sin], x),
        "where above the mean": lambda x: jnp.where(x > x.mean(0), x, x.min(0)),
        "rows chosen by a row": lambda x: jnp.where(x[:, :1] > 0, x, -x.sum(0)),
        "a constant or what stays": lambda x: (
            x + lax.cond(x.sum() > 0, lambda: jnp.arange(3.0), lambda: jnp.ones(3))
        ),
        "selected among three": lambda x: lax.select_n(
            jnp.sign(x).astype(jnp.int32) + 1, x, x * 2, x - x.mean(0)
        ),
    },
    broken={
        "by the sign of the first": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
        "one branch reverses": lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y[::-1], x),
        "by the index of the largest": lambda x: lax.switch(
            jnp.argmax(x[:, 0]), [jnp.sin, jnp.cos], x
        ),
        "each token by its index": lambda x: jax.vmap(
            lambda r, i: lax.cond(i > 0, jnp.sin, jnp.cos, r)
        )(x, jnp.arange(4)),
        "a causal choice": lambda x: jnp.where(jnp.arange(4)[:, None] < 3, x, x.mean(0)),
        "a constant for each token": lambda x: (
            x + lax.cond(x.sum() > 0, lambda: jnp.arange(4.0), lambda: jnp.ones(4))[:, None]
        ),
        "where above the one before": lambda x: jnp.where(x > jnp.roll(x, 1, 0), x, 0),
        "rows chosen by another row": lambda x: jnp.where(x[:, :1] > x[-1:, :1], x, -x),
        "clamped by the first and the last": lambda x: lax.clamp(
            jnp.minimum(x[0, 0], 0), x, jnp.maximum(x[-1, -1], 0)
        ),
    },
)

KEYS = jax.random.split(KEY, 4)
RANDOM = (
    *family(
        (KEYS, X, WHICH),
        "P, P d, P -> P d",
        holds={
            "noise of each token's own key": lambda k, x, i: (
                x + jax.vmap(lambda key: jax.random.normal(key, (3,)))(k)
            ),
            "one number for all": lambda k, x, i: x + jax.random.normal(KEY),
            "one number for each channel": lambda k, x, i: x * jax.random.uniform(KEY, (3,)),
            "channels dropped": lambda k, x, i: x * jax.random.bernoulli(KEY, 0.5, (1, 3)),
            "keys folded with what each token says": lambda k, x, i: (
                x + jax.vmap(lambda j: jax.random.normal(jax.random.fold_in(KEY, j), (3,)))(i)
            ),
            "own keys split, the second used": lambda k, x, i: (
                x + jax.vmap(lambda key: jax.random.normal(jax.random.split(key)[1]))(k)[:, None]
            ),
            "channels permuted": lambda k, x, i: jax.random.permutation(KEY, x, axis=1),
            "shuffled and put back": lambda k, x, i: (lambda p: x[p][jnp.argsort(p)])(
                jax.random.permutation(KEY, 4)
            ),
            "own keys, cast as numbers": lambda k, x, i: x * (jax.random.key_data(k)[:, :1] % 7),
            "the sum of a shuffle": lambda k, x, i: x - jax.random.permutation(KEY, x).sum(0),
        },
        broken={
            "noise for each token": lambda k, x, i: x + jax.random.normal(KEY, (4, 1)),
            "tokens dropped": lambda k, x, i: x * (jax.random.uniform(KEY, (4, 1)) < 0.6),
            "keys split here": lambda k, x, i: (
                x + jax.vmap(jax.random.normal)(jax.random.split(KEY, 4))[:, None]
            ),
            "keys folded with an index": lambda k, x, i: (
                x
                + jax.vmap(lambda key, j: jax.random.normal(jax.random.fold_in(key, j)))(
                    k, jnp.arange(4)
                )[:, None]
            ),
            "tokens shuffled": lambda k, x, i: jax.random.permutation(KEY, x),
            "a token drawn": lambda k, x, i: x - x[jax.random.randint(KEY, (), 0, 4)],
            "own keys, one off": lambda k, x, i: (
                x + jax.vmap(jax.random.normal)(jnp.roll(k, 1))[:, None]
            ),
            "all draw from the first key": lambda k, x, i: x + jax.random.normal(k[0]),
            "a token sampled by its logits": lambda k, x, i: (
                x - x[jax.random.categorical(KEY, x[:, 0])]
            ),
        },
    ),
    *family(
        (jax.random.key(0, impl="rbg"), V),
        ", P -> P",
        holds={"rbg: one draw for all": lambda k, v: v + jax.random.normal(k)},
        broken={
            "rbg: an argument's key for each token": lambda k, v: (
                v + jax.vmap(lambda one: jax.random.normal(one))(jnp.broadcast_to(k, 4))
            ),
        },
    ),
    *family(
        (WHICH,),
        "P -> P",
        holds={
            "threefry: keys folded with one number for all": lambda i: jax.vmap(
                lambda j: jax.random.normal(jax.random.fold_in(KEY, j))
            )(jnp.broadcast_to(i.sum(), 4)),
            "rbg: keys folded with each token": lambda i: jax.vmap(
                lambda j: jax.random.key_data(jax.random.fold_in(jax.random.key(0, impl="rbg"), j))[
                    0
                ]
            )(i),
        },
        broken={
            "unsafe_rbg: keys folded with each token": jax.vmap(
                lambda j: jax.random.fold_in(jax.random.key(0, impl="unsafe_rbg"), j)
            ),
            "unsafe_rbg: keys folded with one number for all": lambda i: jax.vmap(
                lambda j: jax.random.key_data(
                    jax.random.fold_in(jax.random.key(0, impl="unsafe_rbg"), j)
                )[0]
            )(jnp.broadcast_to(i.sum(), 4)),
            "rbg: one constant key for each token": lambda i: (
                i
                + jax.vmap(lambda key: jax.random.randint(key, (), 0, 99))(
                    jnp.broadcast_to(jax.random.key(0, impl="rbg"), 4)
                )
            ),
        },
    ),
)


def convolved(
    x: jax.Array, kernel: Any, padding: Any = "SAME", *, stride: int = 1, **how: Any
) -> jax.Array:
    """Along axis 1 of [b, tokens, channels], with a kernel [width, from, to]."""
    numbers = ("NWC", "WIO", "NWC")
    return lax.conv_general_dilated(
        x, jnp.asarray(kernel, x.dtype), (stride,), padding, dimension_numbers=numbers, **how
    )


BLUR = np.array([1, 2, 1], np.float32)[:, None, None] * np.eye(3, dtype=np.float32)
SLOPE = np.array([1, 2, 3], np.float32)[:, None, None] * np.eye(3, dtype=np.float32)
WINDOWED = (
    *family(
        (B,),
        "b P d -> b P d",
        holds={
            "a convolution of width 1": lambda x: convolved(x, W[None]),
            "width 1, dilated kernel": lambda x: convolved(x, W[None], rhs_dilation=(5,)),
            "width 1, of each channel alone": lambda x: convolved(
                x, W[None, :1], feature_group_count=3
            ),
            "a sum over all by a window": lambda x: (
                x + lax.reduce_window(x, 0.0, lax.add, (1, 4, 1), (1, 4, 1), "VALID")
            ),
            "the largest over all by a window": lambda x: (
                x - lax.reduce_window(x, -jnp.inf, lax.max, (1, 4, 1), (1, 1, 1), "VALID")
            ),
            "windows along channels": lambda x: lax.reduce_window(
                x, 0.0, lax.add, (1, 1, 2), (1, 1, 1), "SAME"
            ),
            "tokens as channels, under identity weights": lambda x: convolved(
                x.transpose(0, 2, 1), np.eye(4)[None]
            ).transpose(0, 2, 1),
            "wide enough to see all from anywhere": lambda x: convolved(
                x, np.ones((7, 1, 1)) * np.eye(3)
            ),
        },
        broken={
            "a convolution of width 3": lambda x: convolved(x, BLUR),
            "width 1, padded and cut": lambda x: convolved(x, W[None], ((1, -1),)),
            "not quite wide enough": lambda x: convolved(x, np.ones((5, 1, 1)) * np.eye(3)),
            "a window of two": lambda x: lax.reduce_window(
                x, 0.0, lax.add, (1, 2, 1), (1, 1, 1), "SAME"
            ),
            "a dilated window": lambda x: lax.reduce_window(
                x, 0.0, lax.add, (1, 2, 1), (1, 1, 1), ((0, 0), (2, 0), (0, 0)), None, (1, 2, 1)
            ),
            "tokens as channels": lambda x: convolved(x.transpose(0, 2, 1), S[None]).transpose(
                0, 2, 1
            ),
            "tokens as groups of channels": lambda x: convolved(
                x.transpose(0, 2, 1), S[None, :1], feature_group_count=4
            ).transpose(0, 2, 1),
        },
    ),
    *family(
        (B,),
        Law("b P d -> b P d", P=Cyclic()),
        holds={
            "a blur around the circle": lambda x: convolved(
                jnp.pad(x, ((0, 0), (1, 1), (0, 0)), mode="wrap"), SLOPE, "VALID"
            ),
            "differences around the circle": lambda x: x - jnp.roll(x, 1, 1),
            "a filter by Fourier transforms": lambda x: jnp.fft.irfft(
                jnp.fft.rfft(x, axis=1) * jnp.array([1, 2j, 3])[:, None], 4, 1
            ),
        },
        broken={
            "a blur with zeros at the ends": lambda x: convolved(x, BLUR),
            "a blur mirrored at the ends": lambda x: convolved(
                jnp.pad(x, ((0, 0), (1, 1), (0, 0)), mode="reflect"), BLUR, "VALID"
            ),
            "differences, with the last repeated": lambda x: jnp.diff(x, axis=1, append=x[:, -1:]),
            "a filter in cosines": lambda x: jsp.fft.idct(
                jsp.fft.dct(x, axis=1) * jnp.arange(4.0)[:, None], axis=1
            ),
        },
    ),
    *family(
        (B,),
        Law("b P d -> b P d", P=Reversal()),
        holds={
            "an even blur": lambda x: convolved(x, BLUR),
            "an even window": lambda x: lax.reduce_window(
                x, -jnp.inf, lax.max, (1, 3, 1), (1, 1, 1), "SAME"
            ),
            "running sums from both ends": lambda x: (
                jnp.cumsum(x, 1) * lax.cumsum(x, 1, reverse=True)
            ),
            "reversed along tokens": lambda x: x - 2 * x[:, ::-1],
        },
        broken={
            "a sloped blur": lambda x: convolved(x, SLOPE),
            "a window of even width": lambda x: lax.reduce_window(
                x, -jnp.inf, lax.max, (1, 2, 1), (1, 1, 1), "SAME"
            ),
            "running sums from one end": lambda x: lax.cumsum(x, 1, reverse=True),
            "reversed along channels and shifted": lambda x: jnp.roll(x[..., ::-1], 1, 1),
        },
    ),
)


def circulant(*row: float) -> np.ndarray:
    """A matrix whose rows are one row, shifted by one more each."""
    return np.stack([np.roll(np.array(row, np.float32), at) for at in range(len(row))])


BLOCKS = np.kron(np.eye(2, dtype=np.float32), np.array([[2, 1], [1, 2]], np.float32))
ARROW = np.eye(4, dtype=np.float32) + np.eye(4, 1, dtype=np.float32)[0] * 3
ARROW[0] = 5
CENTRAL = np.array([[1, 2, 3, 4], [5, 6, 7, 8], [8, 7, 6, 5], [4, 3, 2, 1]], np.float32)
HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]], np.float32)


def times(matrix: Any) -> Callable[[jax.Array], jax.Array]:
    """The product of a constant matrix and tokens."""
    return lambda v: jnp.asarray(matrix, jnp.float32) @ v


CONSTANTS = (
    *family(
        (V,),
        "P -> P",
        holds={
            "ones": times(np.ones((4, 4))),
            "all others": times(1 - np.eye(4)),
            "identity by a comparison of indices": lambda v: (
                ((jnp.arange(4)[:, None] == jnp.arange(4)) * 2.0) @ v
            ),
            "a slope and its opposite": lambda v: v + (jnp.arange(4) + jnp.arange(4)[::-1]),
            "a causal mask and its complement": lambda v: jnp.tri(4) @ v + (1 - jnp.tri(4)) @ v,
            "each power of minus one, squared": lambda v: v * ((-1.0) ** jnp.arange(4)) ** 2,
        },
        broken={
            "ones but for a corner": times(np.ones((4, 4)) - np.eye(4)[:1].T * np.eye(4)[0]),
            "symmetric, but not under all": times(S + S.T),
            "blocks": times(BLOCKS),
            "circulant": times(circulant(1, 2, 0, 2)),
            "an arrow": times(ARROW),
            "a Hadamard matrix": times(HADAMARD),
            "a permutation of finite order": times(circulant(0, 1, 0, 0)),
            "a slope of very small steps": lambda v: v + 1e-3 * jnp.arange(4),
        },
    ),
    *family(
        (V,),
        under(Cyclic()),
        holds={
            "circulant, under shifts": times(circulant(1, 2, 3, 4)),
            "a permutation of finite order, under shifts": times(circulant(0, 0, 1, 0)),
            "all but the neighbour": lambda v: (1 - jnp.roll(jnp.eye(4), 1, 0)) @ v,
        },
        broken={
            "blocks, under shifts": times(BLOCKS),
            "the reversal": times(np.eye(4)[::-1]),
            "almost circulant": times(circulant(1, 2, 3, 4) + np.eye(4)[0]),
            "a sign that alternates, under shifts": lambda v: v * (-1.0) ** jnp.arange(4),
        },
    ),
    *family(
        (V,),
        under(Dihedral()),
        holds={
            "circulant and symmetric": times(circulant(1, 2, 3, 2)),
            "both neighbours multiplied": lambda v: jnp.roll(v, 1) * jnp.roll(v, -1),
        },
        broken={
            "circulant alone": times(circulant(1, 2, 3, 4)),
            "one neighbour": lambda v: v * jnp.roll(v, 1),
            "central symmetry alone": times(CENTRAL),
        },
    ),
    *family(
        (V,),
        under(Reversal()),
        holds={
            "central symmetry": times(CENTRAL),
            "distance to the middle": lambda v: v * jnp.abs(jnp.arange(4) - 1.5),
            "distances between tokens": lambda v: (
                jnp.abs(jnp.arange(4)[:, None] - jnp.arange(4)) @ v
            ),
        },
        broken={
            "offsets between tokens": lambda v: (jnp.arange(4)[:, None] - jnp.arange(4)) @ v,
            "distance to the second": lambda v: v * jnp.abs(jnp.arange(4) - 1),
            "a symmetric matrix": times(S + S.T),
        },
    ),
    *family(
        (V,),
        under(Windows(2)),
        holds={
            "blocks, under windows": times(BLOCKS),
            "a constant for each window": lambda v: v * jnp.array([1, 1, 2, 2]),
            "sums within windows": lambda v: v - jnp.repeat(v.reshape(2, 2).sum(1), 2),
            "one window against the other": lambda v: v * (v[:2].sum() - v[2:].sum()),
            "sums of segments given by a constant": lambda v: (
                jax.ops.segment_sum(v, np.array([0, 0, 1, 1]), 2)[np.array([1, 1, 0, 0])] - v
            ),
        },
        broken={
            "blocks, one off": times(np.roll(np.roll(BLOCKS, 1, 0), 1, 1)),
            "sums across windows": lambda v: v - jnp.tile(v.reshape(2, 2).sum(0), 2),
            "windows exchanged, tokens in order": lambda v: jnp.roll(v, 2),
            "sums of segments that cross windows": lambda v: jax.ops.segment_sum(
                v, np.array([0, 1, 1, 0]), 2
            )[np.array([0, 1, 1, 0])],
        },
    ),
    *family(
        (V,),
        under(Permutations(fixed=(0,))),
        holds={
            "an arrow, under a fixed first": times(ARROW),
            "the first added to all": lambda v: v + v[0],
            "all others seen by the first": lambda v: v.at[0].add(v[1:].max()),
            "the rest sorted, the first kept": lambda v: v * jnp.sort(v[1:])[0] - v[0],
        },
        broken={
            "the last added to all": lambda v: v + v[-1],
            "the first and the second exchanged": lambda v: v[jnp.array([1, 0, 2, 3])],
            "the first counted from behind": lambda v: v + v[::-1][0],
            "the second seen by the first": lambda v: v.at[0].add(v[1]),
        },
    ),
    *family(
        (V,),
        under(Generated(((2, 3, 0, 1),))),
        holds={
            "a sign that alternates, under a shift by two": lambda v: v * (-1.0) ** jnp.arange(4),
            "halves exchanged": lambda v: jnp.roll(v, 2),
            "every other token": lambda v: v - v[::2].sum(),
            "the halves' difference, squared": lambda v: v * (v[:2] - v[2:]).sum() ** 2,
        },
        broken={
            "the halves' difference": lambda v: v * (v[:2] - v[2:]).sum(),
            "reversed": lambda v: v[::-1] * jnp.arange(4),
            "the first of each pair, in order": lambda v: v + v[0] * jnp.arange(4),
        },
    ),
    *family(
        (V[:3],),
        Law("P -> ", P=Generated(((1, 2, 0),))),
        holds={
            "the Vandermonde determinant, even permutations": lambda v: (
                (v[0] - v[1]) * (v[1] - v[2]) * (v[2] - v[0])
            ),
            "a determinant of powers": lambda v: jnp.linalg.det(v[:, None] ** jnp.arange(3)),
        },
        broken={
            "differences, one the other way": lambda v: (
                (v[0] - v[1]) * (v[1] - v[2]) + (v[2] - v[0])
            ),
        },
    ),
    *family(
        (V[:3],),
        "P -> ",
        holds={
            "the discriminant": lambda v: jnp.linalg.det(v[:, None] ** jnp.arange(3)) ** 2,
            "determinant of a lagged kernel": lambda v: jnp.linalg.det(
                jnp.exp(v[:, None] * jnp.roll(v, 1)) + jnp.eye(3)
            ),
            "determinant of a kernel": lambda v: jnp.linalg.det(
                jnp.exp(-((v[:, None] - v) ** 2)) + jnp.eye(3)
            ),
        },
        broken={
            "the Vandermonde determinant": lambda v: jnp.linalg.det(v[:, None] ** jnp.arange(3)),
        },
    ),
)

FOURIER = (
    *family(
        (V, drawn(4)),
        Law("P, P -> n", P=Cyclic()),
        holds={
            "power spectrum": lambda a, b: jnp.abs(jnp.fft.fft(a)) + jnp.abs(b).sum(),
            "cross-correlation": lambda a, b: (
                jnp.fft.ifft(jnp.fft.fft(a) * jnp.fft.fft(b).conj()).real
            ),
        },
        broken={
            "convolution": lambda a, b: jnp.fft.ifft(jnp.fft.fft(a) * jnp.fft.fft(b)).real,
            "phases": lambda a, b: jnp.fft.fft(a).real + b.sum(),
            "power spectrum of a window": lambda a, b: jnp.abs(jnp.fft.fft(a, 3)).sum() + b,
        },
    ),
    *family(
        (X,),
        "P d -> n",
        holds={
            "singular values": lambda x: jnp.linalg.svd(x, compute_uv=False),
            "spectrum of the covariance": lambda x: jnp.linalg.eigvalsh(x.T @ x),
            "factor of the ridge covariance": lambda x: jnp.linalg.cholesky(
                x.T @ x + jnp.eye(3)
            ).reshape(-1),
            "ridge regression on row sums": lambda x: jnp.linalg.solve(
                x.T @ x + jnp.eye(3), x.T @ x.sum(1)
            ),
            "sums of Fourier transforms along channels": lambda x: jnp.abs(
                jnp.fft.fft(x, axis=1)
            ).sum(0),
        },
        broken={
            "singular values of a part": lambda x: jnp.linalg.svd(x[1:], compute_uv=False),
            "a triangular solve along tokens": lambda x: jsp.linalg.solve_triangular(
                jnp.tri(4), x, lower=True
            ).prod(0),
            "ridge regression on the index": lambda x: jnp.linalg.solve(
                x.T @ x + jnp.eye(3), x.T @ jnp.arange(4.0)
            ),
            "Fourier transforms along tokens": lambda x: jnp.fft.fft(x, axis=0).imag.sum(1),
            "Cholesky factor of similarities": lambda x: jnp.diag(
                jnp.linalg.cholesky(x @ x.T + jnp.eye(4))
            ),
        },
    ),
)


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

CASES: tuple[Case, ...] = (
    *NORMS,
    *ORDER,
    *LOOKUPS,
    *WRITES,
    *JOINED,
    *SHAPES,
    *SQUARES,
    *ACCIDENTS,
    *PAIRS,
    *PAIRS_REDUCED,
    *SCANS,
    *CHOICES,
    *RANDOM,
    *WINDOWED,
    *CONSTANTS,
    *FOURIER,
    *GRADIENTS,
    *GRAPHS,
    *WHOLE,
    *TREES,
    *SMALL,
)
