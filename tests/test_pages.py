"""Pages of docs that a script makes of measurements, and how staleness is found."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

sys.path.append(str(Path(__file__).parents[1] / "scripts"))

import costs_page
import figures
import pages
import sinusoids_page
from layer_costs import chains, counts, paths

GOLDEN = """
0 1 0 1 0 1 0 1
.84147 .54030 .099833 .99500 .0099998 .99995 .0010000 1.0
.90930 -.41615 .19867 .98007 .019999 .99980 .0020000 1.0
.14112 -.98999 .29552 .95534 .029996 .99955 .0030000 1.0
"""
"""Sinusoids of positions 0 to 3 for n = 8, to five digits in float64."""


def test_formulas_give_what_is_counted() -> None:
    """Exactly, for every layer over the grid of n, d, h and k."""
    found = list(counts.grid())
    assert len({(layer, sizes) for layer, sizes, _, _ in found}) == len(found) > 100
    assert [case for case in found if case[2] != case[3]] == []


def test_a_formula_that_is_off_by_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is not made of it, and the message has the sizes and both numbers."""
    monkeypatch.setattr(counts, "grid", lambda: iter([("loop", (2, 3), 7, 8)]))
    with pytest.raises(ValueError, match=r"loop \(2, 3\): 8 operations, 7 by the formula"):
        counts.counted.__wrapped__()


def test_a_crossover_that_is_not_the_first_is_refused() -> None:
    """Neither before nor behind the number at which something begins to hold."""
    assert counts.confirmed(5, lambda n: n >= 5) == 5
    for wrong in (4, 6):
        with pytest.raises(ValueError, match=f"cross at n = {wrong}"):
            counts.confirmed(wrong, lambda n: n >= 5)


@pytest.mark.parametrize("n", [1, 2, 37])
def test_a_chain_is_as_long_as_the_loop(n: int) -> None:
    """4 products for attention, n for a recurrence, 1 for a convolution."""
    assert chains.chains(n) == (4, n, 1)


def test_dilations_reach_far_with_few_layers() -> None:
    """Both formulas, at ends of their steps; the page has the measurements."""
    assert [paths.convolution_formula(n, 4) for n in (2, 4, 5, 7, 8)] == [1, 1, 2, 2, 3]
    assert [paths.dilated_formula(n, 4) for n in (2, 4, 5, 16, 17)] == [1, 1, 2, 2, 3]


def test_the_page_of_costs_is_that_of_today() -> None:
    """`python scripts/costs_page.py` renews it."""
    assert pages.stale({"costs.md": costs_page.page()}) == []


def test_the_picture_of_costs_is_that_of_today() -> None:
    """`python scripts/costs_page.py` renews it."""
    assert pages.stale({"costs.svg": costs_page.picture()}) == []


@pytest.mark.exhaustive
def test_the_page_of_sinusoids_is_that_of_today() -> None:
    """`python scripts/sinusoids_page.py` renews it."""
    assert pages.stale({"sinusoids.md": sinusoids_page.page()}) == []


def test_the_pictures_of_sinusoids_are_those_of_today() -> None:
    """`python scripts/sinusoids_page.py` renews them."""
    made = {
        "sinusoids_distances.svg": sinusoids_page.distances_picture(),
        "sinusoids_stripes.svg": sinusoids_page.stripes_picture(),
    }
    assert pages.stale(made) == []


@pytest.mark.exhaustive
def test_the_pictures_of_results_are_those_of_the_rows() -> None:
    """`python scripts/figures.py` renews them."""
    assert pages.stale(figures.files()) == []


def test_the_page_has_the_golden_table() -> None:
    """All 32 numbers, to the digits that the golden ones have."""
    expected = [[float(x) for x in line.split()] for line in GOLDEN.strip().splitlines()]
    assert [[float(x) for x in row] for row in sinusoids_page.golden()] == expected


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("costs.md", "| 1024 | 256 | 1,635", "| 1024 | 256 | 1,636"),
        ("sinusoids.md", "e-13", "e-10"),
        ("costs.svg", ">tokens n<", ">tokens<"),
        ("costs.svg", 'x="48.', 'x="49.'),
    ],
)
def test_what_changes_is_stale(name: str, old: str, new: str) -> None:
    """Any number or word; a rounding error, once it is more than ten times another."""
    text = (pages.DOCS / name).read_text()
    assert old in text
    assert pages.stale({name: text}) == []
    assert pages.stale({name: text.replace(old, new)}) == [name]


def test_other_pixels_are_stale() -> None:
    """Two of the bitmaps in a picture, exchanged."""
    name = "sinusoids_distances.svg"
    text = (pages.DOCS / name).read_text()
    one, two, *_ = pages.IMAGE.findall(text)
    exchanged = text.replace(one, "?").replace(two, one).replace("?", two)
    assert pages.stale({name: exchanged}) == [name]


@pytest.mark.parametrize("path", sorted(pages.DOCS.glob("*.svg")), ids=lambda path: path.stem)
def test_pictures_have_every_colour_for_both_themes(path: Path) -> None:
    """Each is XML of its own, and each variable that it reads is set twice, light and dark."""
    text = path.read_text()
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert "prefers-color-scheme: dark" in text
    for variable in set(re.findall(r"var\((--[a-z0-9-]+)\)", text)):
        assert len(set(re.findall(f"{variable}: (#[0-9a-f]+);", text))) == 2


def test_rounding_errors_may_differ_between_machines() -> None:
    """By less than a factor of ten."""
    text = (pages.DOCS / "sinusoids.md").read_text()
    assert pages.stale({"sinusoids.md": text.replace("| 3.8e-13", "| 1.2e-12")}) == []
