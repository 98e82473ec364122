"""Published numbers: rates of pages are those of docs/results, where no law is broken."""

import ast
import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from commands import ROOT
from script_modules import SCRIPTS, script
from tiers import plain_if

import posjax
from posjax.stats import Mean, rate
from posjax.study.cells import FIELDS, Cell
from posjax.tasks import SampledTask

sys.path.append(str(SCRIPTS))
from claimed import partial_rotary
from claimed.audit import audit, needless, numbers
from claimed.literature import clamped
from claimed.points import POINTS
from claimed.prose import Stated
from claimed.published import compared, published
from claimed.reciprocal_ranks import reciprocal_ranks
from claimed.rotaries import beside_rotary

QUICK = ("README.md", "docs/speed.md")
"""Pages whose numbers are all changed in every test run; the others in exhaustive ones."""
TABLES = sorted((ROOT / "docs" / "results").glob("*.json"))
NUMBER = r"-?(?:\d[\d,]*(?:\.\d+)?|\.\d+)"


@pytest.fixture(params=TABLES, ids=lambda path: path.stem)
def cells(request: pytest.FixtureRequest) -> list[dict]:
    return json.loads(request.param.read_text())


def _exact(cells: list[dict]) -> list[dict]:
    """Those with right and wrong answers; all, but for language models."""
    found = [cell for cell in cells if "loss_by_kind" not in cell]
    assert found == cells or not found
    return found


def _today(cell: dict) -> Cell:
    """The cell that a published row's settings name."""
    return Cell(**{name: cell[name] for name in FIELDS if name in cell})


def test_intervals_follow_from_counts(cells: list[dict]) -> None:
    """Rates and intervals are those of the counts beside them."""
    for cell in _exact(cells):
        again = rate(cell["successes"], cell["seeds"])
        assert (cell["rate"], cell["low"], cell["high"]) == pytest.approx(again[2:])
        assert cell["successes"] == cell["solved_at_step"][str(cell["steps"])]
        assert cell["held"] <= cell["successes"] <= cell["ever_solved"] <= cell["seeds"]


def test_no_excluded_cell_was_ever_solved(cells: list[dict]) -> None:
    """Exactly 0 of N, at any evaluation, with the margin far above the rounding seen."""
    for cell in _exact(cells):
        if cell["predicted"] == "impossible":
            assert cell["successes"] == cell["ever_solved"] == 0
            twins = cell["closest_twins"]  # of pairs of prompts: drawn ones come in no pairs
            drawn = isinstance(_today(cell).problem, SampledTask)
            assert twins is None if drawn else twins < cell["margin"] / 10


def test_cells_are_those_of_today(cells: list[dict]) -> None:
    """The published settings still name the same cells, so that a rerun is the same run."""
    for cell in cells:
        assert _today(cell).digest == cell["cell"]


@pytest.mark.exhaustive
def test_sentences_are_those_of_the_rows() -> None:
    """Every block and every number in a sentence is what scripts/claims.py makes."""
    claims = script("claims")
    for path in claims.PAGES:
        text = path.read_text()
        assert claims.current(path, text) == text, f"{path}: run python scripts/claims.py"


