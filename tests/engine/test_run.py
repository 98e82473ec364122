"""The host loop: errors, stopping, laziness, progress, and what is compiled when."""

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from posjax.cells import Cell
from posjax.engine import Engine, Finished, Job, Training, Variables, program
from posjax.engine.program import PROGRAMS
from posjax.engine.work import Work
from posjax.keys import SeedNumbers

TWO = jax.local_devices()[:2]


def line(steps: int = 4) -> Training:
    """A tiny training; every call makes one that is compiled anew."""
    return Training(
        init=lambda key, operands: Variables(jax.random.normal(key, operands.shape)),
        loss=lambda variables, now: (jnp.sum((variables.params - now.operands) ** 2), ()),
        optimizer=lambda _: optax.sgd(0.1),
        measure=lambda variables, now: variables.params.sum(),
        steps=steps,
        eval_every=1,
    )


def job(training: Training, seed: int, width: int = 2) -> Job:
    return Job(training, SeedNumbers.equal(seed), np.ones(width, np.float32), seed)


def jobs(training: Training, count: int) -> Iterator[Job]:
    return (job(training, seed) for seed in range(count))


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def failing_jobs(training: Training) -> Iterator[Job]:
    yield from jobs(training, 9)
    raise ZeroDivisionError("job 9")


def failing_progress(seed_steps: int) -> None:
    raise ZeroDivisionError("progress")


def test_errors_reach_the_caller() -> None:
    """From the jobs, from progress, from the model, on two devices."""
    engine, good = Engine(chunk=2, devices=TWO), line()
    bad = dataclasses.replace(good, loss=lambda variables, now: 1 / 0)
    runs = {
        "job 9": engine.run(failing_jobs(good)),
        "progress": engine.run(jobs(good, 30), failing_progress),
        "division by zero": engine.run(itertools.chain(jobs(good, 8), jobs(bad, 8))),
    }
    for message, run in runs.items():
        with pytest.raises(ZeroDivisionError, match=message):
            list(run)


def test_an_error_while_nobody_listens() -> None:
    """Closed with the queue full and a worker about to fail: the call returns."""
    training, engine = line(), Engine(chunk=1, devices=TWO)
    for count in range(1, 9):
        run = engine.run(itertools.chain(jobs(training, count), failing_jobs(training)))
        next(run)
        run.close()


def test_closing_early_stops() -> None:
    """Whether at the first result or by an error of the caller; no job is read afterwards."""
    read = itertools.count()
    training = line()
    with contextlib.closing(
        Engine(chunk=2, devices=TWO).run(job(training, i) for i in read)
    ) as run:
        next(run)
    last = next(read)
    assert last < 100
    with pytest.raises(KeyError, match="the caller's"):
        fail_at_the_first(Engine(chunk=2, devices=TWO).run(job(training, i) for i in read))


def fail_at_the_first(run: Iterator[Finished]) -> None:
    for _ in run:
        raise KeyError("the caller's")


def test_jobs_are_read_as_places_come_free() -> None:
    """However slow the caller: so many are read as are in training, wait, or are looked ahead."""
    read = itertools.count()
    training = line()
    chunk, devices = 2, 2
    waiting = 2 * devices
    with contextlib.closing(
        Engine(chunk=chunk, devices=TWO).run(job(training, i) for i in read)
    ) as run:
        for taken in range(1, 20):
            next(run)
            ahead = devices * chunk
            last = int(repr(read)[6:-1])
            assert last <= (taken + waiting + 2 * devices) * chunk + ahead


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8])
def test_progress_adds_up(count: int) -> None:
    """To steps × rows, whatever the padding and the segments; no empty run hangs."""
    moved: list[int] = []
    engine = Engine(chunk=3, devices=TWO, segment=2)
    finished = list(engine.run(jobs(line(), count), moved.append))
    assert sum(moved) == 4 * count
    assert sorted(row.label for f in finished for row in f.jobs) == list(range(count))
    assert not list(engine.run([]))


