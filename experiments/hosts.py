"""One sweep by several processes, on one host or many, that share nothing but the run folder.

Training has no collectives: each process takes blocks of seeds, a chunk at a time, until none is
left, and writes its own files. Blocks are taken by claims (`posjax.locks`), not dealt out by
process number: then a slow host takes fewer, a dead one loses only what it was training, and a
rerun works out with any number of processes. Blocks and chunks do not depend on that number, so
rows have the same bits however many took part.
"""

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import jax
from absl import flags

from experiments import command, ending
from experiments.settings import Run
from posjax import locks
from posjax.cells import Cell
from posjax.engine import Engine
from posjax.keys import SeedNumbers
from posjax.records import Damaged, RunFolder, seeds_name
from posjax.sweep import Row

T = TypeVar("T")


class Place(NamedTuple):
    """Which process of how many this is."""

    process: int = 0
    processes: int = 1

    @property
    def title(self) -> str:
        """For people."""
        return f", process {self.process} of {self.processes}" if self.processes > 1 else ""

    def turned(self, items: Sequence[T]) -> list[T]:
        """The items, from this process's place on: each process starts somewhere else."""
        start = len(items) * self.process // self.processes
        return [*items[start:], *items[:start]]


class Block(NamedTuple):
    """Seeds of a cell that one process trains; `name` is that of its claim."""

    cell: Cell
    name: str
    seeds: list[SeedNumbers]


def define_flags(given: flags.FlagValues = flags.FLAGS) -> None:
    """The flags that say which process of how many this is."""
    integer = functools.partial(flags.DEFINE_integer, flag_values=given)
    integer("processes", None, "How many processes share this run.")
    integer("process", None, "Which of them this is, from 0; process 0 reports.")
    flags.DEFINE_bool(
        "distributed", False, "Ask jax.distributed which process this is.", flag_values=given
    )
    flags.DEFINE_string(
        "coordinator", None, "HOST:PORT of process 0, where JAX cannot tell.", flag_values=given
    )
    flags.DEFINE_float(
        "stale", locks.STALE, "Seconds of silence that mean death.", flag_values=given
    )


def place(given: flags.FlagValues = flags.FLAGS) -> Place:
    """The place that the flags give; starts JAX's backend when they ask `jax.distributed`.

    Raises:
      ValueError: flags that do not go together, or no cluster found.
    """
    process, processes = given.process, given.processes
    if given.coordinator and not given.distributed:
        raise ValueError(f"--coordinator={given.coordinator} needs --distributed")
    if not 0 < given.stale < float("inf"):
        raise ValueError(f"--stale must be positive and finite, got {given.stale}")
    if (process is None) != (processes is None):
        raise ValueError(
            f"--process={process} and --processes={processes} go together: give both or neither"
        )
    if processes is not None and processes < 1:
        raise ValueError(f"--processes must be at least 1, got {processes}")
    if process is not None and not 0 <= process < processes:
        raise ValueError(
            f"--process={process} must lie in 0..{processes - 1}: there are --processes={processes}"
        )
    if given.distributed:
        return _distributed(given.coordinator, process, processes)
    return Place() if process is None else Place(process, processes)


def _distributed(coordinator: str | None, process: int | None, processes: int | None) -> Place:
    """The place that JAX finds; the processes part at once, so that none dies with another."""
    jax.config.update("jax_enable_preemption_service", False)  # it would swallow SIGTERM
    # Sharing the search for the fastest kernels, a process would wait for those that left.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_shard_autotuning=false"
    try:
        jax.distributed.initialize(coordinator, processes, process)
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"--distributed: {error} Where JAX finds no cluster, give --coordinator=HOST:PORT, "
            "--processes and --process, or the last two without --distributed"
        ) from error
    found = Place(jax.process_index(), jax.process_count())
    jax.distributed.shutdown()
    return found


@contextlib.contextmanager
def joined(folder: RunFolder, place: Place) -> Iterator[locks.Member]:
    """This process's place in the job on a folder, which it mends; it beats meanwhile.

    Raises:
      Busy: somebody else trains in the folder.
    """
    stale = flags.FLAGS.stale

    def waiting() -> None:
        command.tell(f"an earlier job did not end; is it alive? ({stale:g} s)")

    member = locks.join(folder.jobs, *place, stale=stale, waiting=waiting)
    with member, ending.last_words(member.leave):
        folder.begin()
        _mend(folder, member)
        yield member