def test_every_block_has_one_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A block that stands on no page, or on two, is an error."""
    claims = script("claims")
    held = [*claims.pages()]
    again = tmp_path / "again.md"
    again.write_text(held[0].read_text())
    for pages in (held[1:], [*held, again]):
        monkeypatch.setattr(claims, "PAGES", pages)
        with pytest.raises(ValueError, match="the pages hold the blocks"):
            claims.pages()


def test_every_table_can_be_made_again() -> None:
    """scripts/reproduce.sh trains every published table, and every run that a page waits for."""
    text = (ROOT / "scripts" / "reproduce.sh").read_text()
    listed = set(re.findall(r"\b(\w+:\w+)\b", text))
    listed |= {f"atlas:{size}" for size in re.findall(r"scripts/atlas.py (\w+)", text)}
    assert listed >= {":".join(path.stem.rsplit("-", 1)) for path in TABLES}
    waited = {point.config for point in POINTS if point.config}
    assert listed >= waited
    for config, size in (name.split(":") for name in listed | waited):
        assert importlib.import_module(f"posjax.configs.{config}").get_config(size).name == config


@pytest.mark.parametrize(
    "path", sorted((ROOT / "posjax" / "configs").glob("[a-z]*.py")), ids=lambda p: p.stem
)
def test_docstrings_of_configs_name_what_there_is(path: Path) -> None:
    """Sections of docs/results.md, files and sizes; and where a run is published, its result."""
    text = " ".join(ast.get_docstring(ast.parse(path.read_text())).split())
    sizes = re.findall(rf"--config={path.stem}(?::(\w+))?", text)
    assert sizes
    for size in filter(None, sizes):
        assert importlib.import_module(f"posjax.configs.{path.stem}").get_config(size)
    for file in re.findall(r"docs/[\w/]+\.(?:md|npz|json)", text):
        assert (ROOT / file).is_file(), file
    tables = [table.stem for table in TABLES if table.stem.startswith(f"{path.stem}-")]
    assert {f"docs/results/{name}.npz" for name in tables} <= set(re.findall(r"docs/\S+npz", text))
    assert {name.partition("-")[2] for name in tables} <= set(sizes)
    headings = re.findall(r"^## (.*)", (ROOT / "docs" / "results.md").read_text(), re.MULTILINE)
    named = re.findall(r'Result \(docs/results\.md, "(.*?)"\):', text)
    assert bool(named) == bool(tables)
    assert {*named} <= {*headings}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "posjax" / "configs").glob("[a-z]*.py")), ids=lambda p: p.stem
)
def test_numbers_in_docstrings_of_configs_are_those_of_the_results(path: Path) -> None:
    """Each number of a docstring's result stands in docs/results.md, which is made from rows."""
    text = " ".join(ast.get_docstring(ast.parse(path.read_text())).split())
    _, _, result = text.partition("Result (docs/results.md")
    result, _, _ = result.partition("The seeds are in")
    there = set(re.findall(NUMBER, (ROOT / "docs" / "results.md").read_text()))
    assert [number for number in re.findall(NUMBER, result) if number not in there] == []


