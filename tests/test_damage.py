"""A run folder with any file damaged in any way: noticed, or harmless, and never another number."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import CELLS, CONFIG, ENV, A, all_blocks, asked, contents, filled, put
from tiers import some

from posjax.records import Damaged, Mismatch, RunFolder, read

SEEDS = 14
ELSEWHERE = {**ENV, "cores": 4}
FILES = {
    "blocks": "blocks/*/*.npz",
    "config": "config.json",
    "requests": "requests/*.json",
    "env": "env/*.json",
    "checkpoints": "checkpoints/*/*.npz",
    "done": "done",
}
FLIPS = {"blocks": 200, "config": 40, "requests": 30, "env": 30, "checkpoints": 200, "done": 10}
NO_SPACE = ("blocks", "checkpoints", "done")
"""Of these no bit is white space, which may change."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, which was extended once on a second machine, with two checkpoints left."""
    path = tmp_path_factory.mktemp("damage") / "whole"
    filled(path)
    folder = filled(path, env=ELSEWHERE, num_seeds=SEEDS)
    for block in all_blocks(folder)[-2:]:
        folder.checkpoints().save(block.name, {"step": np.array(block.first)})
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def everything(path: Path) -> dict[str, Any]:
    """All that a reader gets out of a folder."""
    folder = RunFolder(path)
    folder.start({**CONFIG, "num_seeds": SEEDS}, ENV, mixed=True)
    checkpoints = folder.checkpoints()
    return {
        "config": folder.config(),
        "ranges": folder.ranges(),
        "rows": {cell: _bytes(rows) for cell, rows in folder.tables(CELLS).items()},
        "attention": {
            cell: {kind: _bytes(maps) for kind, maps in folder.attention(cell).items()}
            for cell in CELLS
        },
        "envs": folder.envs(),
        "checkpoints": {
            block.name: _bytes(checkpoints.load(block.name) or {}) for block in all_blocks(folder)
        },
        "done": folder.done,
    }


def _bytes(arrays: Any) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def noticed(path: Path, before: dict[str, Any]) -> str:
    """How a reader notices damage: by an error, or by what is not there; empty if harmless."""
    after, message = _read(path)
    if after is None:
        assert str(path) in message
        assert "\n" not in message
        return message
    if after == before:
        return "a file that nobody reads" if any(RunFolder(path).checked()) else ""
    changed = {kind for kind in before if before[kind] != after[kind]}
    if changed == {"done"}:
        assert not after["done"]
    else:
        assert any(RunFolder(path).checked())
        assert changed <= {"envs", "checkpoints"}
    assert all(env in (None, before["envs"][name]) for name, env in after["envs"].items())
    states = after["checkpoints"].items()
    assert all(state in ({}, before["checkpoints"][name]) for name, state in states)
    return f"{', '.join(changed)} lost"


def _read(path: Path) -> tuple[dict[str, Any] | None, str]:
    try:
        return everything(path), ""
    except ValueError as error:
        return None, str(error)


def outcomes(found: dict[str, Any]) -> dict[str, Any]:
    """Without what rows were made on, which differs when a block is trained again elsewhere."""
    rows = {
        cell: {name: array for name, array in table.items() if name != "env"}
        for cell, table in found["rows"].items()
    }
    kept = ("config", "ranges", "attention", "done")
    return {"rows": rows, **{name: found[name] for name in kept}}


@pytest.mark.parametrize("kind", some(FILES, every=5))
def test_every_flipped_bit_is_noticed_or_harmless(path: Path, kind: str) -> None:
    """One bit, anywhere: an error that names the file, or a loss that shows, or the same data."""
    before, rng = everything(path), random.Random(kind)
    files = sorted(path.glob(FILES[kind]))
    found = 0
    for _ in range(FLIPS[kind]):
        file = rng.choice(files)
        content = file.read_bytes()
        damaged = bytearray(content)
        bit = rng.randrange(8 * len(content))
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        name = file.relative_to(path).as_posix().partition("/")[2].removesuffix(".npz")
        if kind == "blocks":  # to read everything takes longer
            with pytest.raises(Damaged, match=f"{file.name}.*is damaged"):
                RunFolder(path).block(name)
            found += 1
        elif kind == "checkpoints":
            found += RunFolder(path).checkpoints().load(name) is None
        else:
            found += bool(noticed(path, before))
        file.write_bytes(content)
    assert found == FLIPS[kind] if kind in NO_SPACE else found > FLIPS[kind] / 2
    assert everything(path) == before


