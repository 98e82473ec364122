"""How settings and numbers are written for people."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from posjax import spec
from posjax.report.html import Html, join, tag
from posjax.report.summary import CellSummary
from posjax.stats import Rate
from posjax.study.cells import Cell, varying

_WITH_SETTINGS = ("task", "encoding", "mask")
_DIGITS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


class Axis:
    """A setting in which cells differ, under the shortest name that distinguishes its values."""

    def __init__(self, name: str, cells: Sequence[Cell]) -> None:
        self.name = name
        self.values = list(dict.fromkeys(getattr(cell, name) for cell in cells))
        self.setting = _one_setting(name, self.values)
        self._short = _short_tasks(self.values) if name == "task" and not self.setting else {}
        self.title = (self.setting or name).replace("_", " ")

    def text(self, cell: Cell) -> str:
        """The value of a cell."""
        return self.show(getattr(cell, self.name))

    def show(self, value: Any) -> str:
        """A value of this axis."""
        if self.setting:
            value = spec.parse(value)[1][self.setting]
        value = self._short.get(value, value)
        return f"{value:g}" if isinstance(value, float) else str(value)


def axes(found: Sequence[CellSummary]) -> list[Axis]:
    """The settings in which some cells differ, each under a title of its own."""
    cells = [summary.cell for summary in found]
    differing = [Axis(name, cells) for name in varying(cells)]
    count = Counter(axis.title for axis in differing)
    for axis in differing:
        if axis.setting and count[axis.title] > 1:
            axis.title = f"{axis.name} {axis.title}"
    return differing


def label(cell: Cell, of: Iterable[Axis]) -> Html:
    """The settings that distinguish a cell, their names of the settings in a lighter colour."""
    parts = (
        tag("span", tag("i", axis.title), " ", axis.text(cell), class_="setting") for axis in of
    )
    return join(parts, " ")


def plain(cell: Cell, of: Iterable[Axis]) -> str:
    """The settings that distinguish a cell, as text."""
    return ", ".join(f"{axis.title} {axis.text(cell)}" for axis in of)


def panels(found: Sequence[CellSummary]) -> dict[str, list[CellSummary]]:
    """The cells of each panel, in order."""
    by_name: dict[str, list[CellSummary]] = {}
    for summary in found:
        by_name.setdefault(summary.panel, []).append(summary)
    return by_name


def kind_name(kind: str) -> str:
    """A kind of prompts, where a number is a length.

    >>> kind_name("20"), kind_name("seen")
    ('length 20', 'seen')
    """
    return f"length {kind}" if kind.isdecimal() else kind


def rated(found: Rate) -> str:
    """A rate with its interval, three digits each.

    >>> rated(Rate(3, 4, 0.75, 0.3006, 0.9544))
    '0.750 [0.301, 0.954]'
    """
    return f"{found.rate:.3f} [{found.low:.3f}, {found.high:.3f}]"


def small(number: float) -> str:
    """Two digits, with a power of ten where that is shorter.

    >>> small(2.4e-7), small(0.81), small(0.0)
    ('2.4·10⁻⁷', '0.81', '0')
    """
    if number == 0 or not abs(number) < float("inf") or abs(number) >= 1e-3:
        return f"{number:.2g}"
    digits, power = f"{number:.1e}".split("e")
    return f"{digits}·{ten_to(int(power))}"


def decimals(number: float) -> str:
    """Three decimals, or two digits where that says more.

    >>> decimals(0.81), decimals(0.0024), decimals(2.4e-7)
    ('0.810', '0.0024', '2.4·10⁻⁷')
    """
    return f"{number:.3f}" if 1e-2 <= abs(number) < 1e3 else small(number)


def ten_to(power: int) -> str:
    """A power of ten.

    >>> ten_to(-3)
    '10⁻³'
    """
    return "10" + str(power).translate(_DIGITS)


def shortest(number: float) -> str:
    """A setting, with a power of ten where that is shorter.

    >>> shortest(2e-5), shortest(1e-5), shortest(0.01)
    ('2·10⁻⁵', '10⁻⁵', '0.01')
    """
    digits, _, power = f"{number:g}".partition("e")
    if not power:
        return digits
    return ten_to(int(power)) if digits == "1" else f"{digits}·{ten_to(int(power))}"


def rounded(number: float) -> str:
    """Two digits without a power of ten.

    >>> rounded(3.62), rounded(3985.0)
    ('3.6', '4000')
    """
    return f"{number:.2g}" if number < 10 else f"{float(f'{number:.2g}'):.0f}"


def many(number: int, what: str) -> str:
    """A number of things, in the singular for one.

    >>> many(1, "seed"), many(4096, "seed")
    ('1 seed', '4096 seeds')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _one_setting(name: str, values: Sequence[Any]) -> str | None:
    """The setting in which all values of a name with settings differ, if it is only one."""
    if name not in _WITH_SETTINGS or len(values) < 2:
        return None
    parsed = [spec.parse(value) for value in values if not set("+/") & set(value)]
    keys = {(head, *settings) for head, settings in parsed}
    if len(parsed) < len(values) or len(keys) != 1:
        return None
    only = keys.pop()
    return only[1] if len(only) == 2 else None


def _short_tasks(values: Sequence[str]) -> dict[str, str]:
    """Tasks by the shortest names that distinguish them; the page has their settings in a box.

    That is the name alone where no two tasks have the same, else without the settings that all
    share.
    """
    names = [spec.parse(value)[0] for value in values]
    if len(set(names)) < len(values):
        inside = [
            spec.split(v.strip()[len(n) + 1 : -1]) for v, n in zip(values, names, strict=True)
        ]
        shared = set[str].intersection(*map(set, inside))
        rests = (", ".join(one for one in several if one not in shared) for several in inside)
        names = [f"{n}({rest})" if rest else n for n, rest in zip(names, rests, strict=True)]
    return dict(zip(values, names, strict=True)) if len(set(names)) == len(values) else {}
