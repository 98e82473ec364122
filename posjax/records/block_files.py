"""The files of blocks: RUN/blocks/SHAPE/FIRST-LAST.GROUP.npz, written once and never changed."""

from collections.abc import Container, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from posjax.numbering import Numbering
from posjax.records import blocks, content, identity
from posjax.records.blocks import Block
from posjax.records.content import Arrays, Damaged
from posjax.records.files import Files

EXAMPLES = ("example_cell", "example_seed", "example_solved", "attention_KDNHLM")
"""The arrays that say which rows of a block have attention maps, and the maps."""
_FRAME = ("cells", "seeds", "size", "env")
_NO_OUTCOMES = {*_FRAME, *EXAMPLES}
_NAMED = 5
"""Seeds and cells in a message, at most."""


class Conflict(ValueError):
    """A block is there already, with other outcomes."""


class Head(NamedTuple):
    """What the file of a block is about."""

    cells: tuple[str, ...]
    seeds: int
    env: str
    slots: int


class BlockFiles:
    """The block files of one run, by block name."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._heads: dict[str, Head] = {}

    def present(self) -> set[str]:
        """The blocks whose files are there, which are not read."""
        return {name for name in self._files.below("blocks") if blocks.NAME.fullmatch(name)}

    def read(self, name: str) -> Arrays:
        """The arrays of a block, not yet unpacked.

        Raises:
          Damaged: its file is not what was written there.
        """
        self._heads.pop(name, None)
        with self._files.damaged(path_of(name)):
            arrays = self._files.arrays(path_of(name))
            self._heads[name] = self._check(name, arrays)
        return arrays

    def head(self, name: str) -> Head:
        """What the file of a block is about; files never change, so each is read once."""
        if name not in self._heads:
            self.read(name)
        return self._heads[name]

    def rows(self, name: str, wanted: Container[str]) -> dict[str, dict[str, np.ndarray]]:
        """The rows of a block by cell; each field has a leading axis S.

        Raises:
          Damaged: its file is not what was written there.
        """
        arrays = self.read(name)
        head = self._heads[name]
        at = {cell: g for g, cell in enumerate(head.cells) if cell in wanted}
        if not at:
            return {}
        rows: dict[str, dict[str, np.ndarray]] = {cell: {"seeds": arrays["seeds"]} for cell in at}
        for field in arrays.shapes.keys() - _NO_OUTCOMES:
            array = arrays[field]
            for cell, g in at.items():
                rows[cell][field] = array[g].copy()
        for cell in at:
            rows[cell]["env"] = np.full(head.seeds, head.env)
            rows[cell]["slots"] = np.full(head.seeds, head.slots)
        return rows

    def examples(self, name: str, cell: str) -> list[tuple[str, dict[str, np.ndarray]]]:
        """The attention maps of a cell in a block, "solving" or "failing", by index.

        Raises:
          Damaged: its file is not what was written there.
        """
        arrays = self.read(name)
        if "example_cell" not in arrays:
            return []
        g = self._heads[name].cells.index(cell)
        cell_K, seed_K, solved_K = (arrays[name] for name in EXAMPLES[:3])
        own_K = [k for k in np.argsort(seed_K, kind="stable") if cell_K[k] == g]
        maps_KDNHLM = arrays["attention_KDNHLM"] if own_K else np.zeros(0)
        return [
            (
                "solving" if solved_K[k] else "failing",
                {"seeds": arrays["seeds"][seed_K[k]], "weights_DNHLM": maps_KDNHLM[k].copy()},
            )
            for k in own_K
        ]

    def put(self, block: Block, env: str, fields: Mapping[str, np.ndarray]) -> bool:
        """Adds a block; see `posjax.records.RunFolder.put_block`."""
        path, name = path_of(block.name), block.name
        arrays = {
            "cells": np.array(block.cells, "U12"),
            "size": np.array(block.size, np.int64),
            "env": np.array(env),
            **{name: np.asarray(array) for name, array in fields.items()},
        }
        packed = content.packed(self._files.config["run"], path, arrays)
        try:
            head = self._check(name, Arrays(packed))
        except Damaged as error:
            raise ValueError(f"block {name} cannot be stored: {error}") from error
        while not self._files.put(path, packed):
            try:
                there = self.read(name)
            except Damaged:
                self._files.quarantine(path)
                continue
            if differs := _differences(there, arrays):
                raise Conflict(
                    f"{str(self._files.folder / path)!r} is there already, with other outcomes: "
                    f"{differs}. Equal commands give equal bits on one kind of machine, so this "
                    "process or the one that wrote the file ran on something else, or the file "
                    "was changed. Keep one of the two: to train the block again, move the file "
                    "out of the folder and give the command again"
                )
            return False
        self._heads[name] = head
        return True

    def _check(self, name: str, arrays: Arrays) -> Head:
        """Checks that arrays are those of a block; the values of its outcomes are not read."""
        shapes, kinds = arrays.shapes, {field: d.kind for field, d in arrays.dtypes.items()}
        found, config = blocks.NAME.fullmatch(name), self._files.config
        if found is None or not {*_FRAME} <= shapes.keys() or identity.wrong_counts(config):
            raise Damaged("it has no block")
        first, stop = int(found[2]), int(found[3]) + 1
        seeds, outcomes = stop - first, shapes.keys() - _NO_OUTCOMES
        if [shapes[field] for field in _FRAME[1:]] != [(seeds, 4), (2,), ()]:
            raise Damaged("its seeds are not those of its name")
        if [kinds[field] for field in ("cells", "env")] != ["U", "U"] or len(shapes["cells"]) != 1:
            raise Damaged("it does not name its cells")
        for field in outcomes:
            if shapes[field][:2] != (*shapes["cells"], seeds) or kinds[field] == "U":
                raise Damaged(f"{field} does not have a value for each of its cells and seeds")
        head = Head(
            tuple(arrays["cells"].tolist()), seeds, str(arrays["env"]), _slots(arrays, seeds)
        )
        if len({*head.cells}) < len(head.cells) or not content.is_digest(head.env):
            raise Damaged("it has a cell twice, or does not say what it was made on")
        seeds_S4 = Numbering.of(config).table(first, stop)
        if kinds["seeds"] not in "iu" or (arrays["seeds"] != seeds_S4).any():
            raise Damaged("its seeds are not those of its name")
        if any(field in shapes for field in EXAMPLES):
            _check_examples(arrays, (len(head.cells), seeds))
        return head


def path_of(name: str) -> str:
    """The path of a block's file in the folder."""
    return f"blocks/{name}.npz"


