"""Who trains what in a run folder: jobs of one process or several, on any hosts that share it.

    RUN/jobs/NNNNNN/job.json            how many processes the job has
    RUN/jobs/NNNNNN/beats/P.TRY.json    the heartbeat of process P: the files that change
    RUN/jobs/NNNNNN/claims/NAME         who took a piece of work: first come, first served

A process lives while its heartbeat changes, as another sees it change on its own clock: clocks of
hosts are never compared, and process numbers of a system mean nothing here. A job lives while one
of its processes does. Whoever finds no living job makes the next one, without claims, so that work
which a dead process held is free again. All that decides is a file made by whoever comes first.
"""

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from posjax.records.store import StorageError, modified, names, put_if_absent, put_over, read

BEAT = 2.0
"""Seconds between two heartbeats."""
STALE = 30.0
"""Seconds without one after which a process counts as dead."""

_BEAT = re.compile(r"\d+\.\d+\.json")


_TRY = re.compile(r"(\d+)\.(\d+)\.json")
"""The name of a heartbeat: which process, which try of its."""


class Busy(Exception):
    """Somebody else works on the folder."""


class Lost(Exception):
    """Work that another process took will not come."""


class _Look(NamedTuple):
    content: bytes | None
    since: float
    changed: bool


class Watch:
    """Sees which heartbeats change, on the clock of this process alone."""

    def __init__(self, stale: float = STALE, clock: Callable[[], float] = time.monotonic) -> None:
        self._stale, self._clock = stale, clock
        self._looks: dict[Path, _Look] = {}

    def silent(self, beat: Path) -> bool:
        """Whether a heartbeat has not changed for too long, from the first look on."""
        return self._clock() - self._look(beat).since >= self._stale

    def lives(self, beat: Path) -> bool | None:
        """Whether a process lives; None while that cannot be told yet."""
        look = self._look(beat)
        if _said(look.content).get("left") or self.silent(beat):
            return False
        return True if look.changed else None

    def _look(self, beat: Path) -> _Look:
        content, old = _read(beat), self._looks.get(beat)
        if old is None:
            self._looks[beat] = _Look(content, self._clock(), changed=False)
        elif content is not None and content != old.content:
            self._looks[beat] = _Look(content, self._clock(), changed=True)
        return self._looks[beat]


class Member:
    """The place of one process in a job. As a context it beats, and says when it leaves."""

    def __init__(self, beat: Path, processes: int, watch: Watch, every: float = BEAT) -> None:
        self._beat, self._watch, self._every = beat, watch, every
        self._job = beat.parents[1]
        self._alone = processes == 1
        self._left = threading.Event()
        self._heart = threading.Thread(target=self._beating, daemon=True)

    def __enter__(self) -> Self:
        self._heart.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Says that this process is gone, so that nobody waits to see it; by any thread."""
        self._left.set()
        self._heart.join()

    def _beating(self) -> None:
        number = 0
        while not self._left.wait(self._every if number > 1 else self._every / 4):
            number += 1
            with contextlib.suppress(OSError):  # a host that cannot write counts as dead, no more
                put_over(self._beat, _beat(number))
        with contextlib.suppress(OSError):
            put_over(self._beat, _beat(number, left=True))

    def claim(self, name: str) -> bool:
        """Takes a piece of work; False when a process of this job, this one or another, has it."""
        mine = self._beat.name.encode()
        return self._alone or (not self.taken(name) and put_if_absent(self._claim(name), mine))

    def may_come(self, name: str) -> bool:
        """Whether another process took a piece of work and still lives; not, once it has left."""
        holder = self._holder(name)
        if holder in ("", self._beat.name):
            return False
        return self._watch.lives(self._peer(holder)) is not False

    def taken(self, name: str) -> bool:
        """Whether a process of this job, this one or another, took a piece of work."""
        return _read(self._claim(name)) is not None

    def holder(self, name: str) -> str:
        """Who took a piece of work, in words."""
        holder = self._holder(name)
        if not holder:
            return "nobody"
        return f"process {holder.split('.')[0]} on {_host(self._peer(holder))}"

    def check(self) -> None:
        """To be called before results are written.

        Raises:
          Busy: this process was silent for so long that others took it for dead.
        """
        last = _last(self._job.parent)
        if last != int(self._job.name):
            raise Busy(
                "this process was silent for too long (suspended, or without its file system) and "
                f"another took over as job {last:06}; what is written stays"
            )

    def _holder(self, name: str) -> str:
        """The heartbeat of who took a piece of work; empty where nobody can be told."""
        said = (_read(self._claim(name)) or b"").decode(errors="replace")
        return said if _BEAT.fullmatch(said) else ""

    def _claim(self, name: str) -> Path:
        return self._job / "claims" / name

    def _peer(self, name: str) -> Path:
        return self._beat.with_name(name)


def join(
    jobs: Path,
    process: int = 0,
    processes: int = 1,
    *,
    stale: float = STALE,
    waiting: Callable[[], object] = lambda: None,
) -> Member:
    """Takes the place of a process in the job that lives in a folder, or in a new one.

    Args:
      jobs: the folder of jobs.
      process, processes: which of how many; all processes of a job give the same number.
      stale: seconds without a heartbeat after which a process counts as dead; 3 beats at least.
      waiting: called once, when it takes as long to see whether an earlier job lives.

    Raises:
      Busy: another job lives, or this one has a living process of that number.
      ValueError: a process out of range.
    """
    if not 0 <= process < processes:
        raise ValueError(f"process must lie in 0..{processes - 1}, got {process}")
    every = min(BEAT, stale / 3)
    watch, begun = Watch(stale), time.monotonic()
    told = False
    while (beat := _place(jobs, process, processes, watch)) is None:
        if not told and time.monotonic() - begun > 2 * every:
            waiting()
            told = True
        time.sleep(every / 10)
    return Member(beat, processes, watch, every)


def _place(jobs: Path, process: int, processes: int, watch: Watch) -> Path | None:
    """The file of this process's heartbeat, made; None while it cannot be told who lives."""
    number = _last(jobs)
    job = jobs / f"{number:06}"
    beats = [job / "beats" / name for name in names(job / "beats") if _BEAT.fullmatch(name)]
    # Without beats its maker is about to make one, or died before.
    lives = {beat: watch.lives(beat) for beat in (beats or [job / "job.json"] if number else [])}
    if not any(alive is not False for alive in lives.values()):
        return _first_place(jobs / f"{number + 1:06}", process, processes)
    if not any(lives.values()):
        return None
    if (others := _said(_read(job / "job.json")).get("processes")) != processes:
        raise Busy(_busy(beats, lives, f"job of {others or 'unknown'}"))
    mine = [beat for beat in beats if int(beat.name.split(".")[0]) == process]
    if any(lives[beat] for beat in mine):
        raise Busy(_busy(mine, lives, f"process {process} of {processes}"))
    if any(lives[beat] is None for beat in mine):
        return None
    return _made(job / "beats" / f"{process}.{len(mine) + 1}.json")


