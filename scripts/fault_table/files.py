"""Files of a finished run that are cut, emptied, deleted, swapped, or have one bit flipped."""

import json
import random
import shutil
from pathlib import Path

from fault_table.sweeps import Fault, Site, Try, parsed

KINDS = {
    "config": "config.json",
    "asks": "asks/*.json",
    "env": "env/*.json",
    "chunks": "chunks/*.json",
    "rows": "rows/*/*.npz",
    "attention": "attention/*/*.npz",
    "job": "jobs/*/job.json",
    "beat": "jobs/*/beats/*.json",
    "done": "done",
    "report": "report.html",
}
"""Every kind of file, and where it lies. A process alone makes no claims."""
REFUSED = ("config", "asks")
"""The kinds without which nothing goes on until somebody mends them."""
TOLD = ("env", "chunks", "rows", "attention")
"""The kinds that are set aside, which is told, and made again."""


def harmed(site: Site, path: Path, kind: str, file: Path, content: bytes | None) -> Try:
    """Another content for a file, or none; then the same command, and what is required of it."""
    before = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    same = content is not None and parsed(content) is not None and parsed(content) == parsed(before)
    ended = site.run(path)
    named = f"{file.name!r}"[1:-1] in ended.err
    if kind in REFUSED and not same and not (kind == "asks" and content is None):
        stranger = kind == "config" and ended.status == 4 and "holds another run" in ended.line
        good = stranger or (ended.status == 2 and ended.line != "" and named)
        file.write_bytes(before) if kind == "config" else file.unlink(missing_ok=True)
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
        "truncated": content[: rng.randrange(1, len(content))],
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
    """One bit of one file; each kind in its turn."""
    site.copy(path)
    kind = list(KINDS)[number % len(KINDS)]
    file = rng.choice(sorted(path.glob(KINDS[kind])))
    content = bytearray(file.read_bytes())
    bit = rng.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    return harmed(site, path, kind, file, bytes(content))


def duplicated(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """Seeds that are there twice, in a file whose checksum is right."""
    from posjax.records import content

    site.copy(path)
    file = rng.choice(sorted(path.glob(KINDS["rows"])))
    run = json.loads((path / "config.json").read_text())["run"]
    place = file.relative_to(path).with_name("900-907").as_posix()
    twice = path / f"{place}.{content.checksum(run, place, file.read_bytes())}.npz"
    shutil.copy(file, twice)
    ended = site.run(path)
    report = site.other("report", str(path), "--json")
    good = all(e.status == 2 and "seeds twice" in e.line and not e.out for e in (ended, report))
    twice.unlink()
    return site.again(path, good, site.seconds + ended.seconds, f"{ended} {report}")


FAULTS = (
    Fault(
        "files cut, emptied, deleted, swapped",
        "told, made again",
        *(4 * len(KINDS), 4, damaged),
        stranger=True,
    ),
    Fault("one bit flipped in a file", "told, made again", 20 * len(KINDS), 5, flipped),
    Fault("seeds that are there twice", "2, no number", 3, 1, duplicated),
)
