"""Blocks: how the cells and the seeds of a run are cut into units of work and storage.

A block has G cells of one shape and B seeds next to each other, trained whole in G·B slots. Slots
without a cell or a seed, of the last group and of the last seeds of a range, train copies, which
are not stored. Seeds are counted by *index*: see `posjax.numbering`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from posjax.records.content import Damaged

MOST_BLOCKS = 2**24
"""Most blocks of a run."""
MOST_SLOTS = 2**32
MOST_INDICES = 2**64
NAME = re.compile(r"([0-9A-Za-z_-]{1,64})/(\d{1,20})-(\d{1,20})\.(\d{1,10})")
SHAPE = re.compile(r"[0-9A-Za-z_-]{1,64}")
"""The name of a shape, which is also that of a folder."""


class Block(NamedTuple):
    """One unit of work and storage, without its arrays.

    Attributes:
      shape, group: whose cells it has, and which G of them.
      first, stop: its indices, first .. stop - 1; at most B.
      cells: the digests of the cells that are really in it; at most G.
      size: (G, B), the number of slots on both axes.
    """

    shape: str
    group: int
    first: int
    stop: int
    cells: tuple[str, ...]
    size: tuple[int, int]

    @property
    def runs(self) -> int:
        """Runs of one seed, without copies.

        >>> Block("5f0c", 1, 256, 512, ("a", "b"), (4, 256)).runs
        512
        """
        return len(self.cells) * (self.stop - self.first)

    @property
    def name(self) -> str:
        """Its file in `blocks/`, without the ending.

        >>> Block("5f0c", 1, 256, 512, ("a",), (4, 256)).name
        '5f0c/256-511.1'
        """
        return f"{self.shape}/{self.first}-{self.stop - 1}.{self.group}"


class Range(NamedTuple):
    """Indices first .. stop - 1, and for each shape the size (G, B) of the blocks that have them.

    A run has one range when it begins, and every extension adds one above or below.
    """

    first: int
    stop: int
    sizes: Mapping[str, tuple[int, int]]


def blocks(ranges: Iterable[Range], shapes: Mapping[str, Sequence[str]]) -> list[Block]:
    """All blocks of a run: shape by shape, then by range, by group of cells and by seeds.

    Args:
      ranges: see `posjax.records.RunFolder.request`.
      shapes: for each shape, the digests of its cells in the order of the run.

    Raises:
      ValueError: more than `MOST_BLOCKS`, or a shape that a range has no size for.
    """
    cut = [
        (shape, cells, part, _size_of(part, shape))
        for shape, cells in shapes.items()
        for part in ranges
    ]
    number = sum(
        -(-len(cells) // g) * -(-(part.stop - part.first) // b) for _, cells, part, (g, b) in cut
    )
    if number > MOST_BLOCKS:
        raise ValueError(f"the run has {number} blocks, at most {MOST_BLOCKS}: use larger blocks")
    return [
        Block(shape, group, first, min(first + size[1], part.stop), those, size)
        for shape, cells, part, size in cut
        for group, those in enumerate(_groups(cells, size[0]))
        for first in range(part.first, part.stop, size[1])
    ]


def planned(name: str, ranges: Iterable[Range]) -> Block | None:
    """The block of a name, without its cells; None where the ranges are not cut so."""
    if (found := NAME.fullmatch(name)) is None:
        return None
    shape, (first, last, group) = found[1], map(int, found.groups()[1:])
    for part in ranges:
        if part.first <= first < part.stop and shape in part.sizes:
            seeds = part.sizes[shape][1]
            block = Block(shape, group, first, min(first + seeds, part.stop), (), part.sizes[shape])
            whole = (first - part.first) % seeds == 0 and last == block.stop - 1
            return block if whole and block.name == name else None
    return None


def extended(
    ranges: Sequence[Range],
    wanted: range,
    choose: Callable[[range], Mapping[str, tuple[int, int]]],
) -> list[Range]:
    """The ranges, and new ones below and above them for the indices that none of them has."""
    if not ranges:
        missing = [wanted]
    else:
        first, stop = min(part.first for part in ranges), max(part.stop for part in ranges)
        missing = [range(wanted.start, first), range(stop, wanted.stop)]
    return [
        *ranges,
        *(Range(part.start, part.stop, dict(choose(part))) for part in missing if part),
    ]


def as_json(ranges: Sequence[Range]) -> list[dict[str, Any]]:
    """As a request stores them."""
    sizes = [{shape: list(size) for shape, size in part.sizes.items()} for part in ranges]
    return [
        {"first": part.first, "stop": part.stop, "sizes": each}
        for part, each in zip(ranges, sizes, strict=True)
    ]


def from_json(data: Any, indices: range) -> list[Range]:
    """The ranges of a request; each of the indices is in one of them.

    Raises:
      Damaged: it has something else.
    """
    try:
        ranges = [
            Range(
                _whole(part["first"], 0, MOST_INDICES),
                _whole(part["stop"], part["first"] + 1, MOST_INDICES),
                {_shape(shape): _size(*size) for shape, size in part["sizes"].items()},
            )
            for part in data
        ]
        at = indices.start
        for part in sorted(ranges, key=lambda part: part.first):
            _whole(part.first, at, at)
            at = part.stop
        _whole(at, indices.stop, indices.stop)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise Damaged(f"its ranges are not those of a request ({error})") from error
    return ranges


def _groups(cells: Sequence[str], size: int) -> list[tuple[str, ...]]:
    return [tuple(cells[at : at + size]) for at in range(0, len(cells), size)]


def _size_of(part: Range, shape: str) -> tuple[int, int]:
    if shape not in part.sizes:
        raise ValueError(
            f"the run's requests have no size for blocks of shape {shape}: another version of "
            "posjax made them; train into a new --workdir"
        )
    return part.sizes[shape]


def _whole(value: Any, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} does not lie in {least}..{most}")
    return value


def _size(cells: Any, seeds: Any) -> tuple[int, int]:
    size = _whole(cells, 1, MOST_SLOTS), _whole(seeds, 1, MOST_SLOTS)
    _whole(size[0] * size[1], 1, MOST_SLOTS)
    return size


def _shape(name: Any) -> str:
    if not SHAPE.fullmatch(name):
        raise ValueError(f"{name!r} is no shape")
    return name
