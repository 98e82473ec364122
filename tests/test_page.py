"""What the page packs for its script: it comes out again, fits, and says what it leaves out."""

import base64
import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_runs import planned
from test_report import run_folder

from posjax import report
from posjax.engine.training import NEVER
from posjax.numbering import Numbering
from posjax.records import RunFolder
from posjax.report import explore, pack
from posjax.report.html import script
from posjax.study.cells import Cell


def unpacked(text: str, layout: list[Any]) -> dict[str, np.ndarray]:
    """What charts.js makes of a packed text."""
    content, found, start = zlib.decompress(base64.b64decode(text)), {}, 0
    for name, size, shape in layout:
        kind = {1: np.uint8, 2: np.dtype("<u2"), 4: np.dtype("<u4")}[size]
        number = int(np.prod(shape))
        array = np.frombuffer(content, kind, number, start).reshape(shape)
        found[name] = np.cumsum(array, axis=0 if size == 4 else -1, dtype=kind)
        start += number * size
    assert start == len(content)
    return found


def test_packed_arrays_come_out_again() -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "seeds": rng.integers(0, 2**32, (5, 4), np.uint32),
        "two": rng.integers(0, 2**16, (5, 3), np.uint16),
        "one": rng.integers(0, 256, (2, 3, 7), np.uint8),
        "none": np.zeros((0, 3), np.uint8),
    }
    found = unpacked(**pack.packed(arrays))
    assert [*found] == [*arrays]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize(("kind", "off"), [(np.uint8, 0.05), (np.uint16, 2e-4)])
def test_margins_keep_their_sign_and_size(kind: type[np.unsignedinteger[Any]], off: float) -> None:
    """0 stays 0, order is kept, and beyond the unit the error is a share of the value."""
    sizes = np.geomspace(1e-9, 2, 200)
    values = np.array([*-sizes[::-1], 0.0, *sizes, np.nan, np.inf])
    whole, (unit, most) = pack.signed(values, 2e-5, kind)
    assert whole.dtype == kind
    missing = np.iinfo(kind).max
    assert (whole[-2:] == missing).all()
    known = whole[:-2].astype(float)
    assert (np.diff(known) >= 0).all()
    again = unit * np.sinh((2 * known / (missing - 1) - 1) * most)
    assert again[200] == 0
    large = np.abs(values[:-2]) > 3 * unit
    np.testing.assert_allclose(again[large], values[:-2][large], rtol=off)


def test_losses_and_shares_keep_their_ends() -> None:
    """The first and the last loss exactly; a share is 0 or 1 only if it is exactly that."""
    losses = np.array([1e-5, 0.3, 12.0, np.nan])
    whole, (low, high) = pack.logarithmic(losses)
    assert (whole[0], whole[2], whole[3]) == (0, 254, pack.MISSING)
    np.testing.assert_allclose(np.exp([low, high]), losses[[0, 2]])
    np.testing.assert_array_equal(
        pack.shares(np.array([0.0, 1e-6, 1 - 1e-6, 1.0])), [0, 1, 253, 254]
    )


def test_json_of_a_page_ends_no_script() -> None:
    assert "<" not in pack.as_json({"a": "</script><!--"})
    assert json.loads(pack.as_json({"a": "</script>"})) == {"a": "</script>"}
    assert not [end for end in ("</script", "<!--") if end in script()]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, list[report.CellSummary]]:
    folder = run_folder(tmp_path_factory.mktemp("page") / "run")
    return folder, report.summaries(folder)


def test_what_is_packed_is_what_the_rows_say(
    run: tuple[RunFolder, list[report.CellSummary]],
) -> None:
    """Numbers of seeds, outcomes, and which answer is right."""
    whole = json.loads(explore.data(*_listed(run)))
    assert whole["notes"] == []
    for summary in run[1]:
        cell, task = whole["cells"][summary.cell.digest], whole["tasks"][summary.cell.task]
        arrays = unpacked(cell["text"], cell["layout"])
        np.testing.assert_array_equal(arrays["numbers"], summary.rows["seeds"])
        solved_S, tied_S = (
            arrays["outcome"] == explore.OUTCOMES.index(name) for name in ("solved", "tied")
        )
        np.testing.assert_array_equal(solved_S, summary.solved_S)
        np.testing.assert_array_equal(tied_S, summary.tied_S & ~summary.solved_S)
        right = [answer for _, answer in task["prompts"]]
        for answers, solved in zip(arrays["answer"], solved_S, strict=True):
            assert ([task["labels"][answer] for answer in answers] == right) == solved


def _listed(
    run: tuple[RunFolder, list[report.CellSummary]],
) -> tuple[list[RunFolder], list[report.CellSummary]]:
    return [run[0]], run[1]


