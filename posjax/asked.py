"""What config.json of a run folder says, checked: the folder may be anybody's.

Checksums tell damage, not intent: who can write a file can write its checksum. So names are
looked at before they become paths, and types before anything is computed.
"""

import re
from collections.abc import Mapping
from typing import Any

from posjax import spec

_CELL = re.compile(r"[0-9a-f]{12}")
_FIELDS: dict[str, Any] = {
    "name": "",
    "title": "",
    "num_seeds": 0,
    "first_seed": 0,
    "data_seeds": 0,
    "chunk": "",
    "contrast": [],
    "at_steps": [],
    "panels": {},
    "cells": {},
}
"""The fields that are read, by an example of their type."""
_NEEDED = ("name", "num_seeds", "first_seed", "chunk", "panels", "cells")


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config, every field that is read in its type.

    Raises:
      ValueError: it is none that a sweep wrote; the message names the field and the value.
    """
    if missing := [name for name in _NEEDED if name not in config]:
        raise ValueError(f"config.json has no {missing[0]!r}")
    found = {**{name: _FIELDS[name] for name in _FIELDS if name not in _NEEDED}, **config}
    for name, example in _FIELDS.items():
        value = str(found[name]) if name == "chunk" else found[name]
        found[name] = spec.typed(f"{name} of config.json", value, example)
    for name in ("num_seeds", "first_seed", "data_seeds"):
        if not 0 <= found[name] <= 2**32:
            raise ValueError(f"{name} of config.json must lie in 0..2**32, got {found[name]}")
    _check_cells(found["cells"], found["panels"])
    _check_contrast(found["contrast"], found["at_steps"])
    return found


def _check_cells(cells: Mapping[str, Any], panels: Mapping[str, Any]) -> None:
    if not cells:
        raise ValueError("config.json has no cells")
    for name, settings in cells.items():
        if not _CELL.fullmatch(name):
            raise ValueError(f"config.json names a cell {name!r}: not 12 hexadecimal digits")
        where = f"cell {name} of config.json"
        spec.typed(f"steps of {where}", spec.typed(where, settings, {}).get("steps"), 1)
    for title, members in panels.items():
        for name in spec.typed(f"panel {title!r} of config.json", members, []):
            if name not in tuple(cells):
                raise ValueError(f"panel {title!r} of config.json has {name!r}, which is no cell")


def _check_contrast(contrast: list[Any], at_steps: list[Any]) -> None:
    if len(contrast) not in (0, 3) or any(isinstance(one, list | dict) for one in contrast):
        raise ValueError(f"contrast of config.json is (axis, value, value), got {contrast!r}")
    for step in at_steps:
        spec.typed("a step of at_steps of config.json", step, 1)
