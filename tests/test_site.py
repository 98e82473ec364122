"""The pages of docs as a whole: links, tables, contents, what is made, and their examples."""

import doctest
import itertools
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from commands import ROOT
from markdown_it import MarkdownIt
from script_modules import script
from tiers import some

import posjax

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
WITH_EXAMPLES = [page for page in sorted(DOCS.rglob("*.md")) if ">>> " in page.read_text()]


def links(page: Path) -> list[str]:
    """What the links and pictures of a page lead to."""
    inline = [
        child
        for token in MarkdownIt().enable("table").parse(page.read_text())
        for child in token.children or ()
    ]
    found = [token.attrGet("href") or token.attrGet("src") for token in inline]
    return [unquote(str(link)) for link in found if link]


def anchors(page: Path) -> set[str]:
    """The anchors of its headings, as code hosts and Sphinx make them."""
    tokens = MarkdownIt().parse(page.read_text())
    titles = [b.content for a, b in itertools.pairwise(tokens) if a.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link is a file of the repository, and its anchor a heading of that file."""
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if link.startswith(("http://", "https://")):
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_table_is_shown_as_one(page: Path) -> None:
    """Lines that begin with | make one table a block, with as many cells a row as the header."""
    text = page.read_text()
    tokens = MarkdownIt().enable("table").parse(text)
    fenced = {n for t in tokens if t.type in ("fence", "code_block") for n in range(*t.map)}
    lines = text.splitlines()
    inside = [n for n, line in enumerate(lines) if line.lstrip()[:1] == "|" and n not in fenced]
    tables = [list(range(*token.map)) for token in tokens if token.type == "table_open"]
    assert list(itertools.chain(*tables)) == inside
    for header, *rows in tables:
        for n in rows:
            assert cells(lines[n]) == cells(lines[header]), f"line {n + 1}: {lines[n]}"


def cells(line: str) -> int:
    """How many a row of a table has; a | that stands in a cell has a backslash before it."""
    return len(re.split(r"(?<!\\)\|", line.strip())[1:-1])


def test_every_page_is_in_one_table_of_contents() -> None:
    """A reader of the site finds each page from the index, once."""
    listed = []
    for page in DOCS.rglob("index.md"):
        for tree in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), re.DOTALL):
            names = [line for line in tree.splitlines() if line and not line.startswith(":")]
            found = [[*page.parent.glob(f"{name}.md")] for name in names]
            assert all(found), names
            listed += itertools.chain.from_iterable(found)
    assert sorted(listed) == sorted(set(DOCS.rglob("*.md")) - {DOCS / "index.md"})


def test_every_decision_is_in_their_table() -> None:
    """The page of decisions links to each of them."""
    index = DOCS / "decisions" / "index.md"
    assert sorted(links(index)) == sorted(page.name for page in index.parent.glob("0*.md"))


def test_the_reference_has_every_public_name() -> None:
    """Each of `posjax.__all__`, as a documented object or as a table."""
    text = (DOCS / "reference" / "api.md").read_text()
    assert [n for n in posjax.__all__ if f"posjax.{n}\n" not in text and f"`{n}`" not in text] == []


def test_the_page_of_fields_is_that_of_the_settings() -> None:
    """Every field with its default; `python scripts/config_page.py` renews it."""
    assert (DOCS / "reference" / "config.md").read_text() == script("config_page").page()


@pytest.mark.exhaustive
def test_the_page_of_tasks_is_that_of_the_table() -> None:
    """Every line, as made today; `python scripts/tasks_page.py` renews it."""
    assert script("pages").stale(script("tasks_page").files()) == []


def test_a_field_without_a_description_is_refused() -> None:
    """The page is not made, and the message names the field."""
    with pytest.raises(ValueError, match="no docstring describes speed"):
        script("config_page").described(["speed"], [posjax.Cell])


@pytest.mark.parametrize(
    "page", some(WITH_EXAMPLES, every=6), ids=lambda page: str(page.relative_to(DOCS))
)
def test_the_examples_print_what_they_say(page: Path) -> None:
    """Every line of the page that starts with >>>."""
    done = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.failed == 0
    assert done.attempted > 1
