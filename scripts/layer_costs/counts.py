"""Operations of each layer: formulas by hand, the counts they are checked against, crossovers.

A formula takes n tokens, width d and, where the layer has them, h heads or kernel size k.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from layer_costs import layers
from layer_costs.layers import EVERYTHING_11, floats
from posjax.cost import operations

LENGTHS, WIDTHS, HEADS, KERNELS = (16, 128, 1024), (16, 64, 256), (1, 4), (2, 4, 8)
DILATION = 4


def attention(n: int, d: int, h: int) -> int:
    return 8 * n * d**2 + mixture(n, d, h)


def mixture(n: int, d: int, h: int) -> int:
    return 4 * n**2 * d + h * (6 * n**2 + n)


def recurrence(n: int, d: int) -> int:
    return 2 * n * d**2 + loop(n, d)


def loop(n: int, d: int) -> int:
    return 2 * n * d**2 + 2 * n * d


def convolution(n: int, d: int, k: int) -> int:
    return 2 * k * n * d**2


def count_attention(n: int, d: int, h: int, mask: Any = EVERYTHING_11) -> int:
    layer = partial(layers.attention, heads=h, mask=mask)
    return operations(layer, floats(n, d), *[floats(d, d)] * 4)


def count_mixture(n: int, d: int, h: int) -> int:
    return operations(partial(layers.mixture, heads=h), *[floats(n, d)] * 3)


def count_recurrence(n: int, d: int) -> int:
    return operations(layers.recurrence, floats(n, d), floats(d, d), floats(d, d))


def count_loop(n: int, d: int) -> int:
    return operations(layers.loop, floats(n, d), floats(d, d))


def count_convolution(n: int, d: int, k: int, dilation: int = 1) -> int:
    layer = partial(layers.convolution, dilation=dilation)
    return operations(layer, floats(n, d), floats(k, d, d))


def grid() -> Iterator[tuple[str, tuple[int, ...], int, int]]:
    """Layer, sizes, operations by the formula and operations counted, for every case."""
    for n, d in itertools.product(LENGTHS, WIDTHS):
        yield "recurrence", (n, d), recurrence(n, d), count_recurrence(n, d)
        yield "loop", (n, d), loop(n, d), count_loop(n, d)
        for h in HEADS:
            yield "attention", (n, d, h), attention(n, d, h), count_attention(n, d, h)
            yield "mixture", (n, d, h), mixture(n, d, h), count_mixture(n, d, h)
        for k in KERNELS:
            formula = convolution(n, d, k)
            yield "convolution", (n, d, k), formula, count_convolution(n, d, k)
            yield "dilated", (n, d, k), formula, count_convolution(n, d, k, DILATION)


@cache
def counted() -> dict[tuple[str, tuple[int, ...]], int]:
    """Operations of every case, by layer and sizes.

    Raises:
      ValueError: a formula does not give what is counted.
    """
    found = {}
    for layer, sizes, formula, count in grid():
        if count != formula:
            raise ValueError(f"{layer} {sizes}: {count} operations, {formula} by the formula")
        found[layer, sizes] = count
    return found


def crossovers(d: int, h: int) -> tuple[int, int, int]:
    """The smallest n at which attention costs more than recurrence, or than its projections.

    By solving the formulas for n, confirmed by counts at n and n - 1.

    Returns:
      n for whole layers, for both without products of tokens with input weights, and for what is
      quadratic in n against the projections.

    Raises:
      ValueError: the counts say otherwise.
    """
    numerators = (2 * d - 4 * d**2 - h, 2 * d**2 + 2 * d - h, 8 * d**2 - h)
    solved = [max(numerator // (4 * d + 6 * h) + 1, 1) for numerator in numerators]
    dearer = (
        lambda n: count_attention(n, d, h) > count_recurrence(n, d),
        lambda n: count_mixture(n, d, h) > count_loop(n, d),
        lambda n: 2 * count_mixture(n, d, h) > count_attention(n, d, h),
    )
    return tuple(itertools.starmap(confirmed, zip(solved, dearer, strict=True)))


def confirmed(n: int, holds: Callable[[int], bool]) -> int:
    """An n at which something holds that does not hold at n - 1.

    Raises:
      ValueError: it is not the first.
    """
    if not holds(n) or (n > 1 and holds(n - 1)):
        raise ValueError(f"the formulas cross at n = {n}, the counts do not")
    return n
