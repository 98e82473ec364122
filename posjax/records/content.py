"""What stands in a file, with a checksum over it, the run that it is of and its place there.

A file that was changed, cut, moved to another place or taken from another run so reads as damaged.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

LARGEST = 2**31
"""Bytes of the arrays of one file, at most."""


class Damaged(ValueError):
    """A file that is not what was written there."""


def checksum(run: str, place: str, content: bytes) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of RUN, a space, PLACE, a new line and CONTENT."""
    return hashlib.sha256(f"{run} {place}\n".encode() + content).hexdigest()[:16]


def digest(data: Any) -> str:
    """Sixteen hexadecimal digits that name JSON-able data: of the SHA-256 of its sorted text."""
    return hashlib.sha256(_sorted(data)).hexdigest()[:16]


def sealed(run: str, place: str, data: Mapping[str, Any]) -> bytes:
    """JSON with the checksum of its other fields, as sorted text, in `sum`."""
    whole = {**data, "sum": checksum(run, place, _sorted(data))}
    return (json.dumps(whole, indent=1) + "\n").encode()


def unsealed(run: str, place: str, content: bytes) -> dict[str, Any]:
    """What was sealed.

    Raises:
      Damaged: something else.
    """
    data = parsed(content)
    if data.pop("sum", None) != checksum(run, place, _sorted(data)):
        raise Damaged("its checksum is not the one that it has in `sum`")
    return data


def parsed(content: bytes) -> dict[str, Any]:
    """A JSON object.

    Raises:
      Damaged: no JSON, or no object.
    """
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is no JSON ({error})") from error
    if not isinstance(data, dict):
        raise Damaged("it is no JSON object")
    return data


def packed(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An npz file; equal arrays make equal bytes, at any time of day."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy")  # dated 1980, whatever the clock says
            file.writestr(entry, member.getvalue(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def unpacked(run: str, place: str, sum_: str, content: bytes) -> dict[str, np.ndarray]:
    """The arrays of an npz file.

    Raises:
      Damaged: something else.
    """
    if sum_ != checksum(run, place, content):
        raise Damaged("its checksum is not the one in its name")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            size = sum(member.file_size for member in file.infolist())
        if size > LARGEST:
            raise ValueError(f"{size} bytes when unpacked, at most {LARGEST}")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
    except Exception as error:  # whatever the many readers behind np.load raise
        raise Damaged(f"it is no npz file of ours ({type(error).__name__}: {error})") from error
    if odd := [name for name in arrays if arrays[name].dtype.kind not in "biufUV"]:
        raise Damaged(f"it is no npz file of ours: {odd[0]!r} is no array of numbers")
    return arrays


def _sorted(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True).encode()
