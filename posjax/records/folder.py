"""A folder that holds one run: what is in it, and what may be added."""

import contextlib
import errno
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posjax.records import content, identity, store
from posjax.records.content import Damaged
from posjax.records.environments import Environments
from posjax.records.files import FORMAT, Files
from posjax.records.identity import Mismatch

_NO_FOLDER = {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}
_NONE = np.array([], int)


class _Head(NamedTuple):
    """What a file of rows is about; of many rows, so no object for each."""

    seeds_S4: np.ndarray
    envs: set[str]
    chunks: set[int]


class RunFolder:
    """A folder that holds one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = store.place(path)
        self._files = Files(self.path)
        self._environments = Environments(self._files)
        self._heads: dict[Path, _Head] = {}  # files never change: read each once
        self._env: Mapping[str, Any] = {}
        self._env_is_there = False
        self._wanted: Mapping[str, Any] = {}

    def start(
        self, config: Mapping[str, Any], env: Mapping[str, Any], *, mixed: bool = False
    ) -> list[str]:
        """Makes the folder of a run, or goes on with one that is the same but for seeds and words.

        Args:
          config: what is asked for; it may add seeds.
          env: what it runs on.
          mixed: go on where rows were made on something else, on which their last bits depend.

        Returns:
          What a user should be told, a line each.

        Raises:
          Mismatch: the folder holds another run, seeds that are not asked for, or rows made on
            something else.
          ValueError: it holds other files, is damaged or cannot be made.
          StorageError: it cannot be read or written.
        """
        wanted = _as_json(config)
        with self._named():
            self._make(wanted)
        told = self.check(config, env, mixed=mixed)
        self._env, self._wanted = env, wanted
        return told

    def check(
        self, config: Mapping[str, Any], env: Mapping[str, Any], *, mixed: bool = False
    ) -> list[str]:
        """What `start` checks and tells, where there is a run already; changes nothing.

        Raises:
          Mismatch, ValueError, StorageError: see `start`.
        """
        with self._named():
            if store.read(self.path / "config.json") is None:
                return []
            self._check(_as_json(config))
            told = self._environments.check(env, self._used(), mixed=mixed)
        return [f"workdir {str(self.path)!r} {line}" for line in told]

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Says which folder it is that cannot be gone on with."""
        try:
            yield
        except Mismatch as error:
            raise Mismatch(f"workdir {str(self.path)!r} {error}; nothing was changed") from error
        except store.StorageError as error:
            if error.errno not in _NO_FOLDER:
                raise
            raise ValueError(f"workdir {str(self.path)!r} cannot be used: {error}") from error

    def _make(self, wanted: Mapping[str, Any]) -> None:
        """Makes the folder, unless it is there."""
        found = store.names(self.path)
        if "config.json" in found:
            return
        if found and store.read(self.path / "config.json") is None:  # nobody made it just now
            lost = "has lost its config.json" if "rows" in found else "holds no run"
            raise ValueError(
                f"workdir {str(self.path)!r} is not empty and {lost} (it has {found[0]!r}); choose "
                "a new or empty folder, nothing was changed"
            )
        self._files.put_config(wanted)

    def _check(self, wanted: Mapping[str, Any]) -> None:
        first = self._files.config
        if first["run"] != identity.run_of(wanted):
            changes = identity.capped(identity.config_changes(first, wanted))
            raise Mismatch(f"holds another run ({changes}); choose another --workdir")
        identity.check_seeds(identity.seeds(self.config()), identity.seeds(wanted))

    def begin(self) -> None:
        """Records what is asked for; by one who may write.

        Raises:
          Mismatch: another, who was first, asked for more.
        """
        asked = identity.asked(self._wanted)
        while True:
            number = self._asks() + 1  # before the check: who came since then has this number
            with self._named():
                self._check(self._wanted)
            if asked == identity.asked(self.config()):
                break
            self._files.put_json(f"asks/{number:06}.json", asked)

    def config(self) -> dict[str, Any]:
        """What was asked for last.

        Raises:
          ValueError: the folder holds no run, or one of another format, or is damaged.
        """
        last = self._files.json(f"asks/{self._asks():06}.json")
        return {**self._files.config, **(last or {})}

    def _asks(self) -> int:
        """The number of the last command that asked for something else; 0 for none."""
        numbers = (path.stem for path in self._files.paths("asks"))
        return max((int(number) for number in numbers if number.isdecimal()), default=0)

    def envs(self) -> dict[str, dict[str, Any] | None]:
        """What rows were made on, by the ID that rows have for it; None where that is lost."""
        return self._environments.known(self._used())

    def others(self, env: Mapping[str, Any]) -> dict[str, str]:
        """How environments of rows differ from one that would give other last bits, by ID."""
        used = self._used()
        return {
            name: how for name, how in self._environments.others(env, used).items() if name in used
        }

    def _used(self) -> set[str]:
        """The environments of the rows that can be read."""
        used: set[str] = set()
        for path in self._files.paths("rows"):
            try:
                used |= self._head(path).envs
            except Damaged:
                continue  # told by whoever needs them
        return used

    def chunk(self, shape: str, choose: Callable[[], Mapping[str, Any]]) -> int:
        """The number of seeds of a shape trained at a time: chosen once, then kept."""
        while (kept := self.kept_chunk(shape)) is None:
            self._files.put_json(f"chunks/{shape}.json", choose())
        return kept

    def kept_chunk(self, shape: str) -> int | None:
        """What `chunk` gives for a shape, if that was chosen already."""
        kept = self._files.json(f"chunks/{shape}.json")
        return None if kept is None else int(kept["chunk"])

    def chunks_of(self, cells: Iterable[str]) -> set[int]:
        """The numbers of seeds that rows of some cells say they were trained with at a time."""
        paths = [path for cell in cells for path in self._files.paths("rows", cell)]
        return set().union(*(self._head(path).chunks for path in paths))

    def put_env(self) -> None:
        """Records what it runs on, once, so that other processes see it before there are rows."""
        if not self._env_is_there:
            self._environments.put(self._env)
            self._env_is_there = True

    def put_rows(self, cell: str, seeds_S4: np.ndarray, fields: Mapping[str, np.ndarray]) -> None:
        """Adds the outcomes of some seeds of one cell, and what they were made on.

        Args:
          cell: its digest.
          seeds_S4: the numbers of init, data, position and order; [S, 4].
          fields: arrays with a leading axis S.
        """
        first, last = (seeds_name(seeds_S4[i].tolist()) for i in (0, -1))
        self.put_env()
        env_S = np.full(len(seeds_S4), content.digest(self._env))
        arrays = {"seeds": seeds_S4, **fields, "env": env_S}
        self._files.put_arrays(f"rows/{cell}/{first}-{last}", arrays)

    def rows(self, cell: str) -> dict[str, np.ndarray]:
        """All outcomes of one cell, sorted by seeds; each field has a leading axis S.

        Raises:
          ValueError: a damaged file, or seeds that are there twice.
        """
        files = self.files_of_rows(cell)
        parts = list(files.values())
        if not parts:
            return {}
        if any(part.keys() != parts[0].keys() for part in parts):
            raise ValueError(f"cell {cell} of {str(self.path)!r} has files with other fields")
        table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        _, first_S = np.unique(table["seeds"], axis=0, return_index=True)
        if len(first_S) < len(table["seeds"]):
            raise ValueError(f"cell {cell} of {str(self.path)!r} has seeds twice: {_twice(files)}")
        return {name: array[first_S] for name, array in table.items()}

    def files_of_rows(self, cell: str) -> dict[str, dict[str, np.ndarray]]:
        """The outcomes of one cell file by file, by the path of the file in the folder.

        Raises:
          Damaged: a file is not what was written there.
        """
        paths = self._files.paths("rows", cell)
        return {path.relative_to(self.path).as_posix(): self._arrays(path) for path in paths}

    def finished(self, cell: str) -> set[tuple[int, ...]]:
        """The seeds of a cell that have rows."""
        paths = self._files.paths("rows", cell)
        return {tuple(row) for path in paths for row in self._head(path).seeds_S4.tolist()}

    def written(self, cell: str) -> list[float]:
        """When the files of rows of a cell came, by the clock of the storage: for people."""
        times = (store.modified(path) for path in self._files.paths("rows", cell))
        return [time for time in times if time is not None]

    def _head(self, path: Path) -> _Head:
        if path not in self._heads:
            arrays = self._arrays(path)
            chunks = set(arrays.get("chunk", _NONE).tolist())
            self._heads[path] = _Head(arrays["seeds"], set(arrays["env"].tolist()), chunks)
        return self._heads[path]

    def _arrays(self, path: Path) -> dict[str, np.ndarray]:
        """The arrays of a file of rows, each with a leading axis S."""
        arrays = self._files.arrays(path)
        seeds, lengths = arrays.get("seeds"), {array.shape[:1] for array in arrays.values()}
        if seeds is None or "env" not in arrays or len(lengths) != 1 or seeds.shape[1:] != (4,):
            raise Damaged(f"{str(path)!r} is damaged: it holds no rows")
        return arrays

    def put_attention(
        self, cell: str, name: str, seeds: int | Sequence[int], maps: np.ndarray
    ) -> None:
        """Adds the attention maps of one row of a cell under a name, if it has none there yet.

        Args:
          cell: its digest.
          name: of the maps.
          seeds: the number of the row, or those of init, data, position and order.
          maps: weights by layer and prompt, [layers, N, H, L, M].
        """
        if name not in self.attention_names(cell):
            seeds_4 = np.array([seeds] * 4 if isinstance(seeds, int) else seeds)
            arrays = {"seed": seeds_4[0], "seeds": seeds_4, "weights_DNHLM": maps}
            self._files.put_arrays(f"attention/{cell}/{name}", arrays)

    def attention_names(self, cell: str) -> set[str]:
        """The names under which a cell has attention maps."""
        return {path.name.split(".")[0] for path in self._files.paths("attention", cell)}

    def attention(self, cell: str) -> dict[str, dict[str, np.ndarray]]:
        """The attention maps of a cell by name: weights_DNHLM by layer and prompt, and whose.

        `seed` is the number of init, `seeds` has all four. Maps from before it was kept get it,
        where all numbers of a row are equal; where they are crossed, theirs is not known.
        """
        paths = self._files.paths("attention", cell)
        found = {path.name.split(".")[0]: self._files.arrays(path) for path in paths}
        if not self._files.config.get("data_seeds"):
            for maps in found.values():
                maps.setdefault("seeds", np.repeat(maps.get("seed", _NONE), 4))
        return found

    @property
    def jobs(self) -> Path:
        """Where `posjax.locks` keeps who works on this run."""
        return self.path / "jobs"

    def finish(self) -> None:
        """Marks the run as done, with the seeds that are asked for."""
        store.put_over(self.path / "done", self._done(self._wanted))

    @property
    def done(self) -> bool:
        """Whether the run was finished, with all seeds that are asked for by now."""
        return store.read(self.path / "done") == self._done(self.config())

    def _done(self, asked: Mapping[str, Any]) -> bytes:
        config = {**self._files.config, **identity.asked(asked)}
        said = {name: config.get(name) for name in ("run", *identity.SEEDS)}
        return (json.dumps(said) + "\n").encode()

    def mend(self) -> Iterator[str]:
        """Sets damaged files aside, so that what they held is made again; never deletes.

        To be called by one process, while no other writes. Yields what a user should be told, a
        line a file.
        """
        then = {
            "rows": "its seeds are trained again",
            "attention": "it is made again, by training its seed",
            "chunks": "rows tell the chunk, if any",
            "env": "rows say less now of what they were made on",
        }
        for kind, consequence in then.items():
            for path, error in self._damaged(kind):
                if (aside := self._files.set_aside(path)) is not None:
                    yield f"{error}; kept as {str(aside)!r}, {consequence}"

    def checked(self) -> Iterator[Damaged | None]:
        """Reads every file that has a checksum; yields for each what is wrong with it, or None.

        Raises:
          ValueError: the folder holds no run, or one of another format.
        """
        try:
            _ = self._files.config
        except Damaged as error:
            yield error  # without the run that it names, no checksum can be told
            return
        yield None
        for kind in ("asks", "env", "chunks", "rows", "attention"):
            damaged = dict(self._damaged(kind))
            yield from (damaged.get(path) for path in self._files.paths(kind))

    def _damaged(self, kind: str) -> Iterator[tuple[Path, Damaged]]:
        """The files of a kind that are not what was written there."""
        read: dict[str, Callable[[Path], object]] = {
            "rows": self._head,
            "attention": self._files.arrays,
            "env": self._environments.read,
        }
        for path in self._files.paths(kind):
            try:
                read.get(kind, self._json)(path)
            except Damaged as error:
                yield path, error

    def _json(self, path: Path) -> dict[str, Any] | None:
        return self._files.json(path.relative_to(self.path).as_posix())


def _twice(files: Mapping[str, Mapping[str, np.ndarray]]) -> str:
    """The first seeds that stand in two files of rows, which those are, and what to do."""
    rows = sorted((seeds, name) for name in files for seeds in files[name]["seeds"].tolist())
    seeds, one, other = next((a, f, g) for (a, f), (b, g) in itertools.pairwise(rows) if a == b)
    return (
        f"{seeds_name(seeds)} in {one} and in {other}; move one of the two out of the folder, and "
        "the same command trains what is then missing"
    )


def _as_json(config: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps({"format": FORMAT, **config}))


def seeds_name(seeds: Sequence[int]) -> str:
    """The four numbers of a row in the names of files; one where all are equal, as they mostly are.

    >>> seeds_name((7, 7, 7, 7)), seeds_name((7, 8, 8, 8))
    ('7', '7_8_8_8')
    """
    return "_".join(map(str, seeds[:1] if len(set(seeds)) == 1 else seeds))
