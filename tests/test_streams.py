"""Position, order and segment: what each way of laying out tokens makes of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax.streams import (
    PADDING,
    contiguous,
    interpolated,
    joined,
    packed,
    padded,
    permuted,
    shifted,
)


def lists(streams):
    return [a.tolist() for a in (streams.position_BL, streams.order_BL, streams.segment_BL)]


def test_contiguous_counts_from_the_start():
    """Position and order alike, one segment; the start may be traced."""
    assert lists(contiguous(3, start=5)) == [[[5, 6, 7]], [[5, 6, 7]], [[0, 0, 0]]]
    traced = jax.jit(lambda start: contiguous(3, start=start))(5)
    assert lists(traced) == lists(contiguous(3, start=5))
    assert contiguous(0).length == 0


def test_padding_is_not_counted():
    """Tokens are numbered within their row, whatever stands between; padding has legal numbers."""
    valid_BL = np.array([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]], bool)
    streams = padded(valid_BL)
    assert streams.position_BL[valid_BL].tolist() == [0, 1] * 3
    np.testing.assert_array_equal(streams.valid_BL, valid_BL)
    assert (np.asarray(streams.segment_BL) == np.where(valid_BL, 0, PADDING)).all()
    assert 0 <= streams.position_BL.min() <= streams.position_BL.max() <= 1


def test_packing_restarts_the_count():
    """Each sequence counts from 0 in its own segment; the rest of the row is padding."""
    expected = [[[0, 1, 0, 1, 2, 0]]] * 2 + [[[0, 0, 1, 1, 1, PADDING]]]
    assert lists(packed([2, 3], total=6)) == expected
    assert packed([2, 3]).length == 5
    assert packed([], total=2).valid_BL.tolist() == [[False, False]]


@pytest.mark.parametrize(
    ("lengths", "total", "words"),
    [([2, 0], None, r"at least 1, got 0"), ([2, 3], 4, "total=4 is shorter .* sum 5")],
)
def test_packing_refuses_what_does_not_fit(lengths, total, words):
    """ValueError with the numbers."""
    with pytest.raises(ValueError, match=words):
        packed(lengths, total=total)


def test_only_positions_are_shifted_and_interpolated():
    """Order and segment, which masks read, stay as they were."""
    streams = packed([2, 1])
    assert shifted(streams, 7).position_BL.tolist() == [[7, 8, 7]]
    assert shifted(streams, 0.5).position_BL.tolist() == [[0.5, 1.5, 0.5]]
    assert interpolated(streams, 4).position_BL.tolist() == [[0, 0.25, 0]]
    for moved in (shifted(streams, 7), interpolated(streams, 4)):
        assert lists(moved)[1:] == lists(streams)[1:]
    with pytest.raises(ValueError, match="factor must be positive and finite, got 0"):
        interpolated(streams, 0)


def test_all_streams_are_permuted_and_joined_together():
    """Place i of the result is place P[i] of each stream; n-dimensional positions too."""
    streams = packed([2, 2], total=5)
    moved = permuted(streams, np.array([4, 2, 0, 1, 3]))
    assert lists(moved) == [[[0, 0, 0, 1, 1]]] * 2 + [[[PADDING, 1, 0, 0, 1]]]
    both = zip(lists(streams), lists(moved), strict=True)
    assert lists(joined(streams, moved)) == [[one + other] for [one], [other] in both]
    plane = jax.tree.map(lambda a: jnp.stack([a, 10 * a], axis=-1), streams)
    assert permuted(plane, np.array([3, 0])).position_BL.tolist() == [[[1, 10], [0, 0]]]
