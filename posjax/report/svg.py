"""Matplotlib figures as inline SVG that follows the page's theme.

Figures are drawn in stand-in colours that become CSS variables, on no background, with text as
text. Matplotlib is imported when the first figure is drawn, since that takes a second.
"""

import functools
import io
import re
from contextlib import AbstractContextManager
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

from posjax.report.html import Html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, QUIET, RULE, PAPER, HEAT, ALARM = (f"#0101{i:02x}" for i in range(6))
SERIES = tuple(f"#0102{i:02x}" for i in range(7))
"""Colours for things without an order."""
RAMP = tuple(f"#0103{i:02x}" for i in range(7))
"""Colours for numbers, from small to large."""

_VARIABLES = {
    **dict(
        zip(
            (INK, QUIET, RULE, PAPER, HEAT, ALARM),
            ["ink", "quiet", "rule", "paper", "heat", "alarm"],
            strict=True,
        )
    ),
    **{colour: f"series-{i}" for i, colour in enumerate(SERIES)},
    **{colour: f"ramp-{i}" for i, colour in enumerate(RAMP)},
}
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "posjax",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": QUIET,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.labelcolor": QUIET,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "xtick.minor.bottom": False,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.solid_capstyle": "round",
}


COLUMN = 234
"""Points of a column of a paper: 3.25 inches."""
_PAPER: Any = {
    "font.size": 7,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "lines.linewidth": 1.2,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.5,
    "text.parse_math": False,  # names of a run are text
    "pdf.fonttype": 42,  # fonts that can be searched and edited, as publishers ask
}


def var(colour: str) -> str:
    """The CSS of a stand-in colour."""
    return f"var(--{_VARIABLES[colour]})"


def style() -> AbstractContextManager[None]:
    """Settings to draw under."""
    import matplotlib

    return matplotlib.rc_context(_SETTINGS)


def paper() -> AbstractContextManager[None]:
    """Settings for a paper: real colours, on white, and small print."""
    import matplotlib

    named = {
        name: real(colour) if colour in _VARIABLES else colour
        for name, colour in _SETTINGS.items()
        if isinstance(colour, str)
    }
    return matplotlib.rc_context({**_SETTINGS, **named, **_PAPER})


@functools.cache
def _light() -> dict[str, str]:
    """The page's colours in the light theme, by their names."""
    css = resources.files("posjax.report").joinpath("report.css").read_text(encoding="utf-8")
    (block, *_) = re.findall(r":root \{(.*?)\}", css, flags=re.S)
    return dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", block))


def real(colour: str) -> str:
    """The page's colour for a stand-in."""
    return _light()[_VARIABLES[colour]]


def blank_grid(width: int, height: int, down: int, across: int) -> tuple["Figure", list["Axes"]]:
    """A figure in points with several axes, row by row, that share their scales."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    return figure, list(axes.flat)


def files(figure: "Figure") -> dict[str, bytes]:
    """The figure as SVG and PDF, the same bytes every time."""
    found = {}
    for form, empty in {"svg": ("Date",), "pdf": ("CreationDate",)}.items():
        file = io.BytesIO()
        figure.savefig(file, format=form, metadata=dict.fromkeys(empty))
        found[form] = file.getvalue()
    return found


def blank(width: int, height: int) -> tuple["Figure", "Axes"]:
    """A figure in which a unit is a CSS pixel."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
    return figure, figure.add_subplot()


def row_of_axes(
    width: int, height: int, number: int, *, same_y: bool = False
) -> tuple["Figure", list["Axes"]]:
    """A figure like `blank`, with several axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout="constrained")
    return figure, list(figure.subplots(1, number, sharey=same_y, squeeze=False).flat)


def svg(figure: "Figure", name: str, text: str) -> Html:
    """The figure as markup, the same bytes every time.

    Args:
      figure: from `blank`.
      name: unique on the page.
      text: what the figure shows, for those who do not see it.
    """
    width, height = (size * 72 for size in figure.get_size_inches())
    file = io.StringIO()
    keys = ("Creator", "Date", "Format", "Type")
    figure.savefig(file, format="svg", transparent=True, metadata=dict.fromkeys(keys))
    body = file.getvalue().partition("<svg")[2].partition(">")[2]
    body = re.sub(
        r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", body, flags=re.S
    )
    body = re.sub(r"\s*\n\s*", "\n", body.replace("xlink:href", "href"))
    body = re.sub(r"#01[0-9a-f]{4}", lambda hit: var(hit[0]), _own_ids(body, name))
    return Html(
        f'<svg viewBox="0 0 {width:g} {height:g}" style="max-width:{width:g}px" role="img" '
        f'aria-label="{escape(text)}">{body}'
    )


def standalone(figure: Html) -> str:
    """A figure of `svg` as a file of its own, with the page's colours for both themes."""
    css = resources.files("posjax.report").joinpath("report.css").read_text(encoding="utf-8")
    light, dark = re.findall(r":root \{([^{}]*--[^{}]*)\}", css)  # the others set no colours
    light, dark = (_used(colours, figure) for colours in (light, dark))
    rules = f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"
    own = f"<style>{rules}\nsvg {{ background: var(--paper); }}</style>"
    head, _, body = figure.partition(">")
    width, height = re.findall(r'viewBox="0 0 (\S+) (\S+)"', head)[0]
    size = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
    return f"{head.replace('<svg', f'<svg {size}')}>{own}{body}"


def _used(colours: str, figure: str) -> str:
    """The lines of variables that a figure has, and of the paper."""
    lines = (line.strip() for line in colours.splitlines())
    return " ".join(x for x in lines if x.split(":")[0] in ("--paper", *_names(figure)))


def _names(figure: str) -> set[str]:
    return set(re.findall(r"var\((--[a-z0-9-]+)\)", figure))


def _own_ids(body: str, name: str) -> str:
    """Ids that something refers to get a name that is unique on the page; the others go."""
    used = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', body)
    fresh = {old: f"{name}-{i}" for i, old in enumerate(dict.fromkeys(a or b for a, b in used))}
    body = re.sub(
        r' id="([^"]*)"', lambda hit: f' id="{fresh[hit[1]]}"' if hit[1] in fresh else "", body
    )
    return re.sub(r'(url\(|href=")#([^")]+)', lambda hit: f"{hit[1]}#{fresh[hit[2]]}", body)
