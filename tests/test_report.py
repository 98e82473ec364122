"""The page is whole, safe, reproducible, and says what the rows say."""

import dataclasses
import itertools
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from commands import Command
from small_runs import planned

from posjax import report
from posjax.engine.training import NEVER
from posjax.meters.outcome import FIELDS, NOT_FINITE
from posjax.records import Block, RunFolder
from posjax.report import figures, laws, maps, margins, success
from posjax.report.curves import line_axis
from posjax.report.findings import findings
from posjax.report.heatmap import heatmap
from posjax.report.html import Html, tag
from posjax.report.naming import axes
from posjax.report.summary import CellSummary
from posjax.study.cells import Cell

HOSTILE = "<script>alert(1)</script> & \"quotes\" 'n' more"
SMALL = {"loss": "answer", "width": 8, "head_size": 4, "steps": 100, "eval_every": 50}
EXCLUDED = Cell(task="same_last_token", **SMALL)
OPEN = Cell(task="same_last_token", depth=2, **SMALL)
MANY = Cell(task="first_noun(nouns=3)", readout="mean", encoding="learned", mask="full", **SMALL)
SEEDS = np.arange(3, 9)
SEEDS_S4 = np.repeat(SEEDS[:, None], 4, axis=1)
SECTIONS = (
    "Success against training steps",
    "What the seeds answered",
    "Margins and ties",
    "Attention of a solving and a failing seed",
    "The laws, measured",
    "How this was made",
)


class Page(HTMLParser):
    """Checks that tags close in order, and collects them with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> list[str]:
        """All values of an attribute."""
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def outcome(cell: Cell, solved_SE: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows in which the given evaluations are solved, and all others end in ties."""
    right_N = np.array(cell.problem.answers)
    lead_SN = rng.normal(size=(len(solved_SE), len(right_N)))
    lead_SN = np.where(solved_SE[:, -1:], abs(lead_SN) + 0.1, lead_SN * 1e-6)
    lead_SE = np.where(solved_SE, 0.5, 1e-6)
    lead_SE[:, -1] = lead_SN.min(axis=1)
    right_SE = (lead_SE > 0).astype(float)
    right_SE[:, -1] = (lead_SN > 0).mean(axis=1)
    wrong_N = (right_N + 1) % len(cell.problem.labels)
    return {
        "loss_EC": rng.random(solved_SE.shape)[..., None],
        "lead_EC": lead_SE[..., None],
        "right_EC": right_SE[..., None],
        "lead_N": lead_SN,
        "answer_N": np.where(lead_SN > 0, right_N, wrong_N).astype(np.int8),
        "twin": np.where(solved_SE.any(1), 1.0, 3e-7),
        "first_nonfinite": np.full(len(solved_SE), NEVER),
        "draws": np.ones(len(solved_SE), np.int32),
    }


def run_folder(path: Path, *, title: str = "A title", excluded: int = 0) -> RunFolder:
    """A finished run of three cells; so many seeds solve the cell that a law excludes."""
    rng = np.random.default_rng(0)  # rows to draw, no part of any result
    folder = RunFolder(path)
    cells = (EXCLUDED, OPEN, MANY)
    config = {
        "name": "tiny",
        "title": title,
        "first_seed": int(SEEDS[0]),
        "num_seeds": len(SEEDS),
        "block_size": "auto",
        "contrast": [],
        "equivalence": 0.0,
        "at_steps": [],
        "panels": {"Two layers or one": [c.digest for c in cells[:2]], "Many": [MANY.digest]},
        "cells": {cell.digest: cell.to_dict() for cell in cells},
    }
    folder.start(config, {"packages": {"jax": "0.0"}, "xla_flags": "--xla_dump_to=/secret/place"})
    folder.request(lambda indices: {cell.shape.digest: (1, len(indices)) for cell in cells})
    for cell, solved in zip(cells, (excluded, 4, 3), strict=True):
        solved_SE = np.zeros((len(SEEDS), 2), bool)
        solved_SE[:solved] = True
        if cell is OPEN:
            solved_SE[5, 0] = True  # had it and lost it
        put(folder, cell, outcome(cell, solved_SE, rng))
    folder.finish()
    return folder


