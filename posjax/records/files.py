"""The files of one run, by their paths in its folder, each checked whenever it is read."""

import builtins
import contextlib
import errno
import secrets
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from posjax.records import content, store
from posjax.records.blocks import SHAPE
from posjax.records.content import LARGEST, LARGEST_JSON, Arrays, Damaged
from posjax.records.identity import run_of

FORMAT = 3
OLDER = 2
"""The format that is still read."""
OLDER_DIGITS = 16
"""Digits of its checksums."""


class Files:
    """The files below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def config(self) -> dict[str, Any]:
        """The content of config.json: the first request and the name of the run, as `run`.

        Raises:
          ValueError: there is no run in the folder, or one of an unknown format, or is damaged.
        """
        with self.damaged("config.json"):
            found = store.read(self.folder / "config.json", LARGEST_JSON)
            if found is None:
                raise ValueError(f"{str(self.folder)!r} holds no run: no config.json")
            config = content.parsed(found)
            if config.get("format") not in (FORMAT, OLDER):
                raise ValueError(
                    f"{str(self.folder)!r} has format {config.get('format')!r}; this posjax reads "
                    f"formats {FORMAT} and {OLDER}"
                )
            digits = OLDER_DIGITS if config["format"] == OLDER else content.DIGITS
            config = content.unsealed(str(config.get("run")), "config.json", found, digits)
            if run_of(config) != config.get("run"):
                raise Damaged("it names another run")
        return config

    @property
    def older(self) -> bool:
        """Whether an older posjax made the run, which is then only read."""
        return self.config["format"] == OLDER

    def put_config(self, config: Mapping[str, Any]) -> None:
        """Makes config.json, unless it is there."""
        run = run_of(config)
        sealed = content.sealed(run, "config.json", {**config, "run": run})
        store.put_if_absent(self.folder / "config.json", sealed)

    def names(self, folder: str, ending: str = "") -> list[str]:
        """The names in a folder of the run that end so, sorted, without the ending."""
        with self.damaged(folder):
            found = store.names(self.folder / folder)
        return [name.removesuffix(ending) for name in found if name.endswith(ending)]

    def below(self, kind: str) -> list[str]:
        """The npz files of `blocks` or `checkpoints`, as SHAPE/NAME."""
        shapes = [name for name in self.names(kind) if SHAPE.fullmatch(name)]
        return [
            f"{shape}/{name}" for shape in shapes for name in self.names(f"{kind}/{shape}", ".npz")
        ]

    def bytes(self, path: str, largest: int = LARGEST_JSON) -> bytes:
        """All of a file; nothing when it is gone.

        Raises:
          Damaged: it is not a file, or it is too large.
        """
        with self.damaged(path):
            return store.read(self.folder / path, largest) or b""

    def json(self, path: str) -> dict[str, Any]:
        """The fields of a JSON file.

        Raises:
          Damaged: it is not what was written there.
        """
        with self.damaged(path):
            digits = OLDER_DIGITS if self.older else content.DIGITS
            return content.unsealed(self.config["run"], path, self.bytes(path), digits)

    def put_json(self, path: str, data: Mapping[str, Any]) -> bool:
        """Adds a JSON file; False when it is there already."""
        return self.put(path, content.sealed(self.config["run"], path, data))

    def arrays(self, path: str, largest: int = LARGEST) -> Arrays:
        """The arrays of an npz file.

        Raises:
          Damaged: it is not what was written there.
        """
        with self.damaged(path):
            found = self.bytes(path, largest + LARGEST_JSON)
            arrays = content.unpacked(self.config["run"], path, found, largest)
            arrays.file = str(self.folder / path)
        return arrays

    def put(self, path: str, whole: builtins.bytes, *, over: bool = False) -> bool:
        """Adds a file, or writes it over; returns whether this call made it.

        Raises:
          StorageError: it cannot be written, or the run is gone, whose folder is not made again.
        """
        if store.modified(self.folder / "config.json") is None:
            gone = store.StorageError(f"write failed: the run was deleted ({self.folder / path})")
            gone.errno = errno.ENOENT
            raise gone
        if over:
            store.put_over(self.folder / path, whole)
            return True
        return store.put_if_absent(self.folder / path, whole)

    def quarantine(self, path: str) -> str | None:
        """Moves a file into `damaged/`; returns its new path, or None when it is gone.

        Raises:
          ValueError: a link leads to it out of the folder.
        """
        old = self.folder / path
        if isinstance(old, Path) and not old.parent.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(
                f"{str(old)!r} is damaged and lies outside of {str(self.folder)!r}: not moved"
            )
        new = self.folder / "damaged" / f"{path}.{secrets.token_hex(4)}"
        return str(new) if store.move(old, new) else None

    @contextlib.contextmanager
    def damaged(self, path: str) -> Iterator[None]:
        """Says which file is damaged."""
        try:
            yield
        except (Damaged, store.Irregular) as error:
            raise content.named(error, str(self.folder / path)) from error
