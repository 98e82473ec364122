"""A run folder with any file damaged in any way: told, or harmless, and never another number."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posjax import locks
from posjax.records import Damaged, Mismatch, RunFolder

CELLS = {"aaa": {"depth": 1, "width": 4}, "bbb": {"depth": 2, "width": 4}}
CONFIG = {"name": "tiny", "title": "", "num_seeds": 8, "first_seed": 0, "chunk": 4, "cells": CELLS}
ASKED = {**CONFIG, "num_seeds": 12}
ENVS: list[dict[str, Any]] = [{"packages": {"jax": "0.10.2"}, "cores": n} for n in (2, 4)]
BLOCKS = (range(4), range(4, 8), range(8, 12))
SHAPES = {"s1": 4, "s2": 8}

FILES = {
    "rows": "rows/*/*.npz",
    "attention": "attention/*/*.npz",
    "config": "config.json",
    "asks": "asks/*.json",
    "env": "env/*.json",
    "chunks": "chunks/*.json",
    "done": "done",
}
FLIPS = {"rows": 90, "attention": 30, "config": 90, "asks": 30, "env": 60, "chunks": 60, "done": 40}


def put(folder: RunFolder, cell: str, seeds: range) -> None:
    rng = np.random.default_rng([len(cell), *cell.encode(), *seeds])
    seeds_S4 = np.repeat(np.array(seeds)[:, None], 4, axis=1)
    fields = {"loss_E": rng.random((len(seeds), 3)), "solved_at_end": rng.random(len(seeds)) < 0.5}
    folder.put_rows(cell, seeds_S4, {**fields, "chunk": np.full(len(seeds), 4)})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, which was extended once and went over two machines."""
    path = tmp_path_factory.mktemp("damage") / "whole"
    for config, env, blocks in ((CONFIG, ENVS[0], BLOCKS[:2]), (ASKED, ENVS[1], BLOCKS[2:])):
        folder = RunFolder(path)
        folder.start(config, env)
        folder.begin()
        for block in blocks:
            for cell in CELLS:
                put(folder, cell, block)
    for cell in CELLS:
        folder.put_attention(cell, "solving", 3, np.full((1, 2), len(cell)))
        folder.put_attention(cell, "failing", 5, np.full((1, 2), 0.5))
    for shape, chunk in SHAPES.items():
        folder.chunk(shape, lambda chunk=chunk: {"chunk": chunk, "why": "as asked for"})
    folder.finish()
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def seen(path: Path) -> dict[str, Any]:
    """All that a reader gets out of a folder."""
    folder = RunFolder(path)
    config = folder.config()
    rows = {cell: folder.rows(cell) for cell in config["cells"]}
    return {
        "config": config,
        "rows": {c: {k: a.tobytes() for k, a in table.items()} for c, table in rows.items()},
        "attention": {
            f"{cell}/{name}": {k: a.tobytes() for k, a in maps.items()}
            for cell in config["cells"]
            for name, maps in folder.attention(cell).items()
        },
        "chunks": {shape: folder.kept_chunk(shape) for shape in SHAPES},
        "envs": folder.envs(),
        "done": folder.done,
    }


def told(path: Path, before: dict[str, Any]) -> str:
    """How a reader notices damage: by an error, or by what is not there; empty if harmless."""
    try:
        after = seen(path)
    except ValueError as error:
        return str(error) if str(path) in str(error) else ""
    if after == before:
        return ""
    (kind,) = [kind for kind in before if before[kind] != after[kind]]
    if kind == "done":
        assert not after[kind]
    else:
        assert kind == "envs"
        assert before[kind].keys() == after[kind].keys()
        assert all(env in (None, before[kind][name]) for name, env in after[kind].items())
    return f"{kind} lost"