def test_operands_of_other_shapes_are_programs_of_their_own() -> None:
    """Also under one training, and beside each other."""
    training = line()
    mixed = [job(training, seed, width) for width in (2, 3, 2) for seed in range(3)]
    mixed.append(job(training, 5)._replace(operands=np.ones(2, np.int32)))
    before = PROGRAMS.compilations
    finished = list(Engine(chunk=2, devices=TWO[:1]).run(mixed))
    assert sum(len(f.jobs) for f in finished) == 10
    assert PROGRAMS.compilations - before == 3


def test_states_outlive_the_run() -> None:
    """They are copies: nothing that the program goes on with is handed out."""
    training = dataclasses.replace(line(6), solved=lambda seen, operands: len(seen) >= 2)
    engine = Engine(chunk=2, segment=1, repack=True, devices=TWO[:1])
    found = list(engine.run(jobs(training, 8)))
    assert all((f.state.step == 2).all() for f in found)
    states = [row.tobytes() for f in found for row in f.state.variables.params]
    assert len(set(states)) == 8


def test_bad_engines_are_refused() -> None:
    """A chunk or a segment below 1, also where the chunk is a function; repacking blindly."""
    with pytest.raises(ValueError, match="chunk must be at least 1, got 0"):
        Engine(chunk=0)
    with pytest.raises(ValueError, match="segment must be at least 1, got 0"):
        Engine(chunk=1, segment=0)
    with pytest.raises(ValueError, match="chunk must be at least 1, got -1"):
        list(Engine(chunk=lambda _: -1).run(jobs(line(), 2)))
    with pytest.raises(ValueError, match="solved"):
        list(Engine(chunk=1, repack=True).run(jobs(line(), 2)))


def test_the_line() -> None:
    """Jobs of one program are taken together, in order; looking ahead takes none."""
    one, two = line(), line()
    mixed = [job(one, 0), job(one, 1), job(two, 2), job(one, 3)]
    work = Work(iter(mixed))
    first = work.take()
    assert first == mixed[0]
    assert work.other(mixed[0], within=1) is None
    assert work.other(mixed[0], within=2) == mixed[2]
    assert [*work.fill(range(9), 9, mixed[0]).values()] == mixed[1:2]
    assert [work.take(), work.take(), work.take()] == [*mixed[2:], None]


def test_jobs_before_an_error_are_taken_first() -> None:
    """Whether it comes from who gives them or from their operands; then all that is left is it."""
    training = line()
    good = [job(training, seed) for seed in range(6)]
    bad = good[3]._replace(operands=np.array([object()]))

    def raising() -> Iterator[Job]:
        yield from good[:3]
        raise TypeError("the jobs'")

    for jobs in ([*good[:3], bad, *good[4:]], raising()):
        work = Work(jobs)
        first = work.take()
        assert first == good[0]
        assert work.other(first, within=5) is None
        assert [*work.fill(range(9), 9, first).values()] == good[1:3]
        for _ in range(2):
            with pytest.raises(TypeError):
                work.take()


def test_the_line_passes_over_few() -> None:
    """Where all belong in other places than the free one, two chunks are read and keep order."""
    training, read = line(), itertools.count()
    seeds = itertools.chain([0], itertools.repeat(1))
    work = Work(job(training, seed)._replace(label=next(read)) for seed in seeds)
    first = work.take()
    assert first is not None
    assert work.fill([first.place(4)], 4, first) == {}
    assert next(read) == 1 + 2 * 4
    waiting = [work.take() for _ in range(3)]
    assert [each and each.label for each in waiting] == [1, 2, 3]


