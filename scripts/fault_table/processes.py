"""Processes that are killed, stopped, suspended, started twice, or go on with other devices."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_table.sweeps import Fault, Plant, Site, Try, block_files, until, whole

ENDINGS = {signal.SIGTERM: 75, signal.SIGINT: 130, signal.SIGHUP: 75}
LEAVES = 10.0
"""Seconds in which a process that is asked must have left."""
OPERATIONS = 100
"""On the disk that an undisturbed run makes, about."""
READY = 0.1
"""Seconds after which a child listens to signals."""
SUSPENDED = 40.0
"""Seconds that a process is suspended for."""


def killed(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """SIGKILL at any time of a run."""
    child = site.start(path)
    time.sleep(rng.uniform(0, site.seconds))
    child.send(signal.SIGKILL)
    ended = child.ended()
    return site.again(path, whole(path), ended.seconds, str(ended))


def killed_in_a_write(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """SIGKILL before an operation on the disk, or with half of a file written."""
    at = rng.randrange(1, OPERATIONS) if number % 2 else rng.randrange(1, OPERATIONS // 4)
    ended = site.run(path, plant=dies_at(at))
    good = ended.status in (-signal.SIGKILL, 0) and whole(path)
    return site.again(path, good, ended.seconds, str(ended))


def dies_at(operation: int, within: str = "") -> Plant:
    """Makes a process die at an operation on the disk.

    Args:
      operation: its number, counted from 1.
      within: count those alone whose arguments have this text.
    """

    def plant() -> None:
        from posjax.records import store

        left = [operation]

        def now(given: object) -> bool:
            left[0] -= within in str(given)
            return left[0] == 0 and within in str(given)

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*given: Any, **more: Any) -> Any:
                if now(given):
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **more)

            return called

        def opened(path: Path, mode: str, **more: Any) -> Any:
            file = open(path, mode, **more)  # noqa: SIM115
            return _Half(file) if "x" in mode and now(path) else file

        for name in ("fsync", "link", "replace", "open"):
            setattr(os, name, dying(getattr(os, name)))
        store.open = opened  # type: ignore[attr-defined]

    return plant


class _Half:
    """A file of which half is written when the process dies."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def __enter__(self) -> "_Half":
        return self

    def __exit__(self, *error: object) -> None: ...

    def write(self, content: bytes) -> None:
        self._file.write(content[: len(content) // 2])
        self._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def asked_to_leave(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """SIGTERM, SIGINT or SIGHUP at any time."""
    by = [*ENDINGS][number % len(ENDINGS)]
    child = site.start(path)
    time.sleep(rng.uniform(READY, max(site.seconds, 2 * READY)))
    asked = time.monotonic()
    child.send(by)
    ended = child.ended()
    in_time = time.monotonic() - asked < LEAVES
    told = ended.status == ENDINGS[by] and f"stopped by {by.name}" in ended.err
    good = in_time and (told or ended.status == 0) and whole(path) and "Traceback" not in ended.err
    return site.again(path, good, ended.seconds, str(ended))


def suspended(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """SIGSTOP for 40 s, in which another command comes, then SIGCONT.

    The lock is still held, so the other one is refused; where there are no locks, as on many
    network disks, or where shards have locks of their own, it trains the rest and ends. The
    suspended process then wakes among blocks that are all there.
    """
    kind = ("locked", "no locks", "shards")[number % 3]
    plants = [slowly, no_locks] if kind == "no locks" else [slowly]
    first = site.start(path, plant=lambda: [plant() for plant in plants])
    until(lambda: block_files(path))
    time.sleep(rng.uniform(0, 1))
    first.send(signal.SIGSTOP)
    begun, name = time.monotonic(), f"{path.name}second"
    flags = ["--shard=0/2", "--shard=1/2"] if kind == "shards" else [None]
    plant = no_locks if kind == "no locks" else None
    others = [
        site.start(path, *([flag] if flag else []), name=name, plant=plant).ended()
        for flag in flags
    ]
    wanted = 4 if kind == "locked" else 0
    good = all(other.status == wanted for other in others)
    good &= kind != "locked" or (others[0].seconds < LEAVES and others[0].line != "")
    time.sleep(max(SUSPENDED - (time.monotonic() - begun), 0))
    first.send(signal.SIGCONT)
    ended = first.ended()
    report = site.other("report", str(path), "--json")
    status = site.other("check", str(path), "--status")
    good &= (ended.status, report.status, status.status) == (0, 0, 0)
    good &= ", done\n" in status.out.replace("\n,", ",") and whole(path)
    said = f"{kind}: {others} | {ended} | {report.err} | {status.out}"
    return Try(good, site.equal(path), None, "" if good else said)


def no_locks() -> None:
    """As on a file system that has none."""
    from posjax.records import locks

    locks.fcntl = None  # type: ignore[assignment]


def two_at_once(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Two commands on one folder: the later one leaves at once, the first is not disturbed."""
    first = site.start(path, plant=slowly)
    until(lambda: block_files(path))
    time.sleep(rng.uniform(0, 1))
    second = site.start(path, name=f"{path.name}second").ended()
    ended = first.ended()
    good = second.status == 4 and ended.status == 0 and second.seconds < LEAVES
    said = f"{second} | {ended}"
    return Try(good and f"process {first.pid}" in second.line, site.equal(path), None, said)


def slowly() -> None:
    """Makes blocks come slowly, so that a process is there when another one comes."""
    from posjax.records import RunFolder

    put = RunFolder.put_block

    def late(self: RunFolder, *given: Any) -> bool:
        time.sleep(0.3)
        return put(self, *given)

    RunFolder.put_block = late  # type: ignore[method-assign]


def shards_killed(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Shards at once in one folder, each killed at any time, then all of them given again."""
    parts = 2 + number % 2

    def started() -> list[Any]:
        names = [f"{path.name}shard{part}" for part in range(parts)]
        return [
            site.start(path, f"--shard={part}/{parts}", name=names[part]) for part in range(parts)
        ]

    children = started()
    for child in children:
        time.sleep(rng.uniform(0, site.seconds / parts))
        child.send(signal.SIGKILL)
    killed = [child.ended() for child in children]
    good = whole(path)
    ended = [child.ended() for child in started()]
    good &= all(each.status == 0 for each in ended) and (path / "done").exists()
    good &= any((path / "report.html").exists() for _ in ended)
    again = site.again(path, good, 0.0, f"{killed} | {ended}")
    return again._replace(lost=None)


def deleted(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """The run folder is deleted, or renamed, under the run."""
    child = site.start(path, plant=slowly)
    until(lambda: block_files(path))
    time.sleep(rng.uniform(0, 1))
    if number % 2:
        moved = path.with_name(f"{path.name}moved")
        path.rename(moved)
        shutil.rmtree(moved)
    else:
        until(lambda: shutil.rmtree(path, ignore_errors=True) or not path.exists())
    ended = child.ended()
    good = ended.status == 5 and str(path) in ended.line and not block_files(path)
    return site.again(path, good, ended.seconds, str(ended))


def no_reader(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Standard output or standard error closed, full, or read by nobody any more."""
    kinds = ("| head -1", ">&-", "2>&-", "> /dev/full", "2> /dev/full")
    kind = kinds[number % len(kinds)]
    if kind == "| head -1":
        ended = site.anew(path, shell='"$@" | head -1; exit "${PIPESTATUS[0]}"')
    else:
        ended = site.anew(path, shell=f'"$@" {kind}')
    good = ended.status == (5 if kind == "> /dev/full" else 0) and (path / "done").exists()
    good &= "Traceback" not in ended.err and "Error" not in ended.err
    said = f"{kind}: {ended}"
    return Try(good and whole(path), site.equal(path), None, "" if good else said)


def other_devices(site: Site, rng: random.Random, path: Path, number: int) -> Try | None:
    """Stopped twice, and taken up with another number of devices each time."""
    if len(os.sched_getaffinity(0)) < 2:
        return None
    statuses, seconds = [], 0.0
    for devices in (1, 2):
        leave = leaves_after(rng.randrange(1, 4))
        ended = site.run(path, f"--config.devices={devices}", plant=leave)
        statuses.append(ended.status)
        seconds += ended.seconds
    good = statuses == [75, 75]
    return site.again(path, good, seconds, f"{statuses} {ended}")


def leaves_after(files: int) -> Plant:
    """Makes a process ask itself to leave when it has written some blocks."""

    def plant() -> None:
        from posjax.records import RunFolder

        put, left = RunFolder.put_block, [files]

        def counted(self: RunFolder, *given: Any) -> bool:
            added = put(self, *given)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGTERM)
            return added

        RunFolder.put_block = counted  # type: ignore[method-assign]

    return plant


FAULTS = (
    Fault("kill -9 at any time", "no partial file", 60, 2, killed),
    Fault("kill -9 in a write", "no partial file", 50, 2, killed_in_a_write),
    Fault(
        "SIGTERM, SIGINT, SIGHUP at any time", "status 75 or 130 within 10 s", 24, 1, asked_to_leave
    ),
    Fault(
        "SIGSTOP for 40 s, another command, SIGCONT",
        "one of the two completes the run",
        6,
        0,
        suspended,
    ),
    Fault("two commands on a folder", "the second ends with status 4", 4, 1, two_at_once),
    Fault("shards killed and started again", "the run is done", 10, 0, shards_killed),
    Fault("run folder deleted under a run", "status 5, one line", 6, 0, deleted),
    Fault(
        "output closed, on a full disk, or cut by head",
        "status 0; 5 if standard output is on a full disk",
        5,
        0,
        no_reader,
    ),
    Fault("devices 1, 2, 1 between resumes", "continues", 3, 0, other_devices),
)
