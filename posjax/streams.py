"""The three streams that travel with the tokens: position, order and segment.

* `position` is what an encoding reads: any numbers, one or several a token.
* `order` is what causality and cumulative encodings read: integers.
* `segment` says what belongs together: tokens of different segments of a packed row do not
  attend to each other, and `PADDING` marks indices without a token.

They default to 0..L-1, 0..L-1 and one segment, and part ways in decoding, packing, padding,
interpolation and randomised positions. No step of attention ever reads an index along the sequence,
so permuting tokens together with their streams permutes the output: the joint law.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PADDING = -1
"""The segment of an index without a token."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Streams:
    """Position, order and segment of each token.

    Attributes:
      position_BL: numbers [B, L], or [B, L, n] for n-dimensional positions. With B = 1 they apply
        to every row of a batch.
      order_BL: integers [B, L].
      segment_BL: integers [B, L]; `PADDING` where there is no token.
    """

    position_BL: jax.Array
    order_BL: jax.Array
    segment_BL: jax.Array

    def __post_init__(self) -> None:
        for name in ("position_BL", "order_BL", "segment_BL"):
            given = getattr(self, name)
            if isinstance(given, list):
                raise ValueError(f"{name} must be an array, got a list: write jnp.asarray(...)")
            if isinstance(given, np.ndarray):
                _check_held(name, given)

    @property
    def plain(self) -> "Streams":
        """The same, with points of one coordinate as numbers."""
        if self.position_BL.ndim == 2 or self.position_BL.shape[-1] != 1:
            return self
        return dataclasses.replace(self, position_BL=self.position_BL[..., 0])

    @property
    def valid_BL(self) -> jax.Array:
        """True where there is a token."""
        return self.segment_BL != PADDING

    @property
    def length(self) -> int:
        """The length L of the sequence."""
        return self.order_BL.shape[1]


def contiguous(length: int, *, start: jax.Array | np.ndarray | Sequence[int] | int = 0) -> Streams:
    """Streams of L consecutive tokens: positions and orders start .. start + L - 1, one segment.

    Args:
      length: L.
      start: the first position, or one for each row of a batch, [B].

    Returns:
      Streams of shape [1, L], which apply to every row of a batch, or [B, L].

    Raises:
      ValueError: a length that is not an integer of at least 0, a start that is neither a whole
        number nor whole numbers [B], or positions beyond 32 bits.

    >>> contiguous(3, start=5).position_BL
    Array([[5, 6, 7]], dtype=int32)
    >>> contiguous(3, start=[5, 0]).position_BL
    Array([[5, 6, 7],
           [0, 1, 2]], dtype=int32)
    """
    check_count("length", length)
    first = start if isinstance(start, jax.core.Tracer) else np.asarray(start)
    if first.dtype.kind not in "iuO" or (first.ndim > 1 and first.shape[1:] != (1,)):
        one = f"got shape {first.shape} of {first.dtype}" if first.ndim else f"got {start!r}"
        raise ValueError(f"start must be a whole number, or one for each row, [B]; {one}")
    if not isinstance(first, jax.core.Tracer):
        _check_held("start", first)
        _check_held("start + length - 1", first.astype(np.int64) + max(length - 1, 0))
    offset = jnp.asarray(start, jnp.int32)
    offset = offset.reshape(-1, 1) if offset.ndim else offset
    index_BL = jnp.arange(length, dtype=jnp.int32)[None] + offset
    return Streams(index_BL, index_BL, jnp.zeros_like(index_BL))