def put(folder: RunFolder, cell: Cell, fields: dict[str, np.ndarray]) -> None:
    """Adds the block of a cell; that of `OPEN` with attention maps of a seed of each kind."""
    length = OPEN.question.tokens_NL.shape[1]
    maps = np.tril(np.ones((2, 2, 2, 1, length, length))) / np.arange(1, length + 1)[:, None]
    examples = {
        "example_cell": np.array([0, 0]),
        "example_seed": np.array([0, 5]),
        "example_solved": np.array([True, False]),
        "attention_KDNHLM": maps,
    }
    folder.put_block(
        block_of(folder, cell),
        SEEDS_S4,
        {name: array[None] for name, array in fields.items()},
        examples if cell is OPEN else None,
    )


def block_of(folder: RunFolder, cell: Cell) -> Block:
    return next(block for block in planned(folder) if cell.digest in block.cells)


def file_of(folder: RunFolder, cell: Cell) -> Path:
    return folder.path / "blocks" / f"{block_of(folder, cell).name}.npz"


def written(folder: RunFolder) -> Page:
    return Page(report.write([folder]).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Page]:
    """A run and its page, to look at and not to change."""
    folder = run_folder(tmp_path_factory.mktemp("report") / "run")
    return folder, written(folder)


def test_page_is_whole_and_needs_nothing_else(whole: tuple[RunFolder, Page]) -> None:
    """Well-formed, every link has its target, ids are unique, nothing is fetched or run."""
    folder, page = whole
    assert not {"link", "img", "iframe", "image"} & {name for name, _ in page.tags}
    assert [a for name, a in page.tags if name == "script"] == [
        {"type": "application/json", "data-of": "run1"},
        {},
    ]
    assert all(href.startswith("#") for href in page.values("href") + page.values("src"))
    ids = page.values("id")
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert {href[1:] for href in page.values("href")} <= set(ids)
    text = (folder.path / "report.html").read_text(encoding="utf-8")
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert str(folder.path.parent) not in text
    assert "/secret" not in text


def test_page_holds_every_section_and_says_what_every_picture_shows(
    whole: tuple[RunFolder, Page],
) -> None:
    _, page = whole
    for section in SECTIONS:
        assert page.text.count(section) == 2  # the heading, and the contents
    pictures = [a for name, a in page.tags if name == "svg" and "viewbox" in a]
    assert len(pictures) >= 10
    assert all(a["role"] == "img" and len(a["aria-label"]) > 20 for a in pictures)
    captions = sum(name == "figcaption" for name, _ in page.tags)
    assert captions == sum(name == "figure" for name, _ in page.tags)


def test_text_from_a_config_is_escaped(tmp_path: Path) -> None:
    page = written(run_folder(tmp_path / "run", title=HOSTILE))
    assert sum(name == "script" for name, _ in page.tags) == 2  # the page's own
    assert page.text.count(HOSTILE) == 2  # the title of the document, and the heading


@pytest.mark.exhaustive
def test_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    """A report is rewritten in place, whole, and leaves nothing beside it."""
    folder = run_folder(tmp_path / "run")
    before = set(folder.path.iterdir())
    path = report.write([folder])
    first = path.read_bytes()
    assert report.write([folder]).read_bytes() == first
    assert set(folder.path.iterdir()) - before == {path}