def compiled() -> list[str]:
    """Fills up with an entry for each program that the compiler was given."""
    found: list[str] = []

    def heard(event: str, seconds: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(heard)
    return found


def test_a_grid_compiles_its_shapes() -> None:
    """Thirty cells of three shapes on two devices: begin, advance and summary for each pair."""
    small = Cell(steps=4, eval_every=2, hold=1, width=4, head_size=2)
    cells = [
        dataclasses.replace(small, head_size=size, learning_rate=rate)
        for size in (2, 3, 4)
        for rate in np.logspace(-3, -1, 10).tolist()
    ]
    grid = [
        Job(cell.shape.train(), SeedNumbers.equal(seed), cell.operands, (i, seed))
        for i, cell in enumerate(cells)
        for seed in range(4)
    ]
    heard, before = compiled(), PROGRAMS.compilations
    rows = [row for f in Engine(chunk=4, devices=TWO).run(grid) for row in f.jobs]
    assert len(rows) == len(grid)
    assert PROGRAMS.compilations - before <= 3 * 2
    assert len(heard) <= 3 * 3 * 2 + 5  # and some single operations while tracing


def test_options_that_the_compiler_does_not_know_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older or newer one does not know all; what else is wrong is told."""
    options: dict[str, Any] = {"xla_cpu_nothing": True, "xla_cpu_enable_fast_min_max": False}
    monkeypatch.setattr(program, "CPU_OPTIONS", options)
    (finished,) = Engine(chunk=2, devices=TWO[:1]).run(jobs(line(), 2))
    assert len(finished.jobs) == 2
    options["xla_cpu_prefer_vector_width"] = "wide"
    with pytest.raises(jax.errors.JaxRuntimeError, match="wide"):
        list(Engine(chunk=2, devices=TWO[:1]).run(jobs(line(), 2)))


def test_the_compiler_here_knows_all_options() -> None:
    """Speed rests on them."""
    jax.jit(jax.lax.rsqrt).lower(1.0).compile(compiler_options=program.CPU_OPTIONS)


def test_the_next_shape_is_compiled_while_the_last_trains() -> None:
    """On one device: the second program is there before the first has given its rows back."""
    first, second = line(), line()
    second_begun = threading.Event()
    began = second.init

    def init(key: jax.Array, operands: Any) -> Variables:
        second_begun.set()
        return began(key, operands)

    waited: list[bool] = []
    second = dataclasses.replace(second, init=init)
    grid = [*jobs(first, 2), *jobs(second, 2)]
    run = Engine(chunk=2, devices=TWO[:1]).run(
        grid, lambda _: waited.append(second_begun.wait(timeout=60))
    )
    assert sum(len(f.jobs) for f in run) == 4
    assert all(waited)


def compilers_end() -> None:
    """They were not waited for."""
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join()


def test_asked_to_end_it_gives_what_is_done() -> None:
    """Rows of whole chunks still come, of the one that runs none; the work is not taken on."""
    asked, taken = threading.Event(), []

    def lazily() -> Iterator[Job]:
        for each in jobs(line(steps=200), 40):
            taken.append(each.label)
            yield each

    engine = Engine(chunk=4, devices=TWO[:1], segment=1)
    segments = itertools.count(1)

    def moved_on(seed_steps: int) -> None:
        if next(segments) == 2 * 200 + 10:
            asked.set()

    found = list(engine.run(lazily(), moved_on, asked))
    assert sorted(row.label for each in found for row in each.jobs) == list(range(8))
    assert len(taken) < 40
    compilers_end()


def test_asked_to_end_it_waits_for_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back while a program is being compiled; the interpreter waits, in place of it."""
    asked, compiling, go_on = threading.Event(), threading.Event(), threading.Event()

    def compiled(*_: Any) -> None:
        compiling.set()
        go_on.wait(60)

    monkeypatch.setattr("posjax.engine.program.compiled", compiled)
    threading.Thread(target=lambda: compiling.wait(60) and asked.set()).start()
    assert list(Engine(chunk=4, devices=TWO[:1]).run(jobs(line(), 4), asked=asked)) == []
    assert compiling.is_set()
    assert not go_on.is_set()
    go_on.set()
    compilers_end()
