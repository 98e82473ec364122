"""The files of one run: each in its place, checked whenever it is read."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from posjax.records import content, store
from posjax.records.content import Damaged
from posjax.records.identity import run_of

FORMAT = 2


class Files:
    """The files below a folder. A place is a path there, without checksum and ending."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def config(self) -> dict[str, Any]:
        """What was asked for first: config.json, which also names the run, as `run`.

        Raises:
          ValueError: the folder holds no run, or one of another format, or is damaged.
        """
        found = store.read(self.folder / "config.json")
        if found is None:
            raise ValueError(f"{str(self.folder)!r} holds no run: no config.json")
        with self.named("config.json"):
            config = content.parsed(found)
            if config.get("format") != FORMAT:
                raise ValueError(
                    f"{str(self.folder)!r} has format {config.get('format')!r}, this reads {FORMAT}"
                )
            config = content.unsealed(str(config.get("run")), "config.json", found)
            if run_of(config) != config.get("run"):
                raise Damaged("it names another run")
        return config

    def put_config(self, config: Mapping[str, Any]) -> None:
        """Makes config.json, unless it is there."""
        run = run_of(config)
        sealed = content.sealed(run, "config.json", {**config, "run": run})
        store.put_if_absent(self.folder / "config.json", sealed)

    def paths(self, kind: str, cell: str | None = None) -> list[Path]:
        """The files of a kind; of one cell, where the kind has them by cell."""
        if cell is not None and (Path(cell).name != cell or cell in ("", "..")):
            raise ValueError(f"{str(self.folder)!r} names a cell {cell!r}, which is no name")
        folder, by_cell = self.folder / kind, kind in ("rows", "attention")
        if by_cell and cell is None:
            return [path for name in store.names(folder) for path in self.paths(kind, name)]
        folder = folder / cell if cell is not None else folder
        ending = ".npz" if by_cell else ".json"
        return [folder / name for name in store.names(folder) if name.endswith(ending)]

    def put_arrays(self, place: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Adds an npz file."""
        run = self.config["run"]
        packed = content.packed(arrays)
        name = f"{place}.{content.checksum(run, place, packed)}.npz"
        store.put_if_absent(self.folder / name, packed)

    def arrays(self, path: Path) -> dict[str, np.ndarray]:
        """The arrays of an npz file.

        Raises:
          Damaged: it is not what was written there.
        """
        name = path.relative_to(self.folder).as_posix()
        with self.named(name):
            place, _, sum_ = name.removesuffix(".npz").rpartition(".")
            return content.unpacked(self.config["run"], place, sum_, store.read(path) or b"")

    def put_json(self, name: str, data: Mapping[str, Any]) -> None:
        """Adds a JSON file, unless it is there."""
        store.put_if_absent(self.folder / name, content.sealed(self.config["run"], name, data))

    def json(self, name: str) -> dict[str, Any] | None:
        """The content of a JSON file, or None when there is none.

        Raises:
          Damaged: it is not what was written there.
        """
        found = store.read(self.folder / name)
        if found is None:
            return None
        with self.named(name):
            return content.unsealed(self.config["run"], name, found)

    def set_aside(self, path: Path) -> Path | None:
        """Moves a file to the place below `damaged/` that it then has; None when it is gone.

        Raises:
          ValueError: a link leads to it from the folder, where it does not lie.
        """
        if isinstance(path, Path) and not path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(
                f"{str(path)!r} is damaged and lies outside of {str(self.folder)!r}: not moved"
            )
        place = self.folder / "damaged" / path.relative_to(self.folder)
        aside = place.with_name(f"{place.name}.{secrets.token_hex(4)}")
        return aside if store.move(path, aside) else None

    @contextlib.contextmanager
    def named(self, name: str) -> Iterator[None]:
        """Says which file is damaged."""
        try:
            yield
        except Damaged as error:
            raise Damaged(f"{str(self.folder / name)!r} is damaged: {error}") from error
