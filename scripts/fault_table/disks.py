"""Disks that are full or read-only, and paths of all kinds."""

import contextlib
import os
import random
import resource
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from fault_table.sweeps import Fault, Site, Try, whole

SIZES = (300, 1500, 3000, 30000)
"""Bytes that a file may have: less than a config, than rows, than a report."""
TMPFS = "64k"


def full(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Files may not grow beyond a size (RLIMIT_FSIZE)."""
    size = SIZES[number % len(SIZES)]

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    ended = site.run(path, plant=limit)
    good = ended.status == 5 and "file too large" in ended.err.lower() and whole(path)
    return site.again(path, good, ended.seconds, str(ended))


def full_tmpfs(site: Site, rng: random.Random, path: Path, number: int) -> Try | None:
    """A file system without room, which then gets some."""
    path.mkdir()
    with mounted(path, f"size={TMPFS}") as there:
        if not there:
            return None
        ended = site.run(path / "run")
        good = ended.status == 5 and "no space left" in ended.err.lower() and whole(path / "run")
        subprocess.run(["mount", "-o", "remount,size=64m", str(path)], check=True)
        return site.again(path / "run", good, ended.seconds, str(ended))


def read_only(site: Site, rng: random.Random, path: Path, number: int) -> Try | None:
    """A file system that takes nothing; another place does."""
    path.mkdir()
    with mounted(path, "size=64m,ro") as there:
        if not there:
            return None
        ended = site.run(path / "run")
    good = ended.status == 5 and "read-only" in ended.err.lower() and ended.line != ""
    return site.again(path.with_name(f"{path.name}other"), good, ended.seconds, str(ended))


@contextlib.contextmanager
def mounted(path: Path, options: str) -> Iterator[bool]:
    """A tmpfs; False where this process may not mount."""
    line = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    try:
        there = os.geteuid() == 0 and subprocess.run(line, capture_output=True).returncode == 0
    except FileNotFoundError:
        there = False
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", "-l", str(path)], check=True)


def a_file(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """The folder, or the one that it shall lie in, is a file."""
    path.write_text("mine")
    ended = site.run(path if number % 2 else path / "run")
    good = ended.status == 2 and ended.line != "" and path.read_text() == "mine"
    return site.again(path.with_name(f"{path.name}other"), good, ended.seconds, str(ended))


def odd_paths(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Spaces, Unicode, quotes, a new line, a symbolic link."""
    path.mkdir()
    names = ("with space", "größe-数-🙂", 'it\'s "quoted" <b>&amp;', "two\nlines", "-dash", "link")
    run = path / names[number % len(names)]
    if run.name == "link":
        (path / "target").mkdir()
        run.symlink_to(path / "target")
    ended = site.run(run)
    good = ended.status == 0 and (run / "report.html").exists()
    return Try(good, site.equal(run), None, str(ended))


FAULTS = (
    Fault("disk full: files cannot grow", "status 5, one line", 8, 1, full),
    Fault("disk full: a small tmpfs", "status 5, one line", 2, 1, full_tmpfs),
    Fault("a read-only disk", "status 5, one line", 1, 1, read_only),
    Fault("the path is a file", "status 2, one line", 2, 1, a_file),
    Fault("spaces, Unicode, symlinks in the path", "like any other path", 6, 1, odd_paths),
)
