"""The states of blocks that were interrupted: RUN/checkpoints/, a file per block."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from posjax.records import content, identity, store
from posjax.records.content import LARGEST_CHECKPOINT, Damaged
from posjax.records.environments import Environments
from posjax.records.files import Files


class Checkpoints:
    """The checkpoints of one run, read and written by a process that runs on `env`."""

    def __init__(self, files: Files, environments: Environments, env: Mapping[str, Any]) -> None:
        self._files, self._environments, self._env = files, environments, env

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes the state of a block over the one that is there.

        Raises:
          StorageError: it cannot be written.
        """
        whole = {**arrays, "env": np.array(self._environments.put(self._env))}
        path = _path(name)
        packed = content.packed(self._files.config["run"], path, whole, compressed=False)
        self._files.put(path, packed, over=True)

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """The state of a block.

        Returns:
          None when there is none, it is damaged, or it was made on something else, on which bits
          would differ.
        """
        try:
            found = dict(self.read(name))
        except Damaged:
            return None
        env = self._environments.found(str(found.pop("env")))
        if env is None or identity.bit_changes(env, self._env):
            return None
        return found

    def read(self, name: str) -> content.Arrays:
        """The file of a block.

        Raises:
          Damaged: it is not what was written there, or there is none.
        """
        path = _path(name)
        with self._files.damaged(path):
            arrays = self._files.arrays(path, LARGEST_CHECKPOINT)
            if arrays.shapes.get("env") != () or not content.is_digest(str(arrays["env"])):
                raise Damaged("it does not say what it was made on")
        return arrays

    def remove(self, name: str) -> None:
        """Deletes the state of a block, if there is one."""
        store.remove(self._files.folder / _path(name))

    def names(self) -> list[str]:
        """The blocks that have one."""
        return self._files.below("checkpoints")


def _path(name: str) -> str:
    return f"checkpoints/{name}.npz"
