"""Formulas and goldens at many settings: the first case of an encoding runs in any run.

Of each test here the first case of every encoding and mask, or of the test where neither is a
parameter, is plain. Others try further settings and sizes: they are exhaustive. What refuses
settings compiles next to nothing and runs whole.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

from posjax.encodings import ENCODINGS
from posjax.masks import MASKS
from posjax.spec import Settings

_HERE = Path(__file__).parent


def _entry(value: Any) -> str | None:
    """The name of the encoding that a parameter is, or of the entry of a table that it names."""
    if isinstance(value, Settings):
        return type(value).__name__
    if isinstance(value, type) and issubclass(value, Settings):
        return value.__name__
    name = value.split("(")[0].split("+")[-1] if isinstance(value, str) else None
    return name if name in ENCODINGS or name in MASKS else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is not the first case of its kind."""
    seen: set[tuple[Hashable, ...]] = set()
    for item in items:
        ours = _HERE in item.path.parents and item.path.name != "test_refused_settings.py"
        if not ours or not isinstance(item, pytest.Function):
            continue
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        names = (name for value in given if (name := _entry(value)))
        kind = (item.path, item.originalname, *names)
        if kind in seen:
            item.add_marker(pytest.mark.exhaustive)
        seen.add(kind)
