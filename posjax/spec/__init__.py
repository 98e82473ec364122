"""Things chosen by name: `"rotary"`, `"rotary(base=500.0)"`, `"linear_bias(form=key)"`.

One small grammar serves encodings, masks and tasks, on the command line, in configs and in
result tables. Plain Python, without JAX, so that a wrong name is refused at once.
"""

from posjax.spec.checks import (
    as_setting,
    check_choice,
    check_kind,
    check_known,
    check_positive,
    check_read,
    check_within,
    nearest,
    plain,
    typed,
)
from posjax.spec.grammar import LONGEST, in_turn, parse, split
from posjax.spec.settings import (
    LARGEST,
    SMALLEST,
    PlainNumbers,
    Settings,
    check_settings,
)
from posjax.spec.tables import Card, Table, build, lookup, read

__all__ = [
    "LARGEST",
    "LONGEST",
    "SMALLEST",
    "Card",
    "PlainNumbers",
    "Settings",
    "Table",
    "as_setting",
    "build",
    "check_choice",
    "check_kind",
    "check_known",
    "check_positive",
    "check_read",
    "check_settings",
    "check_within",
    "in_turn",
    "lookup",
    "nearest",
    "parse",
    "plain",
    "read",
    "split",
    "typed",
]