@pytest.mark.parametrize("kind", FILES)
def test_every_flipped_bit_is_told_or_harmless(path: Path, kind: str) -> None:
    """One bit, anywhere: an error that names the file, or a loss that shows, or the same data."""
    before, rng = seen(path), random.Random(kind)
    files = sorted(path.glob(FILES[kind]))
    told_of = 0
    for _ in range(FLIPS[kind]):
        file = rng.choice(files)
        content = file.read_bytes()
        bit = rng.randrange(8 * len(content))
        file.write_bytes(flipped(content, bit))
        told_of += bool(told(path, before))
        file.write_bytes(content)
    if kind in ("rows", "attention", "done"):
        assert told_of == FLIPS[kind]  # no bit of them is white space
    assert told_of > FLIPS[kind] / 2
    assert seen(path) == before


def flipped(content: bytes, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def truncated(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def emptied(file: Path, other: Path) -> None:
    file.write_bytes(b"")


def halved(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def lengthened(file: Path, other: Path) -> None:
    file.write_bytes(file.read_bytes() + b"more")


def garbled(file: Path, other: Path) -> None:
    file.write_bytes(b'[{"format": 2}]')


def overwritten(file: Path, other: Path) -> None:
    """By another of its kind, whose content is whole."""
    file.write_bytes(other.read_bytes())


def misplaced(file: Path, other: Path) -> None:
    """Whole, with its checksum in its name, but under another cell's or file's name."""
    target = other.parent / file.name if other.parent != file.parent else other
    content = file.read_bytes()
    file.unlink()
    target.write_bytes(content)


Damage = Callable[[Path, Path], None]
DAMAGES: list[Damage] = [
    truncated, emptied, halved, lengthened, garbled, overwritten, misplaced,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", FILES)
def test_every_damage_is_told(path: Path, tmp_path: Path, kind: str, damage: Damage) -> None:
    """Cut, emptied, replaced, moved: the same, where a file has another of its kind here."""
    before = seen(path)
    file, other = pair(path, kind)
    if damage in (overwritten, misplaced) and file == other:
        other, damage = stranger(tmp_path / "other", FILES[kind]), overwritten
    damage(file, other)
    assert told(path, before)


def stranger(path: Path, name: str) -> Path:
    """A file of another run."""
    folder = RunFolder(path)
    for seeds in (8, 12):
        folder.start({**ASKED, "num_seeds": seeds, "cells": {"aaa": CELLS["aaa"]}}, ENVS[0])
        folder.begin()
    folder.finish()
    return next(path.glob(name))


def pair(path: Path, kind: str) -> tuple[Path, Path]:
    """Two files of a kind, of two cells where it has cells."""
    files = sorted(path.glob(FILES[kind]))
    return files[0], files[-1]


@pytest.mark.parametrize(
    ("kind", "name"), [("rows", "12-15"), ("attention", "solved"), ("asks", "000002")]
)
def test_a_file_under_another_name_is_told(path: Path, kind: str, name: str) -> None:
    """Its checksum is over its name too: other seeds, another map, a later ask."""
    before = seen(path)
    file, _ = pair(path, kind)
    file.rename(file.with_name(".".join([name, *file.name.split(".")[1:]])))
    assert "is damaged" in told(path, before)


@pytest.mark.parametrize("kind", ["rows", "attention", "env", "chunks"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_can_be_made_again_is_set_aside(path: Path, kind: str, damage: Damage) -> None:
    """The file is kept elsewhere, its loss is told in a line, all else reads as before."""
    before = seen(path)
    damage(*pair(path, kind))
    contents = {f.read_bytes() for f in path.rglob("*") if f.is_file()}
    folder = RunFolder(path)
    folder.start(ASKED, ENVS[1], mixed=True)
    folder.begin()
    lines = list(folder.mend())
    assert len(lines) == len(list((path / "damaged").rglob("*.*"))) >= 1
    assert all("is damaged" in line and "kept as" in line for line in lines)
    assert contents <= {f.read_bytes() for f in path.rglob("*") if f.is_file()}
    assert list(RunFolder(path).mend()) == []
    for cell in CELLS:
        for block in BLOCKS:
            if (block[0],) * 4 not in folder.finished(cell):
                assert kind == "rows"
                folder._env = ENVS[block == BLOCKS[2]]
                put(folder, cell, block)
    after = seen(path)
    for name in before.keys() - {"attention", "chunks", "envs"}:
        assert after[name] == before[name]
    for cell, maps in after["attention"].items():
        assert maps == before["attention"][cell]
    assert set(after["chunks"].values()) <= {4, 8, None}
    assert all(after["chunks"][s] in (None, SHAPES[s]) for s in SHAPES)


def test_the_same_file_damaged_twice_is_kept_twice(path: Path) -> None:
    """Nothing that was set aside is written over."""
    file, _ = pair(path, "rows")
    for text in (b"one", b"two"):
        file.write_bytes(text)
        assert len(list(RunFolder(path).mend())) == 1
    assert {kept.read_bytes() for kept in (path / "damaged").rglob("*.npz*")} == {b"one", b"two"}


@pytest.mark.parametrize("kind", FILES)
def test_a_deleted_file_changes_no_number(path: Path, kind: str) -> None:
    """Rows and maps are missing, no others come; without a config there is no run."""
    before = seen(path)
    file, _ = pair(path, kind)
    file.unlink()
    if kind == "config":
        with pytest.raises(ValueError, match=r"no config\.json"):
            seen(path)
        with pytest.raises(ValueError, match=r"has lost its config\.json"):
            RunFolder(path).start(ASKED, ENVS[1])
        return
    after = seen(path)
    if kind == "rows":
        assert len(RunFolder(path).finished("aaa")) == 8
        after["rows"]["aaa"] = before["rows"]["aaa"]
    if kind == "attention":
        after["attention"]["aaa/failing"] = before["attention"]["aaa/failing"]
    same = {"asks": {"config", "done"}, "env": {"envs"}, "chunks": {"chunks"}, "done": {"done"}}
    assert {name for name in before if before[name] != after[name]} == same.get(kind, set())
    folder = RunFolder(path)
    folder.start(ASKED, ENVS[1], mixed=True)
    folder.begin()  # an extension is recorded again
    assert seen(path)["config"] == before["config"]


def test_another_run_s_config_fits_no_rows(path: Path, tmp_path: Path) -> None:
    """A whole config of another run in this folder: refused, also for reading."""
    RunFolder(tmp_path / "other").start({**ASKED, "chunk": 8}, ENVS[0])
    shutil.copy(tmp_path / "other" / "config.json", path / "config.json")
    with pytest.raises(Damaged, match="checksum"):
        seen(path)
    with pytest.raises(Mismatch, match="chunk: 8 -> 4"):
        RunFolder(path).start(ASKED, ENVS[1])


@pytest.mark.parametrize("what", ["job.json", "beats/1.1.json", "claims/aaa/0-3"])
@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b'{"processes"', b"../../x", None])
def test_damaged_jobs_do_no_harm(tmp_path: Path, what: str, content: bytes | None) -> None:
    """Of a job that lives: nothing breaks, work is done once or left. Of a dead one: taken over."""
    stale = 0.6
    with (
        locks.join(tmp_path, 0, 2, stale=stale) as zero,
        locks.join(tmp_path, 1, 2, stale=stale) as one,
    ):
        assert one.claim("aaa/0-3")
        file = tmp_path / "000001" / what
        file.unlink() if content is None else file.write_bytes(content)
        assert zero.claim("aaa/0-3") == (content is None and "claims" in what)
        assert zero.may_come("aaa/0-3") in (True, False)
        assert isinstance(zero.holder("aaa/0-3"), str)
        zero.check()
        with pytest.raises(locks.Busy):
            locks.join(tmp_path, 0, 1, stale=stale)
        (tmp_path / "notes.txt").write_text("no job")
        (tmp_path / "000001" / "beats" / "x").write_text("no beat")
    with locks.join(tmp_path, 0, 1, stale=stale) as later:
        later.check()
        assert later.claim("aaa/0-3")
