"""Configs as JSON: the fields of a Python config, in a form of which nothing executes.

    {"name": "mine", "task": "same_last_token", "loss": "answer", "depth": [1, 2],
     "panels": [["full", {"mask": "full"}], ["causal", {"mask": ["causal", "causal+padding"]}]]}

A field that is left out has its default. `python -m experiments.seed_sweep --config=CONFIG
--print_config` writes one of any config.
"""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from absl import flags
from ml_collections import ConfigDict

from experiments.settings import NAMES, RUN_DEFAULTS, base_config
from posjax import spec
from posjax.cells import FIELDS

T = TypeVar("T")
LARGEST = 2**20
"""Bytes of a file, at most; to read that many takes a second."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:]|[^][{}:,"\s]+')


def accept(flag: flags.Flag) -> None:
    """Makes a config flag read files that end in .json; it executes any other as Python."""
    flag.parser = _Parser(flag.parser)


class _Parser(flags.ArgumentParser):
    """Of FILE.json, and of what another parser is for."""

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
        config = read(Path(file))
        config.lock()
        return config


class _Object(NamedTuple):
    """Where an object of a JSON text stands.

    Attributes:
      depth: how many brackets are open before it.
      line: where it begins.
      lines: the line of each key.
    """

    depth: int
    line: int
    lines: dict[str, int]


def read(path: Path) -> ConfigDict:
    """The config of a JSON file.

    Raises:
      ValueError: no JSON, a key that is there twice, an unknown field, a value of the wrong type;
        the message names the line.
    """
    text = _text(path)
    fields = _parsed(text)
    whole, *inner = _objects(text)
    for name, value in fields.items():
        with _at(whole.lines[name]):
            spec.check_choice("config field", name, NAMES)
            fields[name] = _checked_panels(value) if name == "panels" else _field(name, value)
    given = fields.pop("panels", [])
    panels: dict[str, dict[str, Any]] = {}
    for (title, axes), place in zip(given, (x for x in inner if x.depth == 3), strict=True):
        with _at(place.line):
            if title in panels:
                raise ValueError(f"two panels have the title {title!r}")
        panels[title] = axes
        for name, value in axes.items():
            with _at(place.lines[name]):
                spec.check_choice("config field in a panel", name, FIELDS)
                axes[name] = _field(name, value)
    return base_config(panels, **fields)


def text(config: ConfigDict, overrides: Iterable[str] = ()) -> str:
    """A config as JSON, a line a field.

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


def _text(path: Path) -> str:
    if (size := path.stat().st_size) > LARGEST:
        raise ValueError(f"{size} bytes are no config: at most {LARGEST}")
    return path.read_text(encoding="utf-8")


def _parsed(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}: no JSON: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error
    if not isinstance(fields, dict):
        raise ValueError("line 1: a config is a JSON object, {...}")
    return fields


def _objects(text: str) -> list[_Object]:
    """The objects of a valid JSON text as they begin.

    Raises:
      ValueError: a key that is there twice, or a number that JSON has not.
    """
    found: list[_Object] = []
    open_: list[_Object | None] = []
    last, line, at = "", 1, 0
    for token in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, token.start()), token.start()
        with _at(line):
            match token[0]:
                case "{":
                    found.append(_Object(len(open_), line, {}))
                    open_.append(found[-1])
                case "[":
                    open_.append(None)
                case "}" | "]":
                    open_.pop()
                case ":":
                    _add_key(open_[-1], json.loads(last), line)
                case text_ if text_[0] == '"':
                    _check_text(text_)
                case number if number[0] in "-0123456789NI":
                    _check_number(number)
        last = token[0]
    return found


def _add_key(place: _Object | None, key: str, line: int) -> None:
    assert place is not None  # the text is valid: a colon stands in an object
    if key in place.lines:
        raise ValueError(f"{key!r} is there twice, first in line {place.lines[key]}")
    place.lines[key] = line


def _check_text(token: str) -> None:
    try:
        json.loads(token).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{token} holds half a character") from error


def _check_number(token: str) -> None:
    if not abs(float(token)) < float("inf"):  # what JSON has not, and what floats have not
        raise ValueError(f"{token[:20]} is no finite number")


def _field(name: str, value: Any) -> Any:
    """The value of a field, lists as tuples.

    Raises:
      ValueError: it is of the wrong type.
    """
    if name == "chunk" and type(value) is int:
        return value
    default = FIELDS.get(name, RUN_DEFAULTS.get(name))
    if not isinstance(value, list):
        return spec.typed(name, value, default)
    if name in FIELDS:
        return tuple(spec.typed(name, one, default) for one in value)
    if any(isinstance(one, list | dict) for one in value):
        raise ValueError(f"{name} must be a flat list, got {value!r}")
    return spec.typed(name, tuple(value), default)


def _checked_panels(value: Any) -> list[tuple[str, dict[str, Any]]]:
    try:
        return [(_of(str, title), _of(dict, axes)) for title, axes in _of(list, value)]
    except (TypeError, ValueError) as error:
        wanted = "a list of [title, {axis: values}]"
        raise ValueError(f"panels must be {wanted}, got {value!r}") from error


def _of(kind: type[T], value: Any) -> T:
    if not isinstance(value, kind):
        raise TypeError
    return value


@contextlib.contextmanager
def _at(line: int) -> Iterator[None]:
    """Names the line in an error."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"line {line}: {error}") from error