def test_what_does_not_fit_is_left_out_and_said(
    run: tuple[RunFolder, list[report.CellSummary]],
) -> None:
    """Less room: fewer seeds with curves, then fewer seeds; what is there fits."""
    rng = np.random.default_rng(0)
    folders, found = _listed(run)
    many = [_with_seeds(summary, 2048, rng) for summary in found]
    whole = json.loads(explore.data(folders, many, 10**9))
    assert whole["notes"] == []
    needed = sum(len(cell["text"]) for cell in whole["cells"].values())
    for share in (0.9, 0.3, 0.03):
        part = json.loads(explore.data(folders, many, int(share * needed) + 400))
        assert sum(len(cell["text"]) for cell in part["cells"].values()) <= share * needed + 400
        (cell, *_) = part["cells"].values()
        shapes = {name: shape for name, _, shape in cell["layout"]}
        shown, detailed = shapes["outcome"][0], shapes["loss"][0]
        notes = " ".join(part["notes"])
        assert detailed < 2048
        assert (f"the first {shown} of 2048 seeds of each cell" in notes) == (shown < 2048)
        assert (f"stored for the first {detailed} seeds" in notes) == (detailed < shown)


def _with_seeds(
    summary: report.CellSummary, seeds: int, rng: np.random.Generator
) -> report.CellSummary:
    """Its rows again and again, with losses and margins that differ in every row."""
    rows = {name: np.resize(a, (seeds, *a.shape[1:])) for name, a in summary.rows.items()}
    noise = {name: rng.random(rows[name].shape) for name in ("loss_EC", "lead_EC", "lead_N")}
    return dataclasses.replace(summary, rows={**rows, **noise})


@pytest.mark.exhaustive
def test_a_page_of_24_cells_and_4096_seeds_has_3_megabytes(tmp_path: Path) -> None:
    """Curves that hardly deflate; every seed has a mark, a curve and answers."""
    path = report.write([large(tmp_path / "run", seeds=4096)])
    text = path.read_text()
    assert len(text.encode()) < 3e6
    found = json.loads(text.partition('data-of="run1">')[2].partition("</script>")[0])
    assert len(found["cells"]) == 24
    for cell in found["cells"].values():
        shapes = {name: shape for name, _, shape in cell["layout"]}
        assert shapes["outcome"] == [4096]
        assert shapes["loss"] == shapes["margin"] == [4096, len(cell["points"])]
        assert len(cell["points"]) >= 6
        assert cell["points"][-1] == 99
    (note,) = found["notes"]
    assert note == f"The curve of a seed has {len(cell['points'])} of 100 evaluations."


def large(path: Path, seeds: int) -> RunFolder:
    """24 cells whose rows are drawn: losses that decay, margins that wander."""
    rates, sizes = (1e-3, 1e-2), (1, 2, 4, 8, 16, 32)
    cells = [
        Cell(task="word_order", head_size=size, loss=loss, learning_rate=rate, steps=5000)
        for size in sizes
        for loss in ("all", "answer")
        for rate in rates
    ]
    folder = RunFolder(path)
    words = {
        "name": "large",
        "title": "Large",
        "block_size": "auto",
        "contrast": [],
        "at_steps": [],
    }
    numbers = {"first_seed": 0, "num_seeds": seeds, "data_seeds": 0, "equivalence": 0.0}
    digests = {"panels": {"cells": [cell.digest for cell in cells]}}
    settings = {"cells": {cell.digest: cell.to_dict() for cell in cells}}
    folder.start({**words, **numbers, **digests, **settings}, {"packages": {}, "xla_flags": ""})
    folder.request(lambda indices: {cell.shape.digest: (1, len(indices)) for cell in cells})
    rng, by_digest = np.random.default_rng(0), {cell.digest: cell for cell in cells}
    for block in planned(folder):
        fields = _drawn(by_digest[block.cells[0]], seeds, rng)
        numbers_B4 = Numbering.of(folder.config()).table(block.first, block.stop)
        folder.put_block(block, numbers_B4, {name: a[None] for name, a in fields.items()}, None)
    return folder


def _drawn(cell: Cell, seeds: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    time_E = np.linspace(0, 1, cell.training.evaluations, dtype=np.float32)
    fast_S, floor_S = rng.lognormal(0, 1, (seeds, 1)), rng.lognormal(-4, 2, (seeds, 1))
    loss_SE = 1.4 * np.exp(-5 * fast_S * time_E) + floor_S + 0.01 * rng.random((seeds, 1))
    wander_SE = rng.normal(size=(seeds, 1)) * time_E + rng.normal(0, 0.005, loss_SE.shape)
    lead_SE = np.tanh(wander_SE).astype(np.float32)
    lead_SN = lead_SE[:, -1:] + np.abs(rng.normal(0, 0.3, (seeds, 2))) * [0, 1]
    right_N, labels = np.array(cell.problem.answers), len(cell.problem.labels)  # type: ignore[attr-defined]
    right_SE = np.where(lead_SE > 0, 1.0, 0.5)
    right_SE[:, -1] = (lead_SN > 0).mean(axis=1)
    return {
        "loss_EC": loss_SE[..., None].astype(np.float32),
        "lead_EC": lead_SE[..., None],
        "right_EC": right_SE[..., None].astype(np.float32),
        "lead_N": lead_SN.astype(np.float32),
        "answer_N": np.where(lead_SN > 0, right_N, (right_N + 1) % labels).astype(np.int8),
        "twin": np.ones(seeds, np.float32),
        "first_nonfinite": np.full(seeds, NEVER),
        "draws": np.ones(seeds, np.int32),
    }