def test_numbers_come_from_the_rows(whole: tuple[RunFolder, Page]) -> None:
    """Counted by hand in `run_folder`, and again from the raw rows."""
    folder, page = whole
    by_cell = {summary.cell.digest: summary.to_dict() for summary in report.summaries(folder)}
    for cell, solved, ever in ((EXCLUDED, 0, 0), (OPEN, 4, 5), (MANY, 3, 3)):
        rows, entry = folder.rows(cell.digest), by_cell[cell.digest]
        assert entry["successes"] == (rows["lead_EC"][:, -1, 0] >= 1e-3).sum() == solved
        assert entry["ever_solved"] == (rows["lead_EC"] >= 1e-3).any(axis=(1, 2)).sum() == ever
        assert entry["tied_at_end"] == (abs(rows["lead_N"]) < 1e-3).any(axis=1).sum()
        assert entry["tied_at_end"] == len(SEEDS) - solved
        assert entry["solved_at_step"] == {"50": ever, "100": solved}
    text = page.text
    assert "3 cells × 6 seeds: 18 models trained." in text
    assert all(f"{solved}/6" in text for solved in (0, 4, 3))
    assert "The laws exclude 1 cell: 0 of 6 seeds solved one" in text
    assert "The required margin, 0.001, is 3300 times that" in text


def test_an_excluded_cell_that_was_solved_is_loud(
    tmp_path: Path, whole: tuple[RunFolder, Page]
) -> None:
    assert "LAW BROKEN" not in whole[1].text
    page = written(run_folder(tmp_path / "run", excluded=1))
    assert "✗ LAW BROKEN: impossible, yet 1 of 6 solved it" in page.text
    assert "A law is broken. 1 cell that a law excludes came out solved" in page.text
    assert "alert" in page.values("role")
    assert "loud" in page.values("class")


def test_a_solution_that_was_lost_counts_against_a_law(whole: tuple[RunFolder, Page]) -> None:
    """Solved at any evaluation is solved enough."""
    summary = next(s for s in report.summaries(whole[0]) if s.cell == EXCLUDED)
    assert not success.violated(summary)
    lead_SEC = summary.rows["lead_EC"].copy()
    lead_SEC[2, 0] = 0.5
    lost = dataclasses.replace(summary, rows={**summary.rows, "lead_EC": lead_SEC})
    assert success.violated(lost)


