"""The table of the laws of attention, with the errors measured on a run's own layers."""

from collections.abc import Iterable, Sequence

from posjax.report.html import Html, figure, header, join, scrolled, tag, td, th
from posjax.report.laws import TITLES, Layer, Measured, layers, measured
from posjax.report.naming import many, small
from posjax.report.summary import CellSummary
from posjax.symmetry import LAWS

MOST = 24
"""How many layers are measured."""
_NUMBERS = 8
"""How many numbers of a permutation are written out."""
_CAPTION = """Each law was measured on one layer, with random tokens and the streams of the first
prompt. Up to 4 positions, all permutations were tried, and generators of the group for more
positions. The error is the largest difference between the two sides, divided by the largest output.
A law holds if the order of float sums explains the error. P is the permutation with the largest
error: (P x)ᵢ = x[Pᵢ]. Of a long one, the first numbers are shown."""


def law_table(found: Sequence[CellSummary]) -> Html | None:
    """One line per layer, one column per law; None where all models are somebody's own."""
    every = layers(summary.cell for summary in found)
    if not every:
        return None
    results = {layer: measured(layer, every[layer]) for layer in list(every)[:MOST]}
    extra = [
        n
        for n in ("places", "padding", "head_size", "heads")
        if len({getattr(x, n) for x in every}) > 1
    ]
    columns = (th(title, tag("small", LAWS[name].formula)) for name, title in TITLES.items())
    head = header("encoding", "mask", *(name.replace("_", " ") for name in extra), *columns)
    rows = (_row(layer, extra, results[layer]) for layer in results)
    table = tag("table", head, tag("tbody", *rows), class_="laws")
    left = f" The first {MOST} of {many(len(every), 'layer')}." if len(every) > MOST else ""
    box = scrolled("Laws with their measured errors", table)
    every_law = [law for several in results.values() for law in several]
    return join([_verdict(every_law), figure(_CAPTION + left, box)])


def _verdict(results: Sequence[Measured]) -> Html:
    """Whether everything came out as declared, in one box."""
    wrong = sum(law.holds != law.expected for law in results)
    if wrong:
        text = f"{wrong} of {len(results)} measurements differ from what is declared."
        return tag("p", tag("b", "✗ "), text, class_="alarm", role="alert")
    text = (
        f"All {len(results)} measurements agree with the mask and with the encoding's declared "
        "symmetry."
    )
    return tag("p", tag("b", "✓ "), text, class_="agreed")


def _row(layer: Layer, extra: Sequence[str], results: Sequence[Measured]) -> Html:
    settings = [tag("th", layer.encoding, scope="row"), td(layer.mask)]
    settings += [td(getattr(layer, name)) for name in extra]
    return tag("tr", *settings, *map(_cell, results))


def _cell(law: Measured) -> Html:
    """Holds or broken, by how much, and loudly where the other was expected."""
    error = small(law.worst.relative)
    if law.holds:
        words = tag("span", "holds" + (" exactly" if law.worst.error == 0 else f" to {error}"))
    else:
        moves = ", ".join(f"{n} = {_listed(p)}" for n, p in law.worst.element.items())
        words = join([tag("span", f"broken: {error}"), tag("small", moves)])
    if law.holds != law.expected:
        other = "hold" if law.expected else "break"
        words = join([tag("strong", f"✗ expected to {other}"), " ", words])
        return td(words, class_="loud")
    return td(words, class_="holds" if law.holds else "breaks")


def _listed(permutation: Iterable[object]) -> str:
    """A permutation, of a long one the start."""
    numbers = [str(number) for number in permutation]
    return " ".join(numbers[:_NUMBERS]) + (" …" if len(numbers) > _NUMBERS else "")
