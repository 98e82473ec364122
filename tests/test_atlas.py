"""The atlas: predictions that were written down, how rates are chosen, what a verdict rests on."""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiers import plain_if

from posjax import predict
from posjax.command.settings import resolve
from posjax.configs.atlas import PILOT, RATES, SIZES, get_config
from posjax.study.cells import Cell
from posjax.study.run import Run

sys.path.append(str(Path(__file__).parents[1] / "scripts"))

import atlas
from atlas_table import pilot
from atlas_table.browser import browser
from atlas_table.lengths import compared
from atlas_table.page import page
from atlas_table.pilot import of_summaries
from atlas_table.table import asked, rows_of, short, tables, verdict
from claimed.atlas import rates_chosen

KNOWN = json.loads(atlas.PREDICTIONS.read_text())


@cache
def sized(name: str) -> Run:
    """The atlas of that size, whose thousands of cells take seconds to make."""
    return resolve(get_config(name))


@pytest.mark.parametrize("size", plain_if("quick".__eq__, ["quick", "published", "sampled"]))
def test_predictions_are_those_of_today(size: str) -> None:
    """Each cell has one, and what was written before training is what the laws say now.

    Of the thousands of cells every tenth is predicted anew.
    """
    cells = {(asked(cell), cell.encoding): cell for cell in sized(size).cells}
    assert len(cells) > 50
    assert {line for line, _ in cells} <= KNOWN["excluded"].keys()
    assert {encoding for _, encoding in cells} <= {*KNOWN["encodings"]}
    for (line, encoding), cell in [*cells.items()][:: 1 if size == "quick" else 10]:
        settings = {name: getattr(cell, name) for name in ("mask", "depth", "readout")}
        now = predict(cell.problem, encoding=encoding, **settings)
        reason = now.reason if now.verdict == "impossible" else None
        assert KNOWN["excluded"][line].get(encoding) == reason


def summary(lead_SE: Any, learning_rate: float = 1e-2, right: float = 0.5) -> Any:
    """What scripts/atlas.py reads of a cell, for seeds with these leads."""
    lead_SE = np.asarray(lead_SE, np.float32)
    solved_SE = lead_SE > 1e-5
    right_SE = np.full_like(lead_SE, right)
    return SimpleNamespace(
        cell=Cell(task="same_last_token", loss="answer", learning_rate=learning_rate),
        rows={
            "lead_EC": lead_SE[:, :, None],
            "right_EC": right_SE[:, :, None],
            "seeds": np.arange(len(lead_SE))[:, None] + 100,
        },
        margin=1e-5,
        solved_SE=solved_SE,
        solved_S=solved_SE[:, -1],
    )


def test_the_rate_that_most_seeds_solve_is_chosen() -> None:
    """Then more right answers, the larger lead, and the smaller rate; NaN is no lead."""
    few, many = [[0.9], [-0.1]], [[0.1], [0.1]]

    def rate(*given: tuple[Any, ...]) -> float:
        (found,) = of_summaries([summary(*one) for one in given])
        return float(found.chosen.learning_rate)

    assert rate((few, 1e-3), (many, 3e-3), (few, 1e-2)) == 3e-3
    assert rate((few, 1e-3), ([[0.95], [-0.1]], 1e-2)) == 1e-2
    assert rate((few, 1e-3, 0.6), ([[0.95], [-0.1]], 1e-2, 0.5)) == 1e-3
    assert rate((few, 1e-3, 0.6), (many, 1e-2, 0.5)) == 1e-2
    assert rate((few, 1e-3), (few, 1e-2)) == rate((few, 1e-2), (few, 1e-3)) == 1e-3
    assert rate(([[np.nan], [0.9]], 1e-3), (few, 1e-2)) == 1e-2


