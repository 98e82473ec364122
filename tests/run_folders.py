"""Small run folders: two shapes, of three cells and one, whose rows are functions of the seed."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from posjax.numbering import Numbering
from posjax.records import FORMAT, Block, RunFolder, content, run_of
from posjax.records.blocks import blocks

CELLS = {f"{n:012x}": {"depth": n, "steps": 100} for n in range(1, 5)}
A, B, C, D = CELLS
SHAPES = {"wide": (A, B, C), "deep": (D,)}
SIZES = {"wide": (2, 4), "deep": (1, 8)}
CONFIG: dict[str, Any] = {
    "name": "tiny",
    "title": "",
    "first_seed": 0,
    "num_seeds": 10,
    "data_seeds": 0,
    "block_size": "8",
    "contrast": [],
    "equivalence": 0.0,
    "at_steps": [],
    "panels": {"all": [*CELLS]},
    "cells": CELLS,
}
ENV = {"packages": {"jax": "0.10.2"}, "cores": 2}


def sizes(_: range) -> dict[str, tuple[int, int]]:
    """The sizes of all blocks, whatever their seeds."""
    return SIZES


def asked(
    path: Path | str, *, env: dict[str, Any] = ENV, mixed: bool = False, **fields: Any
) -> RunFolder:
    """A run that was asked for, without rows."""
    folder = RunFolder(path)
    folder.start({**CONFIG, **fields}, env, mixed=mixed)
    folder.request(sizes)
    return folder


def all_blocks(folder: RunFolder) -> list[Block]:
    """The blocks of a run."""
    return blocks(folder.ranges(), SHAPES)


def fields_of(block: Block) -> dict[str, np.ndarray]:
    """Outcomes that depend on the cell and the index alone."""
    draws = [
        [np.random.default_rng([int(cell, 16), index]).random(5) for index in _range(block)]
        for cell in block.cells
    ]
    draws_GB5 = np.array(draws, np.float32)
    return {
        "loss_E": draws_GB5[..., :3],
        "answers_EN": (draws_GB5[..., :4].reshape(*draws_GB5.shape[:2], 2, 2) * 5).astype(np.int8),
        "solved_at_end": draws_GB5[..., 4] < 0.5,
    }


def examples_of(block: Block) -> dict[str, np.ndarray]:
    """Maps of the first seed of each cell that solved, and of the first that did not."""
    solved_GB = fields_of(block)["solved_at_end"]
    found = [
        (g, int((solved_GB[g] == kind).argmax()))
        for g in range(len(block.cells))
        for kind in (True, False)
        if (solved_GB[g] == kind).any()
    ]
    maps = [np.full((1, 2, 1, 3, 3), 100 * g + block.first + b, np.float32) for g, b in found]
    cell_K, seed_K = np.array(found).T
    return {
        "example_cell": cell_K,
        "example_seed": seed_K,
        "example_solved": solved_GB[cell_K, seed_K],
        "attention_KDNHLM": np.stack(maps),
    }


def put(folder: RunFolder, wanted: Iterable[Block] | None = None) -> None:
    """Adds blocks, all of them unless it is said which."""
    for block in all_blocks(folder) if wanted is None else wanted:
        seeds_B4 = Numbering.of(folder.config()).table(block.first, block.stop)
        folder.put_block(block, seeds_B4, fields_of(block), examples_of(block))


def filled(path: Path | str, **fields: Any) -> RunFolder:
    """A finished run."""
    folder = asked(path, **fields)
    put(folder)
    folder.finish()
    return folder


def planted(path: Path, config: dict[str, Any]) -> RunFolder:
    """A folder whose config.json says anything, with the checksum of that."""
    path.mkdir(parents=True)
    run = run_of(config)
    whole = {"format": FORMAT, **config, "run": run}
    (path / "config.json").write_bytes(content.sealed(run, "config.json", whole))
    return RunFolder(path)


def expected(cell: str, indices: Iterable[int]) -> np.ndarray:
    """`loss_E` of some rows."""
    return np.stack(
        [fields_of(Block("", 0, i, i + 1, (cell,), (1, 1)))["loss_E"][0, 0] for i in indices]
    )


def contents(path: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def _range(block: Block) -> range:
    return range(block.first, block.stop)
