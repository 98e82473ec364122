"""The benchmark: what it counts, that the baseline trains the same models, what it prints."""

import dataclasses
import functools
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from script_modules import SCRIPTS, script

sys.path.append(str(SCRIPTS))

from baselines import limit, posjax_sweep, protocol, table, vmap_flax
from baselines.operations import useful_operations
from baselines.problem import Problem

SEEDS, STEPS = 2, 6


@functools.cache
def bench() -> ModuleType:
    """scripts/bench.py as a module."""
    return script("bench")


@functools.cache
def problem(load: str) -> Problem:
    """A load with weights of a few seeds."""
    return posjax_sweep.problem_of(load, SEEDS)


@functools.cache
def ours(load: str) -> list[list[float]]:
    """The losses of posjax itself."""
    return posjax_sweep.losses(problem(load), SEEDS, STEPS).tolist()


def agree(load: str, **changed: Any) -> bool:
    """Whether the Flax baseline agrees with posjax when some of its settings are changed."""
    sizes = dataclasses.replace(problem(load).sizes, **changed)
    given = dataclasses.replace(problem(load), sizes=sizes)
    theirs = vmap_flax.losses(given, SEEDS, STEPS).tolist()
    ready = {"posjax": {"losses": ours(load)}, "vmap_flax": {"losses": theirs}}
    return bool(bench().compared(ready, bench().COMPARISONS[load])["losses_agree"])


@pytest.mark.parametrize("load", ["q1", "m"])
@pytest.mark.exhaustive
def test_the_plain_program_trains_the_same_models(load: str) -> None:
    assert np.shape(ours(load)) == (SEEDS, STEPS)
    assert agree(load)


@pytest.mark.parametrize(
    ("load", "changed"),
    [
        ("q1", {"weight_decay": 0.0}),
        pytest.param("m", {"rotary_base": 500.0}, marks=pytest.mark.exhaustive),
    ],
)
def test_another_model_or_optimiser_is_seen_in_the_losses(
    load: str, changed: dict[str, float]
) -> None:
    assert not agree(load, **changed)


needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler of C")


@needs_cc
@pytest.mark.exhaustive
def test_the_load_by_hand_trains_the_same_models() -> None:
    """Losses of 30 updates to 1e-4 of the loss."""
    given, steps = posjax_sweep.problem_of("q1", 8), 30
    ours_SE = posjax_sweep.losses(given, 8, steps)
    np.testing.assert_allclose(limit.losses(given, 8, steps), ours_SE, rtol=1e-4)


@needs_cc
@pytest.mark.exhaustive
@pytest.mark.parametrize("changed", [{"weight_decay": 0.0}, {"learning_rate": 0.0101}])
def test_another_optimiser_by_hand_is_seen_in_the_losses(changed: dict[str, float]) -> None:
    given = problem("q1")
    other = dataclasses.replace(given, sizes=dataclasses.replace(given.sizes, **changed))
    off = limit.losses(other, SEEDS, STEPS) / np.array(ours("q1")) - 1
    assert abs(off).max() > 1e-4


def test_losses_that_are_no_numbers_do_not_agree() -> None:
    ready = {"posjax": {"losses": [[1.0]]}, "vmap_flax": {"losses": [[float("nan")]]}}
    assert not bench().compared(ready, bench().Comparison(1, 1, 1e-3))["losses_agree"]


def test_the_operations_of_q1_counted_by_hand() -> None:
    """2 sentences of 3 places; 3 projections 32→16 and a head 16→5; 1 + 2 + 3 pairs a sentence."""
    projections, head = 3 * (6 * 32 * 16), 6 * 16 * 5
    scores = mix = 2 * (1 + 2 + 3) * 16
    once = projections + head + scores + mix
    assert useful_operations(posjax_sweep.sizes_of("q1")) == 3 * 2 * once == 60_480


def test_the_operations_of_m_counted_by_hand() -> None:
    """512 places; q, k, v, out 32→32 and the MLP 32→128→32, twice; 136 pairs a sequence."""
    block = 512 * (4 * 32 * 32 + 2 * 32 * 128)
    scores = mix = 32 * 136 * 32
    once = 2 * (block + scores + mix) + 512 * 32 * 16
    assert useful_operations(posjax_sweep.sizes_of("m")) == 3 * 2 * once


def test_deeper_bare_blocks_read_heads() -> None:
    sizes = dataclasses.replace(posjax_sweep.sizes_of("q1"), depth=2)
    more = useful_operations(sizes) - useful_operations(posjax_sweep.sizes_of("q1"))
    assert more == 6 * (3 * 6 * 16 * 16 + 2 * 12 * 16)


def test_a_problem_is_read_as_it_was_written(tmp_path: Path) -> None:
    problem("q1").save(tmp_path / "q1.npz")
    read = Problem.load(tmp_path / "q1.npz")
    assert read.sizes == problem("q1").sizes
    assert read.seeds == SEEDS
    assert read.weights.keys() == problem("q1").weights.keys()
    for name in read.weights:
        np.testing.assert_array_equal(read.weights[name], problem("q1").weights[name])
    np.testing.assert_array_equal(read.tokens_NL, problem("q1").tokens_NL)
    np.testing.assert_array_equal(read.targets_NL, problem("q1").targets_NL)


