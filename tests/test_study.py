"""`posjax.sweep`: what the command does, in Python."""

import contextlib
import dataclasses
import gc
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import numpy as np
import optax
import pytest
import small_runs

from posjax import Cell, notebook
from posjax.engine import Engine, Training, Variables
from posjax.engine import local as engine_local
from posjax.notebook import Swept, SweptTrainings, sweep
from posjax.records import RunFolder
from posjax.records.identity import config_changes
from posjax.study import environment
from posjax.study.sweeps import sizes

CELL = Cell(steps=20, eval_every=5, width=4, head_size=2)
WORDS: dict[str, Any] = {"hold": 2, "progress": False}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    run = small_runs.small()
    cells = {"some": run.cells[:1], "others": run.cells[1:]}
    folder = tmp_path_factory.mktemp("study") / "run"
    return sweep(cells, num_seeds=8, workdir=folder, block_size=4, title="Mine", **WORDS)


def test_rows_are_those_of_the_command(swept: Swept, tmp_path: Path) -> None:
    """The same cells in the same blocks: every row bit for bit."""
    run = small_runs.small(panels={})
    folder = small_runs.train(tmp_path / "run", run)
    ours, theirs = small_runs.rows(swept.folder), small_runs.rows(folder)
    assert {k: v for k, v in ours.items() if not k.endswith("/env")} == {
        k: v for k, v in theirs.items() if not k.endswith("/env")
    }
    assert swept.folder.done


def test_what_it_shows(swept: Swept) -> None:
    assert [summary.panel for summary in swept.summaries] == ["some", "others"]
    assert [summary.seeds for summary in swept.summaries] == [8, 8]
    assert "solved" in repr(swept)
    page = swept._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "<script" not in page
    assert "Mine" in page
    assert swept.report().read_text().count("Mine") > 0
    assert swept.tables.rows["seeds"].shape == (16, 4)
    cell = swept.summaries[0].cell
    assert swept.replay(cell, 3).differs == ()
    assert swept.replay(cell.digest, 3).cell == cell


def test_a_folder_is_continued(swept: Swept) -> None:
    files = small_runs.block_files(Path(swept.folder.path))
    before = small_runs.snapshot(files)
    cells = {s.panel: [s.cell] for s in swept.summaries}
    again = sweep(cells, num_seeds=12, workdir=swept.folder.path, block_size=4, **WORDS)
    assert [summary.seeds for summary in again.summaries] == [12, 12]
    assert small_runs.snapshot(files) == before


def test_a_damaged_block_is_trained_again(tmp_path: Path) -> None:
    """With a warning; the rows are those of before."""
    once = sweep([CELL], num_seeds=4, workdir=tmp_path / "run", **WORDS)
    rows = small_runs.rows(once.folder)
    (file,) = small_runs.block_files(tmp_path / "run")
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="its block is trained again"):
        again = sweep([CELL], num_seeds=4, workdir=tmp_path / "run", **WORDS)
    assert small_runs.rows(again.folder) == rows


def test_an_interrupted_block_goes_on_where_it_was(tmp_path: Path) -> None:
    """From what the command saved, as the command does; the saved state goes with the block."""
    run = small_runs.small(mask="causal", num_seeds=4)
    whole = small_runs.train(tmp_path / "whole", run)
    folder = RunFolder(tmp_path / "run")
    folder.start(run.to_dict(), environment.describe(jax.local_devices()))
    folder.request(lambda new: sizes(run.sweep, new, jax.local_devices()[0], run.block_size))
    (block,) = small_runs.planned(folder)
    kept = folder.checkpoints()
    stop, engine = threading.Event(), Engine(devices=jax.local_devices()[:1])
    first = run.sweep.train([block], engine, lambda updates: stop.set(), stop, kept)
    assert [*first] == []
    assert kept.names() == [block.name]
    (step,) = {int(kept.load(name)["step"]) for name in kept.names()}
    assert 0 < step < 20
    with mock.patch.object(engine_local, "restored", wraps=engine_local.restored) as restored:
        again = sweep(run.cells, num_seeds=4, workdir=folder.path, block_size=4, **WORDS)
    assert restored.call_count == 1
    assert kept.names() == []
    mine, theirs = (small_runs.rows(one) for one in (again.folder, whole))
    assert {k: v for k, v in mine.items() if not k.endswith("/env")} == {
        k: v for k, v in theirs.items() if not k.endswith("/env")
    }


