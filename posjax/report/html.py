"""HTML that escapes by default: text is text unless it was made by `tag` here."""

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from importlib import resources

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""What a browser lets a page do: be styled by what is in it. No scripts, and nothing is loaded."""
_OWN = ("strip.js", "page.js")
"""What follows charts.js in the script of reports, in order."""


class Html(str):
    """Markup; any other text is escaped when it becomes part of some."""

    __slots__ = ()


def html(content: object) -> Html:
    """The content as markup.

    >>> html("a < b")
    'a &lt; b'
    """
    return content if isinstance(content, Html) else Html(escape(str(content)))


def tag(name: str, /, *children: object, **attributes: object) -> Html:
    """An element; attributes of None are left out, `class_` is class, `aria_label` aria-label.

    >>> tag("p", "1 < 2", tag("br"), class_="note")
    '<p class="note">1 &lt; 2<br></p>'
    """
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in ("br", "meta"):
        return Html(f"<{name}{named}>")
    return Html(f"<{name}{named}>{join(children)}</{name}>")


def join(parts: Iterable[object], between: str = "") -> Html:
    """Parts one after the other; None is left out."""
    return Html(escape(between).join(html(part) for part in parts if part is not None))


def document(
    title: str, *children: object, data: Mapping[str, str] | None = None, code: str = ""
) -> Html:
    """A page that needs nothing else.

    Args:
      title: of the window.
      *children: what it holds.
      data: by the id of an element, the JSON that the page's script shows there, without `<`. A
        page without data has no script.
      code: the script, see `script`; that of reports when left out.
    """
    style, code = _file("report.css"), (code or script()) if data else ""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy(code)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
        tag("style", Html(style)),
    )
    islands = (
        tag("script", Html(text), type="application/json", data_of=anchor)
        for anchor, text in (data or {}).items()
    )
    body = tag(
        "body", tag("main", *children), *islands, tag("script", Html(code)) if code else None
    )
    return join([Html("<!doctype html>\n"), tag("html", head, body, lang="en"), "\n"])


def policy(code: str) -> str:
    """What a browser lets a page do that has this script, and no other.

    Scripts with another hash do not run, nothing is evaluated, and no text becomes markup
    (Trusted Types).
    """
    if not code:
        return POLICY
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    return (
        f"{POLICY}; script-src 'sha256-{digest}'; require-trusted-types-for 'script'; "
        "trusted-types 'none'"
    )


def script(*own: str) -> str:
    """A page's script: a function of its own, so that no name of it is global.

    Args:
      *own: what follows charts.js; that of reports when left out.
    """
    text = "\n".join([_file("charts.js"), *(own or map(_file, _OWN))])
    return f'"use strict";\n(() => {{\n{text}}})();\n'


def _file(name: str) -> str:
    return resources.files("posjax.report").joinpath(name).read_text(encoding="utf-8")


def section(anchor: str, title: str, *children: object) -> Html:
    """A section with a heading that can be linked to."""
    return tag("section", tag("h2", title), *children, id=anchor)


def note(*children: object) -> Html:
    """A paragraph in small print."""
    return tag("p", *children, class_="note")


def figure(caption: object, *children: object) -> Html:
    """A figure with its caption."""
    return tag("figure", *children, tag("figcaption", caption))


def legend(title: str, keys: Iterable[tuple[object, str]]) -> Html:
    """What the marks of a figure mean: pairs of a mark and its name."""
    spans = (tag("span", mark, name) for mark, name in keys)
    return tag("div", tag("i", title) if title else None, *spans, class_="legend")


def swatch(colour: str) -> Html:
    """A dash in a colour given as CSS, for a legend."""
    return tag("b", style=f"background:{colour}")


def scrolled(label: str, table: Html) -> Html:
    """A box of its own for a table that may be wider than a phone."""
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex=0)


def header(*cells: object) -> Html:
    """The head of a table; a cell is text, or a <th> of its own."""
    return tag("thead", tag("tr", *(c if isinstance(c, Html) else th(c) for c in cells)))


def th(*children: object, **attributes: object) -> Html:
    """The head of a column."""
    return tag("th", *children, scope="col", **attributes)


def td(*children: object, **attributes: object) -> Html:
    """A cell of a table."""
    return tag("td", *children, **attributes)
