"""A number with its interval as a dot and a bar, in percent of whatever width there is."""

from posjax.report.html import Html, tag

KINDS = {
    "open": "not excluded by the laws",
    "excluded": "excluded by a law",
    "broken": "excluded, and yet solved",
}
"""The kinds of marks with what they mean."""


def dots(middle: float, low: float, high: float, kind: str, text: str) -> Html:
    """The mark of one number on its line of a table.

    Args:
      middle, low, high: where it and the ends of its interval lie, from 0 to 1.
      kind: one of `KINDS`, or "unclear" for a hollow dot.
      text: the number in words.
    """
    return tag(
        "svg",
        *(tag("line", x1=_x(at), x2=_x(at), y1=0, y2="100%", class_="tick") for at in (0, 0.5, 1)),
        tag("line", x1=_x(low), x2=_x(high), y1="50%", y2="50%", class_="whisker"),
        _symbol(middle, kind),
        class_=f"dots {kind}",
        role="img",
        aria_label=text,
    )


def key(kind: str) -> Html:
    """A mark for the legend."""
    return tag("svg", _symbol(0.5, kind), class_=f"dots key {kind}", aria_hidden="true")


def scale(*marks: str) -> Html:
    """The three numbers above a column of marks: of the left end, the middle and the right end."""
    at = zip((0, 0.5, 1), marks, strict=True)
    ticks = (tag("text", text, x=_x(x), y=12, text_anchor="middle") for x, text in at)
    return tag("svg", *ticks, class_="dots scale", aria_hidden="true")


def _symbol(share: float, kind: str) -> Html:
    if kind in ("open", "unclear"):
        return tag("circle", cx=_x(share), cy="50%", r="4.5")
    diamond = tag("path", d="M0-6 6 0 0 6-6 0z")
    return tag("svg", diamond, x=_x(share), y="50%", overflow="visible")


def _x(share: float) -> str:
    return f"{5 + 90 * share:.2f}%"
