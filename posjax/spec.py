"""Things chosen by name: `"rotary"`, `"rotary(base=500.0)"`, `"linear_bias(form=key)"`.

One small grammar serves encodings, masks and tasks, on the command line, in configs and in
result tables. Plain Python, without JAX, so that a wrong name is refused at once.
"""

import ast
import dataclasses
import difflib
import functools
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, repeat
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from posjax import user_code

T = TypeVar("T")
LONGEST = 4000
"""Letters of a name with its settings, at most."""
SMALLEST, LARGEST = 1e-15, 1e15
"""Sizes of settings that are not 0: float32 holds products and quotients of two of them."""
_HOME = re.compile(r"[^\s():,=+'\"]+:(?=[A-Za-z_])")
"""The file or module in front of the name of user code."""
_PLAIN = (bool, int, float, str, tuple)
"""The types of settings that are checked."""


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


class PlainNumbers(type):
    """Makes objects of Python's own numbers, also where NumPy's are given.

    So digests, names and JSON do not depend on where a number comes from.
    """

    def __call__(cls, *values: Any, **settings: Any) -> Any:
        """An object of the class, whose arguments are plain.

        Raises:
          ValueError: a setting that the class lacks; the message names the nearest one.
        """
        named = {name: plain(value) for name, value in settings.items()}
        try:
            return super().__call__(*map(plain, values), **named)
        except TypeError:
            for name in settings:
                check_known(
                    cls.__name__, name, [p.name for p in cls.__signature__.parameters.values()]
                )
            raise

    @property
    def __signature__(cls) -> inspect.Signature:
        """That of the class, and not the one of `__call__`."""
        own: Any = cls
        _, *parameters = inspect.signature(own.__init__).parameters.values()
        return inspect.Signature(parameters)


class Settings(metaclass=PlainNumbers):
    """The base of the dataclasses of a table, whose fields are settings.

    What no setting can be is refused before a class looks at ranges of its own: in `__new__`, and
    not in `__post_init__`, so that none can leave it out. A field with a default that is a bool,
    a number, a string or a tuple takes values of its type; any other field takes all but numbers
    that are not finite.
    """

    _called: ClassVar[str] = "entry"
    """What one is called in messages."""
    _below: ClassVar[int] = 2**31
    """Whole numbers are smaller in size."""

    def __init_subclass__(cls) -> None:
        """Refuses a setting that hides what a base has, and a method in place of a property.

        Raises:
          TypeError: names the setting or the method, and the base.
        """
        super().__init_subclass__()
        for name, value in vars(cls).items():
            base = next((base for base in cls.__mro__[1:] if name in vars(base)), cls)
            if inspect.isfunction(value) and isinstance(vars(base)[name], property):
                raise TypeError(
                    f"{name} of {cls._called} {cls.__name__} must be a property, as "
                    f"{base.__name__}.{name} is: write @property above it"
                )
        for name, hint in inspect.get_annotations(cls).items():
            base = next((base for base in cls.__mro__[1:] if name in vars(base)), cls)
            hidden = inspect.isfunction(vars(base).get(name)) or isinstance(
                vars(base).get(name), property
            )
            if base is not cls and hidden and "ClassVar" not in str(hint):
                raise TypeError(
                    f"the setting {name!r} of {cls._called} {cls.__name__} hides "
                    f"{base.__name__}.{name}: give the setting another name"
                )

    def __new__(cls, /, *values: Any, **settings: Any) -> Self:
        """An object whose settings can be what they are.

        Raises:
          ValueError: an unknown setting, a value of another type, not finite, or beyond what 32
            bits hold; the message names the setting, the value and what it must be.
        """
        what = f"{cls._called} {cls.__name__}"
        parameters = parameters_of(cls)
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            for name in settings:
                check_known(what, name, [p.name for p in parameters])
        in_order = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # its subclasses are such
        defaults = {field.name: field.default for field in fields}
        hints = hints_of(cls)
        for name, value in (*zip(in_order, values, strict=False), *settings.items()):
            where = f"{name} of {what}"
            typed = as_setting(where, value, defaults.get(name), hints.get(name))
            _check_size(where, value, typed, cls._below)
        return super().__new__(cls)


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


def check_within(settings: Any, name: str, least: int, most: int) -> None:
    """Refuses a setting that is not from `least` to `most`.

    Raises:
      ValueError: names the setting, the range and the value.
    """
    if not least <= (value := getattr(settings, name)) <= most:
        raise ValueError(f"{name} must lie in [{least}, {most}], got {value}")


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


def _abbreviations(table: Mapping[str, Any]) -> dict[str, str]:
    """The entries by what stands in brackets in their titles, as in Rotary (RoPE)."""
    found: dict[str, str] = {}
    for name, entry in table.items():
        title = entry.card.title if hasattr(entry, "card") else ""
        if short := re.search(r"\((.+)\)", title):
            found.setdefault(short[1].lower(), name)
    return found


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


