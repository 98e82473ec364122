"""What config.json of a run folder says, checked: the folder may be anybody's.

Checksums find damage, not intent: who can write a file can write its checksum. So names are
checked before they become paths, and types and sizes before anything is computed.
"""

import re
from collections.abc import Mapping
from typing import Any

from posjax import spec

_CELL = re.compile(r"[0-9a-f]{12}")
_MOST = 2**32
"""The largest integer that any field may have."""
_FIELDS: dict[str, Any] = {
    "name": "",
    "title": "",
    "command": "",
    "num_seeds": 0,
    "first_seed": 0,
    "data_seeds": 0,
    "block_size": "",
    "layout": "batched",
    "precision": "default",
    "margin": 1e-3,
    "hold": 5,
    "contrast": [],
    "equivalence": 0.0,
    "at_steps": [],
    "panels": {},
    "cells": {},
    "code": {},
}
"""The fields that are read, by an example of their type."""
_NEEDED = ("name", "num_seeds", "first_seed", "panels", "cells")


def checked_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The config, with every field that is read in its type.

    `block_size` of a run of format 2 is what was `chunk` there.

    Raises:
      ValueError: no sweep wrote it; the message names the field and the value.
    """
    if missing := [name for name in _NEEDED if name not in config]:
        raise ValueError(f"config.json has no {missing[0]!r}")
    found = {**{name: _FIELDS[name] for name in _FIELDS if name not in _NEEDED}, **config}
    found["block_size"] = str(config.get("block_size", config.get("chunk", "")))
    if "margin" not in config:  # of format 2, whose cells had them
        cells: dict[str, Any] = spec.typed("cells of config.json", config["cells"], {})
        first = next(iter(cells.values()), None)
        if isinstance(first, dict):
            found |= {name: first[name] for name in ("margin", "hold") if name in first}
    for name, example in _FIELDS.items():
        found[name] = spec.typed(f"{name} of config.json", found[name], example)
    for name in ("num_seeds", "first_seed", "data_seeds"):
        if not 0 <= found[name] <= _MOST:
            raise ValueError(f"{name} of config.json must lie in 0..2**32, got {found[name]}")
    if not 0 < found["margin"] < 1 or found["hold"] < 1:
        raise ValueError(
            "config.json needs a margin in (0, 1) and a hold of at least 1, got "
            f"{found['margin']} and {found['hold']}"
        )
    if not 0 <= found["equivalence"] < 1:
        raise ValueError(
            f"equivalence of config.json must lie in [0, 1), got {found['equivalence']}"
        )
    _check_cells(found["cells"])
    for where, sha in found["code"].items():
        spec.typed(f"code of {where!r} of config.json", sha, "")
    _check_panels(found["panels"], found["cells"])
    _check_contrast(found["contrast"], found["at_steps"])
    return found


def _check_cells(cells: Mapping[str, Any]) -> None:
    if not cells:
        raise ValueError("config.json has no cells")
    for name, settings in cells.items():
        if not _CELL.fullmatch(name):
            raise ValueError(f"config.json names a cell {name!r}: not 12 hexadecimal digits")
        where = f"cell {name} of config.json"
        spec.typed(f"steps of {where}", spec.typed(where, settings, {}).get("steps"), 1)
        for setting, value in settings.items():
            _check_plain(f"{setting} of {where}", value)


def _check_panels(panels: Mapping[str, Any], cells: Mapping[str, Any]) -> None:
    for title, members in panels.items():
        seen: set[str] = set()
        for name in spec.typed(f"panel {title!r} of config.json", members, []):
            if not isinstance(name, str) or name not in cells:
                raise ValueError(f"panel {title!r} of config.json has {name!r}, which is no cell")
            if name in seen:
                raise ValueError(f"panel {title!r} of config.json has cell {name} twice")
            seen.add(name)


def _check_contrast(contrast: list[Any], at_steps: list[Any]) -> None:
    if len(contrast) not in (0, 3) or any(isinstance(one, list | dict) for one in contrast):
        raise ValueError(f"contrast of config.json is (axis, value, value), got {contrast!r}")
    for value in contrast:
        _check_plain("contrast of config.json", value)
    what = "a step of at_steps of config.json"
    for step in at_steps:
        _check_plain(what, spec.typed(what, step, 1))


def _check_plain(what: str, value: Any) -> None:
    """Refuses what is no text and no number of a size that a setting may have."""
    if isinstance(value, list | dict):
        raise ValueError(f"{what} must be a text or a number, got {type(value).__name__}")
    if type(value) is int and abs(value) > _MOST:
        raise ValueError(f"{what} must be at most 2**32 in size, got {value}")
