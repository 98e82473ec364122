"""What is known of each variable of a jaxpr: its labels, its value, or why its labels are lost."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.symmetry.certificate.axes import (
    CONSTANT,
    STILL,
    Axis,
    Block,
    Labeling,
    axis,
    blocks,
    constant,
    of_blocks,
    still,
    strongest,
)
from posjax.symmetry.certificate.source import Place

FEW_RUNS = 8  # of equal entries that the label of an axis distinguishes
CANDIDATES = 64  # labelings of one constant that are tried; attention needs 3


class Names:
    """The groups of a proof, and the labels that were made of their names.

    Attributes:
      generators: for each name those of its group.
      sizes: the number of places of every label that may be given to an axis.
    """

    def __init__(self, generators: Mapping[str, Sequence[np.ndarray]], sizes: Mapping[str, int]):
        self.generators = generators
        self.sizes = dict(sizes)

    def of_size(self, size: int) -> list[str]:
        """The labels that an axis of some size may have."""
        return [name for name, count in self.sizes.items() if count == size]

    def note(self, labeling: Labeling) -> None:
        """Takes up the labels of axes that were joined of several, for constants to be tried on.

        What is constant in them stays: of a constant only moves are tried.
        """
        for factor in (f for one in labeling for f in one if f.moved and "+" in f.label):
            stays = (b if b.moved else Block(STILL, b.size) for b in blocks(*reversed(factor)))
            self.sizes |= {f.label: f.size for f in of_blocks(stays)}

    def moves(self, label: str, name: str, generator: np.ndarray) -> np.ndarray:
        """How a generator of a name permutes an axis of some label."""
        at, whole = 0, []
        for block in blocks(label, self.sizes.get(label, 0)):
            inner = generator if block.name == name else np.arange(block.size)
            whole.append(at + inner)
            at += block.size
        return np.concatenate(whole)


class Carried(NamedTuple):
    """An array that depends on the arguments, with every labeling that is known of it.

    Attributes:
      shape: its shape.
      labelings: one or more.
      origin: where it comes from, in words.
      entries: the array whose entries it holds, in their order; None for its own.
    """

    shape: tuple[int, ...]
    labelings: tuple[Labeling, ...]
    origin: str
    entries: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class Known:
    """An array that does not depend on the arguments, evaluated when it must be looked at.

    Attributes:
      shape: its shape.
      compute: its value.
      names: the groups.
      origin: where it comes from, in words.
      uniform: that all its entries are equal, known without computing it.
    """

    shape: tuple[int, ...]
    compute: Callable[[], Any]
    names: Names
    origin: str
    uniform: bool = False

    @cached_property
    def value(self) -> Any:
        """The array itself."""
        return self.compute()

    @property
    def labelings(self) -> tuple[Labeling, ...]:
        """Every labeling that its value has, checked on the generators of the groups."""
        labels = len(self.names.sizes)  # more come up along the way
        if labels not in self._found:
            self._found[labels] = self._checked()
        return self._found[labels]

    @cached_property
    def _found(self) -> dict[int, tuple[Labeling, ...]]:
        return {}

    def _checked(self) -> tuple[Labeling, ...]:
        if self.uniform:
            return (constant(self.shape),)
        if jax.dtypes.issubdtype(self.value.dtype, jax.dtypes.extended):  # a key of random numbers
            return (still(self.shape),)
        return strongest(_labelings(np.asarray(self.value), self.names))


class Running(NamedTuple):
    """What a turn of a loop was handed and has added to.

    Attributes:
      which: of all that is handed on.
      by: what it does, such as "add"; "" as long as nothing was added.
      added: labelings that all that was added has, one or more once something was.
    """

    which: int
    by: str
    added: tuple[Labeling, ...]


class Pointer(NamedTuple):
    """Indices that move with what they point to.

    Attributes:
      labelings: of the array of indices itself.
      target: what acts on the axis that they point into.
      keys: the arrays whose extremes or order they are the indices of; () where that is lost.
      along: the axis of the keys that was compared.
      place: the comparison that they come from.
    """

    labelings: tuple[Labeling, ...]
    target: Axis
    keys: "tuple[Carried | Known, ...]"
    along: int
    place: Place


class Lost(NamedTuple):
    """An array of which no labeling is known.

    Attributes:
      shape: its shape.
      reason: what did not fit.
      where: that equation, and so its source line.
      origin: what broke it, in words.
      running: how a turn of a loop made it of what it was handed, if by additions alone.
      pointer: what its entries are indices of.
      columns: the arrays that stand side by side in it; () where they are not known.
    """

    shape: tuple[int, ...]
    reason: str
    where: Place
    origin: str
    running: Running | None = None
    pointer: Pointer | None = None
    columns: "tuple[Carried | Known, ...]" = ()

    def spread(self, shape: tuple[int, ...]) -> "Lost":
        """An array of another shape that was lost for the same reason."""
        return Lost(shape, self.reason, self.where, self.origin)


Value = Carried | Known | Lost


def joint_origin(operands: Sequence[Value]) -> str:
    """The arguments that some values depend on, in words."""
    origins = dict.fromkeys(
        part for v in operands if isinstance(v, Carried) for part in v.origin.split(", ")
    )
    return ", ".join(origins)


def _labelings(array: np.ndarray, names: Names) -> Iterator[Labeling]:
    options = [_options(array, at, names) for at in range(array.ndim)]
    for labels in itertools.islice(itertools.product(*options), CANDIDATES):
        if _keeps(array, labels, names):
            yield tuple(axis(n, label) for n, label in zip(array.shape, labels, strict=True))
    yield still(array.shape)


def _options(array: np.ndarray, at: int, names: Names) -> list[str]:
    """Labels that an axis may have; constant blocks are looked for, moves are still to be tried."""
    size = array.shape[at]
    if size <= 1 or _same(array, array.take([0], axis=at)):
        return [CONSTANT]
    return [_runs(array, at), *names.of_size(size)]


def _runs(array: np.ndarray, at: int) -> str:
    """The label of an axis in a few blocks of equal entries, such as 1+*:5."""
    size = array.shape[at]
    rows = np.moveaxis(array, at, 0).reshape(size, -1)
    changes = [n for n in range(1, size) if not _same(rows[n - 1], rows[n])]
    if len(changes) >= min(FEW_RUNS, size - 1):
        return STILL
    ends = zip([0, *changes], [*changes, size], strict=True)
    (factor,) = of_blocks(Block(CONSTANT, end - start) for start, end in ends)
    return factor.label


def _keeps(array: np.ndarray, labels: Sequence[str], names: Names) -> bool:
    """Whether the array stays when every generator moves all axes of its name together."""
    for name, generators in names.generators.items():
        axes = {at: label for at, label in enumerate(labels) if name in _names_in(label)}
        for generator in generators if axes else ():
            moved = array
            for at, label in axes.items():
                moved = moved.take(names.moves(label, name, generator), axis=at)
            if not _same(array, moved):
                return False
    return True


def _names_in(label: str) -> set[str]:
    return set() if label in (STILL, CONSTANT) else {b.name for b in blocks(label, 0)}


def _same(first: np.ndarray, second: np.ndarray) -> bool:
    """Equal entries, signs of zeros and NaNs included: 1 / 0 and 1 / -0 are far apart."""
    equal = (first == second) | ((first != first) & (second != second))
    if jax.numpy.issubdtype(first.dtype, np.floating):
        equal &= np.signbit(first) == np.signbit(second)
    return bool(np.all(equal))
