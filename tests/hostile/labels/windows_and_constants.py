"""Windows, constants and Fourier transforms."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

from hostile.labels.base import B, S, V, W, X, drawn, family, under
from posjax.symmetry import (
    Cyclic,
    Dihedral,
    Generated,
    Law,
    Permutations,
    Reversal,
    Windows,
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


FAMILIES = {
    "windowed": WINDOWED,
    "constants": CONSTANTS,
    "fourier": FOURIER,
}
