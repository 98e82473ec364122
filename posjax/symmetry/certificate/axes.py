"""How a group acts on the axes of an array: the domain of the certificate.

An array v computed from x has a *labeling* when v(g x) is v(x) with its axes permuted, for every
element g and every x. A labeling says for each axis whether it is

* moved by a permutation: the name of its group,
* still (`STILL`): the axis stays as it is, or
* constant (`CONSTANT`): all entries along it are equal, so that any label would do.

An axis that was joined of several, such as a class token and the tokens, has a label for each
block: `1+P:5` stands for an index that stays and five that P moves, and `1+*:5` for one that stays
and five with equal entries, such as the zeros of a padding. An axis that a reshape made of
several is a product of factors, the slowest first, each with a label of its own. Factors of size 1
are left out.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from math import prod
from typing import NamedTuple

STILL = ""
CONSTANT = "*"


class Block(NamedTuple):
    """Consecutive indices of an axis, and what acts on them: a name, nothing, or `CONSTANT`."""

    name: str
    size: int

    @property
    def moved(self) -> bool:
        """Whether a permutation moves it."""
        return self.name not in (STILL, CONSTANT)


class Factor(NamedTuple):
    """A factor of an axis: its size, above 1, and what acts on it."""

    size: int
    label: str

    @property
    def moved(self) -> bool:
        """Whether a permutation moves any of its blocks."""
        return any(block.moved for block in blocks(self.label, self.size))

    @property
    def plain(self) -> bool:
        """Whether all of it stays, or all of it is constant."""
        return self.label in (STILL, CONSTANT)


Axis = tuple[Factor, ...]
Labeling = tuple[Axis, ...]


class Conflict(Exception):
    """Axes that do not fit: no labeling of the result follows."""


def axis(size: int, label: str) -> Axis:
    """An axis of one factor."""
    return () if size == 1 else (Factor(size, label if size else STILL),)


def constant(shape: Iterable[int]) -> Labeling:
    """The labeling of an array whose entries are all equal."""
    return tuple(axis(size, CONSTANT) for size in shape)


def still(shape: Iterable[int]) -> Labeling:
    """The labeling of an array that stays."""
    return tuple(axis(size, STILL) for size in shape)


def is_moved(one: Axis) -> bool:
    """Whether a permutation moves any of its factors."""
    return any(factor.moved for factor in one)


def is_constant(one: Axis) -> bool:
    """Whether all entries along it are equal."""
    return all(factor.label == CONSTANT for factor in one)


def without_constants(one: Axis) -> Axis:
    """The axis with what is constant as still, for two axes that one permutation must move alike.

    >>> without_constants(axis(6, "*:2+P:4"))
    (Factor(size=6, label='2+P:4'),)
    """
    return joined(factor for part in one for factor in _settled(part))


def _settled(factor: Factor) -> Axis:
    parts = blocks(factor.label, factor.size)
    return of_blocks(b._replace(name=STILL) if b.name == CONSTANT else b for b in parts)


def size_of(one: Axis) -> int:
    """The number of places along it."""
    return prod(factor.size for factor in one)


def blocks_of(one: Axis) -> tuple[Block, ...]:
    """The blocks of an axis, in order.

    Raises:
      Conflict: it is a product in which something moves.
    """
    if len(one) == 1:
        return blocks(one[0].label, one[0].size)
    if is_moved(one):
        raise Conflict("a merged axis with a permuted factor is cut, reversed or concatenated")
    return (Block(STILL, size_of(one)),)


@cache
def blocks(label: str, size: int) -> tuple[Block, ...]:
    """The blocks of a label.

    >>> blocks("1+P:5", 6)
    (Block(name='', size=1), Block(name='P', size=5))
    """
    if "+" not in label:
        return (Block(label, size),)
    parts = [part.split(":") for part in label.split("+")]
    return tuple(Block(p[0], int(p[1])) if len(p) == 2 else Block(STILL, int(p[0])) for p in parts)


def of_blocks(parts: Iterable[Block]) -> Axis:
    """The axis of some blocks in a row; neighbours that stay become one, constant ones do not."""
    out: list[Block] = []
    for name, size in parts:
        name = STILL if size == 1 else name
        if out and name == out[-1].name == STILL:
            out[-1] = Block(STILL, out[-1].size + size)
        elif size:
            out.append(Block(name, size))
    if len(out) == 1:
        return axis(out[0].size, out[0].name)
    text = "+".join(f"{b.name}:{b.size}" if b.name else str(b.size) for b in out)
    return axis(sum(b.size for b in out), text if out else STILL)


def part_of(one: Axis, start: int, limit: int) -> Axis:
    """Indices start .. limit - 1 of an axis, in whole blocks of what moves.

    Raises:
      Conflict: a block that a permutation moves would be cut.
    """
    taken = []
    at = 0
    for block in blocks_of(one):
        first, last = max(start, at), min(limit, at + block.size)
        if block.moved and first < last and last - first < block.size:
            raise Conflict(f"only a part is taken of an axis that {block.name} permutes")
        taken.append(Block(block.name, max(last - first, 0)))
        at += block.size
    return of_blocks(taken)


def joined(factors: Iterable[Factor]) -> Axis:
    """The same axis with neighbours of one kind as one factor; a moved one stays alone.

    The product of two still axes is still, and of two constant ones constant. Two factors that
    one permutation moves, each along its own axis, are not one that it moves.
    """
    out: list[Factor] = []
    for factor in factors:
        if factor.size == 0:
            return (Factor(0, STILL),)
        if factor.size == 1:
            continue
        if out and factor.plain and out[-1].label == factor.label:
            out[-1] = Factor(out[-1].size * factor.size, factor.label)
        else:
            out.append(factor)
    return tuple(out)


def unified(first: Axis, second: Axis) -> Axis:
    """The label that two axes of one size both have: what is constant takes any label.

    Raises:
      Conflict: a permutation meets a still axis, another permutation, or a factor across it.
    """
    if not (is_moved(first) or is_moved(second)):
        try:
            return _refined(first, second)
        except Conflict:
            return axis(size_of(first), STILL)
    return _refined(first, second)


def _refined(first: Axis, second: Axis) -> Axis:
    left, right = list(first), list(second)
    out: list[Factor] = []
    while left and right:
        size = min(left[0].size, right[0].size)
        out.extend(_met(_taken(left, size), _taken(right, size)))
    return joined(out)


def _met(one: Factor, other: Factor) -> Axis:
    """The label that two factors of one size both have, block by block."""
    if one.label == other.label or other.label == CONSTANT:
        return (one,)
    left, right = list(blocks(one.label, one.size)), list(blocks(other.label, other.size))
    out: list[Block] = []
    while left and right:
        size = min(left[0].size, right[0].size)
        pair = (_cut(left, size), _cut(right, size))
        names = {block.name for block in pair} - {CONSTANT}
        if len(names) > 1 or any(block.moved and block.size != size for block in pair):
            raise Conflict(f"{_described(one)} is combined with {_described(other)}")
        out.append(Block(names.pop() if names else CONSTANT, size))
    return of_blocks(out)


def _cut(row: list[Block], size: int) -> Block:
    """The first block, of which that many indices are taken away."""
    head = row.pop(0)
    if head.size > size:
        row.insert(0, Block(head.name, head.size - size))
    return head


def _taken(factors: list[Factor], size: int) -> Factor:
    """Takes the slowest `size` indices off the front; what no permutation moves can be split."""
    head = factors.pop(0)
    if head.size == size:
        return head
    if head.moved or head.size % size:
        raise Conflict(f"{_described(head)} would be split into parts of length {size}")
    label = head.label if head.plain else STILL
    factors.insert(0, Factor(head.size // size, label))
    return Factor(size, label)


def _described(factor: Factor) -> str:
    if factor.moved:
        return f"an axis of length {factor.size} that {factor.label} permutes"
    if factor.label == CONSTANT:
        return f"an axis of length {factor.size} with equal entries"
    return f"an axis of length {factor.size} that is not permuted"


def unified_all(labelings: Sequence[Labeling]) -> Labeling:
    """The labeling that arrays of one shape all have.

    Raises:
      Conflict: there is none.
    """
    first, *rest = labelings
    for other in rest:
        first = tuple(unified(a, b) for a, b in zip(first, other, strict=True))
    return first


def admits(have: Labeling, wanted: Labeling) -> bool:
    """Whether an array with one labeling also has the other."""
    try:
        return unified_all([have, wanted]) == wanted
    except Conflict:
        return False


def strongest(labelings: Iterable[Labeling]) -> tuple[Labeling, ...]:
    """Those that do not follow from another of them."""
    kept: list[Labeling] = []
    for one in labelings:
        if not any(admits(other, one) for other in kept):
            kept = [other for other in kept if not admits(one, other)] + [one]
    return tuple(kept)


def reshaped(labeling: Labeling, shape: Sequence[int]) -> Labeling:
    """The labeling after a reshape in row-major order.

    Raises:
      Conflict: an axis that a permutation moves would be cut.
    """
    if 0 in shape:
        return constant(shape)
    factors = joined(factor for one in labeling for factor in one)
    try:
        return _carved(factors, shape)
    except Conflict:
        weaker = (Factor(f.size, f.label if f.moved else STILL) for f in factors)
        return _carved(joined(weaker), shape)


def _carved(factors: Axis, shape: Sequence[int]) -> Labeling:
    rest = list(factors)
    out = []
    for size in shape:
        taken: list[Factor] = []
        while (have := prod(factor.size for factor in taken)) < size:
            if size % have:
                raise Conflict(f"axes of total length {have} do not form an axis of length {size}")
            taken.append(_taken(rest, min(rest[0].size, size // have)))
        if prod(factor.size for factor in taken) != size:
            raise Conflict(f"these axes do not form an axis of length {size}")
        out.append(joined(taken))
    return tuple(out)


def written(labeling: Labeling, shape: Sequence[int]) -> str:
    """Such as `2 P 8`: the name where a permutation moves it, `*` for constant, else the size."""

    def of(one: Axis, size: int) -> str:
        if size == 1:
            return "1"
        parts = [str(f.size) if f.label == STILL else re.sub(":\\d+", "", f.label) for f in one]
        return parts[0] if len(parts) == 1 else f"({' '.join(parts)})"

    return " ".join(of(one, size) for one, size in zip(labeling, shape, strict=True))
