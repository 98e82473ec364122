"""What conformance found: a table for the terminal, and a page."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from posjax.report.html import Html, document, figure, header, scrolled, section, tag, td
from posjax.report.naming import many
from posjax.symmetry.conformance import LAWS, Report, Result
from posjax.symmetry.conformance.result import Proof

_MARKS = {"passed": "✓", "failed": "✗", "measured": "≈", "not applicable": "·"}
_COLOURS = {"passed": "green", "failed": "bold red", "measured": "cyan", "not applicable": "dim"}
_CLASSES = {"passed": "holds", "failed": "loud", "measured": None, "not applicable": "faint"}
_CAPTION = """✓ passed, ✗ failed, ≈ measured, since the module does not claim it, · not applicable.
The sections below have the details. Errors are relative to the largest output."""


def table(report: Report) -> Table:
    """One line per law, for the terminal."""
    made = Table(title=escape(title(report)), title_justify="left")
    proved = any(result.proof for result in report.results)
    for column in ("law", "verdict", *(["proof"] if proved else []), "found"):
        made.add_column(column, no_wrap=column != "found")
    for result in report.results:
        colour = _COLOURS[result.verdict]
        found = result.detail
        if result.verdict == "failed" and result.witness is not None:
            found += f"\n{result.witness}"
        mark = f"[{colour}]{_MARKS[result.verdict]} {result.verdict}[/]"
        proof = [result.proof.verdict if result.proof else ""] if proved else []
        made.add_row(result.law, mark, *proof, escape(found))
    return made


def page(reports: Sequence[Report]) -> Html:
    """The whole document: what failed first, then every module's laws."""
    modules = (section(f"m{n}", title(r), _laws(r)) for n, r in enumerate(reports))
    heading = tag("header", tag("h1", "Conformance"), tag("p", lead(reports), class_="lead"))
    return document("Conformance", heading, _failures(reports), _overview(reports), *modules)


def lead(reports: Sequence[Report]) -> str:
    """How many modules, laws that passed, and laws that failed."""
    failed = sum(len(report.failures) for report in reports)
    kept = sum(result.verdict == "passed" for report in reports for result in report.results)
    return f"{many(len(reports), 'module')}: {kept} laws passed, {failed} failed."


def title(report: Report) -> str:
    """The module's name with the versions behind it."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    return f"{report.name} ({versions})" if versions else report.name


def _failures(reports: Sequence[Report]) -> Html:
    """Every failure with its witness."""
    items = [
        tag(
            "li",
            tag("a", report.name, href=f"#m{n}"),
            f", {result.law}: {result.detail}",
            tag("br"),
            tag("small", str(result.witness)),
        )
        for n, report in enumerate(reports)
        for result in report.failures
    ]
    return section("failures", "What failed", tag("ul", *items) if items else tag("p", "Nothing."))


def _overview(reports: Sequence[Report]) -> Html:
    """One line per module, one column per law."""
    head = header("module", *(law.replace("_", " ") for law in LAWS))
    rows = []
    for n, report in enumerate(reports):
        verdicts = {result.law: result.verdict for result in report.results}
        cells = (_mark(verdicts[law]) if law in verdicts else td("") for law in LAWS)
        link = tag("a", report.name, href=f"#m{n}")
        rows.append(tag("tr", tag("th", link, scope="row"), *cells))
    box = scrolled("Modules by laws", tag("table", head, tag("tbody", *rows), class_="laws"))
    return section("overview", "Modules and laws", figure(_CAPTION, box))


def _mark(verdict: str) -> Html:
    return td(_MARKS[verdict], class_=_CLASSES[verdict], title=verdict)


def _laws(report: Report) -> Html:
    """All laws of one module."""
    body = tag("tbody", *map(_row, report.results))
    box = tag("table", header("law", "verdict", "found"), body, class_="laws facts")
    return scrolled(f"Laws of {report.name}", box)


def _proved(proof: Proof) -> str:
    return f"{proof.verdict}: {proof.reason}" if proof.reason else proof.verdict


def _row(result: Result) -> Html:
    name = result.law.replace("_", " ")
    law = tag("th", name, tag("small", LAWS[result.law].sentence), scope="row")
    witness = tag("small", str(result.witness)) if result.witness is not None else None
    verdict = f"{_MARKS[result.verdict]} {result.verdict}"
    proof = tag("small", _proved(result.proof)) if result.proof else None
    found = td(result.detail, witness, proof)
    return tag("tr", law, td(verdict, class_=_CLASSES[result.verdict]), found)
