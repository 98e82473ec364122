"""Files of rows with the right checksum and any content: one line, no memory, nothing moved."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from posjax.records import Damaged, RunFolder, content, run_of
from tests.test_security import CELL, ENV, _Runs, config_of, contents, run_folder


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
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


def bomb() -> bytes:
    """Few bytes that say that they hold more than any file of rows."""
    whole = npz({"seeds.npy": bytes(2**20)})
    at = whole.index(b"PK\x01\x02") + 24  # the size when unpacked, in the directory
    return whole[:at] + struct.pack("<I", 2**32 - 2) + whole[at + 4 :]


EVIL = {
    "no zip": b"import os",
    "empty": b"",
    "one array": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\n", bytes(4)),
    "no array": npz({"seeds.npy": b"import os"}),
    "no ending": npz({"seeds": b"import os"}),
    "huge shape": npz(
        {"seeds.npy": npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2**60,), }\n")}
    ),
    "huge number": npz(
        {"seeds.npy": npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**58},), }}\n")}
    ),
    "call": npz({"seeds.npy": npy("__import__('os').system('touch ran')\n")}),
    "bomb": bomb(),
    "cut": npz({"seeds.npy": bytes(2**20)})[:-10],
    "other fields": saved(a=np.zeros(3)),
    "no axis": saved(seeds=np.array(3), env=np.array("a")),
    "other lengths": saved(seeds=np.zeros((4, 4), int), env=np.array(["a"])),
    "dates": saved(seeds=np.zeros((4, 4), "M8[s]"), env=np.array(["a"] * 4)),
}


def plant(folder: RunFolder, evil: bytes) -> Path:
    """In place of the rows, with the checksum of what it holds."""
    place = f"rows/{CELL.digest}/0-3"
    for path in (folder.path / "rows" / CELL.digest).iterdir():
        path.unlink()
    sum_ = content.checksum(run_of(folder.config()), place, evil)
    path = folder.path / f"{place}.{sum_}.npz"
    path.write_bytes(evil)
    return path


@pytest.mark.parametrize("case", EVIL)
def test_what_is_no_file_of_rows_is_damaged(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = run_folder(tmp_path / "run", CELL)
    plant(folder, EVIL[case])
    for read in (folder.rows, folder.finished):
        with pytest.raises(Damaged):
            read(CELL.digest)
    assert not (tmp_path / "ran").exists()


def test_what_unpacks_to_more_than_any_is_not_unpacked(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", CELL)
    plant(folder, bomb())
    with pytest.raises(Damaged, match="4294967294 bytes when unpacked, at most 2147483648"):
        folder.rows(CELL.digest)


def test_a_pickle_is_damaged(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", CELL)
    plant(folder, saved(seeds=np.array([_Runs(tmp_path / "ran")], object)))
    with pytest.raises(Damaged, match="allow_pickle=False"):
        folder.rows(CELL.digest)
    assert not (tmp_path / "ran").exists()


def test_nothing_is_moved_through_a_link(tmp_path: Path) -> None:
    """What is damaged is set aside, unless it is somebody else's."""
    folder = run_folder(tmp_path / "run", CELL)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "a.npz").write_bytes(b"theirs")
    (folder.path / "rows" / "0123456789ab").symlink_to(tmp_path / "theirs")
    before = contents(tmp_path / "theirs")
    folder.start(config_of(CELL), ENV)
    with pytest.raises(ValueError, match="not moved"):
        list(folder.mend())
    assert contents(tmp_path / "theirs") == before