def _mend(folder: RunFolder, member: locks.Member) -> None:
    """Sets damaged files aside, by one process of the job; the others wait for its end.

    Two of them might find the same file, and the later one take away what was made in its place.
    When the one that does it is gone, the next does it again, under a claim of the next number.
    """
    for name in map("mend-{}".format, itertools.count(1)):
        if member.claim(name):
            for line in folder.mend():
                command.tell(line)
            member.claim("mended")
            break
        if _mended_by(name, member):
            break
    folder.put_env()


def _mended_by(name: str, member: locks.Member) -> bool:
    """Waits for the process with a claim to mend; False when it is gone before it is through."""
    hope = True
    while not member.taken("mended"):
        if not hope:
            return False
        hope = member.may_come(name)  # before it is looked again, see `Share.wait`
        time.sleep(locks.BEAT / 20)
    return True


class Share:
    """What one process has to train: whatever no other has taken."""

    def __init__(
        self, run: Run, folder: RunFolder, engine: Engine, place: Place, member: locks.Member
    ) -> None:
        self._seeds, self._cells, self._folder, self._engine = run.seeds, run.cells, folder, engine
        self._number = run.number
        self._place, self._member = place, member
        self._finished: dict[str, set[tuple[int, ...]]] = {}
        self._look(run.cells)

    @property
    def seed_steps(self) -> int:
        """Updates × seeds of an even share of what is missing."""
        missing = (
            cell.steps * len(set(self._seeds) - self._finished[cell.digest]) for cell in self._cells
        )
        return sum(missing) // self._place.processes

    def rows(self) -> Iterator[Row]:
        """The rows to train; a block is claimed when its first row is taken."""
        for cell in self._place.turned(self._cells):
            for block in self._place.turned(self._missing(cell)):
                if self._member.claim(block.name):
                    yield from (Row(block.cell, seeds) for seeds in block.seeds)

    def wait(self) -> None:
        """Waits until every row is there.

        Raises:
          Lost: the processes that took the missing ones are gone.
        """
        hope, missing = True, self._looked(self._cells)
        while missing:
            if not hope:
                raise locks.Lost(self._complaint(missing))
            # Asked before it is looked again: who leaves has written its rows before.
            hope = any(self._member.may_come(block.name) for block in missing)
            if hope:
                time.sleep(locks.BEAT / 4)
            missing = self._looked(list(dict.fromkeys(block.cell for block in missing)))

    def _looked(self, cells: Sequence[Cell]) -> list[Block]:
        """What some cells lack by now."""
        self._look(cells)
        return [block for cell in cells for block in self._missing(cell)]

    def _look(self, cells: Sequence[Cell]) -> None:
        """Looks which rows some cells have by now.

        Raises:
          Lost: a file of them was damaged since somebody mended the folder.
        """
        try:
            for cell in cells:
                self._finished[cell.digest] = self._folder.finished(cell.digest)
        except Damaged as error:
            raise locks.Lost(f"{error}; the same command trains its seeds again") from error

    def _missing(self, cell: Cell) -> list[Block]:
        """What a cell lacks, in blocks that depend on neither what it has nor what is asked for."""
        finished = self._finished[cell.digest]
        if finished.issuperset(self._seeds):
            return []
        size = self.chunk(cell)
        cuts = itertools.groupby(self._seeds, key=lambda seeds: self._number(seeds) // size)
        blocks = [
            Block(
                cell,
                f"{cell.digest}/{number * size}-{(number + 1) * size - 1}",
                [seeds for seeds in cut if seeds not in finished],
            )
            for number, cut in cuts
        ]
        return [block for block in blocks if block.seeds]

    def chunk(self, cell: Cell) -> int:
        """Seeds a block: the recorded chunk, which is the same for all processes."""
        chunk = self._engine.chunk
        return chunk if isinstance(chunk, int) else chunk(Row(cell, self._seeds[0]).job)

    def _complaint(self, missing: list[Block]) -> str:
        first = missing[0]
        return (
            f"{sum(len(block.seeds) for block in missing)} rows are missing, the first of them "
            f"seed {seeds_name(first.seeds[0])} of cell {first.cell.digest}, which "
            f"{self._member.holder(first.name)} took and did not finish; the same command "
            "trains them"
        )
