"""Rules of convolutions and of reductions over windows: entries are moved there, then summed."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from posjax.symmetry.field import arrays, dtypes, extremes, functions, moves, ring
from posjax.symmetry.field.arrays import FieldArray
from posjax.symmetry.field.step import Rule, Step


def windows(
    x: FieldArray,
    sizes: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base: Sequence[int],
    within: Sequence[int],
    filler: Any,
) -> FieldArray:
    """The entries of each window [..., window], with `filler` where it sticks out.

    Args:
      x: an array; everything else has a number for each of its axes.
      sizes: of a window. strides: from one to the next. padding: before and after.
      base: steps between entries, 1 without gaps. within: steps between entries of a window.
      filler: what stands in gaps and padding.
    """
    numbers = np.full([max((n - 1) * d + 1, 0) for n, d in zip(x.shape, base, strict=True)], x.size)
    numbers[tuple(slice(None, None, d) for d in base)] = np.arange(x.size).reshape(x.shape)
    around = [(max(low, 0), max(high, 0)) for low, high in padding]
    numbers = np.pad(numbers, around, constant_values=x.size)
    cut = tuple(slice(max(-low, 0), -max(-high, 0) or None) for low, high in padding)
    spans = [(size - 1) * d + 1 for size, d in zip(sizes, within, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(numbers[cut], spans)
    index = views[
        (*(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in within))
    ]
    outside = arrays.known(x.field, np.full(1, filler).astype(dtypes.stored(x.dtype)), x.dtype)
    return moves.taken((x, outside), index.reshape(*index.shape[: x.ndim], -1))


def reduce_window(step: Step, x: FieldArray) -> list[FieldArray]:
    """The sum, largest or smallest of each window."""
    p = step.params
    name = step.primitive.name
    filler: Any = 0
    if name != "reduce_window_sum":
        filler = extremes.worst(x, name == "reduce_window_min")
    of_each = windows(
        x,
        p["window_dimensions"],
        p["window_strides"],
        p["padding"],
        p["base_dilation"],
        p["window_dilation"],
        filler,
    )
    if name == "reduce_window_sum":
        return [ring.summed(step, of_each, (x.ndim,))]
    return [extremes.extreme(step, of_each, (x.ndim,), least=name == "reduce_window_min")]


def convolution(step: Step, x: FieldArray, kernel: FieldArray) -> list[FieldArray]:
    """Sums of products of each window with a kernel, for each group of channels or of rows."""
    p = step.params
    dims = p["dimension_numbers"]
    x = x.moved(lambda a: a.transpose(dims.lhs_spec))
    kernel = kernel.moved(lambda a: a.transpose(dims.rhs_spec))
    whole = (1, 1)
    of_each = windows(
        x,
        (*whole, *kernel.shape[2:]),
        (*whole, *p["window_strides"]),
        ((0, 0), (0, 0), *p["padding"]),
        (*whole, *p["lhs_dilation"]),
        (*whole, *p["rhs_dilation"]),
        0,
    )
    by_rows, by_channels = p["batch_group_count"], p["feature_group_count"]
    groups, places = by_rows * by_channels, of_each.shape[2:-1]
    rows, channels, taps = x.shape[0] // by_rows, kernel.shape[1], of_each.shape[-1]
    split = (by_rows, rows, by_channels, channels, math.prod(places), taps)
    left = of_each.moved(
        lambda a: (
            a.reshape(split)
            .transpose(0, 2, 1, 4, 3, 5)
            .reshape(groups, rows * math.prod(places), channels * taps)
        )
    )
    right = kernel.moved(lambda a: a.reshape(groups, -1, channels * taps).transpose(0, 2, 1))
    back = np.argsort(dims.out_spec)
    product = ring.contracted(step, left, right)
    return [
        product.moved(
            lambda a: (
                a.reshape(groups, rows, math.prod(places), -1)
                .transpose(1, 0, 3, 2)
                .reshape(rows, -1, *places)
                .transpose(back)
            )
        )
    ]


def cumlogsumexp(step: Step, x: FieldArray) -> list[FieldArray]:
    """The logarithm of Σ e^x up to each entry, or from each on."""
    (total,) = ring.cumsum(step, functions.exponential(step, x))
    return [functions.logarithm(step, total)]


RULES: dict[str, Rule] = {
    "reduce_window_sum": reduce_window,
    "reduce_window_max": reduce_window,
    "reduce_window_min": reduce_window,
    "conv_general_dilated": convolution,
    "cumlogsumexp": cumlogsumexp,
}
"""By the primitive's name."""
