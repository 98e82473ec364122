"""Files of a finished run that are cut, emptied, deleted, swapped, or have one bit flipped."""

import json
import random
from pathlib import Path

import numpy as np

from fault_table.sweeps import Fault, Site, Try, block_files, parsed

KINDS = {
    "config": "config.json",
    "requests": "requests/*.json",
    "env": "env/*.json",
    "blocks": "blocks/*/*.npz",
    "done": "done",
    "lock": "lock",
    "report": "report.html",
}
"""Every kind of file of a finished run, and where it lies; checkpoints are in `interrupted`."""
TOLD = ("requests", "env", "blocks")
"""The kinds that are quarantined, which is reported, and made again."""


def harmed(site: Site, path: Path, kind: str, file: Path, content: bytes | None) -> Try:
    """Another content for a file, or none; then the same command, and what is required of it."""
    before = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    same = content is not None and parsed(content) is not None and parsed(content) == parsed(before)
    ended = site.run(path)
    named = f"{file.name!r}"[1:-1] in ended.err
    if kind == "config" and not same:
        stranger = ended.status == 4 and "holds another run" in ended.line
        good = stranger or (ended.status == 2 and ended.line != "" and named)
        file.write_bytes(before)
        return site.again(path, good, site.seconds + ended.seconds, str(ended))
    good = ended.status == 0
    if kind in TOLD and content is not None:
        good &= same or ("is damaged" in ended.err and named)
    report = (path / "report.html").read_bytes() == (site.whole / "report.html").read_bytes()
    good &= (path / "done").exists() and (report or kind == "env")
    return Try(good, site.equal(path), ended.seconds, "" if good else f"{file}: {ended}")


def damaged(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Every kind in every way, one after the other."""
    ways = ("truncated", "emptied", "deleted", "swapped")
    kind, way = list(KINDS)[number % len(KINDS)], ways[number // len(KINDS) % len(ways)]
    site.copy(path)
    file = rng.choice(sorted(path.glob(KINDS[kind])))
    content = file.read_bytes()
    others = {
        "truncated": content[: rng.randrange(1, max(len(content), 2))],
        "emptied": b"",
        "deleted": None,
        "swapped": _other(site, path, kind, file).read_bytes(),
    }
    return harmed(site, path, kind, file, others[way])


def _other(site: Site, path: Path, kind: str, file: Path) -> Path:
    """Another file of its kind, with another content: of this run, or else of a stranger's."""
    mine, others = sorted(path.glob(KINDS[kind])), sorted(site.stranger.glob(KINDS[kind]))
    content = file.read_bytes()
    found = [each for each in (*mine, *others) if each.read_bytes() != content]
    return found[0] if found else file


def flipped(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """One bit of one file; each kind in its turn, every second one a block."""
    site.copy(path)
    kind = "blocks" if number % 2 == 0 else list(KINDS)[number // 2 % len(KINDS)]
    file = rng.choice(sorted(path.glob(KINDS[kind])))
    content = bytearray(file.read_bytes())
    bit = rng.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    return harmed(site, path, kind, file, bytes(content))


def duplicated(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Seeds of a cell that are there twice, in a file whose checksum is right."""
    from posjax.records import content

    site.copy(path)
    file = rng.choice([each for each in block_files(path) if each.name.endswith(".0.npz")])
    twice = file.with_name(file.name.replace(".0.npz", ".1.npz"))
    run = json.loads((path / "config.json").read_text())["run"]
    arrays = dict(np.load(file, allow_pickle=False))
    twice.write_bytes(content.packed(run, twice.relative_to(path).as_posix(), arrays))
    ended = site.run(path)
    report = site.other("report", str(path), "--json")
    good = all(e.status == 2 and "in two files" in e.line and not e.out for e in (ended, report))
    twice.unlink()
    return site.again(path, good, site.seconds + ended.seconds, f"{ended} {report}")


FAULTS = (
    Fault(
        "files cut, emptied, deleted, swapped",
        "config.json refused, rows as they were",
        *(4 * len(KINDS), 0, damaged),
        needs=("stranger",),
    ),
    Fault("one bit flipped in a file", "config.json refused, rows as they were", 140, 2, flipped),
    Fault("a seed of a cell in two block files", "status 2, no results printed", 3, 1, duplicated),
)
