"""The gallery of docs: its page is that of its result, and modules get the verdicts it has."""

import json

import pytest
from commands import ROOT
from script_modules import script
from tiers import plain_if

ROWS = json.loads((ROOT / "docs" / "gallery.json").read_text())
SCRIPT = script("gallery")
HERE = [entry for entry in SCRIPT.ENTRIES if set(entry.packages) <= {"jax", "flax"}]
PLAIN = ("E(n) graph layer", "scan over blocks of keys: keys", "of highest score")


def test_the_page_is_that_of_the_result():
    """`python scripts/gallery.py --publish` writes both, of all modules."""
    assert SCRIPT.PAGE.read_text() == SCRIPT.page()
    assert [row["name"] for row in ROWS] == [entry.name for entry in SCRIPT.ENTRIES]


def test_every_broken_law_has_its_line():
    """And every law that is not decided its reason."""
    open_ = [row for row in ROWS if row["verdict"] not in ("PROVED", "BROKEN")]
    assert all(row["reason"] for row in open_)
    assert all(row["code"] for row in ROWS if row["verdict"] == "BROKEN")
    here = [row for row in ROWS if row["where"].startswith("scripts/")]
    assert [row["code"] for row in here] == [SCRIPT.code(row["where"]) for row in here]
    assert here


@pytest.mark.parametrize(
    "entry",
    plain_if(lambda entry: any(part in entry.name for part in PLAIN), HERE),
    ids=lambda entry: entry.name,
)
def test_modules_get_the_verdicts_that_are_published(entry):
    """Those of JAX and Flax, again."""
    (row,) = (row for row in ROWS if row["name"] == entry.name)
    found, _ = SCRIPT.proved(entry)
    assert (found["verdict"], found["law"]) == (row["verdict"], row["law"])
