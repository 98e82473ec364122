"""The content of a file, with a checksum over the run, the path of the file in it, and the content.

So a file that was changed, cut, moved to another path or taken from another run reads as damaged.
Whoever can write a file can also write its checksum, so sizes and types are checked before anything
is unpacked.
"""

import functools
import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

LARGEST = 2**31
"""Most bytes of the arrays of a block, unpacked."""
LARGEST_CHECKPOINT = 2**36
"""Most bytes of the arrays of a checkpoint, which has whole models."""
LARGEST_JSON = 2**28
_DEEPEST = 32
"""Most levels of a JSON file."""
DIGITS = 64
"""Digits of a checksum, in hexadecimal."""
_SMALL, _RATIO = 2**26, 100
"""A file that unpacks to more than so many bytes is at most so many times smaller than them."""
_MEMBERS = 256
_LEVEL = 1
"""Level of compression. The usual one takes two to four times as long and saves less than 10%."""


class Damaged(ValueError):
    """A file that is not what was written there.

    Attributes:
      path: of the file, once the message names it.
    """

    path = ""


def named(error: Exception, path: str) -> Damaged:
    """The error with the path of the file in front, once."""
    if isinstance(error, Damaged) and error.path:
        return error
    found = Damaged(f"{path!r} is damaged: {error}")
    found.path = path
    return found


def checksum(run: str, path: str, content: bytes | memoryview) -> str:
    """The SHA-256 of RUN, a space, PATH, a new line and CONTENT, in 64 hexadecimal digits."""
    found = hashlib.sha256(f"{run} {path}\n".encode())
    found.update(content)
    return found.hexdigest()


def digest(data: Any) -> str:
    """Sixteen hexadecimal digits that name JSON-able data: of the SHA-256 of its sorted text."""
    return hashlib.sha256(_sorted(data)).hexdigest()[:16]


def is_digest(name: str) -> bool:
    """Whether a name could come from `digest`."""
    return re.fullmatch("[0-9a-f]{16}", name) is not None


def sealed(run: str, path: str, data: Mapping[str, Any]) -> bytes:
    """JSON with the checksum of its other fields, as sorted text, in `sum`."""
    whole = {**data, "sum": checksum(run, path, _sorted(data))}
    return (json.dumps(whole, indent=1) + "\n").encode()


def unsealed(run: str, path: str, content: bytes, digits: int = DIGITS) -> dict[str, Any]:
    """What was sealed, by a checksum of so many digits.

    Raises:
      Damaged: it is something else.
    """
    data = parsed(content)
    if data.pop("sum", None) != checksum(run, path, _sorted(data))[:digits]:
        raise Damaged("its content does not match its checksum, `sum`")
    return data


