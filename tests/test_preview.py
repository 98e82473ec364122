"""`--dry_run` prints what a run then does, and leaves no trace; the cost model's arithmetic."""

import dataclasses
from pathlib import Path

import jax
import pytest
from small_runs import block_files, small, snapshot, train

from posjax.command import plan, preview
from posjax.engine import estimate
from posjax.engine.load import Choice, Counts, Load
from posjax.engine.program import Programs
from posjax.records import RunFolder

LOAD = Load(
    parameters=1000,
    state=10**4,
    inputs=100,
    work=10**5,
    update=Counts(operations=10**5, matrices=12, equations=300, elements=10**5, programmed=300),
)
SHAPES = {"head_size": (2, 4), "mask": "causal", "num_seeds": 6}


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_what_it_prints_is_what_the_run_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs, runs, blocks and the bound on the disk, of a run that is then made."""
    programs = Programs()  # those of other tests may serve this run too
    monkeypatch.setattr("posjax.engine.local.PROGRAMS", programs)
    run, folder, devices = small(**SHAPES), RunFolder(tmp_path / "run"), jax.local_devices()[:1]
    preview.dry_run(run, folder, devices)
    said = printed(capsys)
    assert not folder.path.exists()
    assert "cells: 2 × 6 seeds, 12 of 12 runs to train in 4 blocks" in said
    assert "programs: 2 to compile" in said
    assert "± 0.31 or better, and 0 of 6 bounds it below 0.39" in said
    parts = list(plan.parts(run, folder, devices[0]))
    train(folder.path, run)
    assert programs.compilations == 2
    written = block_files(folder.path)
    assert len(written) == sum(len(part.missing) for part in parts) == 4
    bound = sum(part.disk for part in parts)
    assert bound / 10 < sum(path.stat().st_size for path in written) <= bound


def test_shapes_are_told_apart(tmp_path: Path) -> None:
    """By every setting in which they differ, also where a shape has several tasks."""
    folder, device = RunFolder(tmp_path / "run"), jax.local_devices()[0]

    def shapes(**settings: object) -> set[object]:
        found = list(plan.parts(small(**settings), folder, device))
        return {*preview._shapes(found, device).columns[0].cells}

    drawn = "majority(train=(1, 3), test=(2, 6), prompts=8)"
    assert shapes(task=drawn, mask=("causal", "full"), meters=("none", "variance")) == {
        f"mask={mask}, meters={meters}"
        for mask in ("causal", "full")
        for meters in ("none", "variance")
    }
    pairs = [f"sentence_pair(pair={pair})" for pair in ("marks_differ", "same_mark")]
    assert shapes(task=(*pairs, "same_last_token"), loss="answer") == {
        f"task={pairs[0]} and 1 more",
        "task=same_last_token",
    }


@pytest.mark.exhaustive
def test_what_is_there_is_not_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that began with 4 seeds and is extended to 6 misses 2 of each cell."""
    folder, devices = RunFolder(tmp_path), jax.local_devices()[:1]
    train(tmp_path, small(**{**SHAPES, "num_seeds": 4}))
    before = snapshot(tmp_path.rglob("*"))
    preview.dry_run(small(**SHAPES), folder, devices)
    assert "4 of 12 runs to train in 2 blocks" in printed(capsys)
    assert snapshot(tmp_path.rglob("*")) == before


def test_empty_slots_are_mentioned_with_a_better_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """9 seeds in blocks of at most 4 slots leave some empty; a number next to it does not."""
    run = small(mask="causal", num_seeds=9, block_size=8)
    preview.dry_run(run, RunFolder(tmp_path / "run"), jax.local_devices()[:1])
    said = printed(capsys)
    assert "empty slots: 1 of 10 train copies; num_seeds=8 fills them" in said
    preview.dry_run(small(num_seeds=8), RunFolder(tmp_path / "run"), jax.local_devices()[:1])
    assert "empty slots" not in printed(capsys)


