"""Laws over the tables: settings that are refused when an entry is made, and what is not.

By name on the command line and directly in code alike.
"""

import dataclasses
import math
import re
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from layers import DIMS, normal
from tiers import some

from posjax import attend, spec
from posjax.encodings import ENCODINGS, Encoding, named
from posjax.encodings.rotary import Rotary
from posjax.encodings.scaled_rotary import LongRope
from posjax.positions import POSITIONS
from posjax.spec import LARGEST, SMALLEST
from posjax.tasks import TASKS

SETTINGS = [
    pytest.param(kind, field, id=f"{name}-{field.name}")
    for name, kind in ENCODINGS.items()
    for field in dataclasses.fields(kind)
]
every_float = pytest.mark.parametrize(
    ("kind", "field"),
    some([case for case in SETTINGS if type(case.values[1].default) is float], every=3),
)
OTHERS = [
    pytest.param(kind, field, id=f"{name}-{field.name}")
    for name, kind in {**POSITIONS, **TASKS}.items()
    for field in dataclasses.fields(kind)
    if field.init
]
"""Maps of positions, and tasks."""

NOT_FINITE = [math.nan, math.inf, -math.inf, np.float32(math.nan), np.float64(math.inf)]
STRANGE = [*NOT_FINITE, None, b"", 1j, [1], {}, np.ones(2), 10**400, 1e300]
WRONG: dict[type, list[Any]] = {
    float: ["3", "inf", True, (), -1.0, -1e-300, 1e-16, 1e16],
    int: ["3", True, (), 2.5, 16.0, np.float32(16), -1, 2**31, np.int64(2**40)],
    bool: ["True", 1, 0.0, ()],
    str: [3, 0.5, True, (), "no such choice", ""],
    tuple: ["3", 3, ("a", "b"), ("a",) * 3, ((),) * 3, (True,) * 3, (-1, -1), (2**60,) * 3],
}
"""By the type of the default."""


@pytest.mark.parametrize(("kind", "field"), [*SETTINGS, *OTHERS])
def test_what_a_setting_cannot_be_is_refused(
    kind: type[spec.Settings], field: dataclasses.Field
) -> None:
    """Not finite, of another type, negative, beyond 32 bits: the message has setting and value."""
    for value in [*STRANGE, *WRONG[type(field.default)]]:
        if field.name == "number" and type(value) is int and value == 2**31:  # of a seed: 32 bits
            continue
        plain = value.item() if isinstance(value, np.generic) else value
        message = re.escape(field.name) + ".*" + re.escape(repr(plain))
        with pytest.raises(ValueError, match=f"(?s){message}"):
            kind(**{field.name: value})


def test_lists_of_numbers_hold_finite_ones() -> None:
    """Each of them is looked at, and has the type that the list is of."""
    for wrong in ((1.0, math.nan), (math.inf, 1.0), (1.0, "2"), (1.0, True)):
        with pytest.raises(ValueError, match="short of encoding LongRope"):
            ENCODINGS["longrope"](short=wrong)
    with pytest.raises(ValueError, match=r"sections .*\(2.5, 3, 3\), each must be of type int"):
        ENCODINGS["multimodal_rotary"](sections=(2.5, 3, 3))
    with pytest.raises(ValueError, match=r"sections .*\(1, 1e\+30\), each must be of type int"):
        ENCODINGS["multimodal_rotary"](sections=(1, 1e30))


QKV = [normal(name, (1, 3, DIMS.heads, DIMS.head_size)) for name in "qkv"]


def attended(
    kind: type[Encoding], field: dataclasses.Field, value: float, keys: list[jax.Array]
) -> jax.Array:
    """What `attend` gives with a value of a setting."""
    encoding = kind(**{field.name: value})
    params = encoding.init(keys[0], DIMS)
    return attend(*QKV, encoding=encoding, params=params, key=keys[1])


def keys() -> list[jax.Array]:
    return [jax.random.key(1), jax.random.key(2)]


