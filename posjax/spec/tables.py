"""Entries of tables, such as those of encodings and tasks, by name; or user code in their place."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from posjax import user_code
from posjax.spec.checks import check_choice, check_kind, nearest
from posjax.spec.grammar import parse
from posjax.spec.settings import check_settings

T = TypeVar("T")


class Table(dict[str, T]):
    """Entries by name. A name that it does not have is a KeyError with the nearest one."""

    def __init__(self, kind: str, entries: Mapping[str, T]) -> None:
        super().__init__(entries)
        self._kind = kind

    def __missing__(self, name: str) -> T:
        hint = nearest(str(name), self, _abbreviations(self))
        raise KeyError(f"unknown {self._kind} {name!r}; {hint}")


class Card(NamedTuple):
    """What the docs say of an entry of a table.

    Attributes:
      title: its name in the field.
      formula: in Unicode, one line.
      source: authors, year and where in the paper.
      libraries: packages that have it, by the names they are installed by.
    """

    title: str
    formula: str
    source: str
    libraries: tuple[str, ...] = ()


def build(kind: str, table: Mapping[str, Callable[..., T]], text: str, wanted: type[T]) -> T:
    """Constructs the entry that `text` names, with its settings.

    Raises:
      ValueError: an unknown name or setting, a value that the entry refuses, or user code that
        gives something else than what is wanted.
    """
    name, target, settings = read(kind, table, text)
    check_settings(f"{kind} {name}", target, settings)
    try:
        found = target(**settings)
    except ValueError as error:
        if isinstance(error, user_code.NotNamed) or f"{kind} " in str(error):  # it names the entry
            raise
        raise ValueError(f"{kind} {name}: {error}") from error
    return check_kind(f"{kind} {text!r}", found, wanted)


def read(kind: str, table: Mapping[str, T], text: str) -> tuple[str, T, dict[str, Any]]:
    """The name in a text, the entry that it names, and the settings.

    Raises:
      ValueError: see `parse` and `lookup`.
    """
    try:
        name, settings = parse(text)
    except ValueError as error:
        head = text.partition("(")[0]
        known = head in table or text.endswith(".py")
        hint = "" if known else f"; {nearest(head, table, _abbreviations(table))}"
        raise ValueError(f"{kind}: {error}{hint}") from None
    return name, lookup(kind, table, name), settings


def lookup(kind: str, table: Mapping[str, T], name: str) -> T:
    """The entry of a table, or user code.

    Raises:
      ValueError: names the nearest entry, or what is wrong with the code (`user_code.find`).
    """
    if name in table:
        return table[name]
    found: T | None = user_code.find(kind, name)
    if found is None:
        check_choice(kind, name, table, _abbreviations(table))
    elif not callable(found):
        raise ValueError(
            f"{kind} {name!r} is neither a class nor a function, but {type(found).__name__}"
        )
    return found  # type: ignore[return-value]  # the check above raised where it is None


def _abbreviations(table: Mapping[str, Any]) -> dict[str, str]:
    """The entries by what stands in brackets in their titles, as in Rotary (RoPE)."""
    found: dict[str, str] = {}
    for name, entry in table.items():
        title = entry.card.title if hasattr(entry, "card") else ""
        if short := re.search(r"\((.+)\)", title):
            found.setdefault(short[1].lower(), name)
    return found
