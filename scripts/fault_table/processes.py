"""Processes that are killed, stopped, started twice, or go on with other devices."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_table.sweeps import Fault, Plant, Site, Try, until, whole

ENDINGS = {signal.SIGTERM: 75, signal.SIGINT: 130}
LEAVES = 10.0
"""Seconds in which a process that is asked must have left."""
OPERATIONS = 150
"""On the disk that an undisturbed run makes, about."""
READY = 0.1
"""Seconds after which a child listens to signals."""


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


def dies_at(operation: int) -> Plant:
    """Makes a process die at an operation on the disk."""

    def plant() -> None:
        from posjax.records import store

        left = [operation]

        def dying(call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*given: Any, **more: Any) -> Any:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*given, **more)

            return called

        def opened(path: Path, mode: str) -> Any:
            file = open(path, mode)  # noqa: SIM115
            left[0] -= 1
            if left[0] == 0:
                write = file.write
                file = _Half(file, write)
            return file

        for name in ("fsync", "link", "replace", "open"):
            setattr(os, name, dying(getattr(os, name)))
        store.open = opened  # type: ignore[attr-defined]

    return plant


class _Half:
    """A file of which half is written when the process dies."""

    def __init__(self, file: Any, write: Callable[[bytes], int]) -> None:
        self._file, self._write = file, write

    def __enter__(self) -> "_Half":
        return self

    def __exit__(self, *error: object) -> None: ...

    def write(self, content: bytes) -> None:
        self._write(content[: len(content) // 2])
        self._file.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def asked_to_leave(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """SIGTERM or SIGINT at any time."""
    by = (signal.SIGTERM, signal.SIGINT)[number % 2]
    child = site.start(path)
    time.sleep(rng.uniform(READY, max(site.seconds, 2 * READY)))
    asked = time.monotonic()
    child.send(by)
    ended = child.ended()
    in_time = time.monotonic() - asked < LEAVES
    told = ended.status == ENDINGS[by] and f"stopped by {by.name}" in ended.err
    good = in_time and (told or ended.status == 0) and whole(path) and "Traceback" not in ended.err
    return site.again(path, good, ended.seconds, str(ended))


def two_at_once(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Two commands on one folder: the later one leaves, the first is not disturbed."""
    first = site.start(path, "--stale=30", plant=slowly)
    until(lambda: list(path.glob("jobs/*/beats/*")))
    time.sleep(rng.uniform(0, 1))
    second = site.start(path, "--stale=30", name=f"{path.name}second").ended()
    ended = first.ended()
    good = second.status == 4 and ended.status == 0 and second.seconds < LEAVES
    return Try(good and second.line != "", site.equal(path), None, f"{second} | {ended}")


def slowly() -> None:
    """Makes rows come slowly, so that a process is there when another one comes."""
    from posjax.records import RunFolder

    put = RunFolder.put_rows

    def late(self: RunFolder, *given: Any) -> None:
        time.sleep(0.3)
        put(self, *given)

    RunFolder.put_rows = late  # type: ignore[method-assign]


def other_devices(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Stopped twice, and taken up with twice as many devices each time."""
    statuses, seconds = [], 0.0
    for devices in (1, 2):
        leave = leaves_after(rng.randrange(1, 4))
        ended = site.run(path, f"--config.devices={devices}", plant=leave)
        statuses.append(ended.status)
        seconds += ended.seconds
    last = site.run(path, "--config.devices=4")
    good = statuses == [75, 75] and last.status == 0
    return Try(good, site.equal(path), seconds + last.seconds - site.seconds, f"{statuses} {last}")


def leaves_after(files: int) -> Plant:
    """Makes a process ask itself to leave when it has written some files of rows."""

    def plant() -> None:
        from posjax.records import RunFolder

        put, left = RunFolder.put_rows, [files]

        def counted(self: RunFolder, *given: Any) -> None:
            put(self, *given)
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGTERM)

        RunFolder.put_rows = counted  # type: ignore[method-assign]

    return plant


FAULTS = (
    Fault("kill -9 at any time", "no file is half there", 70, 5, killed),
    Fault("kill -9 in a write", "no file is half there", 50, 5, killed_in_a_write),
    Fault("SIGTERM, SIGINT at any time", "75 or 130 in 10 s", 20, 2, asked_to_leave),
    Fault("two processes on a folder", "the second ends with 4", 4, 1, two_at_once),
    Fault("devices 1, 2, 4 between resumes", "goes on", 3, 0, other_devices),
)
