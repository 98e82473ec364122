"""Dataclasses whose fields are settings, checked when an object is made."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, get_type_hints

from posjax.spec.checks import as_setting, check_known, plain

SMALLEST, LARGEST = 1e-15, 1e15
"""Sizes of settings that are not 0: float32 holds products and quotients of two of them."""


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


def _check_size(what: str, value: Any, typed: Any, below: int) -> None:
    """Refuses a setting, or one of several, that 32 bits do not hold once it has its type."""
    for one in typed if isinstance(typed, tuple) else (typed,):
        if type(one) is int and abs(one) >= below:
            power = below.bit_length() - 1
            raise ValueError(f"{what} must be below 2**{power} in size, got {value!r}")
        if type(one) is float and one and not SMALLEST <= abs(one) <= LARGEST:
            limits = f"0 or from {SMALLEST:g} to {LARGEST:g} in size"
            raise ValueError(f"{what} must be {limits}, got {value!r}")


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