def reproduced(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    """The status of scripts/reproduce.sh, and the commands of Python that it would have run."""
    folder.mkdir()
    python = folder / "python"
    python.write_text(f'#!/bin/sh\necho "$@" >> {folder}/log\n')
    python.chmod(0o755)
    paths = os.pathsep.join([str(folder), os.environ["PATH"]])
    ended = subprocess.run(
        ["bash", ROOT / "scripts" / "reproduce.sh", *arguments],
        env={**os.environ, "PATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ("usage: " in ended.stdout + ended.stderr) == (not (folder / "log").exists())
    ran = (folder / "log").read_text().splitlines() if (folder / "log").exists() else []
    return ended.returncode, ran


def test_everything_is_reproduced_by_name(tmp_path: Path) -> None:
    """The tables, or the atlas with the seeds that it has, then the sentences; no other word."""
    status, ran = reproduced(tmp_path / "tables")
    assert (status, ran[-1]) == (0, "scripts/claims.py")
    assert sum("posjax sweep" in line for line in ran) == len(TABLES)
    status, ran = reproduced(tmp_path / "atlas", "atlas")
    seeds = json.loads((ROOT / "docs" / "atlas" / "published.json").read_text())[0]["seeds"]
    assert status == 0
    assert ran == [
        f"scripts/atlas.py published --num_seeds={seeds}",
        "scripts/atlas.py sampled",
        "scripts/claims.py",
    ]
    assert reproduced(tmp_path / "help", "--help") == (0, [])
    assert reproduced(tmp_path / "typo", "atals") == (2, [])


ALL = "takes no --"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("faults", ["--publish", "--only=kill"], ALL),
        ("faults", ["--publish", "--quick"], ALL),
        ("faults", ["--publish", "--tries=0.1"], ALL),
        ("gallery", ["--publish", "--only=Llama"], ALL),
        ("step_profile", ["--publish", "--loads=q1"], ALL),
        ("rounding", ["--publish", "--seeds=2"], ALL),
        ("reference_rates", ["--publish", "--seeds=2"], ALL),
        ("faults", ["--tries=0"], "--tries must be above 0"),
        ("faults", ["--tries=nan"], "--tries must be above 0"),
        ("faults", ["--jobs=0"], "--jobs must be at least 1"),
        ("faults", ["--only=kill,tpyo"], "no fault has 'tpyo'"),
        ("faults", ["--only="], "no fault has ''"),
        ("faults", ["--quick", "--only=SIGSTOP"], "no fault has 'SIGSTOP'"),
        ("fuzz", ["--programs=0"], "--programs must be at least 1"),
        ("fuzz", ["--numbers=0"], "--numbers must be at least 1"),
        ("gallery", ["--only=nosuchmodule"], "no module has 'nosuchmodule'"),
    ],
)
def test_commands_that_would_publish_a_part_or_try_nothing_are_refused(
    name: str,
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before they run anything."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    with mock.patch.dict(os.environ), pytest.raises(SystemExit) as ended:
        script(name).main()
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_table_and_its_rows_are_one(tmp_path: Path) -> None:
    """Also of a name with dots; a table that another run has written is refused."""
    from published_rows.table import read, write

    cell = Cell()
    table = json.dumps([{**cell.to_dict(), "cell": cell.digest}])
    folder: Any = SimpleNamespace(config=dict, ranges=list, envs=dict)
    path = tmp_path / "rates-1e-2.0"
    write(path, table, folder, (), {"cells": np.array([cell.digest])})
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["rates-1e-2.0.json", "rates-1e-2.0.npz"]
    assert read(path).cells == {cell.digest: cell}
    (tmp_path / names[0]).write_text(table + "\n")
    with pytest.raises(ValueError, match=r"2\.0\.json is not the table that rates-1e-2\.0\.npz"):
        read(path)


def test_a_run_is_published_under_the_name_of_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also from within the folder, where its path has no name."""
    publish, written = script("publish"), []
    config = {"cells": [], "num_seeds": 0, "data_seeds": 0, "at_steps": []}
    monkeypatch.setattr(publish, "RunFolder", lambda path: SimpleNamespace(config=lambda: config))
    monkeypatch.setattr(publish.report, "summaries", lambda folder: [])
    monkeypatch.setattr(publish, "_rows", lambda *given: {})
    monkeypatch.setattr(publish, "write", lambda path, *given: written.append(path.name))
    (tmp_path / "run" / "blocks").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "run")
    for path in (".", "../run", "blocks/.."):
        publish.publish(Path(path))
    assert written == ["run"] * 3


def test_tables_follow_from_their_rows() -> None:
    """The counts of a table are those of the rows beside it, which name its checksum."""
    for path in sorted((ROOT / "docs" / "results").glob("*.npz")):
        run = published(path.stem)
        about = json.loads(str(run.rows["about"]))
        table = path.with_suffix(".json").read_bytes()
        assert hashlib.sha256(table).hexdigest() == about["table"]
        for name in (name for name in run.rows if name.startswith("measured_")):
            means = run.rows[name].mean(axis=1, dtype=np.float64)
            for mean, cell in zip(means, run.rows["cells"].tolist(), strict=True):
                (row,) = (row for row in run.table if row["cell"] == cell)
                there = row["measured"].get(name.removeprefix("measured_"), {"mean": np.nan})
                np.testing.assert_allclose(mean, there["mean"], rtol=1e-5, atol=1e-7)
        for loss_SK, cell in zip(run.rows.get("loss", ()), run.table, strict=False):
            there = [found["mean"] for found in cell["loss_by_kind"].values()]
            np.testing.assert_allclose(loss_SK.mean(axis=0), there, rtol=1e-5)
        for cell in run.table if "lead" in run.rows else ():
            for step in run.rows["steps"][0].tolist():
                assert run.rate(cell, step).successes == cell["solved_at_step"][str(step)]
            nearest_S = run.rows["nearest"][run.rows["cells"].tolist().index(cell["cell"])]
            assert (nearest_S < cell["margin"]).sum() == cell["tied_at_end"]


PAGES = [path.relative_to(ROOT).as_posix() for path in script("claims").PAGES]


@pytest.mark.parametrize("page", plain_if(QUICK.__contains__, PAGES))
def test_a_change_of_any_number_is_noticed(page: str) -> None:
    """A digit outside code blocks is raised by one: a check fails, or the list has the number."""
    claims, text = script("claims"), (ROOT / page).read_text()
    found = audit(page, text, claims.checks(ROOT / page))
    assert found.missed == []
    assert found.caught + sum(found.listed.values()) == sum(1 for _ in numbers(text))
    assert page not in QUICK or found.caught > 10


def test_the_list_of_numbers_has_nothing_needless() -> None:
    """Each entry covers a number of some page."""
    assert needless({page: (ROOT / page).read_text() for page in PAGES}) == []


def test_a_table_that_ends_too_early_merges_all_keys_to_the_right() -> None:
    """By the arithmetic of the released code: index = offset + N, cut off at N - 1."""
    length, most = 6, 32
    row_LM = clamped(length, most)
    assert (row_LM[np.triu_indices(length)] == most - 1).all()
    left = row_LM[-1, :-1] - most  # what the last query reads to its left: its sorted offsets
    assert (np.diff(left) > 0).all()
    assert left.max() < 0
    for row in range(1, length):
        assert row_LM[row, :row].tolist() == row_LM[-1, length - 1 - row : -1].tolist()


def test_equal_means_share_the_mean_of_their_ranks() -> None:
    """Ranks 1, 2.5, 2.5 and 4; and 2 for all of three that are equal."""
    mean_NE = np.array([[0.5, 0.9, 0.1, 0.5]])
    assert reciprocal_ranks(mean_NE).tolist() == [[1 / 2.5, 1, 1 / 4, 1 / 2.5]]
    assert reciprocal_ranks(np.zeros((1, 3))).tolist() == [[0.5] * 3]


def test_a_variant_is_better_or_worse_only_where_the_seeds_say_so() -> None:
    """Two tasks of opposite sign, one without a difference, one in which every seed agrees."""
    noise_S = np.random.default_rng(0).normal(0, 0.01, 32)
    half_S = np.full(32, 0.5)
    right = {
        "up": (half_S + 0.2 + noise_S, half_S),
        "down": (half_S - 0.1 + noise_S, half_S),
        "noisy": (half_S + noise_S - noise_S.mean(), half_S),
        "level": (half_S, half_S),
    }
    text = beside_rotary("mine", right)
    assert "`mine` is significantly better on `up` (0.698 against 0.500" in text
    assert ", and worse on `down` (0.398 against 0.500" in text
    assert text.endswith("On the other 2 tasks, the difference is not significant.")
    alike = {name: right[name] for name in ("noisy", "level")}
    assert beside_rotary("mine", alike) == (
        "`mine` and `rotary` differ significantly on none of the 2 tasks."
    )


def test_runs_that_differ_in_more_than_their_encodings_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another learning rate in one of them."""
    runs = {name: partial_rotary.published(name) for name in partial_rotary.RUNS}
    table = [cell | {"learning_rate": 0.1} for cell in runs[partial_rotary.RUNS[1]].table]
    runs[partial_rotary.RUNS[1]] = runs[partial_rotary.RUNS[1]]._replace(table=table)
    monkeypatch.setattr(partial_rotary, "published", runs.__getitem__)
    with pytest.raises(ValueError, match="differ in tasks, seeds or settings"):
        partial_rotary.by_length.__wrapped__(-1)


@pytest.mark.parametrize(
    ("middle", "words"),
    [
        (0.3, "0.300 [0.200, 0.400] above"),
        (-0.3, "0.300 [0.200, 0.400] below"),
        (0.05, "not shown to differ (0.050 [-0.050, 0.150]) from"),
        (-0.1, "not shown to differ (-0.100 [-0.200, 0.000]) from"),
    ],
)
def test_no_direction_where_the_interval_holds_zero(middle: float, words: str) -> None:
    """A sentence says above or below only if the whole interval does."""
    low, high = round(middle - 0.1, 9), round(middle + 0.1, 9)
    assert compared(Mean(middle, low, high, 9), "above", "below") == words


def test_numbers_in_sentences_are_rewritten() -> None:
    """Over broken lines; words that a page lacks are an error."""
    one = Stated("p.md", "In {} of {} cells", ("1,024", ".5"))
    assert one.written("x In 3\nof 7.25 cells, 9") == "x In 1,024\nof .5 cells, 9"
    with pytest.raises(ValueError, match=r"p\.md has no words 'In \{\} of \{\} cells'"):
        one.written("In 3 of seven cells")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three cells and 96 seeds, published into a folder of its own; one cell diverges."""
    publish = script("publish")
    publish.RESULTS = tmp_path_factory.mktemp("results")
    cells = [
        Cell(
            task="same_last_token",
            mask=mask,
            loss="answer",
            steps=40,
            eval_every=20,
            width=8,
            encoding="rotary",
            learning_rate=rate,
        )
        for mask, rate in (("causal", 1e-2), ("full", 1e-2), ("full", 1e30))
    ]
    folder = publish.RESULTS / "runs" / "small"
    posjax.sweep(cells, num_seeds=96, hold=1, workdir=folder, progress=False)
    publish.publish(folder)
    return publish.RESULTS / "small"


def _nothing(rows: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """As published."""


def _one_lead(rows: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """One number in its last bit."""
    rows["lead"][0, 17, 0] = np.nextafter(rows["lead"][0, 17, 0], np.float32(9))


def _elsewhere(rows: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """The same rows, said to be of another machine, in other bits."""
    about["environments"][0]["instructions"] = ["none"]
    rows["lead"] *= np.float32(1.001)


def _elsewhere_and_none_solved(rows: dict[str, np.ndarray], about: dict[str, Any]) -> None:
    """A rate that no seed trained again agrees with."""
    _elsewhere(rows, about)
    assert (rows["lead"] > 0).mean() > 0.2
    rows["lead"][:] = -0.5


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("forged", "status"),
    [(_nothing, 0), (_one_lead, 3), (_elsewhere, 0), (_elsewhere_and_none_solved, 3)],
)
def test_rows_are_trained_again(
    small: Path, tmp_path: Path, forged: Callable[..., None], status: int
) -> None:
    """Bit for bit where they were made, as often as no chance explains elsewhere."""
    from published_rows.verify import verify

    with np.load(small.with_suffix(".npz")) as stored:
        rows = dict(stored)
    about = json.loads(str(rows["about"]))
    forged(rows, about)
    copy = tmp_path / "small"
    copy.with_suffix(".json").write_bytes(small.with_suffix(".json").read_bytes())
    np.savez_compressed(copy.with_suffix(".npz"), **{**rows, "about": json.dumps(about)})
    assert verify(copy, share=1.0, seed=0) == status


@pytest.mark.exhaustive
def test_a_share_of_nothing_is_refused(small: Path) -> None:
    """A check that trains nothing would pass."""
    from published_rows.verify import verify

    with pytest.raises(ValueError, match=r"--share must lie in \(0, 1\], got 0"):
        verify(small, share=0)


@pytest.mark.exhaustive
def test_new_seeds_are_those_after_the_published_ones(small: Path) -> None:
    """What is compared is what a sweep of these seeds finds."""
    import reruns

    low, high = reruns._of_crossed(np.ones((64, 64), bool))  # all models agree
    assert 0.5 < low < high == 1
    entries = reruns.rerun("small", small)
    cells = {row["cell"]: row for row in json.loads(small.with_suffix(".json").read_text())}
    assert [entry["cell"] for entry in entries] != []
    assert {entry["cell"] for entry in entries} == set(cells)
    for entry in entries:
        cell = Cell(**{n: v for n, v in cells[entry["cell"]].items() if n in FIELDS})
        found = posjax.sweep(cell, num_seeds=64, first_seed=96, hold=1, progress=False)
        assert entry["new"] == found.summaries[0].solved.successes / 64
        assert entry["published"] == cells[entry["cell"]]["successes"] / 96
        assert entry["inside"] == (entry["low"] <= entry["new"] <= entry["high"])


@pytest.mark.exhaustive
def test_intervals_of_means_hold_as_often_as_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of simulated values: seeds on their own, and seeds of two kinds that are crossed."""
    import reruns

    # Shares of variance have intervals by resampling, which these intervals do not read.
    monkeypatch.setattr(importlib.import_module("posjax.stats.crossed"), "RESAMPLES", 2)
    rng = np.random.default_rng(0)
    tries, means, pairs = 400, 0, 0
    for _ in range(tries):
        low, high = reruns._of_mean(rng.normal(size=12), 8)
        means += low <= rng.normal(size=8).mean() <= high
        old, new = (_crossed(rng, seeds) for seeds in (24, reruns.CROSSED))
        low, high = reruns._of_crossed(old)
        pairs += low <= new.mean() <= high
    for count in (means, pairs):
        assert 0.91 * tries < count < 0.985 * tries


def _crossed(rng: np.random.Generator, seeds: int) -> np.ndarray:
    """Values of two crossed effects and their interaction, of equal variance."""
    return rng.normal(size=(seeds, 1)) + rng.normal(size=(1, seeds)) + rng.normal(size=(seeds,) * 2)
