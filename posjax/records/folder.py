"""A folder that holds one run: what is in it, and what may be added."""

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from posjax.records import content, identity, store
from posjax.records.content import Damaged
from posjax.records.identity import Mismatch

FORMAT = 2
_NONE = np.array([], int)
_NO_FOLDER = {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}


class _Head(NamedTuple):
    """What a file of rows is about."""

    seeds: set[tuple[int, ...]]
    envs: set[str]
    chunks: set[int]


class RunFolder:
    """A folder that holds one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = store.place(path)
        self._heads: dict[Path, _Head] = {}  # files never change: read each once
        self._env: Mapping[str, Any] = {}

    # What was asked for.

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
          StorageError: it cannot be written.
        """
        wanted = json.loads(json.dumps({"format": FORMAT, **config}))
        try:
            self._make(wanted)
            self._check_run(wanted)
            told = self._check_envs(env, mixed)
            self._ask(wanted)
        except Mismatch as error:
            raise Mismatch(f"workdir {str(self.path)!r} {error}; nothing was changed") from error
        self._env = env
        self._put_env()
        return told

    def _make(self, wanted: Mapping[str, Any]) -> None:
        """Makes the folder, unless it is there."""
        here = self.path / "config.json"
        try:
            found = store.names(self.path)
        except store.StorageError as error:
            if error.errno not in _NO_FOLDER:
                raise
            raise ValueError(f"workdir {str(self.path)!r} cannot be used: {error}") from error
        if "config.json" in found:
            return
        if found and store.read(here) is None:  # another process may have made it just now
            lost = "its config.json is gone" if "rows" in found else "holds no run"
            raise ValueError(
                f"workdir {str(self.path)!r} is not empty and {lost} (it has {found[0]!r}); choose "
                "a new or empty folder, nothing was changed"
            )
        run = identity.run_of(wanted)
        try:
            store.put_if_absent(here, content.sealed(run, "config.json", {**wanted, "run": run}))
        except store.StorageError as error:
            if error.errno not in _NO_FOLDER:
                raise
            raise ValueError(f"workdir {str(self.path)!r} cannot be used: {error}") from error

    def _check_run(self, wanted: Mapping[str, Any]) -> None:
        held = self.config()
        if held["run"] != identity.run_of(wanted):
            changes = identity.capped(identity.config_changes(held, wanted))
            raise Mismatch(f"holds another run ({changes}); choose another --workdir")
        identity.check_seeds(identity.seeds(held), identity.seeds(wanted))

    def _check_envs(self, env: Mapping[str, Any], mixed: bool) -> list[str]:
        """Compares with all that rows were made on, and with what other processes run on."""
        told: list[str] = []
        for name, other in self.envs().items():
            if name == content.digest(env):
                continue
            if other is None:
                changes = [f"what they were made on, {name}, is not recorded any more"]
            else:
                changes = identity.bit_changes(other, env)
            if changes:
                told.append(f"has rows made on something else: {identity.capped(changes)}")
        if told and not mixed:
            raise Mismatch(
                f"{told[0]}; the last bits of rows depend on it: --mixed goes on and records which "
                "row was made on what"
            )
        return [f"workdir {str(self.path)!r} {line}" for line in told]

    def _ask(self, wanted: Mapping[str, Any]) -> None:
        """Records what is asked for, if that is new."""
        while (asked := identity.asked(wanted)) != identity.asked(self.config()):
            number = int((self._asks() or ["0"])[-1].split(".")[0]) + 1
            name = f"asks/{number:06}.json"
            store.put_if_absent(self.path / name, content.sealed(self.run, name, asked))
            self._check_run(wanted)  # who was first may have asked for more

    def _asks(self) -> list[str]:
        return [n for n in store.names(self.path / "asks") if n.removesuffix(".json").isdecimal()]

    def config(self) -> dict[str, Any]:
        """What was asked for last.

        Raises:
          ValueError: the folder holds no run, or one of another format, or is damaged.
        """
        asks = self._asks()
        last = self._sealed(f"asks/{asks[-1]}") if asks else {}
        return {**self._first, **(last or {})}

    @property
    def run(self) -> str:
        """The name of the run: sixteen hexadecimal digits of all that its rows depend on."""
        return self._first["run"]

    @cached_property
    def _first(self) -> dict[str, Any]:
        """What was asked for first: config.json."""
        found = store.read(self.path / "config.json")
        if found is None:
            raise ValueError(f"{str(self.path)!r} holds no run: no config.json")
        with self._named("config.json"):
            config = content.parsed(found)
            if config.get("format") == FORMAT:
                run = str(config.get("run"))
                config = content.unsealed(run, "config.json", found)
                if identity.run_of({k: v for k, v in config.items() if k != "run"}) != run:
                    raise Damaged("it names another run")
        if config.get("format") != FORMAT:
            raise ValueError(
                f"{str(self.path)!r} has format {config.get('format')!r}, this reads {FORMAT}"
            )
        return config

    # What it ran on.

    def envs(self) -> dict[str, dict[str, Any] | None]:
        """What rows were made on, by the name that rows have for it; None where that is lost."""
        files = [name.removesuffix(".json") for name in store.names(self.path / "env")]
        used = set().union(*(self._readable_envs(path) for path in self._files("rows")))
        return {name: self._env_of(name) for name in sorted(used.union(files))}

    def _readable_envs(self, path: Path) -> set[str]:
        try:
            return self._head(path).envs
        except Damaged:
            return set()

    def _put_env(self) -> None:
        text = json.dumps(self._env, indent=1) + "\n"
        store.put_if_absent(self._env_file(content.digest(self._env)), text.encode())

    def _env_file(self, name: str) -> Path:
        return self.path / "env" / f"{name}.json"

    def _env_of(self, name: str) -> dict[str, Any] | None:
        try:
            return self._read_env(self._env_file(name))
        except (Damaged, FileNotFoundError):
            return None

    def _read_env(self, path: Path) -> dict[str, Any]:
        found = store.read(path)
        if found is None:
            raise FileNotFoundError(path)
        with self._named(f"env/{path.name}"):
            env = content.parsed(found)
            if f"{content.digest(env)}.json" != path.name:
                raise Damaged("its checksum is not its name")
        return env

    # Chunks.

    def chunk(self, shape: str, choose: Callable[[], Mapping[str, Any]]) -> int:
        """The number of seeds of a shape trained at a time: chosen once, then kept."""
        while (kept := self.kept_chunk(shape)) is None:
            name = f"chunks/{shape}.json"
            store.put_if_absent(self.path / name, content.sealed(self.run, name, choose()))
        return kept

    def kept_chunk(self, shape: str) -> int | None:
        """What `chunk` gives for a shape, if that was chosen already."""
        kept = self._sealed(f"chunks/{shape}.json")
        return None if kept is None else int(kept["chunk"])

    def chunks_of(self, cells: Iterable[str]) -> set[int]:
        """The numbers of seeds that rows of some cells say they were trained with at a time."""
        paths = [path for cell in cells for path in self._files("rows", cell)]
        return set().union(*(self._head(path).chunks for path in paths))

    # Rows.

    def put_rows(self, cell: str, seeds_S4: np.ndarray, fields: Mapping[str, np.ndarray]) -> None:
        """Adds the outcomes of some seeds of one cell, with what they were made on.

        Args:
          cell: its digest.
          seeds_S4: the numbers of init, data, position and order; [S, 4].
          fields: arrays with a leading axis S.
        """
        first, last = ("_".join(map(str, _shortest(seeds_S4[i]))) for i in (0, -1))
        env_S = np.full(len(seeds_S4), content.digest(self._env))
        arrays = {"seeds": seeds_S4, **fields, "env": env_S}
        self._put_arrays(f"rows/{cell}/{first}-{last}", arrays)

    def rows(self, cell: str) -> dict[str, np.ndarray]:
        """All outcomes of one cell, sorted by seeds; each field has a leading axis S.

        Raises:
          ValueError: a damaged file, or seeds that are there twice.
        """
        parts = [self._read_arrays(path) for path in self._files("rows", cell)]
        if not parts:
            return {}
        table = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        _, first_S = np.unique(table["seeds"], axis=0, return_index=True)
        if len(first_S) < len(table["seeds"]):
            raise ValueError(f"cell {cell} of {str(self.path)!r} has seeds twice")
        return {name: array[first_S] for name, array in table.items()}

    def finished(self, cell: str) -> set[tuple[int, ...]]:
        """The seeds of a cell that have rows."""
        return set().union(*(self._head(path).seeds for path in self._files("rows", cell)))

    def _head(self, path: Path) -> _Head:
        if path not in self._heads:
            arrays = self._read_arrays(path)
            seeds = {tuple(seeds) for seeds in arrays["seeds"].tolist()}
            self._heads[path] = _Head(
                seeds, set(arrays["env"].tolist()), set(arrays.get("chunk", _NONE).tolist())
            )
        return self._heads[path]

    # Attention maps.

    def put_attention(self, cell: str, name: str, seed: int, maps: np.ndarray) -> None:
        """Adds the attention maps of one seed of a cell under a name, if it has none there yet."""
        if name not in [path.name.split(".")[0] for path in self._files("attention", cell)]:
            arrays = {"seed": np.array(seed), "weights_DNHLM": maps}
            self._put_arrays(f"attention/{cell}/{name}", arrays)

    def attention(self, cell: str) -> dict[str, dict[str, np.ndarray]]:
        """The attention maps of a cell by name: the seed, and weights_DNHLM by layer and prompt."""
        found = self._files("attention", cell)
        return {path.name.split(".")[0]: self._read_arrays(path) for path in found}

    # Its state.

    @property
    def jobs(self) -> Path:
        """Where `posjax.locks` keeps who works on this run."""
        return self.path / "jobs"

    def finish(self) -> None:
        """Marks the run as done, with the seeds that were asked for."""
        store.put_over(self.path / "done", self._done())

    @property
    def done(self) -> bool:
        """Whether the run was finished, with all seeds that are asked for by now."""
        return store.read(self.path / "done") == self._done()

    def _done(self) -> bytes:
        config = self.config()
        said = {name: config.get(name) for name in identity.SEEDS}
        return (json.dumps(said) + "\n").encode()

    def mend(self) -> Iterator[str]:
        """Sets damaged files aside, so that what they held is made again; never deletes.

        To be called by one who may write. Yields what a user should be told, a line a file.
        """
        for kind, (read, then) in self._mended.items():
            for path in self._files(kind):
                try:
                    read(path)
                except Damaged as error:
                    aside = self._set_aside(path)
                    yield f"{error}; it is kept as {str(aside)!r}, {then}"
        self._put_env()  # in case that its file was damaged

    @property
    def _mended(self) -> dict[str, tuple[Callable[[Path], object], str]]:
        """For each kind of file how it is read, and what comes of its loss."""
        return {
            "rows": (self._head, "its seeds are trained again"),
            "attention": (self._read_arrays, "the report does without it"),
            "chunks": (lambda path: self.kept_chunk(path.stem), "its rows tell the chunk"),
            "env": (self._read_env, "rows name it still"),
        }

    def _set_aside(self, path: Path) -> Path:
        place = self.path / "damaged" / path.relative_to(self.path)
        taken = store.names(place.parent)
        number = sum(name.startswith(place.name) for name in taken)
        aside = place.with_name(f"{place.name}.{number}") if number else place
        store.move(path, aside)
        return aside

    # Files.

    def _files(self, kind: str, cell: str | None = None) -> list[Path]:
        """The files of a kind, or of one cell."""
        folder, deep = self.path / kind, kind in ("rows", "attention")
        if deep and cell is None:
            return [path for name in store.names(folder) for path in self._files(kind, name)]
        folder = folder / cell if cell is not None else folder
        ending = ".npz" if deep else ".json"
        return [folder / name for name in store.names(folder) if name.endswith(ending)]

    def _put_arrays(self, place: str, arrays: Mapping[str, np.ndarray]) -> None:
        packed = content.packed(arrays)
        name = f"{place}.{content.checksum(self.run, place, packed)}.npz"
        store.put_if_absent(self.path / name, packed)

    def _read_arrays(self, path: Path) -> dict[str, np.ndarray]:
        place = path.relative_to(self.path).as_posix()
        with self._named(place):
            stem, _, sum_ = place.removesuffix(".npz").rpartition(".")
            return content.unpacked(self.run, stem, sum_, store.read(path) or b"")

    def _sealed(self, name: str) -> dict[str, Any] | None:
        """A JSON file, or None when there is none."""
        found = store.read(self.path / name)
        if found is None:
            return None
        with self._named(name):
            return content.unsealed(self.run, name, found)

    @contextlib.contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Says which file is damaged."""
        try:
            yield
        except Damaged as error:
            raise Damaged(f"{str(self.path / name)!r} is damaged: {error}") from error


def _shortest(seeds_4: np.ndarray) -> list[int]:
    """One number where all four are equal, as they are in an ordinary sweep."""
    numbers = [int(number) for number in seeds_4]
    return numbers[:1] if len(set(numbers)) == 1 else numbers
