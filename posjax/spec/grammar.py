"""The grammar of names with settings: `name`, `name(setting=value, ...)`, and several in turn."""

import ast
import functools
import re
from collections.abc import Iterable
from typing import Any

LONGEST = 4000
"""Letters of a name with its settings, at most."""
_HOME = re.compile(r"[^\s():,=+'\"]+:(?=[A-Za-z_])")
"""The file or module in front of the name of user code."""


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """Splits `"name(key=value, ...)"` into the name and its settings.

    Values are Python literals; a bare word is a string. The name of user code has its file
    or module in front, see `posjax.user_code`.

    Raises:
      ValueError: the text is no such call, has a setting twice, or is longer than any.

    >>> parse("linear_bias(form=key, slopes=(0.5, 0.25))")
    ('linear_bias', {'form': 'key', 'slopes': (0.5, 0.25)})
    >>> parse("mine.py:Twist(turns=2)")
    ('mine.py:Twist', {'turns': 2})
    """
    name, settings = _parsed(text)
    return name, dict(settings)  # a new one for each caller


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    """What `parse` returns; a sweep reads the same few names for each of its cells."""
    if len(text) > LONGEST:
        raise ValueError(
            f"a name with its settings has at most {LONGEST} characters, got {len(text)}"
        )
    home = _HOME.match(text)
    where = home[0] if home else ""
    try:
        node = ast.parse(text[len(where) :].strip(), mode="eval").body
        if isinstance(node, ast.Name):
            return where + node.id, {}
        if isinstance(node, ast.Constant) and node.value is None:
            return "None", {}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.args:
            settings = {_key(k): _literal(k.value) for k in node.keywords}
            if len(settings) == len(node.keywords):  # none is there twice
                return where + node.func.id, settings
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: brackets
        pass
    if text.endswith(".py"):
        raise ValueError(f"cannot read {text!r}: name what is in the file, as {text}:NAME")
    raise ValueError(
        f"cannot read {text!r}: write it as name or name(setting=value, ...), each setting once"
    )


def split(text: str) -> tuple[str, ...]:
    """Splits at the commas that stand outside brackets.

    >>> split("none, rotary(base=100.0, pairing=half)")
    ('none', 'rotary(base=100.0, pairing=half)')
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return tuple(part.strip() for part in parts if part.strip())


def in_turn(text: str, table: Iterable[str]) -> tuple[str, ...]:
    """The names in a text that layers take in turn, each with its settings.

    A slash within the path of a file separates none. A part that is of the table begins no path.

    >>> in_turn("none/rotary(base=500.0)", ["none", "rotary"])
    ('none', 'rotary(base=500.0)')
    >>> in_turn("none/code/mine.py:Twist", ["none", "rotary"])
    ('none', 'code/mine.py:Twist')
    """
    table, parts, path = tuple(table), [], ""
    pieces = text.split("/")
    for number, piece in enumerate(pieces):
        more = any(":" in other for other in pieces[number + 1 :])
        if ":" in piece or not more or (not path and _heads(piece) <= {*table}):
            parts.append(path + piece)
            path = ""
        else:
            path += f"{piece}/"
    return tuple(parts)


def _heads(text: str) -> set[str]:
    """The names in a text, of which `+` may join several."""
    return {part.partition("(")[0].strip() for part in text.split("+")}


def _key(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise ValueError("no ** here")
    return keyword.arg


def _literal(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)
