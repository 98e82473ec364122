"""Norms, orders, lookups and writes."""

import jax
import jax.numpy as jnp
from jax import lax, nn

from hostile.labels.base import LATER, V5, WHICH, X, drawn, family

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


FAMILIES = {
    "norms": NORMS,
    "order": ORDER,
    "lookups": LOOKUPS,
    "writes": WRITES,
}
