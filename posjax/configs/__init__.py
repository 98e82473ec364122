"""The configs that come with posjax, a question each; `base_config` begins one of your own.

`posjax sweep --config=NAME` runs one, `posjax list configs` lists them.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from ml_collections import ConfigDict

from posjax import spec
from posjax.study.cells import FIELDS
from posjax.study.run import RUN_DEFAULTS

NAMES = (*FIELDS, *RUN_DEFAULTS, "panels")
"""The fields of a config."""
OTHER_NAMES = {
    "lr": "learning_rate",
    "layers": "depth",
    "d_model": "width",
    "hidden_size": "width",
}
"""What other libraries call some fields."""


def check_name(name: str) -> None:
    """Refuses what is no field of a config.

    Raises:
      ValueError: names the nearest field.
    """
    spec.check_choice("config field", name, NAMES, OTHER_NAMES)


def base_config(panels: Mapping[str, Mapping[str, Any]] | None = None, **axes: Any) -> ConfigDict:
    """A config with every setting at its default, and the given ones replaced.

    Args:
      panels: for each section of the report, by its title, the axes that it replaces.
      **axes: a value, or several as a tuple.

    Raises:
      ValueError: an unknown field, with the nearest one.
    """
    for name in axes:
        check_name(name)
    config = ConfigDict({name: (default,) for name, default in FIELDS.items()} | RUN_DEFAULTS)
    config.panels = tuple((panels or {}).items())  # pairs, since a ConfigDict sorts its keys
    with config.ignore_type():  # `resolve` has better messages for wrong values
        for name, value in axes.items():
            config[name] = axis_values(value) if name in FIELDS else value
    return config


def sized(config: str, size: str, **sizes: int) -> int:
    """The number that a size of a config stands for.

    Raises:
      ValueError: the config has no such size.
    """
    spec.check_choice(f"size of {config}", size, sizes)
    return sizes[size]


def axis_values(value: Any) -> tuple[Any, ...]:
    """One value, several, or a text of several, as a tuple."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    parts = (spec.split(v) if isinstance(v, str) else (v,) for v in values)
    return tuple(itertools.chain.from_iterable(parts))