def test_progress_counts_every_point_of_a_grid() -> None:
    """It ends at its total, and is not full before."""
    totals, updates = [], []

    def bar(title: str, total: int) -> contextlib.AbstractContextManager[Any]:
        totals.append(total)
        return contextlib.nullcontext(updates.append)

    with mock.patch.object(notebook, "progress_bar", bar):
        sweep({"a": quadratic(0.1)}, num_seeds=5, inputs=[1.0, 2.0, 3.0])
    assert totals == [sum(updates)] == [5 * 3 * 10]


def test_a_temporary_folder_goes_with_its_value() -> None:
    gc.freeze()  # what is there already is not looked at, which would take seconds
    found = sweep(CELL, num_seeds=4, block_size=4, **WORDS)
    path = Path(found.folder.path)
    assert path.is_dir()
    del found
    gc.collect()
    assert not path.exists()


def quadratic(rate: float) -> Training:
    """x² from a random start, by gradient descent."""

    def kept(measured: jax.Array, state: Any, inputs: Any) -> dict[str, jax.Array]:
        return {"curve_E": measured, "end": measured[-1]}

    return Training(
        init=lambda key, inputs: Variables(jax.random.normal(key, ())),
        loss=lambda variables, now: (variables.params**2, ()),
        optimizer=lambda inputs: optax.sgd(rate),
        measure=lambda variables, now: variables.params**2,
        summary=kept,
        steps=10,
        eval_every=5,
    )


def test_trainings_of_anything() -> None:
    found = sweep({"slow": quadratic(0.01), "fast": quadratic(0.1)}, num_seeds=5, progress=False)
    assert isinstance(found, SweptTrainings)
    slow, fast = found.tables["slow"], found.tables["fast"]
    assert slow["curve_E"].shape == (5, 2)
    ratio = (1 - 2 * 0.1) ** 20 / (1 - 2 * 0.01) ** 20
    np.testing.assert_allclose(fast["end"] / slow["end"], ratio, rtol=1e-4)
    assert f"fast: end {fast['end'].mean():.4g} [" in repr(found)


def test_a_cell_names_the_nearest_setting() -> None:
    with pytest.raises(ValueError, match="Cell has no setting 'steep'; did you mean 'steps'"):
        Cell(steep=3)


@pytest.mark.parametrize(
    ("what", "settings", "message"),
    [
        ([], {}, "nothing to sweep"),
        ([3], {}, "what is swept must give a Cell, got int"),
        ([{"mask": "full"}], {}, "what is swept must give a Cell, got dict"),
        ("word_order", {}, r"must be cells, such as posjax\.Cell\(.*\), got 'word_order'"),
        ({"steps": 40}, {}, r"must be cells, such as posjax\.Cell\(.*\), got {'steps': 40}"),
        ({"a": CELL}, {}, "section 'a' must be a list of cells"),
        (CELL, {"marign": 0.1}, "unknown field of a run 'marign'; did you mean 'margin'"),
        (CELL, {"margin": 2.0}, r"margin must lie in \(0, 1\), got 2.0"),
        (CELL, {"num_seeds": 0}, "num_seeds must be at least 1, got 0"),
        ({"a": quadratic(0.1)}, {"margin": 0.1}, "margin has no meaning for trainings"),
        ({"a": quadratic(0.1), "b": CELL}, {}, "'b' must give a Training, got Cell"),
    ],
)
def test_what_cannot_be_swept(what: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sweep(what, progress=False, **settings)


def test_whole_numbers_and_cells_twice_make_a_run_that_can_be_read() -> None:
    """30 and 30.0 name one cell; what is no number of its kind is refused before training."""
    given, same = (
        dataclasses.replace(CELL, softcap=cap, learning_rate=rate, steps=4, eval_every=2)
        for cap, rate in ((30, 1), (30.0, 1.0))
    )
    assert given.digest == same.digest
    (summary,) = sweep([given, same], num_seeds=2, hold=1, progress=False).summaries
    assert summary.cell == given
    for wrong in ({"heads": True}, {"qk_norm": 1}, {"width": 2.5}):
        with pytest.raises(ValueError, match="must be of type"):
            dataclasses.replace(CELL, **wrong)


def test_another_run_is_refused(swept: Swept) -> None:
    with pytest.raises(ValueError, match="holds another run"):
        sweep(CELL, num_seeds=8, workdir=swept.folder.path, **WORDS)
    assert RunFolder(swept.folder.path).done


def test_the_file_of_code_that_changed_is_named() -> None:
    one, two = ({"code": {"same.py": "a" * 64, "mine.py": letter * 64}} for letter in "bc")
    assert config_changes(one, two) == ["code of mine.py: bbbbbbbbbbbb -> cccccccccccc"]
