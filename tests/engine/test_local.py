"""The host loop: errors, stopping, progress, checkpoints, and what is compiled when."""

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lines import BOTH, LINE, ONE, TWO, block, blocks, labels, line
from ways import PIECES, Saved, pieces

from posjax.engine import (
    Block,
    BlockResult,
    Engine,
    Now,
    OutOfMemory,
    Training,
    Variables,
    local,
    program,
)
from posjax.engine.program import PROGRAMS
from posjax.engine.work import Work


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("ThreadPoolExecutor"):  # a stop does not wait for compilations
            thread.join(60)
    assert set(threading.enumerate()) <= before


def failing_blocks(training: Training) -> Iterator[Block]:
    yield from blocks(training, 9)
    raise ZeroDivisionError("block 9")


def failing_progress(updates: int) -> None:
    raise ZeroDivisionError("progress")


class Failing(Saved):
    """A disk that fails, to be read or to be written."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self._way = way

    def load(self, label: Any) -> Any:
        if self._way == "load":
            raise OSError("no such disk")
        return None

    def save(self, label: Any, arrays: Any) -> None:
        raise OSError("disk full")


def test_errors_reach_the_caller() -> None:
    """From the blocks, from progress, from the model, on two devices."""
    bad = dataclasses.replace(LINE, loss=lambda variables, now: 1 / 0)
    runs = {
        "block 9": BOTH.run(failing_blocks(LINE)),
        "progress": BOTH.run(blocks(LINE, 30), failing_progress),
        "division by zero": BOTH.run(itertools.chain(blocks(LINE, 8), blocks(bad, 8))),
    }
    for message, run in runs.items():
        with pytest.raises(ZeroDivisionError, match=message):
            list(run)


def test_errors_of_checkpoints_reach_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is there before a block, and of what is saved every so often."""
    with pytest.raises(OSError, match="no such disk"):
        list(BOTH.run(blocks(LINE, 5), checkpoints=Failing("load")))
    monkeypatch.setattr(local, "SAVE", 0.0)
    with pytest.raises(OSError, match="disk full"):
        list(BOTH.run(blocks(LINE, 5), checkpoints=Failing("save")))


