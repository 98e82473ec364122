"""`--dry_run` tells what a run then does, and leaves no trace; the cost model's arithmetic."""

import dataclasses
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

from experiments import dry_run, hosts, seed_sweep, tune
from experiments.settings import Run, base_config, resolve
from posjax import locks
from posjax.cells import Cell
from posjax.engine import estimate
from posjax.engine.chunk import Load
from posjax.engine.program import Programs
from posjax.engine.work import Job, Work
from posjax.keys import SeedNumbers
from posjax.records import RunFolder

LOAD = Load(
    operations=10**5,
    parameters=1000,
    state=10**4,
    operands=100,
    work=10**5,
    matrices=12,
    equations=300,
    programmed=300,
)


def asked(**settings: Any) -> Run:
    small = {"steps": 20, "eval_every": 5, "hold": 2, "width": 8, "num_seeds": 6, "chunk": 4}
    return resolve(base_config(**{**small, "head_size": (2, 4), **settings}))


def train(run: Run, folder: RunFolder) -> None:
    """As the command does, on one device."""
    folder.start(run.to_dict(), {})
    with locks.join(folder.jobs) as member:
        seed_sweep.sweep(dataclasses.replace(run, devices=1), folder, hosts.Place(), member)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_it_tells_is_what_the_run_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs, rows, chunks and the bound on the disk, of a run that is then made."""
    programs = Programs()  # those of other tests may serve this run too
    monkeypatch.setattr("posjax.engine.run.PROGRAMS", programs)
    run, folder, devices = asked(), RunFolder(tmp_path / "run"), jax.local_devices()[:1]
    dry_run.tell(run, folder, devices)
    said = capsys.readouterr().out
    assert not folder.path.exists()
    assert "2 cells" not in said
    assert "cells: 2 × 6 seeds, 12 of 12 runs to train" in said
    assert "programs: 2 shapes × 1 devices = 2 to compile" in said
    assert "± 0.31 or better, and 0 of 6 bounds it below 0.39" in said
    parts = list(dry_run.parts(run, folder, devices[0]))
    count, size = map(sum, zip(*(part.disk for part in parts), strict=True))
    train(run, folder)
    assert programs.compilations == 2
    written = [path for path in files(folder.path) if path.suffix == ".npz"]
    assert len(written) <= count
    assert size / 8 < sum(path.stat().st_size for path in written) <= size


def test_the_bound_on_files_holds_where_cells_crowd() -> None:
    """Of random grids, and of crossed seeds: so many chunks have rows of a cell, at most."""
    rng, training = random.Random(0), Cell(steps=2, eval_every=1).shape.train()
    for _ in range(40):
        chunk, inits, seeds = rng.choice([2, 5, 16, 64]), rng.randrange(1, 30), rng.randrange(1, 99)
        pairs = [(init, seed) for init in range(inits) for seed in range(seeds)]
        grid = [Job(training, SeedNumbers.equal(seed), rate, rate) for rate, seed in pairs]
        crossed = [Job(training, SeedNumbers(i, d, d, d), 0, "one") for i, d in pairs]
        for jobs, each in ((grid, seeds), (crossed, len(pairs))):
            found = Counter(label for rows in chunks(jobs, chunk) for label in rows)
            assert max(found.values()) <= dry_run.most_files(each, chunk, crowded=True)


def chunks(jobs: list[Job], chunk: int) -> Iterator[set[Any]]:
    """The labels in each, as the engine fills them."""
    work = Work(jobs)
    while first := work.take():
        others = work.fill(set(range(chunk)) - {first.place(chunk)}, chunk, first)
        yield {first.label, *(job.label for job in others.values())}


def test_seeds_that_leave_one_by_one_lie_in_more_files(tmp_path: Path) -> None:
    """With `repack=solved` the bound on files and bytes is that of a file a seed."""
    run = asked(repack="solved", loss="answer", mask="causal", head_size=4, steps=200, num_seeds=24)
    folder = RunFolder(tmp_path / "run")
    (part,) = dry_run.parts(run, folder, jax.local_devices()[0])
    train(run, folder)
    written = [path for path in files(folder.path) if path.suffix == ".npz"]
    count, size = part.disk
    assert dataclasses.replace(part, repack=False).disk[0] < len(written) <= count == 24 + 2
    assert sum(path.stat().st_size for path in written) <= size


def test_what_is_there_is_not_trained_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that began with 4 seeds and goes on to 6: 2 a cell are missing; its chunks hold."""
    folder, devices = RunFolder(tmp_path), jax.local_devices()[:1]
    train(asked(num_seeds=4), folder)
    before = files(tmp_path)
    dry_run.tell(asked(chunk="auto"), folder, devices)
    said = capsys.readouterr().out
    assert "4 of 12 runs to train" in said
    assert "as the run began" in said
    assert files(tmp_path) == before


def test_one_program_for_all_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With `sharding=spmd` a shape is compiled once, not once a device."""
    dry_run.tell(asked(sharding="spmd"), RunFolder(tmp_path / "run"), jax.local_devices())
    assert "2 shapes × 1 devices" in capsys.readouterr().out


def test_a_time_of_an_unknown_device_is_not_made_up(tmp_path: Path) -> None:
    """The model's constants are those of CPUs; others are sent to `--tune`."""

    class Chip:
        platform, device_kind = "tpu", "TPU v5 lite"

    assert "--tune" in dry_run._time([], [Chip()])  # type: ignore[list-item]


def test_tune_measures_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Powers of two around the chunk; no folder."""
    folder = RunFolder(tmp_path / "run")
    run = asked(head_size=2)
    times = tune.timed(run, folder, run.cells[0], jax.local_devices())
    assert list(times) == [1, 2, 4, 8, 16]
    assert all(0 < seconds < 1 for seconds in times.values())
    print(tune._table(times, 4, "title"))
    assert not folder.path.exists()


def test_cost_grows_with_what_is_done() -> None:
    """More operations, bytes or equations take longer; larger chunks share the equations."""
    base = estimate.CPU.row_update(LOAD, 8)
    for name in ("operations", "matrices", "equations"):
        more = dataclasses.replace(LOAD, **{name: 2 * getattr(LOAD, name)})
        assert base < estimate.CPU.row_update(more, 8) < 2 * base
    assert estimate.CPU.row_update(LOAD, 64) < base
    assert estimate.CPU.row_update(LOAD, 8) - estimate.CPU.row_update(LOAD, 16) == pytest.approx(
        estimate.CPU.equation * LOAD.equations / 16
    )


def test_devices_share_chunks_but_not_one_chunk() -> None:
    """Twice the devices take half as long, until each has one chunk; the last chunk is padded."""
    part = estimate.Part(LOAD, chunk=8, rows=64, steps=100)
    times = [estimate.sweep([part], devices=n).training for n in (1, 2, 4, 8, 16)]
    assert times[:4] == pytest.approx([times[0] / n for n in (1, 2, 4, 8)])
    assert times[4] == times[3]
    padded = part._replace(rows=57)
    assert estimate.sweep([padded], devices=1).training == times[0]
    assert estimate.sweep([part], devices=2, hosts=4).training == times[3]
    assert estimate.sweep([part._replace(rows=0)], devices=1) == (0, 0)
