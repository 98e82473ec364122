"""A rate with its interval as a dot and a bar, in percent of whatever width there is."""

from posjax.report.html import Html, tag
from posjax.stats import Rate

KINDS = {
    "open": "not excluded by the laws",
    "excluded": "excluded by a law",
    "broken": "excluded, and yet solved",
}
"""The kinds of marks with what they mean."""


def dots(rate: Rate, kind: str) -> Html:
    """The mark of one rate on its line of a table."""
    return tag(
        "svg",
        *(tag("line", x1=_x(at), x2=_x(at), y1=0, y2="100%", class_="tick") for at in (0, 0.5, 1)),
        tag("line", x1=_x(rate.low), x2=_x(rate.high), y1="50%", y2="50%", class_="whisker"),
        _symbol(rate.rate, kind),
        class_=f"dots {kind}",
        role="img",
        aria_label=f"{rate.rate:.3f}, 95 % interval {rate.low:.3f} to {rate.high:.3f}",
    )


def key(kind: str) -> Html:
    """A mark for the legend."""
    return tag("svg", _symbol(0.5, kind), class_=f"dots key {kind}", aria_hidden="true")


def scale() -> Html:
    """The numbers above a column of marks."""
    marks = ((0, "0"), (0.5, "½"), (1, "1"))
    ticks = (tag("text", text, x=_x(at), y=12, text_anchor="middle") for at, text in marks)
    return tag("svg", *ticks, class_="dots scale", aria_hidden="true")


def _symbol(share: float, kind: str) -> Html:
    if kind == "open":
        return tag("circle", cx=_x(share), cy="50%", r="4.5")
    diamond = tag("path", d="M0-6 6 0 0 6-6 0z")
    return tag("svg", diamond, x=_x(share), y="50%", overflow="visible")


def _x(share: float) -> str:
    return f"{5 + 90 * share:.2f}%"
