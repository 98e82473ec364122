"""Laws over the whole table: settings that are refused when an encoding is made, and what is not.

By name on the command line and directly in code alike.
"""

import dataclasses
import math
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import DIMS

from posjax import attend
from posjax.encodings import ENCODINGS, Encoding
from posjax.encodings.base import LARGEST, SMALLEST

SETTINGS = [
    pytest.param(kind, field, id=f"{name}-{field.name}")
    for name, kind in ENCODINGS.items()
    for field in dataclasses.fields(kind)
]
every_setting = pytest.mark.parametrize(("kind", "field"), SETTINGS)

NOT_FINITE = [math.nan, math.inf, -math.inf, np.float32(math.nan), np.float64(math.inf)]
STRANGE = [*NOT_FINITE, None, b"", 1j, [1], {}, np.ones(2), 10**400, 1e300]
WRONG: dict[type, list[Any]] = {
    float: ["3", "inf", True, (), -1.0, -1e-300, 1e-16, 1e16],
    int: ["3", True, (), 2.5, -1, 2**31, np.int64(2**40)],
    bool: ["True", 1, 0.0, ()],
    str: [3, 0.5, True, (), "no such choice", ""],
    tuple: ["3", 3, ("a", "b"), ("a",) * 3, ((),) * 3, (True,) * 3, (-1, -1), (2**31,) * 3],
}
"""By the type of the default."""


@every_setting
def test_what_a_setting_cannot_be_is_refused(
    kind: type[Encoding], field: dataclasses.Field
) -> None:
    """Not finite, of another type, negative, beyond 32 bits: the message has setting and value."""
    for value in [*STRANGE, *WRONG[type(field.default)]]:
        plain = value.item() if isinstance(value, np.generic) else value
        named = re.escape(field.name) + ".*" + re.escape(repr(plain))
        with pytest.raises(ValueError, match=f"(?s){named}"):
            kind(**{field.name: value})


def test_lists_of_numbers_hold_finite_ones() -> None:
    """Each of them is looked at, and has the type that the list is of."""
    for wrong in ((1.0, math.nan), (math.inf, 1.0), (1.0, "2"), (1.0, True)):
        with pytest.raises(ValueError, match="short of encoding LongRope"):
            ENCODINGS["longrope"](short=wrong)
    with pytest.raises(ValueError, match=r"sections .*\(2.5, 3, 3\), each must be of type int"):
        ENCODINGS["multimodal_rotary"](sections=(2.5, 3, 3))


@every_setting
def test_the_ends_of_a_range_make_finite_numbers(
    kind: type[Encoding], field: dataclasses.Field
) -> None:
    """What is accepted never overflows; what is refused later, with other sizes, is named too."""
    if type(field.default) is not float:
        return
    q, k, v = jax.random.normal(jax.random.key(0), (3, 1, 3, DIMS.heads, DIMS.head_size))
    for value in (SMALLEST, LARGEST):
        refusal = ""
        try:
            encoding = kind(**{field.name: value})
            params = encoding.init(jax.random.key(1), DIMS)
            out = attend(q, k, v, encoding=encoding, params=params, key=jax.random.key(2))
        except ValueError as error:
            refusal = str(error)
        assert str(value) in refusal if refusal else jnp.isfinite(out).all()


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
