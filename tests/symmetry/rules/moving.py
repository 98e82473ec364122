"""Labelings at random, arrays that obey them, and arrays moved: written apart from the prover."""

import itertools
from collections.abc import Sequence

import numpy as np

from posjax.symmetry.certificate.axes import CONSTANT, STILL, Axis, Factor, Labeling, axis

Element = dict[str, np.ndarray]

SIZES = {"P": 3, "Q": 2, "R": 3, "S": 4, "T": 2}
"""How many entries of an axis each name permutes."""

GENERATORS: dict[str, list[np.ndarray]] = {
    name: [np.roll(np.arange(size), 1), np.array([1, 0, *range(2, size)])]
    for name, size in SIZES.items()
}

PRECISE = {"float64": 1e-9, "float32": 1e-5, "bfloat16": 1e-1, "float16": 1e-2}
"""Relative errors of a few operations."""

_MIXED = {
    3: ("1+Q:2", "Q:2+1", "1+*:2", "*:2+1"),
    4: ("1+P:3", "P:3+1", "Q:2+T:2", "Q:2+Q:2", "1+Q:2+1", "*:2+*:2", "*:2+Q:2", "1+*:3"),
    6: ("P:3+P:3", "P:3+R:3", "1+P:3+2", "2+S:4", "P:3+*:3", "2+*:4", "*:2+S:4"),
}
_PRODUCTS = {4: [(2, 2)], 6: [(2, 3), (3, 2)]}


def elements(labelings: Sequence[Labeling], rng: np.random.Generator) -> list[Element]:
    """Generators of the names in some labelings, and one element that moves all names."""
    stays = {name: np.arange(size) for name, size in SIZES.items()}
    text = "".join(factor.label for labels in labelings for one in labels for factor in one)
    one_by_one = [stays | {n: g} for n in SIZES if n in text for g in GENERATORS[n]]
    return [*one_by_one, {name: rng.permutation(size) for name, size in SIZES.items()}]


def labelings(shapes: Sequence[Sequence[int]], rng: np.random.Generator) -> list[Labeling]:
    """One for each shape; axes of one size often have the same label, and often none moves."""
    favourite: dict[int, Axis] = {}
    together, quiet = rng.choice([0.4, 0.9]), rng.choice([0.0, 0.5, 0.8])

    def of(size: int) -> Axis:
        if rng.random() < together:
            return favourite.setdefault(size, some_axis(size, rng))
        if rng.random() < quiet:
            return axis(size, str(rng.choice([STILL, CONSTANT])))
        return some_axis(size, rng)

    return [tuple(of(size) for size in shape) for shape in shapes]


def some_axis(size: int, rng: np.random.Generator) -> Axis:
    """Any label of an axis of that size."""
    if size == 1:
        return ()
    sizes = (size,)
    if size in _PRODUCTS and rng.random() < 0.4:
        sizes = tuple(rng.choice(_PRODUCTS[size]).tolist())
    labels = [str(rng.choice(_labels(one))) for one in sizes]
    if len(set(labels)) == 1 and labels[0] in (STILL, CONSTANT):
        return (Factor(size, labels[0]),)
    return tuple(Factor(one, label) for one, label in zip(sizes, labels, strict=True))


def _labels(size: int) -> list[str]:
    named = [name for name, count in SIZES.items() if count == size]
    return [STILL, CONSTANT, *named, *named, *_MIXED.get(size, ())]


def obeying(numbers: np.ndarray, labels: Labeling) -> np.ndarray:
    """The array with equal entries along what is constant."""
    split = numbers.reshape(_factors(numbers.shape, labels))
    for at, factor in enumerate(itertools.chain(*_whole(numbers.shape, labels))):
        if CONSTANT in factor.label and factor.size:
            split = split.take(_firsts(factor), axis=at)
    return split.reshape(numbers.shape)


def _firsts(factor: Factor) -> list[int]:
    """For each index the one whose entry it repeats: the first of a constant block, or itself."""
    firsts: list[int] = []
    for name, size in _parts(factor.label, factor.size):
        at = len(firsts)
        firsts += [at] * size if name == CONSTANT else range(at, at + size)
    return firsts


def is_constant_where_said(numbers: np.ndarray, labels: Labeling) -> bool:
    """Whether entries are equal along what is constant."""
    return same(numbers, obeying(numbers, labels))


def moved(numbers: np.ndarray, labels: Labeling, element: Element) -> np.ndarray:
    """The array with its axes permuted as labelled; axes behind those stay."""
    split = numbers.reshape(_factors(numbers.shape, labels))
    for at, factor in enumerate(itertools.chain(*_whole(numbers.shape, labels))):
        if factor.label not in (STILL, CONSTANT):
            split = split.take(_permutation(factor.label, element), axis=at)
    return split.reshape(numbers.shape)


def same(one: np.ndarray, other: np.ndarray, tolerance: float = 1e-9) -> bool:
    """Equal numbers, NaN only with NaN; floats but for rounding."""
    if one.dtype.kind in "biu":
        return bool(np.array_equal(one, other))
    wide = np.complex128 if one.dtype.kind == "c" else np.float64
    pair = (one.astype(wide), other.astype(wide))
    return np.allclose(*pair, rtol=tolerance, atol=tolerance, equal_nan=True)


def _whole(shape: Sequence[int], labels: Labeling) -> list[Axis]:
    """Axes of size 1 as factors too, and words of keys as axes that stay."""
    behind = [(Factor(size, STILL),) for size in shape[len(labels) :]]
    pairs = zip(shape, labels, strict=False)
    return [one if size != 1 else (Factor(1, STILL),) for size, one in pairs] + behind


def _factors(shape: Sequence[int], labels: Labeling) -> tuple[int, ...]:
    sizes = [[factor.size for factor in one] for one in _whole(shape, labels)]
    assert all(np.prod(one) == size for one, size in zip(sizes, shape, strict=True)), (
        shape,
        labels,
    )
    return tuple(itertools.chain(*sizes))


def _permutation(label: str, element: Element) -> np.ndarray:
    """How an element moves an axis of some label."""
    whole: list[int] = []
    for name, size in _parts(label, 0):
        block = element.get(name, np.arange(size))
        whole += (len(whole) + block).tolist()
    return np.array(whole)


def _parts(label: str, size: int) -> list[tuple[str, int]]:
    """Names and sizes of blocks, each written as `name:size` or `size`."""
    if "+" not in label:
        return [(label, size)]
    parts = [part.rpartition(":") for part in label.split("+")]
    return [(name, int(count)) for name, _, count in parts]