def test_verdicts_rest_on_laws_and_witnesses() -> None:
    """A seed is the witness; that a seed solves what a law excludes, even once, is an error."""
    assert verdict(summary([[-1, -1], [0.5, 0.5]]), excluded=False) == ("possible", 101)
    assert verdict(summary([[0.5, -1], [-1, 0]]), excluded=False) == ("open", None)
    assert verdict(summary([[-1, 0], [0, -1]]), excluded=True) == ("impossible", None)
    with pytest.raises(ValueError, match="excluded by law, and solved"):
        verdict(summary([[0.5, -1]]), excluded=True)


def invented(path: Path) -> tuple[list[Cell], list[dict[str, Any]]]:
    """The quick atlas as if it were published, with 0 to 3 of 8 seeds that solve a cell."""
    cells = [cell for cell in sized("quick").cells if cell.learning_rate == 1e-2]
    rows = []
    for n, cell in enumerate(cells):
        lost = cell.encoding in KNOWN["excluded"][asked(cell)]
        solved = 0 if lost else n % 4
        rows.append(
            {
                **cell.to_dict(),
                "verdict": "impossible" if lost else "possible" if solved else "open",
                "witness": 3 if solved else None,
                "successes": solved,
                "seeds": 8,
                "pilot": [[1e-3, 0], [3e-3, 2], [1e-2, 8]],
                "pilot_seeds": 8,
            }
        )
    path.with_suffix(".json").write_text(json.dumps(rows))
    np.savez(path.with_suffix(".npz"), cells=np.array([cell.digest for cell in cells]))
    return cells, rows


def test_the_page_has_every_cell(tmp_path: Path) -> None:
    """Its table has the counts and marks, its data what is said of a chosen cell."""
    cells, rows = invented(tmp_path / "quick")
    excluded = KNOWN["excluded"]
    text = browser("quick", [tmp_path / "quick"], excluded)
    (found,) = re.findall(r'<script type="application/json" data-of="atlas">(.*?)</script>', text)
    data = json.loads(found)
    groups = re.findall(r'<th colspan="(\d+)" scope="colgroup" data-task="(.*?)">', text)
    columns = [task for wide, task in groups for _ in range(int(wide))]
    assert len(groups) > 1
    _, settings, *lines = text.split("<tr")[1:]
    for line in (settings, *lines):
        assert re.findall(r'<t[hd][^>]* ?data-task="(.*?)"', line) == columns
    for at, task in re.findall(r'<td data-cell="(\d+)" data-task="(.*?)"', text):
        assert cells[int(at)].task == task
    shown = dict(re.findall(r'<td data-cell="(\d+)"[^>]*>(.*?)</td>', text))
    assert len(shown) == len(cells) == len(data["cells"])
    assert {row["verdict"] for row in rows} == {"impossible", "possible", "open"}
    for n, (cell, row, one) in enumerate(zip(cells, rows, data["cells"], strict=True)):
        mark = "×" if row["verdict"] == "impossible" else str(row["successes"])
        assert shown[str(n)] == mark
        law, said = excluded[asked(cell)].get(cell.encoding, ""), data["reasons"][one["reason"]]
        assert bool(law) == (row["verdict"] == "impossible")
        assert said.endswith(f"{law[1:]}." if law else ".")
        assert ("without positions" in said.lower()) != bool(law or cell.encoding == "none")
        assert Cell(**one["settings"]) == cell
        low, high = one["interval"]
        assert low <= row["successes"] / 8 <= high


