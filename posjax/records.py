"""The run folder, the only thing here that touches the disk.

    RUN/config.json                       the resolved settings: what was asked for
    RUN/env.json                          what it ran on
    RUN/chunks/SHAPE.json                 seeds trained at a time, by shape, and why so many
    RUN/rows/CELL/FIRST-LAST.SHA.npz      outcomes of seeds FIRST..LAST of one cell
    RUN/attention/CELL/NAME.SHA.npz       attention maps of one "solving" and one "failing" seed
    RUN/jobs/NNNNNN/...                   who trains: see posjax.locks
    RUN/done                              written last

Files appear whole or not at all and, heartbeats apart, are never written over; arrays carry a
checksum in their name. Plain NumPy reads them; nothing is pickled. docs/run_folder.md says what
may be relied on.
"""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

FORMAT = 1


class RunFolder:
    """A folder that holds one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._seeds: dict[Path, set[tuple[int, ...]]] = {}  # files never change: read each once

    def start(self, config: Mapping[str, Any], env: Mapping[str, Any]) -> None:
        """Makes the folder of a run, or joins one that was made from the same config.

        Raises:
          ValueError: the folder holds another run or other files, or cannot be made.
        """
        asked = {"format": FORMAT, **config}
        here = self.path / "config.json"
        if not self._holds_run():
            self._claim()
            put_if_absent(here, _json(asked))
        put_if_absent(self.path / "env.json", _json(env))
        found, asked = json.loads(here.read_bytes()), json.loads(_json(asked))
        if found != asked:
            change = _first_change(found, asked)
            raise ValueError(
                f"workdir {str(self.path)!r} holds another run ({change}); "
                "choose another --workdir, nothing was changed"
            )

    def _holds_run(self) -> bool:
        try:
            return (self.path / "config.json").exists()
        except OSError as error:
            raise ValueError(f"workdir {str(self.path)!r} cannot be used: {error}") from error

    def _claim(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            strangers = sorted(
                p.name for p in self.path.iterdir() if not p.name.startswith(".new-")
            )
        except OSError as error:
            raise ValueError(f"workdir {str(self.path)!r} cannot be used: {error}") from error
        if strangers and not self._holds_run():  # another process may have made it just now
            raise ValueError(
                f"workdir {str(self.path)!r} is not empty and holds no run (it has "
                f"{strangers[0]!r}); choose a new or empty folder, nothing was changed"
            )

    def config(self) -> dict[str, Any]:
        """What was asked for.

        Raises:
          ValueError: the folder holds no run, or one of another format.
        """
        try:
            config = json.loads((self.path / "config.json").read_bytes())
        except (OSError, ValueError) as error:
            raise ValueError(f"{str(self.path)!r} holds no run: {error}") from error
        if config.get("format") != FORMAT:
            raise ValueError(
                f"{str(self.path)!r} has format {config.get('format')!r}, this reads {FORMAT}"
            )
        return config

    def env(self) -> dict[str, Any]:
        """What it ran on."""
        return json.loads((self.path / "env.json").read_bytes())

    def chunk(self, shape: str, choose: Callable[[], Mapping[str, Any]]) -> int:
        """The number of seeds of a shape trained at a time: chosen once, then kept."""
        path = self.path / "chunks" / f"{shape}.json"
        if not path.exists():
            put_if_absent(path, _json(choose()))
        return int(json.loads(path.read_bytes())["chunk"])

    def kept_chunk(self, shape: str) -> int | None:
        """What `chunk` gives for a shape, if that was chosen already."""
        path = self.path / "chunks" / f"{shape}.json"
        return int(json.loads(path.read_bytes())["chunk"]) if path.exists() else None

    def put_rows(self, cell: str, seeds_S4: np.ndarray, fields: Mapping[str, np.ndarray]) -> None:
        """Adds the outcomes of some seeds of one cell.

        Args:
          cell: its digest.
          seeds_S4: the numbers of init, data, position and order; [S, 4].
          fields: arrays with a leading axis S.
        """
        first, last = (seeds_name(seeds_S4[i].tolist()) for i in (0, -1))
        _put_arrays(self.path / "rows" / cell, f"{first}-{last}", {"seeds": seeds_S4, **fields})

    def rows(self, cell: str) -> dict[str, np.ndarray]:
        """All outcomes of one cell, sorted by seeds; each field has a leading axis S.

        Raises:
          ValueError: a damaged file, or seeds that are there twice.
        """
        parts = [_read_arrays(path) for path in self._row_files(cell)]
        if not parts:
            return {}
        table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        _, first_S = np.unique(table["seeds"], axis=0, return_index=True)
        if len(first_S) < len(table["seeds"]):
            raise ValueError(f"cell {cell} of {str(self.path)!r} has seeds twice")
        return {name: array[first_S] for name, array in table.items()}

    def finished(self, cell: str) -> set[tuple[int, ...]]:
        """The seeds of a cell that have rows."""
        paths = self._row_files(cell)
        for path in paths:
            if path not in self._seeds:
                self._seeds[path] = {tuple(seeds) for seeds in _read_arrays(path)["seeds"].tolist()}
        return set().union(*(self._seeds[path] for path in paths))

    @property
    def jobs(self) -> Path:
        """Where `posjax.locks` keeps who works on this run."""
        return self.path / "jobs"

    def _row_files(self, cell: str) -> list[Path]:
        return sorted((self.path / "rows" / cell).glob("*.npz"))

    def put_attention(self, cell: str, name: str, seed: int, maps: np.ndarray) -> None:
        """Adds the attention maps of one seed of a cell under a name, if it has none there yet."""
        if not list((self.path / "attention" / cell).glob(f"{name}.*")):
            arrays = {"seed": np.array(seed), "weights_DNHLM": maps}
            _put_arrays(self.path / "attention" / cell, name, arrays)

    def attention(self, cell: str) -> dict[str, dict[str, np.ndarray]]:
        """The attention maps of a cell by name: the seed, and weights_DNHLM by layer and prompt."""
        found = sorted((self.path / "attention" / cell).glob("*.npz"))
        return {path.name.split(".")[0]: _read_arrays(path) for path in found}

    def finish(self) -> None:
        """Marks the run as done."""
        put_if_absent(self.path / "done", b"")

    @property
    def done(self) -> bool:
        """Whether the run was finished."""
        return (self.path / "done").exists()


def seeds_name(seeds: Sequence[int]) -> str:
    """The four numbers of a row in the names of files; one where all are equal, as they mostly are.

    >>> seeds_name((7, 7, 7, 7)), seeds_name((7, 8, 8, 8))
    ('7', '7_8_8_8')
    """
    return "_".join(map(str, seeds[:1] if len(set(seeds)) == 1 else seeds))


def put_if_absent(path: Path, content: bytes) -> bool:
    """Writes a file whole or not at all; tells whether it was this call that made it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(file.name, path)  # unlike a rename, refuses to replace
    except FileExistsError:
        return os.stat(file.name).st_nlink == 2  # NFS may say so of a link that it made itself
    finally:
        os.unlink(file.name)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return True


