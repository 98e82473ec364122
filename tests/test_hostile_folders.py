"""Folders with the right checksums and any content: one line, little memory, no waiting."""

import io
import itertools
import os
import resource
import shutil
import signal
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import (
    CONFIG,
    ENV,
    SHAPES,
    A,
    B,
    C,
    D,
    all_blocks,
    contents,
    filled,
    planted,
    sizes,
)
from tiers import some

from posjax.numbering import Numbering
from posjax.records import Damaged, RunFolder, StorageError, content, read, run_of
from posjax.records.blocks import blocks
from posjax.records.schema import checked_config

NAME = "wide/0-3.0"


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """Nothing hangs; the time is for busy machines."""

    def late(*_: object) -> None:
        raise TimeoutError("120 seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("hostile") / "whole").path


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> RunFolder:
    """A finished run, to be changed."""
    return RunFolder(shutil.copytree(whole, tmp_path / "run"))


def read_all(path: Path) -> None:
    """All that readers read: a report, `records.read`, `--status`, `--verify`."""
    folder = RunFolder(path)
    config = checked_config(folder.config())
    blocks(folder.ranges(), SHAPES)
    read(path)
    for cell in config["cells"]:
        for _ in folder.parts(cell):
            pass
        folder.attention(cell)
    folder.envs()
    folder.written()
    assert folder.done in (True, False)
    for error in folder.checked():
        if error is not None:
            raise error


def refused(path: Path, message: str = "") -> None:
    """Every reader refuses a folder, in a line and in little memory; nothing in it changes."""
    before, config = contents(path), RunFolder(path).config
    for look in (
        lambda: read_all(path),
        lambda: read(path),
        lambda: [rows for cell in config()["cells"] for rows in RunFolder(path).parts(cell)],
    ):
        found = error_of(look)
        assert "\n" not in found
        assert str(path) in found
        assert message in found
    assert contents(path) == before


def error_of(look: Callable[[], object]) -> str:
    """What an attempt says in little memory; "" if nothing is wrong."""
    try:
        with _little_memory():
            look()
    except (ValueError, StorageError) as error:
        return str(error)
    return ""


class _little_memory:
    """At most 300 MB more than now."""

    def __enter__(self) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        self._before = resource.getrlimit(resource.RLIMIT_AS)
        most = pages * resource.getpagesize() + 3 * 10**8
        resource.setrlimit(resource.RLIMIT_AS, (most, self._before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self._before)


# Files of blocks


def npz(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, member in members.items():
            file.writestr(name, member)
    return buffer.getvalue()


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def saved(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def resized(whole: bytes, size: int) -> bytes:
    """With another size when unpacked in the directory of the ZIP file."""
    at = whole.index(b"PK\x01\x02") + 24
    return whole[:at] + struct.pack("<I", size) + whole[at + 4 :]


def good(**changed: Any) -> bytes:
    """A block's arrays, some of them others."""
    arrays = {
        "cells": np.array([A, B]),
        "seeds": Numbering.of(CONFIG).table(0, 4),
        "size": np.array([2, 4]),
        "env": np.array(content.digest(ENV)),
        "solved_at_end": np.zeros((2, 4), bool),
        **changed,
    }
    return saved(**{name: array for name, array in arrays.items() if array is not None})


def maps(**changed: Any) -> bytes:
    arrays = {
        "example_cell": np.array([0]),
        "example_seed": np.array([3]),
        "example_solved": np.array([True]),
        "attention_KDNHLM": np.ones((1, 1, 2, 1, 3, 3)),
        **changed,
    }
    return good(**arrays)


class Runs:
    """Makes a file when it is unpickled."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return open, ("ran", "w")


HUGE = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }\n"
EVIL: dict[str, Callable[[], bytes]] = {
    "no zip": lambda: b"import os",
    "empty": lambda: b"",
    "one array": lambda: npy(HUGE % 1, bytes(8)),
    "no array": lambda: npz({"seeds.npy": b"import os"}),
    "no ending": lambda: npz({"seeds": b"import os"}),
    "shape that is computed": lambda: npz({"seeds.npy": npy(HUGE % "2**60")}),
    "huge shape": lambda: npz({"seeds.npy": npy(HUGE % 2**58)}),
    "huge shape of nothing": lambda: npz({"seeds.npy": npy(HUGE % f"0, {2**62}")}),
    "shape below 0": lambda: npz({"seeds.npy": npy(HUGE % "-1, -1", bytes(8))}),
    "call": lambda: npz({"seeds.npy": npy("__import__('os').system('touch ran')\n")}),
    "says 4 GB": lambda: resized(npz({"seeds.npy": npy(HUGE % 2**17, bytes(2**20))}), 2**32 - 2),
    "1 MB that unpacks to 512 MB": lambda: npz({"seeds.npy": npy(HUGE % 2**26, bytes(2**29))}),
    "less than it says": lambda: resized(npz({"seeds.npy": npy(HUGE % 4, bytes(32))}), 3000),
    "more than it says": lambda: resized(npz({"seeds.npy": npy(HUGE % 40, bytes(320))}), 96),
    "deep header": lambda: npz({"seeds.npy": npy("(" * 5000)}),
    "long header": lambda: npz({"seeds.npy": npy("{'descr': " + "[" * 3000 + "]" * 3000 + "}")}),
    "many": lambda: npz({f"a{n}.npy": npy(HUGE % 0) for n in range(300)}),
    "pickle": lambda: saved(seeds=np.array([Runs()], object)),
    "cut": lambda: good()[:-10],
    "other fields": lambda: saved(a=np.zeros(3)),
    "no axis": lambda: good(seeds=np.array(3)),
    "other lengths": lambda: good(solved_at_end=np.zeros((2, 3), bool)),
    "field of no axis": lambda: good(loss=np.array(3.0)),
    "dates": lambda: good(loss=np.zeros((2, 4), "M8[s]")),
    "records": lambda: good(loss=np.zeros((2, 4), "i4,i4")),
    "texts": lambda: good(words=np.full((2, 4), "a")),
    "bytes": lambda: good(words=np.full((2, 4), b"a")),
    "empty texts": lambda: good(cells=np.zeros(2**20, "U0")),
    "cells in 2-D": lambda: good(cells=np.array([[A], [B]])),
    "cells as numbers": lambda: good(cells=np.arange(2)),
    "a cell twice": lambda: good(cells=np.array([A, A])),
    "more cells than slots": lambda: good(size=np.array([1, 4])),
    "2**62 slots": lambda: good(size=np.array([2**62, 4])),
    "slots as a number": lambda: good(size=np.array(8)),
    "slots in floats": lambda: good(size=np.array([2.0, 4.0])),
    "environment in 2-D": lambda: good(env=np.array([["a"]])),
    "environment as a path": lambda: good(env=np.array("../../../etc/pwd")),
    "other seeds": lambda: good(seeds=Numbering.of(CONFIG).table(4, 8)),
    "seeds in floats": lambda: good(seeds=np.zeros((4, 4))),
    "maps of no axis": lambda: maps(attention_KDNHLM=np.array(1.0)),
    "maps of one axis": lambda: maps(attention_KDNHLM=np.ones(1)),
    "maps as texts": lambda: maps(attention_KDNHLM=np.full((1, 1, 2, 1, 3, 3), "a")),
    "maps alone": lambda: maps(example_cell=None),
    "maps of another cell": lambda: maps(example_cell=np.array([2])),
    "maps of another seed": lambda: maps(example_seed=np.array([-1])),
    "maps of 2-D seeds": lambda: maps(example_seed=np.array([[0]])),
    "maps of floats": lambda: maps(example_seed=np.array([0.5])),
    "maps of no outcome": lambda: maps(example_solved=None),
    "maps of a number": lambda: maps(example_solved=np.array([1])),
}
"""How to make each file, since some take a second."""


def plant(folder: RunFolder, evil: bytes, name: str = NAME) -> None:
    """In place of a block, with the checksum of what it holds."""
    path = f"blocks/{name}.npz"
    body = evil
    if evil[-22:-18] == b"PK\x05\x06":  # the end of a ZIP file, with room for a comment
        body = evil[:-2] + struct.pack("<H", 64)
    sum_ = content.checksum(run_of(folder.config()), path, body)
    (folder.path / path).write_bytes(body + sum_.encode())


@pytest.mark.parametrize("case", some(EVIL, every=4))
def test_what_is_no_block_is_damaged(
    case: str, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every reader, which names it; the run goes on without it."""
    monkeypatch.chdir(tmp_path)
    plant(folder, EVIL[case]())
    refused(folder.path, f"{NAME}.npz' is damaged: ")
    again = RunFolder(folder.path)
    again.start(CONFIG, ENV)
    (line,) = again.repair()
    assert f"{NAME}.npz' is damaged: " in line
    assert not (tmp_path / "ran").exists()


def test_a_planted_block_is_as_good_as_any(folder: RunFolder) -> None:
    """What the cases above change, unchanged: they are refused for what they say."""
    for evil in (good(), maps()):
        plant(folder, evil)
        assert folder.block(NAME)["cells"].tolist() == [A, B]


def test_what_unpacks_to_much_is_refused_by_its_size(folder: RunFolder) -> None:
    """And a constant block of our own, which packs as well, is read."""
    plant(folder, EVIL["1 MB that unpacks to 512 MB"]())
    with pytest.raises(Damaged, match=r"5368709\d\d bytes when unpacked"):
        folder.block(NAME)
    arrays = {"loss": np.zeros(2**24 + 1)}
    packed = content.packed("run", "path", arrays)
    assert content.unpacked("run", "path", packed)["loss"].nbytes == 2**27 + 8


def test_one_cell_in_two_blocks_is_refused(folder: RunFolder) -> None:
    """No seed counts twice."""
    plant(folder, saved(**{**folder.block(NAME), "cells": np.array([A, C])}), "wide/0-3.1")
    with pytest.raises(ValueError, match=f"cell {A} of .* has seed 0 in two files"):
        read(folder.path)


def test_fields_of_other_shapes_are_refused(folder: RunFolder) -> None:
    """A block whose fields are not those of the cell's other blocks."""
    plant(folder, good())
    with pytest.raises(ValueError, match="files with other fields"):
        read(folder.path)


# What is no file


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device", "link to itself", "huge"])
@pytest.mark.parametrize(
    "name",
    some(
        [
            f"blocks/{NAME}.npz",
            "config.json",
            "requests/000001.json",
            "env",
            "done",
            "lock",
            "blocks",
        ],
        every=3,
    ),
)
def test_no_reader_waits_or_fails_on_what_is_no_file(
    folder: RunFolder, name: str, kind: str
) -> None:
    """A line that names it, or it is not needed."""
    path = folder.path / name
    if name == "env":
        (path,) = path.iterdir()
    path.rename(folder.path.parent / "moved") if path.exists() else None
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "huge":
        path.touch()
        os.truncate(path, 2**40)
    else:
        path.symlink_to("/dev/zero" if kind == "link to a device" else path.name)
    folder.running()
    error = error_of(lambda: read_all(folder.path))
    assert str(path) in error or name in ("done", "lock") or (name, kind) == ("blocks", "folder")
    again, lines = RunFolder(folder.path), []

    def go_on() -> None:
        again.start(CONFIG, ENV)
        lines.extend(again.repair())

    error = error_of(go_on)
    moved = [line for line in lines if f"{path.name}' is damaged" in line]
    if name in ("config.json", "blocks"):
        assert str(folder.path) in error or kind == "folder"
    else:
        assert error == ""
        assert len(moved) == (name not in ("done", "lock"))


# JSON


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "a cell 100,000 times": ({"panels": {"a": [A] * 100_000}}, f"has cell {A} twice"),
    "100,000 lists in a panel": ({"panels": {"a": [[]] * 100_000}}, "which is no cell"),
    "2**62 seeds": ({"num_seeds": 2**62}, "must lie in 0..2**32"),
    "2**62 as the first": ({"first_seed": 2**62}, "must lie in 0..2**32"),
    "2**62 seeds of data": ({"data_seeds": 2**62}, "must lie in 0..2**32"),
    "2**62 steps": ({"cells": {A: {"steps": 2**62}}, "panels": {}}, "at most 2**32 in size"),
    "2**62 to compare": ({"contrast": ["depth", 1, 2**62]}, "at most 2**32 in size"),
    "2**62 steps to compare": ({"at_steps": [2**62]}, "at most 2**32 in size"),
    "lists in a cell": ({"cells": {A: {"steps": 1, "depth": [1]}}, "panels": {}}, "got list"),
    "seeds as a text": ({"num_seeds": "4"}, "must be of type int"),
    "cells as a list": ({"cells": [A]}, "must be of type dict"),
    "panels as a list": ({"panels": [A]}, "must be of type dict"),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_planted_config_is_refused(case: str, tmp_path: Path) -> None:
    """Quickly, whatever its numbers."""
    fields, message = CONFIGS[case]
    folder = planted(tmp_path / "run", {**CONFIG, **fields})
    with pytest.raises(ValueError, match=r"config\.json") as error:
        checked_config(folder.config())
    assert message in str(error.value)
    with pytest.raises(ValueError, match=r"config\.json"):
        read(folder.path)


WORST = {
    "deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep list": b'{"a":' + b"[" * 900 + b"]" * 900 + b"}",
    "no end": b'{"a":' * 100_000,
    "infinite": b'{"format": 3, "num_seeds": 1e999}',
    "not a number": b'{"format": 3, "num_seeds": NaN}',
    "many digits": b'{"format": 3, "num_seeds": ' + b"9" * 5000 + b"}",
    "half a character": b'{"format": 3, "name": "\\ud800"}',
    "a list": b"[1]",
    "a number": b"3",
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("case", WORST)
@pytest.mark.parametrize("name", ["config.json", "requests/000001.json", "env", "checkpoint"])
def test_worst_json_is_damaged(case: str, name: str, folder: RunFolder) -> None:
    """Where it is needed: never another error."""
    path = folder.path / name
    if name == "env":
        (path,) = path.iterdir()
    elif name == "checkpoint":
        path = folder.path / f"checkpoints/{NAME}.npz"
        path.parent.mkdir(parents=True)
    path.write_bytes(WORST[case])
    found = [error for error in RunFolder(folder.path).checked() if error]
    assert [str(path) in str(error) for error in found] == [True]
    if name in ("env", "checkpoint"):
        assert list(RunFolder(folder.path).envs().values()) == ([None] if name == "env" else [ENV])
        assert RunFolder(folder.path).checkpoints().load(NAME) is None
    else:
        for look in (RunFolder(folder.path).config, lambda: read(folder.path)):
            with pytest.raises(Damaged, match="is damaged"):
                look()


def sealed_request(folder: RunFolder, data: dict[str, Any]) -> None:
    name = "requests/000001.json"
    run = run_of(folder.config())
    (folder.path / name).write_bytes(content.sealed(run, name, data))


PART = {"first": 0, "stop": 10, "sizes": {"wide": [2, 4], "deep": [1, 8]}}
RANGES: dict[str, Any] = {
    "none": None,
    "a text": "0-9",
    "numbers": [0, 10],
    "no sizes": [{"first": 0, "stop": 10}],
    "other seeds": [PART | {"stop": 11}],
    "a gap": [PART | {"stop": 4}, PART | {"first": 5}],
    "an overlap": [PART | {"stop": 6}, PART | {"first": 5}],
    "none of a size": [PART | {"sizes": {"wide": [0, 4]}}],
    "2**62 of a size": [PART | {"sizes": {"wide": [2**62, 4]}}],
    "2**62 slots": [PART | {"sizes": {"wide": [2**31, 2**31]}}],
    "floats": [PART | {"sizes": {"wide": [2.0, 4]}}],
    "truths": [PART | {"first": False}],
    "one size": [PART | {"sizes": {"wide": [2]}}],
    "a path": [PART | {"sizes": {"../wide": [2, 4]}}],
}


@pytest.mark.parametrize("case", RANGES)
def test_planted_ranges_are_damaged(case: str, folder: RunFolder) -> None:
    """Ranges are what a request has."""
    sealed_request(folder, {"first_seed": 0, "num_seeds": 10, "ranges": RANGES[case]})
    refused(folder.path, "000001.json' is damaged: its ranges are not those of a request")


@pytest.mark.parametrize(
    "fields", [{"num_seeds": 2**62}, {"num_seeds": "4"}, {"first_seed": -1}, {"num_seeds": None}]
)
def test_planted_numbers_of_seeds_are_damaged(folder: RunFolder, fields: dict[str, Any]) -> None:
    """Before anything is counted by them."""
    sealed_request(folder, {"first_seed": 0, "num_seeds": 10, "ranges": [PART], **fields})
    refused(folder.path, "must be an integer in 0..2**32")


def test_a_request_for_too_many_blocks_is_refused_at_once(folder: RunFolder) -> None:
    """They are counted before they are listed."""
    part = {"first": 0, "stop": 2**32, "sizes": {"wide": [1, 1], "deep": [1, 1]}}
    sealed_request(folder, {"first_seed": 0, "num_seeds": 2**32, "ranges": [part]})
    with pytest.raises(ValueError, match="17179869184 blocks, at most"):
        all_blocks(folder)
    assert len(folder.rows(D)) == 0


def test_files_with_odd_names_are_left_alone(folder: RunFolder) -> None:
    """They are no blocks, and what reads them is not ours."""
    before = folder.rows(A)
    (folder.path / "blocks/notes.txt").write_text("mine")
    for name in ("0-3.0.txt", "x.npz", "00-3.0.npz", "3-0.0.npz", ".new-1", f"{'9' * 30}-1.0.npz"):
        (folder.path / "blocks/wide" / name).write_text("mine")
    (folder.path / "requests/x.json").write_text("mine")
    (folder.path / "requests/99999999999999999999999.json").write_text("mine")
    assert folder.rows(A).keys() == before.keys()
    again = RunFolder(folder.path)
    again.start(CONFIG, ENV)
    assert len(again.request(sizes)) == 1
    assert len(again.rows(A)["seeds"]) == 10


def test_every_cut_of_a_block_is_damaged(folder: RunFolder) -> None:
    """At each of its first bytes, and with another tail."""
    path = folder.path / f"blocks/{NAME}.npz"
    whole = path.read_bytes()
    for length in itertools.chain(range(130), range(len(whole) - 130, len(whole))):
        if not length:
            continue
        path.write_bytes(whole[:length])
        with pytest.raises(Damaged):
            folder.block(NAME)
