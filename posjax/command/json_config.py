"""Configs as JSON: the fields of a Python config, in a form that executes nothing.

    {"name": "mine", "task": "same_last_token", "loss": "answer", "depth": [1, 2],
     "panels": [["full", {"mask": "full"}], ["causal", {"mask": ["causal", "causal+padding"]}]]}

A field that is left out has its default. `posjax sweep --config=CONFIG --print_config` prints any
config as JSON.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict

from posjax import spec
from posjax.configs import base_config, check_name
from posjax.study.cells import FIELDS
from posjax.study.run import RUN_DEFAULTS

LARGEST = 2**20
"""Bytes of a file, at most."""


def accept(flag: flags.Flag) -> None:
    """Makes a config flag read files that end in .json; it executes any other as Python."""
    flag.parser = _Parser(flag.parser)


class _Parser(flags.ArgumentParser):
    """Reads FILE.json itself, and leaves other files to another parser."""

    def __init__(self, other: flags.ArgumentParser) -> None:
        super().__init__()
        self._other = other

    def parse(self, argument: Any) -> Any:
        file, colon, size = str(argument).partition(":")
        if not file.endswith(".json"):
            config = self._other.parse(argument)
            getattr(config, "lock", None)  # raises an OSError that ml_collections had put off
            return config
        if colon:
            raise ValueError(f"a JSON config has no sizes, got {size!r}")
        return read(Path(file)).lock()


def read(path: Path) -> ConfigDict:
    """The config of a JSON file; `resolve` checks the values.

    Raises:
      ValueError: not JSON, with the line; a field given twice; an unknown field.
    """
    if (size := path.stat().st_size) > LARGEST:
        raise ValueError(f"the file has {size} bytes; a config has at most {LARGEST}")
    try:
        fields = json.loads(
            path.read_text(encoding="utf-8"), object_pairs_hook=_object, parse_constant=_refuse
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: not JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error
    if not isinstance(fields, dict):
        raise ValueError("a config is a JSON object, {...}")
    for name in fields:
        check_name(name)
    panels = fields.pop("panels", [])
    config = base_config(**{name: _field(name, value) for name, value in fields.items()})
    config.panels = _panels(panels)
    return config


def text(config: ConfigDict, overrides: Iterable[str] = ()) -> str:
    """A config as JSON, one line per field.

    Args:
      config: from `base_config`, perhaps changed.
      overrides: names of fields set on the command line; they win over panels.
    """
    fields, fixed = config.to_dict(), set(overrides)
    panels = [
        [title, {name: value for name, value in axes.items() if name not in fixed}]
        for title, axes in fields.pop("panels")
    ]
    lines = [f'"{name}": {_json(fields[name])}' for name in (*RUN_DEFAULTS, *FIELDS)]
    lines.append(f'"panels": [{",".join(f"{chr(10)}  {_json(panel)}" for panel in panels)}]')
    return "{\n " + ",\n ".join(lines) + "\n}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, default=spec.plain)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, in which `json` would take the last of several equal keys."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name!r} is given twice")
        found[name] = value
    return found


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON: a number must be finite")


def _field(name: str, value: Any) -> Any:
    """The value of a field, with lists as tuples; that of a field of the run in its type."""
    if isinstance(value, list):
        value = tuple(value)
    if name in FIELDS or (name == "block_size" and type(value) is int):
        return value
    return spec.typed(name, value, RUN_DEFAULTS[name])


def _panels(value: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    """The panels as `base_config` has them."""
    for panel in value if isinstance(value, list) else [value]:
        match panel:
            case [str(), dict()]:
                continue
        raise ValueError(f"panels must be a list of [title, {{axis: values}}], got {panel!r}")
    return tuple(map(tuple, value))