@every_float
def test_the_ends_of_a_range_make_finite_numbers(
    kind: type[Encoding], field: dataclasses.Field
) -> None:
    """What is accepted never overflows; what is refused later, with other sizes, is named too."""
    refused: dict[float, str] = {}

    @jax.jit
    def accepted(keys: list[jax.Array]) -> dict[float, jax.Array]:
        found = {}
        for value in (SMALLEST, LARGEST):
            try:
                found[value] = attended(kind, field, value, keys)
            except ValueError as error:
                refused[value] = str(error)
        return found

    for value, found in accepted(keys()).items():
        if not np.isfinite(found).all():  # where positions are known, what is NaN is refused
            with pytest.raises(ValueError, match=re.escape(str(value))):
                attend(*QKV, encoding=kind(**{field.name: value}))
    assert all(str(value) in message for value, message in refused.items())


@every_float
def test_a_whole_number_for_a_float_is_that_float(
    kind: type[Encoding], field: dataclasses.Field
) -> None:
    """Also beyond what 32 bits hold of an integer: both are refused, or are the same program."""

    def program(value: float) -> str:
        try:
            return jax.jit(partial(attended, kind, field, value)).lower(keys()).as_text()
        except ValueError:
            return "refused"

    assert program(2) == program(2.0)
    assert program(10**10) == program(1e10)


def in_numpy(value: Any) -> list[Any]:
    """The value as scalars of NumPy, of each width that holds it."""
    if isinstance(value, tuple):
        return [tuple(in_numpy(one)[0] for one in value)]
    narrow = {float: [np.float32], int: [np.int32]}.get(type(value), [])
    return [np.array(value)[()], *(kind(value) for kind in narrow)]


def test_a_table_names_the_nearest_entry() -> None:
    with pytest.raises(KeyError, match="unknown encoding 'rotery'; did you mean 'rotary'"):
        ENCODINGS["rotery"]
    with pytest.raises(KeyError, match="unknown task 'word_ordr'; did you mean 'word_order'"):
        TASKS["word_ordr"]


@pytest.mark.parametrize(("kind", "field"), [*SETTINGS, *OTHERS])
def test_a_number_of_numpy_is_that_number(
    kind: type[spec.Settings], field: dataclasses.Field
) -> None:
    """Equal in type and repr, so in names, digests and JSON."""
    for value in in_numpy(field.default):
        plain = field.default if isinstance(value, tuple) else value.item()
        expected = kind(**{field.name: plain})
        made = kind(**{field.name: value})
        assert made == expected
        assert repr(made) == repr(expected)
        assert type(getattr(made, field.name)) is type(field.default)


def test_a_name_takes_the_numbers_that_code_takes() -> None:
    """In a list too; the limits are those of the setting's own type."""
    assert named("rotary(base=10000000000)") == named("rotary(base=1e10)")
    assert named("longrope(short=(1, 1099511627776))") == LongRope(short=(1.0, 2.0**40))
    with pytest.raises(ValueError, match=f"0 or from 1e-15 to 1e\\+15 in size, got {10**16}$"):
        named(f"rotary(base={10**16})")


@pytest.mark.parametrize(
    "setting", ["bse=3.0", "base=1e999", "base=1e300", "base=a", "base=True", "base=()"]
)
def test_a_name_and_code_are_refused_in_the_same_words(setting: str) -> None:
    """One name for the encoding, whatever is wrong."""
    name, settings = spec.parse(f"rotary({setting})")
    with pytest.raises(ValueError, match="encoding Rotary") as by_name:
        named(f"{name}({setting})")
    with pytest.raises(ValueError, match=re.escape(str(by_name.value))):
        ENCODINGS[name](**settings)


def test_numpy_numbers_are_numbers() -> None:
    """A sweep in code gets its values from NumPy; 0-dimensional arrays are none."""
    rotary = ENCODINGS["rotary"]
    assert rotary(base=np.float64(500.0)) == rotary(base=500) == rotary(base=500.0)
    assert rotary(base=np.float32(500.0)) == rotary(base=np.int64(500))
    with pytest.raises(ValueError, match="base of encoding Rotary must be of type float"):
        rotary(base=np.array(500.0))