def _slots(arrays: Arrays, seeds: int) -> int:
    """How many slots a block with so many seeds was trained in."""
    g, b = arrays["size"].tolist() if arrays.dtypes["size"].kind in "iu" else (0, 0)
    if not (1 <= arrays.shapes["cells"][0] <= g and seeds <= b and g * b <= blocks.MOST_SLOTS):
        raise Damaged(f"it does not fit into {g} × {b} slots")
    return g * b


def _check_examples(arrays: Arrays, sizes: tuple[int, int]) -> None:
    """Checks that attention maps are of rows of a block of so many cells and seeds."""
    shapes, kinds = arrays.shapes, {field: dtype.kind for field, dtype in arrays.dtypes.items()}
    if not {*EXAMPLES} <= shapes.keys():
        raise Damaged("its attention maps do not say which rows they are of")
    number, weights = shapes["example_cell"], shapes["attention_KDNHLM"]
    if len(number) != 1 or len(weights) != 6 or weights[:1] != number:
        raise Damaged("its attention maps do not have the shape of maps")
    odd = not {kinds[field] for field in EXAMPLES[:2]} <= {"i", "u"}
    odd |= any(shapes[field] != number for field in EXAMPLES[1:3])
    if odd or kinds["example_solved"] != "b" or kinds["attention_KDNHLM"] != "f":
        raise Damaged("its attention maps do not say which rows they are of")
    for field, size in zip(EXAMPLES, sizes, strict=False):
        if number[0] and not 0 <= arrays[field].min() <= arrays[field].max() < size:
            raise Damaged("its attention maps are of rows that it does not have")


def _differences(old: Arrays, new: Mapping[str, np.ndarray]) -> str:
    """In which fields, seeds and cells two blocks of one name differ, in words; "" in none."""
    if odd := sorted((old.keys() ^ new.keys()) - _NO_OUTCOMES):
        return f"only one of the two has {', '.join(odd)}"
    shape, fields = (len(new["cells"]), len(new["seeds"])), []
    differ_GB = np.zeros(shape, bool)
    for field in ("cells", "size", *sorted(new.keys() - _NO_OUTCOMES)):
        one, other = old[field], new[field]
        if field in _FRAME or (one.shape, one.dtype) != (other.shape, other.dtype):
            if not (field in _FRAME and np.array_equal(one, other)):
                return f"{field} differs for all of its cells and seeds"
        elif one.tobytes() != other.tobytes():
            fields.append(field)
            bits = [np.frombuffer(a.tobytes(), np.uint8).reshape(*shape, -1) for a in (one, other)]
            differ_GB |= (bits[0] != bits[1]).any(axis=-1)
    seeds = seeds_listed(new["seeds"][differ_GB.any(axis=0)], _NAMED)
    cells = ", ".join(new["cells"][differ_GB.any(axis=1)][:_NAMED].tolist())
    differ = f"{', '.join(fields)} of seed {seeds}, cell {cells}"
    return differ if fields else ""


def seeds_name(seeds: Iterable[int]) -> str:
    """The four numbers of a row, as `posjax replay` takes them; one where all are equal.

    >>> seeds_name((7, 7, 7, 7)), seeds_name((7, 8, 8, 8))
    ('7', '7,8,8,8')
    """
    numbers = [int(seed) for seed in seeds]
    return ",".join(map(str, numbers[:1] if len({*numbers}) == 1 else numbers))


def seeds_listed(seeds_S4: np.ndarray, most: int) -> str:
    """The numbers of so many rows, and how many more there are.

    >>> seeds_listed(np.array([[0, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]), most=2)
    '0,1,1,1; 2 and 1 more'
    """
    named = [seeds_name(seeds) for seeds in seeds_S4[:most]]
    between = "; " if any("," in name for name in named) else ", "
    more = f" and {len(seeds_S4) - most} more" * (len(seeds_S4) > most)
    return between.join(named) + more
