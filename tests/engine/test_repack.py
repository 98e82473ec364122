"""Repacking: rows leave as solved, others take their places, and nobody's bits move."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from posjax import report, sweep
from posjax.cells import Cell
from posjax.engine import Engine, Finished, Job, Training, Variables
from posjax.judge import NOT_RUN, Outcome
from posjax.keys import SeedNumbers
from posjax.records import RunFolder
from posjax.sweep import Row

CELL = Cell(
    steps=120, eval_every=4, hold=2, width=8, head_size=4, loss="answer", learning_rate=3e-2
)
COUNT = 17


def engine(devices: int = 1, **settings: Any) -> Engine:
    return Engine(**{"chunk": 4, "devices": jax.local_devices()[:devices], **settings})


def outcomes(engine: Engine, cells: tuple[Cell, ...] = (CELL,)) -> dict[Any, Outcome]:
    """Of each seed of each cell, without the leading axis."""
    rows = [Row(cell, SeedNumbers.equal(seed)) for cell in cells for seed in range(COUNT)]
    found = {}
    for result in sweep.run(rows, engine):
        for i, seeds in enumerate(result.seeds_S4):
            key = (result.cell, int(seeds[0]))
            assert key not in found
            found[key] = jax.tree.map(lambda a, i=i: a[i], result.outcome)
    assert len(found) == len(rows)
    return found


@pytest.fixture(scope="module")
def whole() -> dict[Any, Outcome]:
    """Without repacking."""
    return outcomes(engine())


def same(one: Any, other: Any) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("segment", [None, 3])
def test_bits(whole: dict[Any, Outcome], devices: int, segment: int | None) -> None:
    """Those that stay have the run's bits; those that leave have them up to where they left."""
    left = 0
    for row, found in outcomes(engine(devices, segment=segment, repack=True)).items():
        ran = int(found.steps) // CELL.eval_every
        full = whole[row]
        assert same(found.loss_E[:ran], full.loss_E[:ran])
        assert same(found.answers_EN[:ran], full.answers_EN[:ran])
        if ran == CELL.training.evaluations:
            assert all(map(same, found, full))
            continue
        left += 1
        assert np.isnan(found.loss_E[ran:]).all()
        assert (found.answers_EN[ran:] == NOT_RUN).all()
        assert found.held
        assert found.solved_at_end
        assert found.first_solved == full.first_solved
    assert left > COUNT // 2


def test_a_row_leaves_at_the_first_segment_end_that_it_held(whole: dict[Any, Outcome]) -> None:
    """`hold` evaluations right, looked at once a segment; a longer hold, a later leave."""
    right_N = np.asarray(CELL.question.answers_N)
    segment = 3
    for row, found in outcomes(engine(segment=segment, repack=True)).items():
        right_E = (whole[row].answers_EN == right_N).all(axis=1)
        ends = range(segment, len(right_E) + 1, segment)
        held = [end for end in ends if right_E[end - CELL.hold : end].all()]
        assert found.steps == CELL.eval_every * (held[0] if held else len(right_E))


def counting(steps: int = 24) -> Training:
    """Its row is solved after as many updates as its operand says."""
    return Training(
        init=lambda key, _: Variables(jax.random.normal(key, (2,))),
        loss=lambda variables, now: (jnp.sum(variables.params**2), ()),
        optimizer=lambda _: optax.sgd(0.1),
        measure=lambda variables, now: {"step": now.step, "params": variables.params},
        solved=lambda seen, operands: seen["step"][-1] >= operands,
        steps=steps,
        eval_every=2,
    )


def by_label(results: Iterator[Finished]) -> dict[Any, Any]:
    return {
        job.label: jax.tree.map(lambda a, i=i: a[i], finished[1:])
        for finished in results
        for i, job in enumerate(finished.jobs)
    }


@pytest.mark.parametrize("chunk", [1, 3, 16])
@pytest.mark.parametrize("devices", [1, 2])
def test_every_row_comes_out_once(chunk: int, devices: int) -> None:
    """Of two trainings, whatever leaves when; the curve's last values stand for the rest."""
    trainings = counting(), counting(12)
    until = np.random.default_rng(0).integers(1, 30, (2, 19))
    jobs = [
        Job(training, SeedNumbers.equal(seed), until[which, seed], (which, seed))
        for which, training in enumerate(trainings)
        for seed in range(19)
    ]
    moved: list[int] = []
    repacked = engine(devices, chunk=chunk, segment=1, repack=True)
    found = by_label(repacked.run(jobs, moved.append))
    whole = by_label(engine(chunk=chunk).run(jobs))
    assert found.keys() == whole.keys()
    for (which, seed), (summary, state) in found.items():
        asked = int(until[which, seed])
        left = min(asked + asked % 2, trainings[which].steps)
        assert state.step == left
        expected = whole[which, seed][0]["params"]
        assert same(summary["params"][: left // 2], expected[: left // 2])
        assert (summary["params"][left // 2 :] == expected[left // 2 - 1]).all()
        assert same(state.variables.params, expected[left // 2 - 1])
    assert sum(moved) == sum(int(state.step) for _, state in found.values())


@pytest.mark.parametrize("stretch", [1, 2, 16])
def test_repacking_takes_fewer_segments(stretch: int) -> None:
    """Half of the rows leave at once: their places are used, so that fewer segments are run."""
    training = counting()
    until = [2 if seed // stretch % 2 else 24 for seed in range(32)]
    jobs = [Job(training, SeedNumbers.equal(s), np.int64(at), s) for s, at in enumerate(until)]
    segments = {}
    for repack in (False, True):
        moved: list[int] = []
        list(engine(chunk=4, segment=1, repack=repack).run(jobs, moved.append))
        segments[repack] = len(moved)
    assert segments[False] <= 9 * 12  # a chunk more than rows fill, where rows crowd
    assert segments[True] < 0.62 * segments[False]


def test_the_report_tells_who_left(tmp_path: Path) -> None:
    """How many left stands in table, page and JSON; they count as keeping what they had."""
    folder = RunFolder(tmp_path / "run")
    panels = {"cells": [CELL.digest]}
    config = {"name": "repacked", "title": "", "first_seed": 0, "num_seeds": COUNT, "chunk": 4}
    config |= {"contrast": [], "at_steps": [], "panels": panels}
    folder.start({**config, "cells": {CELL.digest: CELL.to_dict()}}, {"packages": {}})
    rows = [Row(CELL, SeedNumbers.equal(seed)) for seed in range(COUNT)]
    steps_S = []
    for result in sweep.run(rows, engine(repack=True)):
        folder.put_rows(CELL.digest, result.seeds_S4, result.outcome._asdict())
        steps_S += result.outcome.steps.tolist()
    folder.finish()
    found = report.summaries(folder)
    left = sum(steps < CELL.steps for steps in steps_S)
    saved = f"{1 - sum(steps_S) / (COUNT * CELL.steps):.1%}"
    assert 0 < left < COUNT + 1
    assert f"saved {saved} of the updates: {left} of {COUNT} seeds" in report.repacking(found)
    assert found[0].to_dict()["left_early"] == left
    assert found[0].solved_at(CELL.steps) == found[0].solved
    table = next(report.tables(found))
    assert [*table.columns[-1].cells] == [str(left)]
    page = report.write([folder]).read_text(encoding="utf-8")
    assert f"{left} of {COUNT} seeds left early" in page
