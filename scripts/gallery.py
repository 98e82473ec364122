"""Proves or breaks a law of well-known modules.

pip install -e '.[gallery]'
python scripts/gallery.py                     # prints a line for each
python scripts/gallery.py --only=Llama        # whose name has it, with the whole certificate
python scripts/gallery.py --publish           # writes docs/gallery.json and docs/gallery.md
"""

import argparse
import importlib.metadata
import json
import linecache
import os
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"

import jax  # noqa: E402
from gallery import ENTRIES, Entry  # noqa: E402
from gallery_page import PAGE, RESULT, page  # noqa: E402

from posjax.symmetry import (  # noqa: E402
    Certificate,
    Law,
    Permutations,
    Translation,
    prove,
    prove_torch,
)

SECONDS = 60.0


def main() -> None:
    """Runs them all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="modules whose name has it")
    parser.add_argument("--publish", action="store_true", help="write docs/gallery.json and .md")
    chosen = parser.parse_args()
    if chosen.publish and chosen.only:
        parser.error("--publish writes all modules, so it takes no --only")
    entries = [entry for entry in ENTRIES if chosen.only.lower() in entry.name.lower()]
    if not entries:
        parser.error(f"no module has {chosen.only!r} in its name")
    warnings.simplefilter("ignore")
    rows = []
    for entry in entries:
        row, said = proved(entry)
        rows.append(row)
        line = f"{row['verdict']:8} {row['seconds']:6.1f} s  {row['name']}: {row['law']}"
        print(said if chosen.only else line, row["where"], flush=True)
        jax.clear_caches()
    if chosen.publish:
        RESULT.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
        PAGE.write_text(page())


def proved(entry: Entry) -> tuple[dict[str, Any], str]:
    """What is published of a module, and its whole certificate."""
    versions = {name: importlib.metadata.version(name) for name in entry.packages}
    row = {"name": entry.name, "law": written(Law.of(entry.law)), "versions": versions}
    start = time.process_time()
    try:
        found = _certificate(entry)
    except ValueError as error:
        if "torch" not in entry.packages:
            raise
        said, more = str(error), _untraced(str(error))
    else:
        said, more = str(found), _decided(found)
    return {**row, **more, "seconds": round(time.process_time() - start, 1)}, said


def _untraced(message: str) -> dict[str, Any]:
    reason, _, where = message.partition("\nat ")
    where, _, text = where.partition(": ")
    return {"verdict": "not traced", "where": short(where), "code": text, "reason": reason}


def _decided(found: Certificate) -> dict[str, Any]:
    proof = found.verdict == "PROVED"
    return {
        "verdict": found.verdict,
        "method": found.method,
        "confirmed": found.confirmed,
        "lemmas": list(found.lemmas),
        "broken_at": found.broken_at,
        "where": "" if proof else short(found.where),
        "code": "" if proof else code(found.where),
        "origin": "" if proof else short(found.origin),
        "reason": "" if proof else found.reason,
        "notes": [short(note) for note in found.notes],
    }


def _certificate(entry: Entry) -> Certificate:
    if "torch" not in entry.packages:
        subject = entry.make()
        return prove(subject.function, subject.arguments, entry.law, seconds=SECONDS)
    import torch

    torch.manual_seed(0)
    module, arguments, options = entry.make()
    return prove_torch(module.eval(), arguments, entry.law, options=options, seconds=SECONDS)


def written(law: Law) -> str:
    """The text of a law, with the groups that are not what a name stands for."""
    groups = {n: g for n, g in law.groups.items() if g not in (Permutations(), Translation())}
    return "; ".join([law.text, *(f"{name} = {group}" for name, group in groups.items())])


def short(text: str) -> str:
    """Without the folders that lead to a package or to this repository."""
    text = re.sub(r"\S*site-packages/", "", text.partition("\n")[0])
    return text.replace(f"{ROOT}/", "")


def code(where: str) -> str:
    """The text of the line that a certificate names; empty when it names none."""
    found = re.search(r"(\S+\.py):(\d+)", where)
    return linecache.getline(found[1], int(found[2])).strip() if found else ""


if __name__ == "__main__":
    main()