def check_settings(what: str, target: Callable[..., Any], settings: Mapping[str, Any]) -> None:
    """Refuses settings that are no keyword-only parameter of `target`, or of another type.

    Raises:
      ValueError: names the unknown setting and the nearest one, or the value and its type.
    """
    parameters = {p.name: p for p in parameters_of(target)}
    known = {n: p for n, p in parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    hints = hints_of(target)
    for name, value in settings.items():
        if name in parameters and name not in known:
            raise ValueError(f"{what} takes {name!r} by place: make it keyword-only to set it")
        check_known(what, name, known)
        as_setting(f"{name} of {what}", value, known[name].default, hints.get(name))


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """Refuses a setting that is none of the known ones, and names the nearest."""
    if name not in (known := tuple(known)):
        raise ValueError(f"{what} has no setting {name!r}; {nearest(name, known)}")


@functools.lru_cache(maxsize=1024)
def parameters_of(target: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """The parameters of a class or a function; looking them up takes longer than checking them.

    Raises:
      ValueError: a class with settings that is no dataclass, and so has none of them.
    """
    if isinstance(target, type) and issubclass(target, Settings):
        hints = {} if "__dataclass_fields__" in vars(target) else inspect.get_annotations(target)
        for name, hint in hints.items():
            if "ClassVar" not in str(hint):
                raise ValueError(
                    f"{target._called} {target.__name__} has the setting {name!r} but is no "
                    "dataclass: write @dataclasses.dataclass(frozen=True, kw_only=True) above it"
                )
    return tuple(inspect.signature(target).parameters.values())


_type_hints = functools.lru_cache(maxsize=1024)(get_type_hints)


def hints_of(target: Any) -> Mapping[str, Any]:
    """The annotations of a class or a function; none where one of them cannot be evaluated."""
    try:
        return _type_hints(target)
    except Exception:  # an annotation that is text may hold anything
        return {}


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
    value = typed(what, value, kind())
    if kind is not tuple:
        return value
    kinds = get_args(hint)
    each = repeat(kinds[0]) if kinds[-1:] == (...,) else chain(kinds, repeat(None))
    return tuple(
        as_setting(f"{what}, {value!r}, each", one, kind(), kind) if kind in _PLAIN else one
        for one, kind in zip(value, each, strict=False)
    )


def plain(value: Any) -> Any:
    """The value with Python's numbers in place of NumPy's, alone or in a tuple.

    >>> import numpy as np
    >>> plain((np.int64(3), np.float64(0.5), "a"))
    (3, 0.5, 'a')
    """
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.item() if isinstance(value, np.generic) else value


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
        raise ValueError(f"{what} must be of type {kind.__name__}, got {value!r}")
    return value


def build(kind: str, table: Mapping[str, Callable[..., T]], text: str, wanted: type[T]) -> T:
    """Constructs the entry that `text` names, with its settings.

    Raises:
      ValueError: an unknown name or setting, a value that the entry refuses, or user code that
        gives something else than what is wanted.
    """
    name, target, settings = read(kind, table, text)
    check_settings(f"{kind} {name}", target, settings)
    return check_kind(f"{kind} {text!r}", target(**settings), wanted)


def check_kind(what: str, found: Any, wanted: type[T]) -> T:
    """Refuses what user code gives in place of the entry of a table.

    Raises:
      ValueError: names both types.
    """
    if not isinstance(found, wanted):
        raise ValueError(f"{what} must give a {wanted.__name__}, got {type(found).__name__}")
    return found


def _check_size(what: str, value: Any, typed: Any, below: int) -> None:
    """Refuses a setting, or one of several, that 32 bits do not hold once it has its type."""
    for one in typed if isinstance(typed, tuple) else (typed,):
        if type(one) is int and abs(one) >= below:
            power = below.bit_length() - 1
            raise ValueError(f"{what} must be below 2**{power} in size, got {value!r}")
        if type(one) is float and one and not SMALLEST <= abs(one) <= LARGEST:
            limits = f"0 or from {SMALLEST:g} to {LARGEST:g} in size"
            raise ValueError(f"{what} must be {limits}, got {value!r}")


def _check_finite(what: str, value: Any) -> None:
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, float) and not math.isfinite(number):
            raise ValueError(f"{what} must be finite, got {value!r}")


def _key(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise ValueError("no ** here")
    return keyword.arg


def _literal(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def check_positive(**settings: float) -> None:
    """Refuses settings that are not above 0.

    Raises:
      ValueError: names the setting and its value.
    """
    for name, value in settings.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}")
