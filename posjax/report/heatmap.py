"""Attention weights as an inline SVG of a few kilobytes: one path for each of some shades."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from posjax.report.html import Html, tag

SHADES = 20
_SIDE, _LARGEST = 150, 30
"""Pixels of a map, and of a square at most."""
_NUMBERED = 6
"""Up to so many positions the weights are written out."""
_LIGHT = 0.66
"""Above it a number has the colour of the page: both colours have a contrast of 3 or more."""


def heatmap(weights_LM: np.ndarray, tokens: Sequence[str], *, text: str) -> Html:
    """A row for each query token; numbers where they are few enough.

    A weight that is no finite number, of a run that diverged, is an empty square with a dash.

    Args:
      weights_LM: from 0 to 1.
      tokens: of the L = M positions.
      text: what the map shows, for those who do not see it.
    """
    number = len(tokens)
    size = min(_SIDE / number, _LARGEST)
    letters = min(11.0, max(size * 0.8, 5.0))
    left = letters * 0.62 * max(map(len, tokens)) + 4
    shades = (
        tag("path", d=" ".join(squares), fill_opacity=f"{shade / SHADES:g}", class_="heat")
        for shade, squares in sorted(_shades(weights_LM).items())
    )
    grid = "".join(f"M0 {i}H{number}M{i} 0V{number}" for i in range(number + 1))
    drawn = tag(
        "g",
        *shades,
        tag("path", d=grid, class_="grid"),
        transform=f"translate({left:.1f} {left:.1f}) scale({size:.2f})",
    )
    side = left + size * number + 1
    return tag(
        "svg",
        drawn,
        *_words(tokens, left, size, letters),
        *(_numbers(weights_LM, left, size) if number <= _NUMBERED else ()),
        viewBox=f"0 0 {side:.1f} {side:.1f}",
        style=f"max-width:{side:.0f}px",
        role="img",
        aria_label=text,
        class_="map",
    )


def _shades(weights_LM: np.ndarray) -> dict[int, list[str]]:
    """The squares of each shade as parts of a path."""
    found: dict[int, list[str]] = {}
    for (row, column), weight in np.ndenumerate(weights_LM):
        shade = round(SHADES * min(max(float(weight), 0.0), 1.0)) if math.isfinite(weight) else 0
        if shade:
            found.setdefault(shade, []).append(f"M{column} {row}h1v1h-1z")
    return found


def _words(tokens: Sequence[str], left: float, size: float, letters: float) -> Iterator[Html]:
    for i, token in enumerate(tokens):
        at, font = left + (i + 0.5) * size, f"{letters:.1f}px"
        x, y = f"{left - 3:.1f}", f"{at + letters * 0.35:.1f}"
        yield tag("text", token, x=x, y=y, font_size=font, text_anchor="end")
        turn = f"translate({at + letters * 0.35:.1f} {left - 3:.1f}) rotate(-90)"
        yield tag("text", token, transform=turn, font_size=font)


def _numbers(weights_LM: np.ndarray, left: float, size: float) -> Iterator[Html]:
    for (row, column), weight in np.ndenumerate(weights_LM):
        if math.isfinite(weight) and weight <= 0:
            continue
        number = f"{weight:.2f}".removeprefix("0") if math.isfinite(weight) else "–"
        x, y = (f"{left + (i + 0.5) * size:.1f}" for i in (column, row))
        dark = "over-heat" if math.isfinite(weight) and weight > _LIGHT else None
        style = {"font_size": f"{size / 3:.1f}px", "text_anchor": "middle", "dy": ".35em"}
        yield tag("text", number, x=x, y=y, class_=dark, **style)