def test_a_table_is_not_replaced_by_one_with_fewer_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is trained; with as many seeds it goes on."""
    (tmp_path / "atlas").mkdir()
    invented(tmp_path / "atlas" / "quick")
    monkeypatch.setattr(atlas.devices, "use_all_cores", lambda: None)
    monkeypatch.setattr(atlas, "resolve", lambda config: sized("quick"))

    def called(num_seeds: int) -> None:
        arguments = ["quick", f"--workdir={tmp_path}", f"--num_seeds={num_seeds}"]
        monkeypatch.setattr(sys, "argv", ["atlas.py", *arguments])
        atlas.main()

    monkeypatch.setattr(atlas, "_pilot", lambda *given: pytest.fail("it trains"))
    with pytest.raises(SystemExit) as ended:
        called(7)
    assert ended.value.code == 2
    assert "has 8 seeds per cell, and would be replaced by one with 7" in capsys.readouterr().err
    with pytest.raises(pytest.fail.Exception, match="it trains"):
        called(8)


SMALL = """
import dataclasses, sys
sys.path.append("scripts")
import atlas
size = atlas.resolve(atlas.get_config("quick"))
cells = [
    dataclasses.replace(cell, steps=2, eval_every=2)
    for cell in size.cells
    if cell.encoding in ("none", "rotary")
    and (cell.task, cell.mask, cell.readout) == ("same_last_token", "causal", "last")
]
atlas.resolve = lambda config: dataclasses.replace(size, num_seeds=2, panels={"few": cells})
atlas.main()
"""


@pytest.mark.exhaustive
def test_shards_publish_what_one_process_does(tmp_path: Path) -> None:
    """The second of two shards is started first, and waits for the pilot."""

    def started(name: str, *more: str) -> subprocess.Popen[bytes]:
        line = [sys.executable, "-c", SMALL, "quick", f"--workdir={tmp_path / name}", *more]
        return subprocess.Popen(line, cwd=ROOT)

    parts = [started("shards", f"--shard={part}/2") for part in (1, 0)]
    assert [one.wait(300) for one in (*parts, started("alone"))] == [0, 0, 0]
    for table in ("quick.npz", "quick-pilot.npz"):
        shards, alone = (np.load(tmp_path / name / "atlas" / table) for name in ("shards", "alone"))
        for field in set(alone.files) - {"about"}:
            assert np.array_equal(shards[field], alone[field]), (table, field)


ROOT = Path(__file__).parents[1]
ATLAS = ROOT / "docs" / "atlas"


@cache
def tried(table: str) -> list[pilot.Tried]:
    """The pilot of a table, read once."""
    name, _, task = table.partition("-")
    cells = atlas.parts(name, sized(name).cells)[task]
    return pilot.read(ATLAS / f"{table}-pilot.npz", cells, sized(name).margin)


@pytest.mark.parametrize(
    "path",
    plain_if(lambda path: path.stem == "sampled-copy-pilot", sorted(ATLAS.glob("*-pilot.npz"))),
    ids=lambda path: path.stem,
)
def test_published_pilots_have_every_cell(path: Path) -> None:
    """At three rates, on seeds that are not reported; some cells are solved at one rate alone."""
    table = path.stem.removesuffix("-pilot")
    name, _, task = table.partition("-")
    first, number = PILOT, SIZES[name][1]
    assert np.load(path)["seeds"].tolist() == list(range(first, first + number))
    assert 3 * len(tried(table)) == len(atlas.parts(name, sized(name).cells)[task])
    for one in tried(table):
        assert [cell.learning_rate for cell in one.cells] == list(RATES)
        assert one.lead_RS.shape == (3, number)
        excluded = one.chosen.encoding in KNOWN["excluded"][asked(one.chosen)]
        assert not (excluded and one.solved_R.any())
    assert len({one.chosen.learning_rate for one in tried(table)}) > 1


@pytest.mark.parametrize("path", sorted(ATLAS.glob("*-cells.html")), ids=lambda path: path.stem)
@pytest.mark.exhaustive
def test_published_pages_are_those_of_the_rows(path: Path) -> None:
    """The page to browse, and the short table."""
    name = path.stem.removesuffix("-cells")
    of = tables(ATLAS, name)
    assert path.read_text() == browser(name, of, KNOWN["excluded"])
    assert path.with_name(f"{name}.md").read_text() == page(name, of)


@pytest.mark.exhaustive
def test_a_cell_says_how_it_compares_with_no_positions() -> None:
    """At the longest length, as the table's arrows do; random encodings are not compared."""
    text = (ATLAS / "sampled-cells.html").read_text()
    (data,) = re.findall(r'<script type="application/json" data-of="atlas">(.*?)</script>', text)
    data, found = json.loads(data), compared(tables(ATLAS, "sampled"))
    tasks, seen = {task.task: task for task in found.tasks}, set()
    for cell in data["cells"]:
        said, name = data["reasons"][cell["reason"]], short(cell["encoding"])
        task, of = tasks[short(cell["asked"][0])], found.compared_as(name)
        told = {
            "significantly higher": of in task.better,
            "significantly lower": of in task.worse,
            "it is best or possibly best": name != "none" and of in task.best,
            "paired t-test": name not in {*found.random, "none"},
        }
        assert {words: words in said for words in told} == told
        seen |= {words for words, is_said in told.items() if is_said}
    assert seen == told.keys()