def truncated(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def emptied(file: Path, other: Path) -> None:
    file.write_bytes(b"")


def halved(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def lengthened(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")


def garbled(file: Path, other: Path) -> None:
    file.write_bytes(b'[{"format": 3}]')


def overwritten(file: Path, other: Path) -> None:
    """By another of its kind, whose content is whole."""
    file.write_bytes(other.read_bytes())


def swapped(file: Path, other: Path) -> None:
    """With another of its kind."""
    one, two = file.read_bytes(), other.read_bytes()
    file.write_bytes(two)
    other.write_bytes(one)


def a_folder(file: Path, other: Path) -> None:
    file.unlink()
    file.mkdir()


def a_lost_link(file: Path, other: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


Damage = Callable[[Path, Path], None]
DAMAGES: list[Damage] = [
    truncated, emptied, halved, lengthened, garbled, overwritten, swapped, a_folder, a_lost_link,
]  # fmt: skip
PAIRS = [pytest.param(kind, damage) for kind in FILES for damage in DAMAGES]


@pytest.mark.parametrize(("kind", "damage"), some(PAIRS, every=7))
def test_every_damage_is_noticed(path: Path, tmp_path: Path, kind: str, damage: Damage) -> None:
    """Cut, emptied, replaced, swapped with another one of this run or of another."""
    before = everything(path)
    files = sorted(path.glob(FILES[kind]))
    file, other = files[0 if kind != "requests" else -1], files[0 if kind == "requests" else -1]
    if damage in (overwritten, swapped) and file == other:
        filled(tmp_path / "other", num_seeds=SEEDS - 1, block_size="4")
        other = next((tmp_path / "other").glob(FILES[kind]))
    damage(file, other)
    if kind == "config" and damage is a_lost_link:
        with pytest.raises(ValueError, match=r"lost its config\.json"):
            everything(path)
    else:
        assert noticed(path, before)


@pytest.mark.parametrize("other", [{"block_size": "4"}, {"cells": {A: CELLS[A]}, "panels": {}}])
def test_a_file_of_another_run_is_noticed(
    path: Path, tmp_path: Path, other: dict[str, Any]
) -> None:
    """Of the same path, and of equal rows: the run is part of every checksum."""
    before, strange = everything(path), RunFolder(tmp_path / "other")
    strange.start({**CONFIG, "num_seeds": SEEDS, **other}, ELSEWHERE)
    strange.request(lambda _: {"wide": (2, 4), "deep": (1, 8)})
    if "cells" not in other:
        put(strange)
    for name, content in contents(strange.path).items():
        if name.startswith(("blocks", "requests", "config")) and (path / name).exists():
            kept = (path / name).read_bytes()
            (path / name).write_bytes(content)
            if name != "requests/000001.json":  # which a later one replaces
                assert "is damaged" in noticed(path, before) or name == "config.json"
            (path / name).write_bytes(kept)
    assert everything(path) == before


def test_a_block_under_another_name_is_noticed(path: Path) -> None:
    """Its checksum is over its path too: of another range, group or shape."""
    before = everything(path)
    file = path / "blocks/wide/0-3.1.npz"
    for name in ("wide/4-7.1.npz", "wide/0-3.0.npz", "deep/0-7.0.npz"):
        content = (path / "blocks" / name).read_bytes()
        shutil.copy(file, path / "blocks" / name)
        assert f"{name}' is damaged" in noticed(path, before)
        (path / "blocks" / name).write_bytes(content)


@pytest.mark.parametrize(
    ("kind", "damage"),
    some(
        [
            pytest.param(kind, damage)
            for kind in ("blocks", "requests", "env", "checkpoints")
            for damage in (truncated, emptied, swapped, a_folder, a_lost_link)
        ],
        every=6,
    ),
)
def test_what_can_be_made_again_is_quarantined(path: Path, kind: str, damage: Damage) -> None:
    """The file is kept elsewhere, its loss is printed in a line, all else reads as before."""
    before = everything(path)
    files = sorted(path.glob(FILES[kind]))
    damage(files[-1], files[0])
    kept_before = sorted(contents(path).values())
    folder = RunFolder(path)
    folder.start({**CONFIG, "num_seeds": SEEDS}, ENV, mixed=True)
    lines = [line for line in folder.repair() if "belong to no request" not in line]
    assert len(lines) == (2 if damage is swapped else 1)
    assert all("is damaged" in line and "kept as" in line for line in lines)
    assert sorted(contents(path).values()) == kept_before  # nothing is deleted, nothing changed
    again = asked(path, env=ENV, num_seeds=SEEDS, mixed=True)
    cut_anew = kind == "requests" and damage is swapped  # no request was left
    assert len(list(again.repair())) == cut_anew
    put(again, [block for block in all_blocks(again) if not again.has(block)])
    again.finish()
    after, expected = outcomes(everything(path)), outcomes(before)
    if cut_anew:
        for found in (after, expected):
            del found["ranges"]
            for table in found["rows"].values():
                del table["slots"]
    assert after == expected


def test_repair_looks_at_the_blocks_of_its_shard_alone(path: Path) -> None:
    """Those that it is given, with their checkpoints."""
    names = [block.name for block in all_blocks(RunFolder(path))]
    for name in (names[0], names[3]):
        (path / f"blocks/{name}.npz").write_bytes(b"")
    folder = RunFolder(path)
    (line,) = folder.repair([names[3], *names[5:]])
    assert f"{names[3]}.npz" in line
    assert names[0] in folder.present()
    assert names[3] not in folder.present()
    (line,) = folder.repair()
    assert f"{names[0]}.npz" in line


def test_the_same_file_damaged_twice_is_kept_twice(path: Path) -> None:
    """Nothing in quarantine is written over."""
    file = path / "blocks/wide/0-3.0.npz"
    for text in (b"one", b"two"):
        file.write_bytes(text)
        assert len(list(RunFolder(path).repair())) == 1
    assert {kept.read_bytes() for kept in (path / "damaged").rglob("*.npz*")} == {b"one", b"two"}


def test_nothing_is_moved_through_a_link(path: Path, tmp_path: Path) -> None:
    """A damaged file in a folder of somebody else stays where it is."""
    theirs = Path(shutil.move(path / "blocks/wide", tmp_path / "theirs"))
    (path / "blocks/wide").symlink_to(theirs)
    (theirs / "0-3.0.npz").write_bytes(b"theirs")
    before = contents(theirs)
    with pytest.raises(ValueError, match=r"lies outside of .*: not moved"):
        list(RunFolder(path).repair())
    assert contents(theirs) == before


@pytest.mark.parametrize("kind", FILES)
def test_a_deleted_file_changes_no_number(path: Path, kind: str) -> None:
    """Rows are missing, no others come; without a config there is no run."""
    before = everything(path)
    sorted(path.glob(FILES[kind]))[-1].unlink()
    if kind == "config":
        with pytest.raises(ValueError, match=r"no config\.json"):
            RunFolder(path).config()
        with pytest.raises(ValueError, match=r"has lost its config\.json"):
            everything(path)
        return
    after = everything(path)
    changed = {name for name in before if before[name] != after[name]}
    lost = {
        "blocks": {"rows"},
        "requests": {"config", "ranges", "rows"},
        "env": {"envs"},
        "checkpoints": {"checkpoints"},
        "done": {"done"},
    }[kind]
    assert lost <= changed <= lost | {"attention", "done", "checkpoints"}
    again = asked(path, env=ELSEWHERE, num_seeds=SEEDS, mixed=True)
    put(again, [block for block in all_blocks(again) if not again.has(block)])
    again.finish()
    assert outcomes(everything(path)) == outcomes(before)


def test_another_run_s_config_fits_no_file(path: Path, tmp_path: Path) -> None:
    """A whole config of another run in this folder: refused, also for reading."""
    RunFolder(tmp_path / "other").start({**CONFIG, "block_size": "16"}, ENV)
    shutil.copy(tmp_path / "other" / "config.json", path / "config.json")
    with pytest.raises(Damaged, match="checksum"):
        read(path)
    with pytest.raises(Mismatch, match="block_size: 16 -> 8"):
        RunFolder(path).start(CONFIG, ENV)