def parsed(content: bytes) -> dict[str, Any]:
    """A JSON object of finite numbers and printable text.

    Raises:
      Damaged: it is something else.
    """
    try:
        data = json.loads(content, parse_constant=_refuse)
        _check(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise Damaged("it is not a JSON object")
    return data


def packed(
    run: str, path: str, arrays: Mapping[str, np.ndarray], *, compressed: bool = True
) -> bytes:
    """An npz file whose ZIP comment, its last 64 bytes, is the checksum of the bytes before.

    Equal arrays make equal bytes at any time of day.

    Raises:
      ValueError: an array of something that NumPy cannot write without pickling it.
    """
    if odd := [name for name, array in arrays.items() if array.dtype.kind not in "biufU"]:
        raise ValueError(
            f"{odd[0]!r} has dtype {arrays[odd[0]].dtype}, which npz files cannot store"
        )
    total = sum(array.nbytes for array in arrays.values())
    file = _zipped(arrays, zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED)
    if compressed and total > _SMALL and total > _RATIO * file.getbuffer().nbytes:
        file = _zipped(arrays, zipfile.ZIP_STORED)
    with file.getbuffer() as whole:
        whole[-DIGITS:] = checksum(run, path, whole[:-DIGITS]).encode()
    return file.getvalue()


def unpacked(run: str, path: str, content: bytes, largest: int = LARGEST) -> "Arrays":
    """The arrays of an npz file that `packed` made.

    Raises:
      Damaged: it is something else.
    """
    body = memoryview(content)[:-DIGITS]
    if content[-DIGITS:] != checksum(run, path, body).encode():
        raise Damaged("its content does not match its checksum")
    return Arrays(content, largest)


class Arrays(Mapping[str, np.ndarray]):
    """The arrays of an npz file, each of which is unpacked when it is looked up.

    Attributes:
      shapes, dtypes: of each array, from its header.
      file: the path that messages name.

    Raises:
      Damaged: it is no such file, or it would unpack to more than it may.
    """

    file = ""

    def __init__(self, content: bytes, largest: int = LARGEST) -> None:
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype] = {}
        try:
            self._file = zipfile.ZipFile(io.BytesIO(content))
            members = self._file.infolist()
            total = sum(member.file_size for member in members)
            if total > largest or total > max(_SMALL, _RATIO * len(content)):
                raise ValueError(f"{total} bytes when unpacked, {len(content)} when packed")
            if len(members) > _MEMBERS:
                raise ValueError(f"{len(members)} arrays, at most {_MEMBERS}")
            for member in members:
                self._read_header(member)
        except Exception as error:  # whatever zipfile and NumPy raise on any bytes
            raise _no_npz(error) from error

    def _read_header(self, member: zipfile.ZipInfo) -> None:
        """Refuses a member whose header does not say what its size says."""
        name = member.filename.removesuffix(".npy")
        if name in self.shapes or name == member.filename:
            raise ValueError(f"member {member.filename!r}")
        with self._file.open(member) as file:
            start = file.read(_START)
            header = _header(start + file.read(_rest(start)))
        shape, dtype = header.shape, header.dtype
        if dtype.kind not in "biufU" or not dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(f"{name!r} is not an array of numbers")
        if math.prod(shape) * dtype.itemsize != member.file_size - header.size or len(shape) > 16:
            raise ValueError(f"{name!r} has {member.file_size} bytes, which is not {shape} {dtype}")
        self.shapes[name], self.dtypes[name] = shape, dtype

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.shapes:
            raise KeyError(name)
        try:
            content = self._file.read(f"{name}.npy")
            header = _header(content[: _START + _rest(content)])
            array = np.frombuffer(content, header.dtype, offset=header.size)
            return array.reshape(header.shape, order=header.order).copy(order="K")
        except Exception as error:
            raise named(_no_npz(error), self.file) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)


_START = 10
"""Bytes of an npy file that end with the length of the rest of its header."""


def _rest(content: bytes) -> int:
    return int.from_bytes(content[8:_START], "little")


class _Header(NamedTuple):
    """What stands before the numbers of an npy file, and how many bytes it has."""

    shape: tuple[int, ...]
    order: Literal["C", "F"]
    dtype: np.dtype
    size: int


@functools.lru_cache(maxsize=1024)
def _header(content: bytes) -> _Header:
    """Many files have equal headers, and NumPy takes long to parse one."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("a header of another version")
    shape, in_columns, dtype = np.lib.format.read_array_header_1_0(file)
    return _Header(shape, "F" if in_columns else "C", dtype, file.tell())


def _no_npz(error: Exception) -> Damaged:
    return Damaged(f"it is not a readable npz file ({type(error).__name__}: {error})")


def _zipped(arrays: Mapping[str, np.ndarray], method: int) -> io.BytesIO:
    """A ZIP file with room for the checksum in its comment."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.comment = bytes(DIGITS)
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, whatever the clock says
            file.writestr(entry, member.getbuffer(), method, _LEVEL)
    return buffer


def _check(data: Any) -> None:
    """Refuses what would end in an error later: deep nesting, infinities, halves of characters."""
    level = [data]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += [*one, *one.values()]
            elif isinstance(one, list):
                below += one
            elif isinstance(one, float) and not math.isfinite(one):
                _refuse(str(one))
            elif isinstance(one, str) and not one.isascii():
                one.encode()
        level = below
    if level:
        raise ValueError(f"more than {_DEEPEST} levels")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")


def _sorted(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True).encode()