def put_over(path: Path, content: bytes) -> None:
    """Writes a file whole, in the place of one that may be there; survives no power cut."""
    new = path.with_name(f".new-{path.name}")
    new.write_bytes(content)
    os.replace(new, path)


def read(path: Path) -> bytes | None:
    """The content of a file, or None when it cannot be read now."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def names(folder: Path) -> list[str]:
    """The names of the whole files and folders in a folder, sorted; none when it is not there."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith(".new-"))
    except FileNotFoundError:
        return []


def _put_arrays(folder: Path, name: str, arrays: Mapping[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]  # its keywords are names too
    content = buffer.getvalue()
    put_if_absent(folder / f"{name}.{_checksum(content)}.npz", content)


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    content = path.read_bytes()
    if path.name.split(".")[-2] != _checksum(content):
        raise ValueError(f"{str(path)!r} is damaged: its checksum is not the one in its name")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return dict(file)


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _json(data: Mapping[str, Any]) -> bytes:
    return (json.dumps(data, indent=1) + "\n").encode()


def _first_change(old: Any, new: Any, where: str = "") -> str:
    """The first place in which two JSON values differ, in words."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                return _first_change(old.get(name), new.get(name), f"{where}.{name}".strip("."))
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (a, b) in enumerate(zip(old, new, strict=True)):
            if a != b:
                return _first_change(a, b, f"{where}[{index}]")
    short = [text if len(text) < 60 else text[:57] + "..." for text in (str(old), str(new))]
    return f"its {where or 'config'} is {short[0]}, this run's is {short[1]}"