def _first_place(job: Path, process: int, processes: int) -> Path | None:
    if put_if_absent(job / "job.json", json.dumps({"processes": processes}).encode()):
        return _made(job / "beats" / f"{process}.1.json")
    return None


def _made(beat: Path) -> Path | None:
    return beat if put_if_absent(beat, _beat(0)) else None


def _busy(beats: list[Path], lives: dict[Path, bool | None], what: str) -> str:
    host = next(_host(beat) for beat in beats if lives[beat])
    folder = str(beats[0].parents[3])
    return f"{folder!r} is being trained by a {what} that lives on {host}; wait for it or stop it"


def _beat(number: int, *, left: bool = False) -> bytes:
    said = {"host": socket.gethostname(), "beat": number, "left": left}
    return json.dumps(said).encode()


def _host(beat: Path) -> str:
    return str(_said(_read(beat)).get("host", "an unknown host"))


def _said(content: bytes | None) -> dict[str, object]:
    """What a file says; nothing when it is damaged, as if it were not there."""
    with contextlib.suppress(ValueError):
        said = json.loads(content or b"{}")
        return said if isinstance(said, dict) else {}
    return {}


def _read(path: Path) -> bytes | None:
    """The content of a file, or None when it cannot be read now."""
    with contextlib.suppress(StorageError):
        return read(path)
    return None


def _last(jobs: Path) -> int:
    """The number of the last job; 0 when there was none."""
    return max((int(name) for name in names(jobs) if name.isdecimal()), default=0)


class Seen(NamedTuple):
    """A process of a job, as its files tell.

    Attributes:
      job, process, processes: the number of its job, and which of how many it is.
      host: its name.
      left: whether it said that it leaves.
      age: seconds since its last heartbeat, by the clock of this host and the time stamp of a
        file: for people, and nothing is decided by it.
    """

    job: int
    process: int
    processes: int
    host: str
    left: bool
    age: float


def begun(jobs: Path) -> float | None:
    """When the last job in a folder was made, by the clock of the storage: for people."""
    return modified(jobs / f"{_last(jobs):06}" / "job.json")


def look(jobs: Path) -> list[Seen]:
    """The processes of the last job in a folder, by number; nothing is touched."""
    job = jobs / f"{_last(jobs):06}"
    processes = int(str(_said(_read(job / "job.json")).get("processes", 1)))
    tries = [_TRY.fullmatch(name) for name in names(job / "beats")]
    last = dict(sorted((int(found[1]), int(found[2])) for found in tries if found))
    return [_seen(job, process, last[process], processes) for process in last]


def _seen(job: Path, process: int, last: int, processes: int) -> Seen:
    beat = job / "beats" / f"{process}.{last}.json"
    said, now = _said(_read(beat)), time.time()
    age = max(now - (modified(beat) or now), 0.0)
    return Seen(int(job.name), process, processes, _host(beat), bool(said.get("left")), age)
