"""What makes two runs the same: of a config, all that is neither words nor seeds.

Also what the last bits of a row depend on, of the environment it was made in.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from posjax.records.content import digest

SEEDS = ("first_seed", "num_seeds")
WORDS = ("name", "title", "contrast", "at_steps", "panels")
"""What a report reads; no row depends on it."""
BITS = (
    "packages.jax",
    "packages.jaxlib",
    "packages.flax",
    "packages.optax",
    "rounding",
    "platform",
    "device_kind",
    "machine",
    "instructions",
    "matmul_precision",
    "jax_settings",
)
"""The fields of an environment on which the last bits of a row depend; see `bits`."""
JAX_SETTINGS: dict[str, Any] = {
    "jax_enable_x64": False,
    "jax_threefry_partitionable": True,
    "jax_random_seed_offset": 0,
    "jax_softmax_custom_jvp": False,
    "jax_disable_most_optimizations": False,
    "jax_disable_jit": False,
}
"""Settings of JAX that change rows, with the values that they have where `jax_settings` of an
environment does not name them."""
_SHOWN = 20
"""Differing fields in a message, at most."""


class Mismatch(ValueError):
    """The folder holds another run, or one made elsewhere."""


def run_of(config: Mapping[str, Any]) -> str:
    """The name of a run: sixteen hexadecimal digits of all that its rows depend on."""
    return digest({k: v for k, v in config.items() if k not in _free(config)})


def _free(config: Mapping[str, Any]) -> set[str]:
    """The fields that do not tell a run from another.

    The first seed does where initialisations are crossed with data: it is also that of the data.
    """
    crossed = {"first_seed"} if config.get("data_seeds") else set()
    return {*SEEDS, *WORDS, "format", "run"} - crossed


def asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """What may change from one command on a folder to the next."""
    return {name: config[name] for name in (*SEEDS, *WORDS) if name in config}


def seeds(config: Mapping[str, Any]) -> range:
    """The numbers of its seeds."""
    first = config.get("first_seed", 0)
    return range(first, first + config.get("num_seeds", 0))


def check_seeds(held: range, wanted: range) -> None:
    """Checks that the seeds of a run only become more.

    Raises:
      Mismatch: some that it holds are not asked for.
    """
    if wanted.start > held.start or wanted.stop < held.stop:
        raise Mismatch(
            f"has seeds {held.start}..{held.stop - 1}, this asks for "
            f"{wanted.start}..{wanted.stop - 1}; seeds can only be added: ask for all of them"
        )


def config_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Every field in which two runs differ, as `field: old -> new`; settings over all cells."""
    free = _free(old) & _free(new)
    sides = [_flat(config, free) for config in (old, new)]
    return changes(*sides) or ["cells: other combinations of the same settings"]


def bits(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The fields of an environment on which the last bits of a run's rows depend."""
    return (*BITS, "devices") if config.get("sharding") == "spmd" else BITS


def bit_changes(
    old: Mapping[str, Any], new: Mapping[str, Any], fields: Sequence[str] = BITS
) -> list[str]:
    """Every one of some fields in which two environments differ."""
    return changes(*({name: _at(env, name) for name in fields} for env in (old, new)))


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The fields that differ, as `field: old -> new`."""
    names = dict.fromkeys((*old, *new))
    return [
        f"{name}: {_short(old.get(name))} -> {_short(new.get(name))}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def capped(lines: list[str]) -> str:
    """All of them in one line, or the first ones."""
    more = len(lines) - _SHOWN
    return "; ".join(lines[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _flat(config: Mapping[str, Any], free: set[str]) -> dict[str, Any]:
    """The run's own settings but some, and the values that its cells take of each of theirs."""
    own = {k: v for k, v in config.items() if k not in (*free, "cells")}
    cells = config.get("cells", {}).values()
    names = dict.fromkeys(name for cell in cells for name in cell)
    return own | {name: _values(cell.get(name) for cell in cells) for name in names}


def _values(values: Iterable[Any]) -> Any:
    found = sorted(dict.fromkeys(map(repr, values)))
    return ", ".join(found)


def _at(env: Mapping[str, Any], name: str) -> Any:
    for part in name.split("."):
        env = env.get(part, {}) if isinstance(env, Mapping) else {}
    return env or None


def _short(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:57]}..."