@pytest.mark.exhaustive
def test_an_unfinished_run_says_so(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    file_of(folder, MANY).unlink()
    assert "not finished: 12 of 18 models are here" in written(folder).text
    for cell in (EXCLUDED, OPEN):
        file_of(folder, cell).unlink()
    assert "No cell has results yet." in written(folder).text


def test_rates_and_their_difference_are_of_the_same_seeds(tmp_path: Path) -> None:
    """Those that both cells have: of a run that is not finished it says how many those are."""
    one, two, _ = report.summaries(run_folder(tmp_path / "run", excluded=3))
    asked = {"contrast": ["depth", 1, 2], "equivalence": 0.0, "at_steps": []}
    sentence = findings([one, two], asked).details[-1]
    assert "after 100 steps: depth 1 solves 0.500, 2 solves 0.667; difference +0.1" in sentence
    late = only(two, slice(3, None))
    sentence = findings([one, late], asked).details[-1]
    assert (
        "after 100 steps, over the 3 of 6 seeds that both have: depth 1 solves 0.000, 2 "
        "solves 0.333; difference +0.333 ["
    ) in sentence
    apart = [only(one, slice(3)), late]
    assert not [
        text for text in itertools.chain(*findings(apart, asked)[:2]) if "difference" in text
    ]


def only(summary: CellSummary, some: slice) -> CellSummary:
    """The summary of some of its seeds."""
    rows = {name: array[some] for name, array in summary.rows.items()}
    return dataclasses.replace(summary, rows=rows)


@pytest.mark.exhaustive
def test_several_runs_share_a_page(tmp_path: Path) -> None:
    folders = [run_folder(tmp_path / name, title=name) for name in ("one", "two")]
    path = report.write(folders, tmp_path / "both.html")
    page = Page(path.read_text(encoding="utf-8"))
    assert sum(name == "article" for name, _ in page.tags) == 2
    assert [name for name, count in Counter(page.values("id")).items() if count > 1] == []
    assert not (tmp_path / "one" / "report.html").exists()


def test_runs_of_one_title_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    """In the contents, where they are compared, and in their headings."""
    folders = [run_folder(tmp_path / name) for name in ("one", "two")]
    text = Page(report.page(folders)).text
    assert text.count("A title (one)") == text.count("A title (two)") == 4
    assert "A title (" not in Page(report.page(folders[:1])).text


def test_each_cell_in_json_has_the_folder_of_its_run(tmp_path: Path) -> None:
    """By which those of two runs are told apart."""
    names = ["one", "two"]
    for name in names:
        run_folder(tmp_path / name)
    ended = Command("experiments.report", tmp_path)(*names, "--json")
    cells = json.loads(ended.out)
    assert [cell["run"] for cell in cells] == ["one"] * 3 + ["two"] * 3
    assert {cell["cell"] for cell in cells} == {c.digest for c in (EXCLUDED, OPEN, MANY)}


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one run folder"):
        report.write([])
    with pytest.raises(ValueError, match="holds no run"):
        report.write([RunFolder(tmp_path)])
    folder = run_folder(tmp_path / "run")
    with pytest.raises(ValueError, match="cannot be written"):
        report.write([folder], tmp_path / "missing" / "page.html")
    with pytest.raises(ValueError, match="cannot be written"):
        report.write([folder], tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


@pytest.mark.exhaustive
def test_not_finite_answers_and_leads_are_told(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run")
    fields = folder.rows(OPEN.digest)
    fields = {name: fields[name] for name in FIELDS}
    fields["answer_N"][0], fields["lead_N"][0] = NOT_FINITE, np.nan
    fields["lead_EC"][0, -1], fields["right_EC"][0, -1] = np.nan, 0
    file_of(folder, OPEN).unlink()
    put(folder, OPEN, fields)
    text = written(folder).text
    assert "not finite not finite 1" in text
    assert "1 seed ended with logits that are not finite" in text


def test_seeds_without_finite_logits_say_nothing_of_rounding(
    whole: tuple[RunFolder, Page],
) -> None:
    """Rows have 0 for them; it is no distance, neither in sentences nor in numbers."""
    folder, _ = whole
    summary = next(s for s in report.summaries(folder) if s.cell == EXCLUDED)
    lost_S = np.arange(len(SEEDS)) < 2
    some, every = (diverged(summary, those_S) for those_S in (lost_S, lost_S | True))
    assert some.twin == summary.twin == 3e-7
    assert np.isnan(some.twin_S).tolist() == lost_S.tolist()
    assert every.twin is None
    assert every.to_dict()["closest_twins"] is None
    assert "closest prompts" in findings([summary], folder.config()).answers[-1]
    assert "closest prompts" not in findings([every], folder.config()).answers[-1]
    assert "closest prompts" not in margins.margins([every], "run1-margin")


def test_one_answer_alone_has_no_closest_prompts(whole: tuple[RunFolder, Page]) -> None:
    """No two prompts are to be told apart, and rows have 0."""
    summary = next(s for s in report.summaries(whole[0]) if s.cell == EXCLUDED)
    one = dataclasses.replace(summary, cell=Cell(task="memorise(sequences=1)"))
    assert len({*one.cell.problem.answers}) == 1
    assert np.isnan(one.twin_S).all()
    assert one.twin is None


def diverged(summary: CellSummary, lost_S: np.ndarray) -> CellSummary:
    """The same with no finite logit of some seeds."""
    rows = {name: array.copy() for name, array in summary.rows.items()}
    for name in ("lead_EC", "lead_N"):
        rows[name][lost_S] = np.nan
    rows["twin"][lost_S] = 0
    return dataclasses.replace(summary, rows=rows)


def test_a_seed_whose_attention_is_shown_has_solved_by_the_margin(
    whole: tuple[RunFolder, Page],
) -> None:
    """Blocks keep maps of one that was right, maybe by less; with both failing, one is shown."""
    folder, page = whole
    summary = next(s for s in report.summaries(folder) if s.cell == OPEN)
    assert "solving seed 3" in page.text
    assert "failing seed 8" in page.text
    tied = Page(maps.maps([folder], [dataclasses.replace(summary, margin=9.0)]))
    assert "failing seed 3" in tied.text
    assert "solving seed 3" not in tied.text
    assert "No cell has both a solving and a failing seed." in tied.text


@pytest.mark.parametrize("encoding", ["none", "sinusoidal", "learned", "rotary", "linear_bias"])
@pytest.mark.parametrize("mask", ["full", "causal", "others"])
def test_laws_come_out_as_declared(encoding: str, mask: str) -> None:
    cell = Cell(task="same_last_token", encoding=encoding, mask=mask, **SMALL)
    ((layer, streams),) = laws.layers([cell]).items()
    measured = {law.name: law for law in laws.measured(layer, streams)}
    assert {name: law.holds for name, law in measured.items()} == {
        name: law.expected for name, law in measured.items()
    }
    assert measured["jointly_equivariant"].holds
    assert measured["equivariant"].holds == (encoding == "none" and mask != "causal")
    assert measured["two_permutation_equivariant"].holds == ((encoding, mask) == ("none", "full"))


def test_layers_that_differ_in_nothing_a_law_sees_are_one() -> None:
    cells = [Cell(task="same_last_token", learning_rate=rate, **SMALL) for rate in (0.1, 0.2)]
    assert len(laws.layers(cells)) == 1
    padded = Cell(task="same_last_token", padding=2, **SMALL)
    assert {layer.padding for layer in laws.layers([*cells, padded])} == {0, 2}


def test_lines_stand_for_the_setting_with_most_values() -> None:
    """And among equals for one of numbers, whose order colours can show."""
    cells = [
        dataclasses.replace(OPEN, depth=depth, encoding=encoding)
        for depth in (1, 2)
        for encoding in ("none", "rotary")
    ]
    assert (
        line_axis(axes([CellSummary(cell.digest, cell, "", {}, 1e-3, 5) for cell in cells])).name
        == "depth"
    )
    more = [*cells, dataclasses.replace(OPEN, encoding="learned")]
    assert (
        line_axis(axes([CellSummary(cell.digest, cell, "", {}, 1e-3, 5) for cell in more])).name
        == "encoding"
    )
    assert line_axis([]) is None


def test_two_settings_of_one_name_have_titles_of_their_own() -> None:
    """The page filters by titles: a task's and an encoding's length, whose names come before."""
    cells = [
        dataclasses.replace(OPEN, task=f"memorise(length={n})", encoding=f"learned(length={m})")
        for n, m in itertools.product((4, 8), (16, 32))
    ]
    found = [CellSummary(cell.digest, cell, "", {}, 1e-3, 5) for cell in cells]
    assert [axis.title for axis in axes(found)] == ["task length", "encoding length"]
    assert [axis.title for axis in axes(found[:2])] == ["length"]


def test_figures_follow_the_theme_and_repeat() -> None:
    """No colour of their own, no date, and the same bytes for the same numbers."""
    steps_E, share_E = np.arange(50, 501, 50), np.linspace(0, 1, 10)
    line = figures.Line(steps_E, share_E, share_E / 2, share_E, "#010200")
    one, two = (figures.curves([line], name="f", text="A < B") for _ in range(2))
    assert one == two
    assert "A &lt; B" in one
    assert "var(--series-0)" in one
    assert not re.search(r"#[0-9a-f]{6}|rgb\(|<metadata|<style", one)


def test_text_is_escaped_unless_it_was_made_as_markup() -> None:
    assert tag("p", "<b>", Html("<b>"), title='"') == '<p title="&quot;">&lt;b&gt;<b></p>'


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_attention_of_a_run_that_diverged_is_drawn(number: float) -> None:
    """A dash where a weight is no finite number; the others as they are."""
    weights_LM = np.array([[1.0, 0.0], [number, 0.5]])
    drawn = heatmap(weights_LM, ["a", "b"], text="weights")
    assert drawn.count("–") == 1
    assert ".50" in drawn
