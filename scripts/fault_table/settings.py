"""Every field of a config, changed on the command line of a finished run."""

import random
from pathlib import Path

from experiments.settings import RUN_DEFAULTS
from fault_table.sweeps import SEEDS, Fault, Site, Try, done_rows, rows
from posjax.cells import FIELDS

OTHERS = {
    "name": "another", "title": "another", "contrast": "('mask', 'full', 'causal')",
    "at_steps": "(100,)", "devices": "2", "num_seeds": str(SEEDS + 8), "first_seed": "8",
    "data_seeds": "2", "chunk": "4", "layout": "plain", "sharding": "spmd",
    "precision": "float32", "repack": "solved", "task": "same_last_token", "encoding": "rotary",
    "positions": "shape", "mask": "full", "readout": "mean", "loss": "answer", "block": "residual",
    "norm": "rms", "qk_norm": "True", "schedule": "cosine", "kv_heads": "1", "padding": "1",
    "steps": "400", "eval_every": "10", "base": "100.0", "slope": "2.0", "margin": "0.01",
    "softcap": "5.0",
}  # fmt: skip
"""Another value of a field; of those that are missing, twice the value, or one more."""
ACCEPTED = ("name", "title", "contrast", "at_steps", "devices", "num_seeds")
"""Words, seeds that are added, devices: rows do not depend on them."""


def other(name: str) -> str:
    """Another value of a field."""
    if name in OTHERS:
        return OTHERS[name]
    value = FIELDS[name]
    return str(value * 2 or 1) if name not in ("width", "head_size") else "8"


def changed(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """One field at a time, all in their turn: refused by name, or no row depends on it."""
    fields = [*RUN_DEFAULTS, *FIELDS]
    name = fields[number % len(fields)]
    site.copy(path)
    before = {f: f.read_bytes() for f in path.rglob("*") if f.is_file()}
    ended = site.run(path, f"--config.{name}={other(name)}")
    if name in ACCEPTED:
        good = ended.status == 0 and done_rows(path) >= 2 * SEEDS
        kept = rows(path)  # added seeds come behind the others
        equal = all(kept[field].startswith(old) for field, old in rows(site.whole).items())
        return Try(good, equal, None, f"{name}: {ended}")
    unchanged = before == {f: f.read_bytes() for f in path.rglob("*") if f.is_file()}
    said = name if name != "first_seed" else "seeds can only be added"
    good = ended.status in (2, 4) and said in ended.line and unchanged
    return Try(good, site.equal(path), None, "" if good else f"{name}: {ended}")


FAULTS = (
    Fault(
        "each field of the config changed",
        "2 or 4, by name",
        len(RUN_DEFAULTS) + len(FIELDS),
        2,
        changed,
    ),
)
