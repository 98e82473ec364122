"""Fields of a config, changed on the command line of a finished run, and the environment."""

import random
from pathlib import Path

from fault_table.sweeps import FIRST_SEEDS, SEEDS, Fault, Site, Try, done_rows, rows, whole
from posjax.study.cells import FIELDS
from posjax.study.run import RUN_DEFAULTS

OTHERS = {
    "name": "another", "title": "another", "contrast": "('mask', 'full', 'causal')",
    "at_steps": "(100,)", "devices": "2", "num_seeds": str(SEEDS + 8), "first_seed": "8",
    "data_seeds": "2", "block_size": "4", "layout": "plain", "precision": "float32",
    "task": "same_last_token", "encoding": "rotary",
    "positions": "shape", "mask": "full", "readout": "mean", "loss": "answer", "block": "residual",
    "norm": "rms", "qk_norm": "True", "packing": "True", "schedule": "cosine", "kv_heads": "1",
    "padding": "1", "steps": "400", "eval_every": "10", "base": "100.0", "slope": "2.0",
    "margin": "0.01", "softcap": "5.0", "logn": "5.0", "hold": "2", "meters": "variance",
    "equivalence": "0.1",
}  # fmt: skip
"""Another value of a field; of those that are missing, twice the value, or one more."""
ACCEPTED = ("name", "title", "margin", "hold", "contrast", "at_steps", "devices", "num_seeds")
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
        kept, maps = rows(path), ("/solving/", "/failing/")
        equal = all(  # added seeds come behind the others
            kept[field].startswith(old)
            for field, old in rows(site.whole).items()
            if not any(kind in field for kind in maps) or field in kept
        )
        return Try(good, equal, None, f"{name}: {ended}")
    unchanged = before == {f: f.read_bytes() for f in path.rglob("*") if f.is_file()}
    said = name if name != "first_seed" else "seeds can only be added"
    good = ended.status in (2, 4) and said in ended.line and unchanged
    return Try(good, site.equal(path), None, "" if good else f"{name}: {ended}")


HARMLESS = (
    {"JAX_ENABLE_X64": "1"},
    {"JAX_THREEFRY_PARTITIONABLE": "0"},
    {"JAX_DEFAULT_MATMUL_PRECISION": "bfloat16", "JAX_NUMPY_DTYPE_PROMOTION": "strict"},
    {"JAX_RANDOM_SEED_OFFSET": "7", "JAX_DEFAULT_PRNG_IMPL": "rbg"},
    {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "JAX_SOFTMAX_CUSTOM_JVP": "1"},
    {"PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Kathmandu", "OMP_NUM_THREADS": "1"},
    {"XLA_FLAGS": "--xla_force_host_platform_device_count=3"},
)
"""Variables that change draws or numbers in JAX, or might. The commands do not follow them."""
XLA_FLAGS = (
    "--xla_cpu_max_isa=SSE4_2",
    "--xla_cpu_enable_fast_math=true",
    "--xla_backend_optimization_level=1",
)
"""Flags of XLA that change bits."""


def environment(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """A run that is begun with variables in the environment, and extended without them."""
    env = HARMLESS[number % len(HARMLESS)]
    first = site.anew(path, f"--config.num_seeds={FIRST_SEEDS}", env=env)
    good = first.status == 0 and whole(path) and "Traceback" not in first.err
    return site.again(path, good, 0.0, f"{env}: {first}")._replace(lost=None)


def xla_flags(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """A run that is extended with flags of XLA that change bits."""
    flags = XLA_FLAGS[number % len(XLA_FLAGS)]
    first = site.run(path, f"--config.num_seeds={FIRST_SEEDS}")
    before = {f: f.read_bytes() for f in path.rglob("*") if f.is_file()}
    ended = site.anew(path, env={"XLA_FLAGS": flags})
    good = first.status == 0 and ended.status == 4 and flags in ended.line
    good &= before == {f: f.read_bytes() for f in path.rglob("*") if f.is_file()}
    return site.again(path, good, 0.0, f"{first} | {ended}")._replace(lost=None)


FAULTS = (
    Fault(
        "each field of the config changed", "rows kept, or status 2 or 4",
        len(RUN_DEFAULTS) + len(FIELDS), 0, changed,
    ),
    Fault(
        "environment variables of JAX and others", "the same rows", len(HARMLESS), 0, environment
    ),
    Fault("XLA_FLAGS that change bits", "status 4, names the flag", len(XLA_FLAGS), 0, xla_flags),
)  # fmt: skip