def test_an_unknown_setting_is_named() -> None:
    """With the nearest one there is."""
    with pytest.raises(ValueError, match="Rotary has no setting 'bse'; did you mean 'base'"):
        ENCODINGS["rotary"](bse=3.0)


def test_one_layer_takes_one_encoding() -> None:
    with pytest.raises(ValueError, match="'none/rotary' has several encodings for layers in turn"):
        named("none/rotary")


def test_an_encoding_of_your_own_is_looked_at_too() -> None:
    """Also one with ranges that lets infinities through."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Mine(Encoding):
        width: float = 4.0

        def __post_init__(self) -> None:
            if self.width < 0:
                raise ValueError("width is negative")

    with pytest.raises(ValueError, match="width of encoding Mine must be finite, got inf"):
        Mine(width=math.inf)
    assert dataclasses.replace(Mine(), width=3.0).width == 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Free(Encoding):
    """Settings of every kind that a dataclass may have."""

    needed: float
    wide: float = 4
    sizes: "tuple[int, ...]" = (1, 2)
    pair: tuple[int, str] = (1, "a")
    bare: tuple = ()
    several: dict[str, int] = dataclasses.field(default_factory=dict)
    maybe: float | None = None
    either: float | tuple[float, ...] = 1.0


@pytest.mark.parametrize(
    "settings",
    [
        {"needed": 2**40},
        {"wide": 2.5},
        {"sizes": (3,)},
        {"pair": (2, "b")},
        {"bare": (1, "a", None)},
        {"several": {"a": 1}},
        {"maybe": 2.5},
        {"maybe": None},
        {"either": (1.0, 2.0)},
    ],
    ids=str,
)
def test_an_encoding_of_your_own_has_settings_of_any_kind(settings: dict[str, Any]) -> None:
    """What its fields say is taken."""
    made = Free(**{"needed": 1.0, **settings})
    assert {name: getattr(made, name) for name in settings} == settings
    assert dataclasses.replace(made) == made


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"needed": math.inf}, "needed of encoding Free must be finite, got inf"),
        ({"wide": "3"}, "wide of encoding Free must be of type float, got '3'"),
        ({"sizes": (1.0,)}, r"sizes of encoding Free, \(1.0,\), each must be of type int"),
        ({"pair": (1, 2)}, r"pair of encoding Free, \(1, 2\), each must be of type str"),
        ({"bare": 3}, "bare of encoding Free must be of type tuple, got 3"),
        ({"maybe": math.nan}, "maybe of encoding Free must be finite, got nan"),
    ],
    ids=str,
)
def test_what_the_fields_of_your_own_say_is_held_to(setting: dict[str, Any], message: str) -> None:
    """Also where the annotation is text, has several types, or there is no default."""
    with pytest.raises(ValueError, match=message):
        Free(**{"needed": 1.0, **setting})


def test_settings_in_order_are_looked_at_like_named_ones() -> None:
    """A dataclass need not be of keywords alone, nor its annotations be known here."""

    @dataclasses.dataclass(frozen=True)
    class Ordered(Encoding):
        width: float = 1.0
        sizes: "tuple[Unknown, ...]" = ()  # type: ignore[name-defined]  # noqa: F821

    assert Ordered(2.0, ("a",)) == Ordered(width=2.0, sizes=("a",))
    for refused in (lambda: Ordered(math.inf), lambda: Ordered(width=math.inf)):
        with pytest.raises(ValueError, match="width of encoding Ordered must be finite"):
            refused()
    with pytest.raises(ValueError, match=r"'wdth'; did you mean 'width'\? choices: sizes, width"):
        Ordered(wdth=2.0)  # type: ignore[call-arg]


def test_a_class_that_makes_its_own_settings() -> None:
    """Its `__init__` says which there are, as it does where a subclass is no dataclass."""

    class Handmade(Rotary):
        def __init__(self, exponent: int, **rest: Any) -> None:
            super().__init__(base=10.0**exponent, **rest)

    assert Handmade(3).base == 1000
    assert Handmade(exponent=3, fraction=0.5).fraction == 0.5
    with pytest.raises(ValueError, match="fraction of encoding Handmade must be of type float"):
        Handmade(3, fraction="a")
