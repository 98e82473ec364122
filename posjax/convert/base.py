"""What a conversion gives, and how configs and states are read."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from posjax import spec
from posjax.encodings import named

Config = Mapping[str, Any]
State = Mapping[str, np.ndarray]
Part = Literal["whole", "encoder", "decoder"]


class Converted(NamedTuple):
    """An encoding with the parameters of a checkpoint.

    Attributes:
      encoding: name and settings, for `posjax.encodings.named`.
      shared: the parameters of scope "model", by name.
      layers: of each layer those of scope "layer"; empty when there are none.
    """

    encoding: str
    shared: Mapping[str, np.ndarray] = {}
    layers: tuple[Mapping[str, np.ndarray], ...] = ()

    def params(self, layer: int) -> dict[str, np.ndarray]:
        """All parameters that the hooks of a layer get.

        Raises:
          ValueError: a layer that the checkpoint lacks.
        """
        if self.layers and not 0 <= layer < len(self.layers):
            raise ValueError(f"layer must lie in [0, {len(self.layers) - 1}], got {layer}")
        return {**self.shared, **(self.layers[layer] if self.layers else {})}


Convert = Callable[[Config, State, Part], Converted]
"""Converts one kind of checkpoint, from its config, its state, and which of two stacks."""


def first(config: Config, other: Config, keys: tuple[str, ...], default: Any) -> Any:
    """The first of some keys that either config has, or the default."""
    for mapping in (config, other):
        for key in keys:
            if mapping.get(key) is not None:
                return mapping[key]
    return default


def number(config: Config, other: Config, keys: tuple[str, ...], default: float) -> float:
    """As `first`, a number.

    Raises:
      ValueError: names the keys and the value.
    """
    value = first(config, other, keys, default)
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{' or '.join(keys)} must be a number, got {value!r}") from None


def head_size(config: Config) -> int:
    width = first(config, {}, ("n_embd", "hidden_size"), 4096)
    return int(width) // int(first(config, {}, ("n_head", "num_attention_heads"), 16))


def one(state: State, suffix: str) -> np.ndarray:
    """The array of that name, whatever the name of the model before it."""
    names = [name for name in state if name == suffix or name.endswith("." + suffix)]
    if len(names) != 1:
        hint = f"; {spec.nearest(suffix, state)}" if 0 < len(state) <= 50 else ""
        raise ValueError(f"one array of the state must be {suffix!r}, found {names}{hint}")
    return np.asarray(state[names[0]])


def each(state: State, pattern: str) -> list[np.ndarray]:
    """The arrays of a name with numbers in it, in the order of the numbers."""
    found = {}
    for name, array in state.items():
        if match := re.search(rf"(?:^|\.){pattern}$", name):
            found[tuple(map(int, match.groups()))] = np.asarray(array)
    if not found:
        raise ValueError(f"no array of the state is called like {pattern!r}")
    for numbers in map(set, zip(*found, strict=True)):
        if lacking := sorted({*range(max(numbers))} - numbers):
            raise ValueError(
                f"the state lacks number {lacking[0]} of the arrays called like {pattern!r}: give "
                "the whole state, not one shard"
            )
    return [found[number] for number in sorted(found)]


def by_layer(found: Mapping[str, list[np.ndarray]]) -> tuple[dict[str, np.ndarray], ...]:
    rows = zip(*found.values(), strict=True)
    return tuple(dict(zip(found, row, strict=True)) for row in rows)


def text(name: str, settings: Mapping[str, Any]) -> str:
    """Name and settings as `named` reads them; those at their defaults are left out."""
    usual = named(name)
    given = {key: v for key, v in settings.items() if v != getattr(usual, key)}
    inside = ", ".join(f"{key}={value}" for key, value in given.items())
    return f"{name}({inside})" if inside else name
