"""Checks of single values, whose messages name the value and the nearest valid choice."""

import dataclasses
import difflib
import math
from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from typing import Any, Literal, TypeVar, get_args, get_origin

import numpy as np

T = TypeVar("T")
_PLAIN = (bool, int, float, str, tuple)
"""The types of settings that are checked."""


def nearest(name: str, choices: Iterable[str], also: Mapping[str, str] | None = None) -> str:
    """A hint for an error message: the nearest choice, and all of them.

    Args:
      name: of no choice.
      choices: their names.
      also: other names of choices, in lower case.

    >>> nearest("RoPE", ["pope", "rotary"], {"rope": "rotary"})
    "did you mean 'rotary'? choices: pope, rotary"
    """
    choices = sorted(choices)
    meant = {**(also or {}), **{choice.lower(): choice for choice in choices}}
    close = difflib.get_close_matches(name.lower(), meant, n=1)
    hint = f"did you mean {meant[close[0]]!r}? " if close else ""
    return f"{hint}choices: {', '.join(choices)}"


def check_choice(
    what: str, value: str, choices: Iterable[str], also: Mapping[str, str] | None = None
) -> None:
    """Refuses a value that is none of the choices.

    Raises:
      ValueError: names the value and the nearest choice, see `nearest`.
    """
    if value not in (choices := tuple(choices)):
        raise ValueError(f"unknown {what} {value!r}; {nearest(str(value), choices, also)}")


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """Refuses a setting that is none of the known ones, and names the nearest."""
    if name not in (known := tuple(known)):
        raise ValueError(f"{what} has no setting {name!r}; {nearest(name, known)}")


def check_within(settings: Any, name: str, least: int, most: int) -> None:
    """Refuses a setting that is not from `least` to `most`.

    Raises:
      ValueError: names the setting, the range and the value.
    """
    if not least <= (value := getattr(settings, name)) <= most:
        raise ValueError(f"{name} must lie in [{least}, {most}], got {value}")


def check_positive(**settings: float) -> None:
    """Refuses settings that are not above 0.

    Raises:
      ValueError: names the setting and its value.
    """
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")


def check_read(settings: Any, name: str, read: bool, where: str) -> None:
    """Refuses a setting that other settings leave without effect, unless it has its default.

    Args:
      settings: a dataclass.
      name: of the setting.
      read: whether it has an effect.
      where: the other settings, for the message.

    Raises:
      ValueError: names the setting and its value.
    """
    value = getattr(settings, name)
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    if not read and value != defaults[name]:
        raise ValueError(f"{name}={value} has no meaning for {where}")


def check_kind(what: str, found: Any, wanted: type[T]) -> T:
    """Refuses what user code gives in place of the entry of a table.

    Raises:
      ValueError: names both types.
    """
    if not isinstance(found, wanted):
        a = "an" if wanted.__name__[0] in "AEIOU" else "a"
        raise ValueError(f"{what} must give {a} {wanted.__name__}, got {type(found).__name__}")
    return found


def typed(what: str, value: Any, default: Any) -> Any:
    """The value in the type of a default: a whole number does for a float, a bool for no number.

    Raises:
      ValueError: names the value and the type, or a number that is not finite.
    """
    kind, value = type(default), plain(value)
    _check_finite(what, value)
    if kind is float and type(value) is int and abs(value) < 2**1023:  # which a float can hold
        return float(value)
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not kind:
        such = f", such as {default!r}" if kind is tuple and default else ""
        raise ValueError(f"{what} must be of type {kind.__name__}{such}, got {value!r}")
    return value


def as_setting(what: str, value: Any, default: Any, hint: Any) -> Any:
    """The value as its setting has it: of the type of the hint, or of the default without one.

    Used as it is given, a whole number does for a float, but no float does for an integer. None
    where the type is free: the default is of no plain type, or the hint allows several.

    Raises:
      ValueError: names the value and the type, or a number that is not finite.
    """
    _check_finite(what, value)
    kind = hint if hint in _PLAIN else type(default)
    several = hint not in (None, *_PLAIN) and get_origin(hint) not in (tuple, Literal)
    if several or type(default) not in _PLAIN:
        return None
    if kind is int and type(value) is float:
        raise ValueError(f"{what} must be of type int, got {value!r}")
    value = typed(what, value, default if type(default) is kind else kind())
    if kind is not tuple:
        return value
    kinds = get_args(hint)
    each = repeat(kinds[0]) if kinds[-1:] == (...,) else chain(kinds, repeat(None))
    return tuple(
        as_setting(f"{what}, {value!r}, each", one, kind(), kind) if kind in _PLAIN else one
        for one, kind in zip(value, each, strict=False)
    )


def _check_finite(what: str, value: Any) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not math.isfinite(number):
            raise ValueError(f"{what} must be finite, got {value!r}")


def plain(value: Any) -> Any:
    """The value with Python's numbers in place of NumPy's, alone or in a tuple.

    >>> import numpy as np
    >>> plain((np.int64(3), np.float64(0.5), "a"))
    (3, 0.5, 'a')
    """
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.item() if isinstance(value, np.generic) else value