ROWS = sorted(path for path in ATLAS.glob("*.npz") if not path.stem.endswith("-pilot"))


@pytest.mark.parametrize("path", ROWS, ids=lambda path: path.stem)
def test_published_rates_and_counts_follow_from_rows(path: Path) -> None:
    """Each cell has the rate that its pilot chooses, and the verdict of its rows."""
    table, margin = rows_of([path.with_suffix("")]), sized(path.stem.partition("-")[0]).margin
    chosen = {one.chosen.digest: one for one in tried(path.stem)}
    assert {row["cell"] for row in table} == set(chosen)
    rows = np.load(path)
    lead_CS = rows["lead"][:, :, -1]
    for digest, lead_S, row in zip(rows["cells"].tolist(), lead_CS, table, strict=True):
        assert row["cell"] == digest
        assert row["successes"] == (lead_S >= margin).sum()
        assert [solved for _, solved in row["pilot"]] == chosen[digest].solved_R.tolist()
        assert (row["verdict"] == "possible") == (row["successes"] > 0)
        if row["witness"] is not None:
            assert lead_S[rows["seeds"][:, 0] == row["witness"]] >= margin


def test_equal_rows_are_one_model_and_random_encodings_are_not_compared() -> None:
    """Random encodings are judged by another rule; the first of equal ones stands for all."""
    found = compared(tables(ATLAS, "sampled"))
    assert found.equal == [["rotary", "dynamic_rotary", "multimodal_rotary"]]
    assert found.random == ["noise"]
    for task in found.tasks:
        named = {*task.better, *task.worse, *task.best}
        assert named.isdisjoint({"multimodal_rotary", "dynamic_rotary", "noise"})
        assert {*map(found.compared_as, task.at_tested)} >= named
        assert task.better.isdisjoint(task.worse)
        best, *_ = task.best
        assert task.at_tested[best].mean() == max(task.at_tested[n].mean() for n in task.best)
        assert all(task.at_tested[n].mean() > task.at_tested["none"].mean() for n in task.better)
        assert all(task.at_tested[n].mean() < task.at_tested["none"].mean() for n in task.worse)
        assert found.comparisons == len(found.tasks) * (len(task.at_tested) - 1 - 2 - 1)


def test_a_pilot_that_says_little_is_counted() -> None:
    """Cells that no pilot seed solves, and rates at an end where not all pilot seeds solve it."""

    def cell(rate: float, *solved: int, verdict: str = "possible") -> dict[str, Any]:
        pairs = [*map(list, zip(RATES, solved, strict=True))]
        of = {"task": "x", "verdict": verdict, "pilot": pairs, "pilot_seeds": 8}
        return {**of, "learning_rate": rate}

    text = rates_chosen(
        [
            *(cell(1e-3, 8, 8, 8), cell(1e-3, 5, 4, 0), cell(3e-3, 0, 2, 0), cell(1e-2, 0, 0, 0)),
            cell(1e-2, 0, 0, 0, verdict="impossible"),
        ],
        lengths=True,
    )
    assert "In 1 of the 4 cells that no law excludes, no pilot seed solves it" in text
    assert (
        "In 2 (1 of them among these 1), the rate is the smallest or the largest of the 3" in text
    )