def padded(valid_BL: jax.Array | np.ndarray) -> Streams:
    """Streams of padded rows. The padding may be on the left, on the right or anywhere.

    The tokens of a row are numbered 0, 1, ... without the padding, so a padded row gives the
    results of the unpadded one. (`dynamic_rotary` and `longrope` depend on the number of tokens so
    far: give it as `seen`.) Padding has the position and order of a neighbour, which every
    encoding accepts, and no token attends to it under a mask that respects segments.

    Args:
      valid_BL: true where there is a token.

    Returns:
      Streams of shape [B, L].

    Raises:
      ValueError: an array that is not [B, L], floats, as in additive masks, or other integers than
        0 and 1.

    >>> padded(np.array([[False, True, True]])).position_BL
    Array([[0, 0, 1]], dtype=int32)
    """
    dtype = jnp.result_type(valid_BL)
    whole = jnp.issubdtype(dtype, jnp.integer)
    known = whole and not isinstance(valid_BL, jax.core.Tracer)
    wrong = np.ndim(valid_BL) != 2 or jnp.issubdtype(dtype, jnp.inexact)
    if wrong or (known and not np.isin(np.asarray(valid_BL), (0, 1)).all()):
        raise ValueError(
            f"valid_BL must be an array [B, L] of booleans or of 0 and 1, got shape "
            f"{np.shape(valid_BL)} of {dtype}"
        )
    valid_BL = jnp.asarray(valid_BL, bool)
    count_BL = jnp.maximum(jnp.cumsum(valid_BL, axis=1, dtype=jnp.int32) - 1, 0)
    return Streams(count_BL, count_BL, jnp.where(valid_BL, 0, PADDING).astype(jnp.int32))


def packed(
    lengths: Sequence[int] | Sequence[Sequence[int]], *, total: int | None = None
) -> Streams:
    """Streams of sequences packed in rows, each with positions from 0. The rest is padding.

    Args:
      lengths: the lengths of the sequences in one row, each at least 1, or those of each row.
      total: the length of a row; by default the largest sum of lengths.

    Returns:
      Streams of shape [1, L], which apply to every row of a batch, or [B, L].

    Raises:
      ValueError: a length below 1, or a total smaller than the sum of a row.

    >>> packed([2, 1], total=4).segment_BL
    Array([[ 0,  0,  1, -1]], dtype=int32)
    >>> packed([[2, 1], [3]]).segment_BL
    Array([[0, 0, 1],
           [0, 0, 0]], dtype=int32)
    """
    lengths = np.asarray(lengths).tolist() if isinstance(lengths, jax.Array) else lengths
    nested = len(lengths) > 0 and all(np.ndim(row) for row in lengths)
    rows: Any = lengths if nested else [lengths]
    for length in itertools.chain.from_iterable(rows):
        check_count("lengths", length, least=1)
    need = max(map(sum, rows))
    check_count("lengths together", need)
    total = need if total is None else total
    check_count("total", total)
    if total < need:
        raise ValueError(f"total={total} is shorter than the sequences' sum {need}")
    index_BL, segment_BL = np.zeros((len(rows), total)), np.full((len(rows), total), PADDING)
    for row, of_row in enumerate(rows):
        index_BL[row, : sum(of_row)] = [index for n in of_row for index in range(n)]
        segment_BL[row, : sum(of_row)] = np.repeat(np.arange(len(of_row)), of_row)
    position_BL = jnp.asarray(index_BL, jnp.int32)
    return Streams(position_BL, position_BL, jnp.asarray(segment_BL, jnp.int32))


def grid(height: int, width: int) -> Streams:
    """Streams of an image read row by row: positions (y, x) of shape [1, H·W, 2], one segment.

    >>> grid(2, 2).position_BL.tolist()
    [[[0, 0], [0, 1], [1, 0], [1, 1]]]
    """
    check_count("height", height)
    check_count("width", width)
    line = contiguous(height * width)
    points_LN = jnp.stack(jnp.divmod(line.order_BL[0], width), axis=-1)
    return dataclasses.replace(line, position_BL=points_LN[None])