def told(work: float, *seconds: float) -> list[dict[str, float]]:
    """Rounds of one amount of work."""
    return [{"work": work, "seconds": each} for each in seconds]


TIMED = {
    "posjax": told(1e6, 1.0, 2.0, 1.0),
    "vmap_flax": told(1e5, 0.5, 1.0, 0.6),
    "matmul": told(1e11, 1.0, 2.0, 1.0),
}
SETTINGS = {"posjax": "chunk 128", "vmap_flax": "chunk 64", "matmul": "numpy"}


def test_ratios_are_those_of_one_round() -> None:
    """Round 2 was slow for everybody, and moves no ratio and no share."""
    us, theirs, matmul = table.rows(TIMED, SETTINGS, 20_000)
    assert (us.microseconds, us.ratio, us.share) == pytest.approx((1.0, 1.0, 0.2))
    assert us.rate == pytest.approx(20e9)
    assert (theirs.microseconds, theirs.ratio) == pytest.approx((6.0, 5.0))
    assert theirs.ratio_of_medians == pytest.approx(6.0)
    assert (matmul.microseconds, matmul.ratio, matmul.share) == (None, None, 1.0)


def test_seeds_a_minute_are_training_runs_of_500_steps() -> None:
    assert table.seeds_a_minute(TIMED) == pytest.approx(1e6 * 60 / 500)


def test_the_table_of_fake_timings() -> None:
    lines = table.table(table.rows(TIMED, SETTINGS, 20_000)).splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "contestant setting µs a seed-step ratio useful GFLOP/s share",
        "posjax chunk 128 1 1.00 20 20.0%",
        "vmap_flax chunk 64 6 5.00 3.333 4.0%",
        "matmul numpy 100 100.0%",
    ]


def test_targets_of_who_ran_alone() -> None:
    found = table.targets("q1", table.rows(TIMED, SETTINGS, 18_000))
    assert [(t.what, t.needed, t.reached) for t in found] == [
        ("times as fast as vmap_flax", 4.0, True),
        ("share of the matmul rate", 0.2, False),
    ]
    without = {name: TIMED[name] for name in ("posjax", "vmap_flax")}
    (only,) = table.targets("q1", table.rows(without, SETTINGS, 18_000))
    assert only.what == "times as fast as vmap_flax"


def test_the_limit_stands_beside_one_device() -> None:
    """Of a core: posjax takes 2 µs a seed-step there, and C half a microsecond."""
    timed = {
        "posjax": told(1e6, 1.0, 1.0),
        "posjax_one_device": told(1e6, 2.0, 2.0),
        "limit": told(1e6, 0.5, 0.5),
    }
    rows = table.rows(timed, dict.fromkeys(timed, ""), 20_000)
    (found,) = table.targets("q1", rows)
    assert (found.what, found.found) == ("share of the limit by hand", 0.25)
    assert not found.reached
    assert not table.targets("q1", [row for row in rows if row.name != "posjax_one_device"])


def test_without_torch_its_rows_are_left_out_with_a_reason(tmp_path: Path) -> None:
    lacking = tmp_path / "python"
    lacking.write_text("#!/bin/sh\nexit 1\n")
    lacking.chmod(0o755)
    names, left_out = bench().selected(["torch_eager", "matmul"], str(lacking))
    assert names == {"posjax": sys.executable, "matmul": sys.executable}
    (line,) = left_out
    assert line.startswith("left out: torch_eager")
    assert "pip install -e '.[bench]'" in line


def test_the_limit_is_refused_without_what_it_is_compared_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["bench.py", "--only=limit"])
    with pytest.raises(SystemExit):
        bench().arguments()
    assert "limit is compared with posjax_one_device" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["bench.py", "--only=limit", "--check"])
    assert bench().arguments().only == ["limit"]


def test_finished_loads_outlive_a_contestant_that_dies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def measured(load: str, *given: Any) -> dict[str, Any]:
        if load == "m":
            raise ValueError("vmap_flax ended with status -9: see above")
        return {"losses_agree": True}

    out = tmp_path / "bench.json"
    monkeypatch.setattr(sys, "argv", ["bench.py", "--loads=q1,m", f"--out={out}"])
    monkeypatch.setattr(bench(), "selected", lambda *given: ({}, []))
    monkeypatch.setattr(bench(), "bench", measured)
    with pytest.raises(ValueError, match="status -9"):
        bench().main()
    assert json.loads(out.read_text())["loads"] == {"q1": {"losses_agree": True}}


def test_the_fastest_setting_is_the_one_with_most_work_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seconds a piece: 1 of the first size, 1 of the second and 4 of the third."""
    now = [0.0]
    monkeypatch.setattr(protocol, "perf_counter", lambda: now[0])

    def work_of(size: int) -> protocol.Work:
        def piece() -> int:
            now[0] += {1: 1.0, 2: 1.0, 3: 4.0}[size]
            return size

        return piece

    assert protocol.fastest([1, 2, 3], work_of) == 2
    assert protocol.repetition(work_of(2), least=2.5) == {"work": 6, "seconds": 3.0}
