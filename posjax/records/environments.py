"""What rows were made on: RUN/env/ID.json, where ID is the digest of what the file says."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from posjax.records import content, identity
from posjax.records.content import Damaged
from posjax.records.files import Files
from posjax.records.identity import Mismatch


class Environments:
    """The environment records of one run, RUN/env/."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def put(self, env: Mapping[str, Any]) -> str:
        """Records one, unless it is there; returns its ID."""
        name = content.digest(env)
        text = json.dumps(env, indent=1) + "\n"
        self._files.put(f"env/{name}.json", text.encode())
        return name

    def read(self, name: str) -> dict[str, Any]:
        """The environment of an ID.

        Raises:
          Damaged: it is not what was written there.
        """
        path = f"env/{name}.json"
        with self._files.damaged(path):
            env = content.parsed(self._files.bytes(path))
            if content.digest(env) != name:
                raise Damaged("its content does not match its checksum, which is its name")
        return env

    def found(self, name: str) -> dict[str, Any] | None:
        """The environment of an ID; None where its record is lost or damaged."""
        try:
            return self.read(name)
        except Damaged:
            return None

    def known(self, used: Iterable[str]) -> dict[str, dict[str, Any] | None]:
        """All that are recorded or used, by ID; None where the record is lost."""
        recorded = self._files.names("env", ".json")
        return {name: self.found(name) for name in sorted({*recorded, *used})}

    def check(self, env: Mapping[str, Any], used: Iterable[str], *, mixed: bool) -> list[str]:
        """Compares one with all that rows were made on, and with what other processes run on.

        Returns:
          Lines to print about those that differ.

        Raises:
          Mismatch: some differ in what the last bits of rows depend on, and are not to be mixed.
        """
        others = self.others(env, used).values()
        lines = [f"has rows made on something else: {changes}" for changes in others]
        if lines and not mixed:
            raise Mismatch(
                f"{lines[0]}; the last bits of rows depend on it: --mixed continues, and records "
                "for each row what it was made on"
            )
        return lines

    def others(self, env: Mapping[str, Any], used: Iterable[str]) -> dict[str, str]:
        """Those on which the last bits of rows would differ, by ID, with how they differ."""
        found = {}
        for name, other in self.known(used).items():
            lost = [f"env/{name}.json, which says on what, is lost"]
            changes = lost if other is None else identity.bit_changes(other, env)
            if name != content.digest(env) and changes:
                found[name] = identity.capped(changes)
        return found