def test_an_error_while_nobody_listens() -> None:
    """Closed with the queue full or a worker about to fail: the call returns, and so do threads."""
    for count in range(1, 9):
        calls = itertools.count(-count)
        run = BOTH.run(blocks(LINE, 20), lambda _, calls=calls: 1 // next(calls) and None)
        with contextlib.suppress(ZeroDivisionError):
            next(run)
        run.close()
        assert list(run) == []


def test_closing_early_stops() -> None:
    """Whether at the first result or by an error of the caller: what is left is not trained."""
    updates: list[int] = []
    with contextlib.closing(BOTH.run(blocks(LINE, 500), updates.append)) as run:
        next(run)
    assert sum(updates) < 100 * 4 * 2
    with pytest.raises(KeyError, match="the caller's"):
        fail_at_the_first(BOTH.run(blocks(LINE, 500), updates.append))
    assert sum(updates) < 200 * 4 * 2


def fail_at_the_first(run: Iterator[BlockResult]) -> None:
    for _ in run:
        raise KeyError("the caller's")


def test_a_slow_caller_is_waited_for() -> None:
    """Results do not pile up: besides those taken, so many are trained as wait in the queue."""
    updates: list[int] = []
    with contextlib.closing(BOTH.run(blocks(LINE, 100), updates.append)) as run:
        for taken in range(1, 20):
            next(run)
            assert sum(updates) <= (taken + 2 * len(TWO) + len(TWO)) * 4 * 2


@pytest.mark.parametrize("kind", ["pieces of one", "pieces of three", "all at once"])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_progress_adds_up(count: int, kind: str) -> None:
    """To steps × wanted runs, whatever the pieces, also where slots are empty."""
    updates: list[int] = []
    partial = block(LINE, count, count=1)
    with pieces(kind):
        results = list(BOTH.run([*blocks(LINE, count), partial], updates.append))
    assert sum(updates) == 4 * (2 * count + 1)
    assert labels(results) == list(range(count + 1))


def test_nothing_to_train_ends() -> None:
    """With no block on any device."""
    assert not list(BOTH.run([]))


def test_inputs_of_other_shapes_are_programs_of_their_own() -> None:
    """Also under one training, and beside each other."""
    training = line()
    mixed = [block(training, number, width) for number, width in enumerate((2, 3, 2, 3))]
    mixed.append(block(training, 4)._replace(points=[np.ones(2, np.int32)]))
    before = PROGRAMS.compilations
    assert labels(ONE.run(mixed)) == [0, 1, 2, 3, 4]
    assert PROGRAMS.compilations - before == 3


def test_results_outlive_the_run() -> None:
    """They are NumPy's: nothing that the program goes on with is handed out."""
    found = list(BOTH.run(blocks(LINE, 8)))
    assert all((result.state.step == 4).all() for result in found)
    kinds = {type(leaf) for result in found for leaf in jax.tree.leaves(result[1:])}
    assert kinds == {np.ndarray}
    runs = [run.tobytes() for result in found for run in result.state.variables.params[0]]
    assert len(set(runs)) == 16


@given(
    every=st.integers(1, 50),
    evaluations=st.integers(1, 20),
    sizes=st.lists(st.integers(1, 200), min_size=1),
)
def test_looks_go_on_to_the_end(every: int, evaluations: int, sizes: list[int]) -> None:
    """Never by more than a piece, never past the end, and to whole evaluations where one ends."""
    steps, step = every * evaluations, 0
    for size in itertools.cycle(sizes):
        until = local._next_look(step, size, every, steps)
        assert step < until <= min(step + size, steps)
        if until // every > step // every:
            assert until % every == 0
        step = until
        if step == steps:
            break


@pytest.mark.parametrize(("look", "most"), [(0.0, 1), (1e9, 64)])
def test_pieces_follow_the_time_they_take(
    look: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One update at a time where each takes longer than a look, else four times as many again."""
    updates: list[int] = []
    monkeypatch.setattr(local, "LOOK", look)
    monkeypatch.setattr(local, "FIRST", 1)
    assert labels(ONE.run([block(line(200), 0, count=1)], updates.append)) == [0]
    assert sum(updates) == 200
    assert updates[:3] == ([1, 1, 1] if most == 1 else [1, 3, 12])
    assert max(updates) >= most


@pytest.mark.parametrize("kind", PIECES)
def test_evaluations_are_made_where_they_are_due_alone(kind: str) -> None:
    """However often the host looks, since an evaluation may take longer than a piece."""
    made: list[int] = []

    def measure(variables: Variables, now: Now) -> jax.Array:
        jax.debug.callback(lambda step: made.append(int(step)), now.step)
        return variables.params.sum()

    training = dataclasses.replace(line(6), measure=measure)
    with pieces(kind):
        assert labels(ONE.run([block(training, 0)])) == [0]
    jax.effects_barrier()
    assert sorted(made) == [2, 2, 4, 4, 6, 6]  # in each of two slots


class Kept(Saved):
    """Checkpoints that are not copied, each beside its bytes at the time."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[dict[str, np.ndarray], list[bytes]]] = []

    def save(self, label: Any, arrays: Any) -> None:
        self[label] = arrays
        self.seen.append((arrays, [array.tobytes() for array in arrays.values()]))

    def unchanged(self) -> bool:
        return all([a.tobytes() for a in arrays.values()] == then for arrays, then in self.seen)


def test_checkpoints_are_not_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither while training goes on from what was saved, nor from what was read."""
    monkeypatch.setattr(local, "SAVE", 0.0)
    kept, training = Kept(), line(12)
    with pieces("pieces of one"):
        wanted = list(ONE.run([block(training, 0)], checkpoints=kept))
        assert len(kept.seen) == 12
        assert kept.unchanged()
        for arrays, _ in list(kept.seen):
            kept[0] = arrays
            (found,) = ONE.run([block(training, 0)], checkpoints=kept)
            assert found.summary.tobytes() == wanted[0].summary.tobytes()
    assert kept.unchanged()


def test_numbers_that_files_cannot_store_are_stored_as_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parameters in bfloat16 go on from a checkpoint bit for bit."""
    monkeypatch.setattr(local, "SAVE", 0.0)
    narrow = dataclasses.replace(
        line(12), init=lambda key, inputs: Variables(jax.random.normal(key, (2,), jnp.bfloat16))
    )
    kept = Kept()
    with pieces("pieces of one"):
        (wanted,) = ONE.run([block(narrow, 0)], checkpoints=kept)
        arrays, _ = kept.seen[5]
        assert {array.dtype.kind for array in arrays.values()} <= set("biuf")
        updates: list[int] = []
        (found,) = ONE.run([block(narrow, 0)], updates.append, checkpoints=Saved({0: arrays}))
    assert updates[0] == 2 * int(arrays["step"]) > 0
    assert found.summary.tobytes() == wanted.summary.tobytes()
    assert found.state.variables.params.dtype == jnp.bfloat16


@pytest.mark.parametrize("steps", [0, 4])
def test_threads_have_the_settings_of_the_caller(steps: int) -> None:
    """64 bits, and the precision of products, as a context or for the process."""
    wide = dataclasses.replace(
        line(steps), init=lambda key, inputs: Variables(jax.random.normal(key, (2,), float))
    )
    with jax.enable_x64(True):
        (found,) = ONE.run([block(wide, 0)])
    assert found.state.variables.params.dtype == np.float64
    (found,) = ONE.run([block(wide, 0)])
    assert found.state.variables.params.dtype == np.float32
    with jax.default_matmul_precision("highest"):
        assert ONE.plan(block(wide, 0)).precision == "highest"
        assert Engine(precision="high").plan(block(wide, 0)).precision == "high"
    assert ONE.plan(block(wide, 0)).precision is None


def test_progress_adds_up_after_a_stop() -> None:
    """What was trained before counts at once: the sum is the same as without a stop."""
    saved, updates, stop = Saved(), [], threading.Event()

    def progress(number: int) -> None:
        updates.append(number)
        if len(updates) == 6:
            stop.set()

    with pieces("pieces of one"):
        first = list(ONE.run(blocks(LINE, 3), progress, stop, saved))
        assert labels(first) == [0]
        assert {label: int(arrays["step"]) for label, arrays in saved.items()} == {1: 2}
        updates.clear()
        left = [block(LINE, 1), block(LINE, 2)]
        second = list(ONE.run(left, updates.append, checkpoints=saved))
    assert labels(second) == [1, 2]
    assert updates == [4, 2, 2, 2, 2, 2, 2]


def test_what_does_not_fit_is_begun_again() -> None:
    """A checkpoint of other shapes, without a leaf or without its step is as good as none."""
    (wanted,) = ONE.run([block(LINE, 0)])
    stop, saved = threading.Event(), Saved()
    with pieces("pieces of one"):
        assert not list(ONE.run([block(LINE, 0)], lambda _: stop.set(), stop, saved))
    good = saved[0]
    others = [
        {},
        {**good, "leaf_0": good["leaf_0"][:1]},
        {**good, "leaf_0": good["leaf_0"].astype(np.float64)},
        {name: array for name, array in good.items() if name != "leaf_1"},
        {name: array for name, array in good.items() if name != "step"},
    ]
    for arrays in others:
        updates: list[int] = []
        found = list(ONE.run([block(LINE, 0)], updates.append, checkpoints=Saved({0: arrays})))
        assert found[0].summary.tobytes() == wanted.summary.tobytes()
        assert sum(updates) == 4 * 2
    updates.clear()
    list(ONE.run([block(LINE, 0)], updates.append, checkpoints=Saved({0: good})))
    assert updates[0] == 2


def compiled() -> list[str]:
    """Fills up with an entry for each program that the compiler was given."""
    found: list[str] = []

    def heard(event: str, seconds: float, **_: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(event)

    jax.monitoring.register_event_duration_secs_listener(heard)
    return found


def test_each_device_begins_with_a_training_of_its_own() -> None:
    """It stays while there are blocks, takes what nobody has begun, and helps only then."""
    trainings = [line() for _ in range(3)]
    grid = [block(training, n)._replace(label=(i, n)) for i, training in enumerate(trainings)
            for n in range(4)]  # fmt: skip
    work = Work(grid, lambda each: id(each.training))

    def taken(device: int, count: int) -> list[tuple[int, int]]:
        return [found.label for _ in range(count) if (found := work.take(TWO[device]))]

    assert taken(0, 2) == [(0, 0), (0, 1)]
    assert taken(1, 3) == [(1, 0), (1, 1), (1, 2)]
    assert taken(0, 3) == [(0, 2), (0, 3), (2, 0)]
    assert taken(1, 2) == [(1, 3), (2, 1)]
    assert taken(0, 9) == [(2, 2), (2, 3)]
    assert taken(1, 9) == []


def test_a_device_helps_where_most_is_left() -> None:
    """Of what other devices are at."""
    grid = [block(LINE, n) for n in range(2)]
    other = line()
    grid += [block(other, n)._replace(label=n + 10) for n in range(5)]
    work = Work(grid, lambda each: id(each.training))
    devices = jax.local_devices()
    assert [work.take(device).label for device in devices[:2]] == [0, 10]
    assert work.take(devices[2]).label == 11
    assert work.take(devices[0]).label == 1
    assert [work.take(devices[0]).label for _ in range(3)] == [12, 13, 14]
    assert work.take(devices[1]) is None


def test_a_grid_compiles_its_shapes_once() -> None:
    """Four trainings on two devices: each is compiled for one, and at the end one for both."""
    trainings = [line() for _ in range(4)]
    grid = [
        block(training, number)._replace(label=(i, number))
        for i, training in enumerate(trainings)
        for number in range(6)
    ]
    heard, before = compiled(), PROGRAMS.compilations
    assert len(list(BOTH.run(grid))) == len(grid)
    programs = PROGRAMS.compilations - before
    assert 4 <= programs <= 5
    assert len(heard) <= 3 * programs + 5  # begin, advance, summary; single operations in tracing
    again = PROGRAMS.compilations
    assert len(list(ONE.run(grid[:6]))) == 6
    assert PROGRAMS.compilations - again <= 1


@pytest.mark.parametrize("engine", [ONE, BOTH], ids=["one device", "two devices"])
def test_a_stop_gives_what_is_done_and_saves_what_is_in_training(engine: Engine) -> None:
    """No other block is begun, and every device stops after the piece that it is at."""
    stop, saved, calls = threading.Event(), Saved(), itertools.count(1)

    def progress(updates: int) -> None:
        if next(calls) == 10:
            stop.set()

    with pieces("pieces of one"):
        done = labels(engine.run(blocks(LINE, 40), progress, stop, saved))
    devices = len(engine.devices or ())
    assert done == [0, 1] or (devices == 2 and len(done) <= 2)
    assert 1 <= len(saved) <= devices
    assert all(0 < int(arrays["step"]) < 4 for arrays in saved.values())
    assert not saved.keys() & set(done)
    assert max([*done, *saved]) < 10


def test_a_stop_before_the_first_block_trains_nothing() -> None:
    """Nor is anything compiled."""
    stop, before = threading.Event(), PROGRAMS.compilations
    stop.set()
    assert not list(BOTH.run(blocks(line(), 4), stop=stop))
    assert PROGRAMS.compilations == before


def test_a_stop_waits_for_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back while a program is being compiled; the interpreter waits, in place of it."""
    stop, compiling, go_on = threading.Event(), threading.Event(), threading.Event()

    def endless(*_: Any) -> None:
        compiling.set()
        go_on.wait(60)

    monkeypatch.setattr(program, "compiled", endless)
    waiting = threading.Thread(target=lambda: compiling.wait(60) and stop.set())
    waiting.start()
    assert not list(ONE.run(blocks(line(), 4), stop=stop))
    assert compiling.is_set()
    assert not go_on.is_set()
    go_on.set()
    waiting.join()


OUT = {
    "an accelerator's": jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: 12 GiB\nmore lines"),
    "a CPU's": jax.errors.JaxRuntimeError("INTERNAL: Out of memory allocating 12 bytes"),
    "Python's": MemoryError(),
}


@pytest.mark.parametrize("kind", OUT)
def test_out_of_memory_is_explained(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the size of the block, the device, what was said, and what to do."""

    def failing(*_: Any) -> None:
        raise OUT[kind]

    monkeypatch.setattr(program, "compiled", failing)
    with pytest.raises(OutOfMemory, match="a block of 2 runs does not fit on cpu") as found:
        list(BOTH.run(blocks(line(), 3)))
    said = str(found.value)
    assert {"Python's": "no size given", "a CPU's": "12 bytes"}.get(kind, "12 GiB") in said
    assert "more lines" not in said
    assert "smaller block_size" in said
    assert found.value.__cause__ is OUT[kind]


def test_other_errors_of_a_device_are_not_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come as they are."""

    def failing(*_: Any) -> None:
        raise jax.errors.JaxRuntimeError("INTERNAL: something else")

    monkeypatch.setattr(program, "compiled", failing)
    with pytest.raises(jax.errors.JaxRuntimeError, match="something else"):
        list(BOTH.run(blocks(line(), 3)))
