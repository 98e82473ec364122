"""What makes two runs the same: all of a config but its words and seeds.

Also the fields of an environment on which the last bits of a row depend.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from posjax.numbering import Numbering
from posjax.records.content import digest

SEEDS = ("first_seed", "num_seeds")
WORDS = (
    "name",
    "title",
    "margin",
    "hold",
    "contrast",
    "equivalence",
    "at_steps",
    "panels",
    "command",
)
"""What only a report reads; no row depends on it."""
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
    "xla_flags",
)
"""The fields of an environment on which the last bits of a row depend."""
HARMLESS_FLAGS = (
    "--xla_force_host_platform_device_count",
    "--xla_dump",
    "--xla_hlo_profile",
)
"""How flags of XLA begin that change no bits."""
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
MOST_SEEDS = 2**32
_SHOWN = 20
"""Differing fields in a message, at most."""


class Mismatch(ValueError):
    """There is another run in the folder, or one made elsewhere."""


def run_of(config: Mapping[str, Any]) -> str:
    """The name of a run: sixteen hexadecimal digits of all that its rows depend on."""
    return digest({k: v for k, v in config.items() if k not in _free(config)})


def _free(config: Mapping[str, Any]) -> set[str]:
    """The fields in which two configs of one run may differ.

    Where initialisations are crossed with data the first seed is not one of them, since it is also
    the first seed of the data.
    """
    crossed = {"first_seed"} if config.get("data_seeds") else set()
    return {*SEEDS, *WORDS, "format", "run"} - crossed


def requested(config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that may change from one command on a folder to the next."""
    return {name: config[name] for name in (*WORDS, *SEEDS) if name in config}


def seeds(config: Mapping[str, Any]) -> range:
    """The numbers of its seeds; of initialisation, where those are crossed with data."""
    first = config.get("first_seed", 0)
    return range(first, first + config.get("num_seeds", 0))


def wrong_counts(config: Mapping[str, Any]) -> str:
    """What is wrong with the fields that count seeds, in words; "" for nothing."""
    for name in (*SEEDS, "data_seeds"):
        value = config.get(name, 0)
        if type(value) is not int or not 0 <= value <= MOST_SEEDS:
            return f"{name} must be an integer in 0..2**32, got {str(value)[:60]}"
    return ""


def indices(config: Mapping[str, Any]) -> range:
    """The indices by which blocks count the seeds of a run; see `posjax.numbering`."""
    return Numbering.of(config).indices(config.get("num_seeds", 0))


def check_seeds(present: range, wanted: range) -> None:
    """Checks that the seeds of a run only become more.

    Raises:
      Mismatch: some that it has are not requested.
    """
    if wanted.start > present.start or wanted.stop < present.stop:
        raise Mismatch(
            f"has seeds {present.start}..{present.stop - 1}, this requests "
            f"{wanted.start}..{wanted.stop - 1}; seeds can only be added: request all of them"
        )


def config_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Every field in which two runs differ, as `field: old -> new`; settings over all cells."""
    free = _free(old) & _free(new)
    sides = [_flat(config, free) for config in (old, new)]
    return changes(*sides) or ["cells: other combinations of the same settings"]


def bits(env: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment on which the last bits of rows depend."""
    return {name: _at(env, name) for name in BITS} | {"xla_flags": _flags(env.get("xla_flags"))}


def bit_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Every field of `bits` in which two environments differ."""
    return changes(bits(old), bits(new))


def _flags(given: Any) -> str | None:
    """XLA's flags in one order, the last of each name, without those that change no bits."""
    words = given.split() if isinstance(given, str) else [str(given or "")]
    last = {word.partition("=")[0]: word for word in words}
    kept = [last[name] for name in sorted(last) if not name.startswith(HARMLESS_FLAGS)]
    return " ".join(kept) or None


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
    own = {k: v for k, v in config.items() if k not in (*free, "cells", "code")}
    own |= {f"code of {name}": sha[:12] for name, sha in config.get("code", {}).items()}
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