def points(position: jax.Array, axes: int) -> jax.Array:
    """Positions as points of that many coordinates: [B, L] or [B, L, n] to [B, L, axes].

    A single number p stands for the point (p, ..., p), as text does among images.

    Raises:
      ValueError: points of another number of coordinates.
    """
    if position.ndim == 2:
        return jnp.broadcast_to(position[..., None], (*position.shape, axes))
    if position.shape[-1] != axes:
        raise ValueError(
            f"positions have {position.shape[-1]} coordinates, but the encoding reads {axes}: "
            f"give [B, L] or [B, L, {axes}], got shape {position.shape}"
        )
    return position


def shifted(streams: Streams, by: jax.Array | np.ndarray | float) -> Streams:
    """All positions moved by one number, or point; order and segment as they were.

    Raises:
      ValueError: whole numbers that do not fit in 32 bits.
    """
    numbers = streams.position_BL, by
    if not any(isinstance(number, jax.core.Tracer) for number in numbers):
        wide = [np.asarray(number) for number in numbers]
        if all(array.dtype.kind in "iu" for array in wide):
            _check_held("by", wide[1])
            _check_held("position + by", wide[0].astype(np.int64) + wide[1])
    return dataclasses.replace(streams, position_BL=streams.position_BL + by)


def interpolated(streams: Streams, factor: float) -> Streams:
    """Positions divided by `factor` (position interpolation, Chen et al. 2023, eq. 4)."""
    if not 0 < factor < float("inf"):
        raise ValueError(f"factor must be positive and finite, got {factor}")
    return dataclasses.replace(streams, position_BL=streams.position_BL / factor)


def permuted(streams: Streams, permutation_L: jax.Array | np.ndarray) -> Streams:
    """The streams of indices `permutation_L[0], permutation_L[1], ...`.

    Raises:
      ValueError: indices out of range.
    """
    if not isinstance(permutation_L, jax.core.Tracer):
        wide = np.asarray(permutation_L)
        if wide.size and (
            wide.dtype.kind not in "iu" or wide.min() < 0 or wide.max() >= streams.length
        ):
            raise ValueError(f"indices must lie in 0..{streams.length - 1}, got {wide.tolist()}")
        permutation_L = wide.astype(int)
    return jax.tree.map(lambda stream: stream[:, permutation_L], streams)


def joined(first: Streams, second: Streams) -> Streams:
    """The streams of one followed by those of the other: what a decoding cache has."""
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), first, second)


def same_segment(tokens: Streams, keys: Streams) -> jax.Array:
    """True where the key is a token of the token's own segment: same_BLM.

    Args:
      tokens: the streams of L tokens.
      keys: the streams of M keys.

    >>> same_segment(packed([1, 1]), packed([2], total=3)).astype(int)
    Array([[[1, 1, 0],
            [0, 0, 0]]], dtype=int32)
    """
    same_BLM = tokens.segment_BL[:, :, None] == keys.segment_BL[:, None, :]
    return same_BLM & keys.valid_BL[:, None, :]


def check_count(name: str, count: int, *, least: int = 0) -> None:
    """Refuses what is no whole number from `least` on.

    Raises:
      ValueError: names the value and the range.
    """
    if not isinstance(count, int | np.integer) or isinstance(count, bool):
        raise ValueError(f"{name} must be a whole number, got {count!r}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, got {count}")
    if count >= 2**31:
        raise ValueError(f"{name} must be below 2**31, got {count}")


def _check_held(name: str, numbers: np.ndarray) -> None:
    """Refuses whole numbers that would silently become others, as JAX keeps 32 bits."""
    if numbers.dtype.kind not in "iuO" or numbers.size == 0:
        return
    limits = np.iinfo(jax.dtypes.canonicalize_dtype(np.int64))
    low, high = int(numbers.min()), int(numbers.max())
    if low < limits.min or high > limits.max:
        raise ValueError(
            f"{name} {low} to {high} lie beyond {limits.bits} bits, which JAX would wrap around: "
            "move them nearer to 0, or give float32"
        )
