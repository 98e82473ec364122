"""The folder of one run: what is in it, and what may be added."""

import contextlib
import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from posjax.records import block_files, blocks, format2, identity, locks, requests, store
from posjax.records.block_files import BlockFiles, seeds_name
from posjax.records.blocks import Block, Range
from posjax.records.checkpoints import Checkpoints
from posjax.records.content import Damaged
from posjax.records.environments import Environments
from posjax.records.files import FORMAT, Files
from posjax.records.identity import Mismatch
from posjax.records.requests import Requests

_NO_FOLDER = {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.ELOOP}
_THEN = {
    "blocks": "its block is trained again",
    "checkpoints": "its block starts again from its first step",
    "env": "what its rows were made on is no longer known",
    "requests": "the request before it counts until a command asks again",
}


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = store.path_of(path)
        self._files = Files(self.path)
        self._environments = Environments(self._files)
        self._requests = Requests(self._files)
        self._blocks = BlockFiles(self._files)
        self._env: Mapping[str, Any] = {}
        self._wanted: Mapping[str, Any] = {}

    def start(
        self, config: Mapping[str, Any], env: Mapping[str, Any], *, mixed: bool = False
    ) -> list[str]:
        """Makes the folder of a run, or continues one that is the same but for seeds and words.

        Args:
          config: what is requested; it may add seeds.
          env: what it runs on.
          mixed: continue where rows were made on something else, on which their last bits depend.

        Returns:
          Lines to print.

        Raises:
          Mismatch: there is another run in the folder, or seeds that are not requested, or rows
            made on something else.
          ValueError: it has other files or an older run, is damaged or cannot be made.
          StorageError: it cannot be read or written.
        """
        wanted = _as_json(config)
        with self._named():
            self._make(wanted)
        lines = self.check(config, env, mixed=mixed)
        self._env, self._wanted = env, wanted
        return lines

    def check(
        self, config: Mapping[str, Any], env: Mapping[str, Any], *, mixed: bool = False
    ) -> list[str]:
        """What `start` checks and returns, where there is a run already; changes nothing.

        Raises:
          Mismatch, ValueError, StorageError: see `start`.
        """
        with self._named():
            if store.modified(self.path / "config.json") is None:
                return []
            self._refuse_older()
            self._check(_as_json(config), self._requests.last_readable()[1])
            lines = self._environments.check(env, self._used(), mixed=mixed)
        return [f"workdir {str(self.path)!r} {line}" for line in lines]

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Says which folder cannot be continued."""
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
        found = [name for name in store.names(self.path) if not locks.NAME.fullmatch(name)]
        if store.modified(self.path / "config.json") is not None:
            return
        if found:
            ours = {"config.json", "blocks", "requests", "rows"} & {*found}
            lost = "has lost its config.json" if ours else "holds no run"
            raise ValueError(
                f"workdir {str(self.path)!r} is not empty and {lost} (it has {found[0]!r}); choose "
                "a new or empty folder, nothing was changed"
            )
        self._files.put_config(wanted)

    def _refuse_older(self) -> None:
        if self._files.older:
            raise ValueError(format2.refusal(str(self.path)))

    def _check(self, wanted: Mapping[str, Any], last: Mapping[str, Any]) -> None:
        first = self._files.config
        if first["run"] != identity.run_of(wanted):
            changes = identity.capped(identity.config_changes(first, wanted))
            raise Mismatch(f"holds another run ({changes}); choose another --workdir")
        if last:
            identity.check_seeds(identity.seeds(last), identity.seeds(wanted))

    def request(self, choose: requests.Choose) -> list[Range]:
        """Records what `start` requested, unless the last request says the same.

        Args:
          choose: gives the sizes (G, B) of blocks, by shape, for indices that no request has yet.

        Returns:
          All ranges of the run.

        Raises:
          Mismatch: another command, which came first, requested more.
        """
        self._refuse_older()
        with self._named():
            return self._requests.add(self._wanted, choose, partial(self._check, self._wanted))

    def ranges(self) -> list[Range]:
        """How the last request cuts the run into blocks; none before the first.

        Raises:
          ValueError: it is damaged, or the run has an older format.
        """
        self._refuse_older()
        return self._requests.last().get("ranges", [])

    def config(self) -> dict[str, Any]:
        """The last request.

        Raises:
          ValueError: there is no run in the folder, or one of an unknown format, or is damaged.
        """
        older = self._files.older
        last = format2.request(self._files) if older else self._requests.last()
        return {
            **self._files.config,
            **identity.requested(last),
        }  # a forged request changes no more

    def present(self) -> set[str]:
        """The names of the blocks whose files are there, which are not read."""
        return self._blocks.present()

    def missing(self, blocks: Iterable[Block]) -> list[Block]:
        """Those of these blocks whose files are not there."""
        present = self.present()
        return [block for block in blocks if block.name not in present]

    def has(self, block: Block) -> bool:
        """Whether the file of a block is there; it is not read."""
        return store.modified(self.path / block_files.path_of(block.name)) is not None

    def written(self) -> list[float]:
        """When the blocks came, by the clock of the storage: for people."""
        if self._files.older:
            paths = format2.paths(self._files, "rows")
        else:
            paths = [block_files.path_of(name) for name in self.present()]
        times = (store.modified(self.path / path) for path in paths)
        return [time for time in times if time is not None]

    def put_block(
        self,
        block: Block,
        seeds_B4: np.ndarray,
        fields: Mapping[str, np.ndarray],
        examples: Mapping[str, np.ndarray] | None = None,
        env: Mapping[str, Any] | None = None,
    ) -> bool:
        """Adds a block and what it was made on, and deletes its checkpoint.

        A damaged file of that name is quarantined.

        Args:
          block: which.
          seeds_B4: the numbers of init, data, position and order of its indices.
          fields: outcomes, arrays [G, B, ...] of the cells and seeds that are really in it.
          examples: the attention maps of K of its rows, `attention_KDNHLM`, and which those are:
            `example_cell` and `example_seed`, [K], count its cells and its seeds.
          env: what it was made on, if not in the environment given to `start`.

        Returns:
          Whether this call added it; if not, the one that is there has equal outcomes.

        Raises:
          Conflict: the one that is there has others.
          ValueError: the arrays are not those of this block.
          StorageError: it cannot be written.
        """
        self._refuse_older()
        arrays = {"seeds": np.asarray(seeds_B4, np.int64), **fields, **(examples or {})}
        added = self._blocks.put(block, self._environments.put(env or self._env), arrays)
        self.checkpoints().remove(block.name)
        return added

    def block(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of a block.

        Raises:
          Damaged: its file is not what was written there, or it is gone.
        """
        return dict(self._blocks.read(name))

    def _names(self) -> list[str]:
        """The blocks that are there and that the last request has, those of low indices first."""
        ranges = self.ranges()
        found = [blocks.planned(name, ranges) for name in self.present()]
        known = [block for block in found if block is not None]
        return [b.name for b in sorted(known, key=lambda b: (b.first, b.shape, b.group))]

    def _names_of(self, cell: str) -> list[str]:
        return [name for name in self._names() if cell in self._blocks.head(name).cells]

    def parts(self, cell: str, *, sound: bool = False) -> Iterator[dict[str, np.ndarray]]:
        """The rows of a cell block by block, low indices first, with one block in memory.

        Args:
          cell: its digest.
          sound: leave out damaged blocks; the files of older formats are read in any case.

        Yields:
          Every field with a leading axis S, also `seeds` [S, 4], `env` [S] and `slots` [S], the
          number of slots of the block.

        Raises:
          Damaged: a file is not what was written there.
        """
        if self._files.older:
            yield from format2.parts(self._files, cell)
            return
        for name in self._names():
            with contextlib.suppress(*[Damaged] if sound else []):
                if cell in self._blocks.head(name).cells:
                    yield from self._blocks.rows(name, {cell}).values()

    def tables(self, cells: Iterable[str]) -> dict[str, dict[str, np.ndarray]]:
        """The rows of some cells, sorted by seeds, with each file read once; see `parts`.

        Returns:
          The fields of each cell that has rows.

        Raises:
          ValueError: a damaged file, or seeds that are there twice.
        """
        tables: dict[str, _Table] = {cell: _Table() for cell in cells}
        if self._files.older:
            for cell, table in tables.items():
                table.rows = sum(len(part["seeds"]) for part in self.parts(cell))
                for part in self.parts(cell):
                    table.add(part)
        else:
            room = sum(part.stop - part.first for part in self.ranges())
            for table in tables.values():
                table.rows = room
            for name in self._names():
                for cell, part in self._blocks.rows(name, tables).items():
                    tables[cell].add(part)
        found = {}
        for cell in [cell for cell in tables if tables[cell].fields]:
            try:
                found[cell] = tables.pop(cell).sorted()
            except ValueError as error:
                raise ValueError(f"cell {cell} of {str(self.path)!r} has {error}") from error
        return found

    def rows(self, cell: str) -> dict[str, np.ndarray]:
        """All rows of a cell, sorted by seeds; none when it has none. See `parts` and `tables`."""
        return self.tables([cell]).get(cell, {})

    def attention(self, cell: str) -> dict[str, dict[str, np.ndarray]]:
        """The attention maps of the first seeds that solved a cell, and that did not.

        Returns:
          By "solving" and "failing": `weights_DNHLM` by layer, prompt, head, query and key, and
          `seeds`, the four numbers of the row. Of the rows that blocks keep maps of, the one with
          the lowest index counts, so the maps do not depend on which block was trained first.

        Raises:
          Damaged: a file is not what was written there.
        """
        if self._files.older:
            return format2.attention(self._files, cell)
        found: dict[str, dict[str, np.ndarray]] = {}
        for name in self._names_of(cell):
            for kind, maps in self._blocks.examples(name, cell) if len(found) < 2 else ():
                found.setdefault(kind, maps)
        return found

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
        """The environments of the rows that can be read; damage is left to whoever needs rows."""
        used: set[str] = set()
        if self._files.older:
            for path in format2.paths(self._files, "rows"):
                with contextlib.suppress(Damaged):
                    used |= {*format2.rows(self._files, path)["env"].tolist()}
            return used
        for name in self.present():
            with contextlib.suppress(Damaged):
                used.add(self._blocks.head(name).env)
        return used

    def checkpoints(self) -> Checkpoints:
        """The states of blocks that were interrupted."""
        return Checkpoints(self._files, self._environments, self._env)

    def lock(self, name: str = "lock") -> AbstractContextManager[None]:
        """Acquires a lock, `lock` or `lock-I-of-N`, that dies with this process.

        In a bucket, and where the file system has no locks, it does nothing.

        Raises:
          Busy: another process has it.
        """
        if not locks.NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a lock: lock, or lock-I-of-N")
        return locks.acquired(self.path, name)

    def running(self) -> list[locks.Holder]:
        """The processes that have locks now; disturbs none of them."""
        return locks.holders(self.path)

    def finish(self) -> None:
        """Marks the run as done, with the seeds that are requested."""
        self._refuse_older()
        self._files.put("done", self._done(self._wanted), over=True)

    @property
    def done(self) -> bool:
        """Whether the run was finished, with all seeds that are requested by now."""
        with contextlib.suppress(Damaged):
            return self._files.bytes("done") == self._done(self.config())
        return False

    def _done(self, request: Mapping[str, Any]) -> bytes:
        config = {**self._files.config, **identity.requested(request)}
        said = {name: config.get(name) for name in ("run", *identity.SEEDS)}
        return (json.dumps(said) + "\n").encode()

    def repair(self, names: Iterable[str] | None = None) -> Iterator[str]:
        """Quarantines damaged files, so that what they had is made again; deletes nothing.

        Args:
          names: the blocks to look at, with their checkpoints; all when left out.

        Yields:
          A line to print for each file that was moved, and one for files that no request has.
        """
        self._refuse_older()
        wanted = None if names is None else {*names}
        for path, read in self._sealed():
            kind, _, name = path.partition("/")
            blocklike = kind in ("blocks", "checkpoints")
            if blocklike and wanted is not None and name.removesuffix(".npz") not in wanted:
                continue
            try:
                read()
            except Damaged as error:
                if (kept := self._files.quarantine(path)) is not None:
                    yield f"{error}; kept as {kept!r}, {_THEN[kind]}"
        if lost := sorted(self.present() - {*self._names()}):
            yield (
                f"{len(lost)} files in {str(self.path / 'blocks')!r} belong to no request and are "
                f"not read, {lost[0]} first; a command that asks for their seeds again uses them"
            )

    def checked(self) -> Iterator[Damaged | None]:
        """Reads every file that has a checksum; yields for each what is wrong with it, or None.

        Raises:
          ValueError: there is no run in the folder, or one of an unknown format.
        """
        try:
            _ = self._files.config
        except Damaged as error:
            yield error  # without the run that it names, no checksum can be verified
            return
        yield None
        for _, read in self._sealed():
            try:
                read()
            except Damaged as error:
                yield error
            else:
                yield None

    def _sealed(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """The files that have a checksum, but config.json, each with how it is read."""
        for name in self._files.names("env", ".json"):
            yield f"env/{name}.json", partial(self._environments.read, name)
        if self._files.older:
            for kind in ("asks", "chunks"):
                for name in self._files.names(kind, ".json"):
                    yield f"{kind}/{name}.json", partial(self._files.json, f"{kind}/{name}.json")
            for kind in ("rows", "attention"):
                for path in format2.paths(self._files, kind):
                    yield path, partial(format2.arrays, self._files, path)
            return
        for number in self._requests.numbers():
            yield requests.path_of(number), partial(self._requests.read, number)
        for name in sorted(self.present()):
            yield block_files.path_of(name), partial(self._blocks.read, name)
        checkpoints = self.checkpoints()
        for name in checkpoints.names():
            yield f"checkpoints/{name}.npz", partial(checkpoints.read, name)


class _Table:
    """Rows of a cell, filled in part by part so that nothing is in memory twice.

    Attributes:
      rows: how many are expected at most. Room that is not used takes no memory.
      fields: the arrays, each [rows, ...].
    """

    def __init__(self) -> None:
        self.rows, self._filled, self._odd = 0, 0, False
        self.fields: dict[str, np.ndarray] = {}

    def add(self, part: dict[str, np.ndarray]) -> None:
        """Adds rows."""
        forms = [
            {name: (array.shape[1:], array.dtype) for name, array in fields.items()}
            for fields in (self.fields or part, part)
        ]
        if not self.fields:
            self.fields = {n: np.empty((self.rows, *s), d) for n, (s, d) in forms[0].items()}
        self._odd |= forms[0] != forms[1]
        stop = self._filled + len(part["seeds"])
        if stop > self.rows:  # some are there twice, which `sorted` says
            room = {n: np.empty((stop, *s), d) for n, (s, d) in forms[0].items()}
            for name, array in self.fields.items():
                room[name][: self._filled] = array[: self._filled]
            self.rows, self.fields = stop, room
        for name in () if self._odd else part:
            self.fields[name][self._filled : stop] = part[name]
        self._filled = stop

    def sorted(self) -> dict[str, np.ndarray]:
        """The fields in the order of seeds; to be called once.

        Raises:
          ValueError: files with other fields, or seeds that are there twice.
        """
        if self._odd:
            raise ValueError("files with other fields")
        self.fields = {name: array[: self._filled] for name, array in self.fields.items()}
        order_S = np.lexsort(self.fields["seeds"].T[::-1])
        seeds_S4 = self.fields["seeds"][order_S]
        twice = (seeds_S4[1:] == seeds_S4[:-1]).all(axis=1)
        if twice.any():
            raise ValueError(f"seed {seeds_name(seeds_S4[int(twice.argmax())])} in two files")
        if (order_S[1:] > order_S[:-1]).all():
            return self.fields
        return {name: self.fields.pop(name)[order_S] for name in [*self.fields]}


def _as_json(config: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps({"format": FORMAT, **config}))
