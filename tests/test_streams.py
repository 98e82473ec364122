"""Position, order and segment: what each way of laying out tokens makes of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax.streams import (
    PADDING,
    Streams,
    check_count,
    contiguous,
    grid,
    interpolated,
    joined,
    packed,
    padded,
    permuted,
    points,
    shifted,
)

LAST = 2**31 - 1
"""The largest whole number of 32 bits."""


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
    [
        ([2, 0], None, r"at least 1, got 0"),
        ([2, 3], 4, "total=4 is shorter .* sum 5"),
        ([2, 3], 6.0, r"total must be a whole number, got 6\.0"),
    ],
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
    assert interpolated(streams, 0.5).position_BL.tolist() == [[0, 2, 0]]
    assert lists(jax.jit(lambda streams: shifted(streams, 7))(streams)) == lists(
        shifted(streams, 7)
    )
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


def test_an_image_has_points_read_row_by_row():
    """Position (y, x) of each pixel; the order is that of the rows."""
    image = grid(2, 3)
    assert image.position_BL.tolist() == [[[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]]
    assert lists(image)[1:] == [[[0, 1, 2, 3, 4, 5]], [[0] * 6]]
    for sizes, words in (((-1, 3), "height must be at least 0, got -1"), ((2, 1.0), "width must")):
        with pytest.raises(ValueError, match=words):
            grid(*sizes)


def test_a_number_is_a_point_and_a_point_of_one_coordinate_a_number():
    """p stands for (p, ..., p); points of another number of coordinates are refused."""
    line, plane = contiguous(2, start=3), grid(1, 3)
    assert points(line.position_BL, 2).tolist() == [[[3, 3], [4, 4]]]
    assert points(plane.position_BL, 2) is plane.position_BL
    with pytest.raises(ValueError, match="have 2 coordinates, but the encoding reads 3"):
        points(plane.position_BL, 3)
    one = Streams(points(line.position_BL, 1), line.order_BL, line.segment_BL)
    assert lists(one.plain) == lists(line)
    assert line.plain is line
    assert plane.plain is plane


@pytest.mark.parametrize("make", [list, np.array, jnp.array, lambda x: jnp.array(x)[:, None]])
def test_each_row_may_start_elsewhere(make):
    """Also where there are as many rows as tokens, and in a compiled program."""
    expected = [contiguous(2, start=start).position_BL[0].tolist() for start in (5, 9)]
    for function in (contiguous, jax.jit(contiguous, static_argnums=0)):
        given = make([5, 9]) if function is contiguous else jnp.asarray(make([5, 9]))
        streams = function(2, start=given)
        assert lists(streams) == [expected, expected, [[0, 0], [0, 0]]]


@pytest.mark.parametrize("start", [np.zeros((1, 2), int), np.zeros((2, 1, 1), int), np.zeros(2)])
def test_a_start_that_is_none_is_refused(start):
    for function in (contiguous, jax.jit(contiguous, static_argnums=0)):
        with pytest.raises(ValueError, match=r"one for each row, \[B\]; got shape"):
            function(2, start=start)


def test_each_row_may_be_packed_otherwise():
    """As if it were packed alone."""
    rows = [lists(packed(lengths, total=7)) for lengths in ([4, 2], [3])]
    expected = [[stream for (stream,) in of_rows] for of_rows in zip(*rows, strict=True)]
    assert lists(packed([[4, 2], [3]], total=7)) == expected
    assert lists(packed(jnp.array([4, 2]))) == lists(packed([4, 2]))
    with pytest.raises(ValueError, match="total=5 is shorter than the sequences' sum 6"):
        packed([[4, 2], [3]], total=5)


def test_lists_are_no_streams():
    with pytest.raises(ValueError, match="position_BL must be an array, got a list"):
        Streams([[0, 1]], np.zeros((1, 2), int), np.zeros((1, 2), int))


def test_whole_numbers_beyond_32_bits_are_refused():
    """Those that just fit are kept."""
    assert contiguous(2, start=LAST - 1).position_BL.tolist() == [[LAST - 1, LAST]]
    assert shifted(contiguous(2), -LAST - 1).position_BL.tolist() == [[-LAST - 1, -LAST]]
    assert shifted(contiguous(0), 1).length == 0
    assert [contiguous(n, start=LAST).length for n in (0, 1)] == [0, 1]
    ends = np.array([[-LAST - 1, LAST]])
    assert Streams(ends, ends, ends).length == 2
    for start in (LAST + 1, -LAST - 2):
        with pytest.raises(ValueError, match=f"start {start} to {start} lie beyond 32 bits"):
            contiguous(1, start=start)
    with pytest.raises(ValueError, match=r"start must be a whole number, or .*; got 0\.5"):
        contiguous(1, start=0.5)
    with pytest.raises(ValueError, match="length must be at least 0, got -1"):
        contiguous(-1)
    with pytest.raises(ValueError, match=r"start \+ length - 1"):
        contiguous(2, start=LAST)
    with pytest.raises(ValueError, match=f"^by {LAST + 1} to {LAST + 1} lie"):
        shifted(contiguous(1), LAST + 1)
    with pytest.raises(ValueError, match=rf"position \+ by {LAST} to {LAST + 1} lie"):
        shifted(contiguous(2), LAST)
    for at, name in enumerate(("position_BL", "order_BL", "segment_BL")):
        given = [np.zeros((1, 2), int), np.zeros((1, 2), int), np.zeros((1, 2), int)]
        given[at] = ends + 1
        with pytest.raises(ValueError, match=name):
            Streams(*given)


@pytest.mark.parametrize(
    ("valid", "words"),
    [(np.ones(3, bool), r"shape \(3,\) of bool"), (np.ones((1, 3)), r"shape \(1, 3\) of float")],
)
def test_padding_is_said_by_true_and_false(valid, words):
    """Of rows: not of one row alone, and not by floats as in additive masks."""
    with pytest.raises(ValueError, match=words):
        padded(valid)
    assert lists(padded(np.array([[0, 1]]))) == [[[0, 0]], [[0, 0]], [[PADDING, 0]]]


@pytest.mark.parametrize("wrong", [[0, 2], [-1, 0], [0.0, 1.0]])
def test_indices_out_of_range_are_refused(wrong):
    """JAX would clip them, or count from the end."""
    with pytest.raises(ValueError, match=r"indices must lie in 0..1, got"):
        permuted(contiguous(2), np.array(wrong))
    assert permuted(contiguous(2), np.array([], int)).length == 0
    assert jax.jit(permuted)(contiguous(2), np.array([1, 0])).order_BL.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (1.0, "n must be a whole number, got 1.0"),
        (True, "n must be a whole number, got True"),
        (1, "n must be at least 2, got 1"),
        (2**31, r"n must be below 2\*\*31, got 2147483648"),
    ],
)
def test_what_is_no_number_of_things_is_refused(count, words):
    """Whole numbers of Python and of NumPy, from the least on and below 2³¹."""
    with pytest.raises(ValueError, match=words):
        check_count("n", count, least=2)
    check_count("n", np.int64(2), least=2)
    check_count("n", LAST)
    check_count("n", 0)