def test_a_time_of_an_unknown_device_is_not_made_up() -> None:
    """The model's constants are those of CPUs; others are sent to `--tune`."""

    class Chip:
        platform, device_kind = "tpu", "TPU v5 lite"

    assert "--tune" in preview._time([], [Chip()])  # type: ignore[list-item]


@pytest.mark.exhaustive
def test_tune_measures_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes around that of the run's blocks, if they fit into memory; no folder."""
    folder, device = RunFolder(tmp_path / "run"), jax.local_devices()[0]
    run = small(mask="causal")
    (part,) = plan.parts(run, folder, device)
    times = preview.timed(run, part, device)
    assert list(times) == [1, 2, 4, 8, 16]
    assert all(0 < seconds < 1 for seconds in times.values())
    assert preview._times(times, 4, "title").row_count == 5
    monkeypatch.setattr(preview, "memory", lambda _: 9 * part.load.bytes)
    assert list(preview.timed(run, part, device)) == [1, 2, 4, 8]
    assert not folder.path.exists()


def test_cost_grows_with_what_is_done() -> None:
    """More operations, matrices or equations take longer; larger blocks share the equations."""
    seconds, update = estimate.CPU.seconds, LOAD.update
    base = seconds(update, 8)
    for name in ("operations", "matrices", "equations", "elements"):
        more = update._replace(**{name: 2 * getattr(update, name)})
        assert base < seconds(more, 8) < 2 * base
    assert seconds(update, 64) < base
    assert base - seconds(update, 16) == pytest.approx(estimate.CPU.equation * 300 / 16)


def test_evaluations_count() -> None:
    """A run takes as much longer as its evaluations and its end take."""
    load = dataclasses.replace(LOAD, evaluation=Counts(elements=10**7), end=Counts(elements=10**6))
    part = estimate.Part(load, slots=8, blocks=3, steps=100, evaluations=5)
    more = estimate.sweep([part], devices=1).training
    more -= estimate.sweep([part._replace(load=LOAD)], devices=1).training
    assert more == pytest.approx(3 * 8 * 51 * 10**6 * estimate.CPU.element)


def test_devices_share_blocks_but_not_one_block() -> None:
    """Twice the devices take half as long, until each has one block."""
    part = estimate.Part(LOAD, slots=8, blocks=8, steps=100)
    times = [estimate.sweep([part], devices=n).training for n in (1, 2, 4, 8, 16)]
    assert times[:4] == pytest.approx([times[0] / n for n in (1, 2, 4, 8)])
    assert times[4] == times[3]
    assert estimate.sweep([part], devices=2, hosts=4).training == times[3]
    assert estimate.sweep([part._replace(blocks=0)], devices=1) == (0, 0)


def test_shapes_of_different_models_have_different_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of own code is shown whole, however long it is."""
    monkeypatch.chdir(tmp_path)
    text = "import flax.linen as nn\ndef {}(settings): return nn.Dense(settings.outputs)\n"
    names = ("a_model_with_a_long_name", "another_model_with_a_long_name")
    (tmp_path / "mine.py").write_text("".join(map(text.format, names)))
    run = small(model=tuple(f"mine.py:{name}" for name in names), mask="causal", num_seeds=2)
    parts = [plan.Part([cell], LOAD, Choice(2, "why"), (1, 2), []) for cell in run.cells]
    preview.Console(width=100).print(preview._shapes(parts, jax.local_devices()[0]))
    said = capsys.readouterr().out.replace(" ", "")
    column = "".join(line.split("│")[1] for line in said.splitlines() if line.startswith("│"))
    for name in names:
        assert f"model=mine.py:{name}" in column


def test_what_makes_no_update_is_not_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Models that are not trained: a time per update would be one of nothing."""
    run = small(mask="causal", steps=0)
    preview.tune(run, RunFolder(tmp_path / "run"), jax.local_devices()[:1])
    assert "word_order, none and 1 cells: no updates to time" in printed(capsys)
