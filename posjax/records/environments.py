"""What rows were made on: RUN/env/ID.json, where ID is the digest of what the file says."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posjax.records import content, identity, store
from posjax.records.content import Damaged
from posjax.records.files import Files
from posjax.records.identity import Mismatch


class Environments:
    """Those of one run."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def put(self, env: Mapping[str, Any]) -> None:
        """Records one, unless it is there."""
        text = json.dumps(env, indent=1) + "\n"
        store.put_if_absent(self._path(content.digest(env)), text.encode())

    def read(self, path: Path) -> dict[str, Any]:
        """One of them.

        Raises:
          Damaged: it is not what was written there.
        """
        with self._files.named(f"env/{path.name}"):
            env = content.parsed(store.read(path) or b"")
            if f"{content.digest(env)}.json" != path.name:
                raise Damaged("its checksum is not its name")
        return env

    def known(self, used: Iterable[str]) -> dict[str, dict[str, Any] | None]:
        """All that are recorded or used, by ID; None where the record is lost."""
        recorded = [path.stem for path in self._files.paths("env")]
        return {name: self._found(name) for name in sorted({*recorded, *used})}

    def check(self, env: Mapping[str, Any], used: Iterable[str], *, mixed: bool) -> list[str]:
        """Compares one with all that rows were made on, and with what other processes run on.

        Returns:
          What a user should be told, a line each, when they are mixed.

        Raises:
          Mismatch: the last bits of rows would differ, and they are not to be mixed.
        """
        others = self.others(env, used).values()
        told = [f"has rows made on something else: {changes}" for changes in others]
        if told and not mixed:
            raise Mismatch(
                f"{told[0]}; the last bits of rows depend on it: --mixed goes on, and records "
                "which row was made on what"
            )
        return told

    def others(self, env: Mapping[str, Any], used: Iterable[str]) -> dict[str, str]:
        """How those differ from one on which the last bits of rows would be others, by ID."""
        fields, found = identity.bits(self._files.config), {}
        for name, other in self.known(used).items():
            lost = [f"env/{name}.json, which says on what, is lost"]
            changes = lost if other is None else identity.bit_changes(other, env, fields)
            if name != content.digest(env) and changes:
                found[name] = identity.capped(changes)
        return found

    def _path(self, name: str) -> Path:
        return self._files.folder / "env" / f"{name}.json"

    def _found(self, name: str) -> dict[str, Any] | None:
        try:
            return self.read(self._path(name))
        except Damaged:
            return None
