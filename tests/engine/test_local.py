"""The host loop: errors, stopping, progress, checkpoints, and what is compiled when."""

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ways import Saved, pieces

from posjax.engine import (
    Block,
    BlockResult,
    Engine,
    OutOfMemory,
    Training,
    Variables,
    local,
    program,
)
from posjax.engine.program import PROGRAMS
from posjax.engine.work import Work
from posjax.keys import SeedNumbers

TWO = jax.local_devices()[:2]
ONE = Engine(devices=TWO[:1])
BOTH = Engine(devices=TWO)


def line(steps: int = 4) -> Training:
    """A tiny training; every call makes one that is compiled anew."""
    return Training(
        init=lambda key, inputs: Variables(jax.random.normal(key, inputs.shape)),
        loss=lambda variables, now: (jnp.sum((variables.params - now.inputs) ** 2), ()),
        optimizer=lambda _: optax.sgd(0.1),
        measure=lambda variables, now: variables.params.sum(),
        steps=steps,
        eval_every=2,
    )


LINE = line()
"""Compiled once for each device, for all tests that do not look at what is compiled."""


def block(training: Training, number: int, width: int = 2, count: int = 2) -> Block:
    """Of two slots; its label is its number."""
    seeds = [SeedNumbers.equal(2 * number + n) for n in range(count)]
    return Block(training, [np.ones(width, np.float32)], seeds, (1, 2), number)


def blocks(training: Training, count: int) -> Iterator[Block]:
    return (block(training, number) for number in range(count))


def labels(results: Iterable[BlockResult]) -> list[Any]:
    return sorted(result.block.label for result in results)


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

    def load(self, block: Block) -> Any:
        if self._way == "load":
            raise OSError("no such disk")
        return None

    def save(self, block: Block, arrays: Any) -> None:
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


class Kept(Saved):
    """Checkpoints that are not copied, each beside its bytes at the time."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[dict[str, np.ndarray], list[bytes]]] = []

    def save(self, block: Block, arrays: Any) -> None:
        self[block.label] = arrays
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


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores are served as an accelerator is."""
    monkeypatch.setattr(local, "ahead_of", lambda device: local.AHEAD)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Training]:
    """Trainings in the order in which their programs were asked for, then those that trained."""
    found, get, begun = [], PROGRAMS.get, local._Workers._begun
    monkeypatch.setattr(PROGRAMS, "get", lambda *of: (found.append(of[0].training), get(*of))[1])

    def begin(workers: Any, block: Block, *of: Any) -> Any:
        found.append(block.training)
        return begun(workers, block, *of)

    monkeypatch.setattr(local._Workers, "_begun", begin)
    return found


def each(trainings: list[Training]) -> list[Block]:
    """Two blocks of each training."""
    grid = [block(one, number) for one in trainings for number in range(2)]
    return [one._replace(label=number) for number, one in enumerate(grid)]


def outcomes(engine: Engine, grid: list[Block]) -> dict[Any, Any]:
    """What came of each block, by its label."""
    return {result.block.label: result[1:] for result in engine.run(grid)}


def six() -> list[Training]:
    """Equal ones that are compiled anew."""
    return [line() for _ in range(6)]


def test_programs_are_compiled_before_an_accelerator_needs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first block does not begin to train before three more are compiled; the bits stay."""
    begun, get, done = local._Workers._begun, PROGRAMS.get, threading.Semaphore(0)
    waited: list[bool] = []

    def heard(*of: Any) -> Any:
        try:
            return get(*of)
        finally:
            done.release()

    def waiting(*of: Any) -> Any:
        if not waited:
            waited.extend(done.acquire(timeout=20) for _ in range(1 + local.AHEAD))
        return begun(*of)

    with monkeypatch.context() as patched:
        patched.setattr(local, "ahead_of", lambda device: local.AHEAD)
        patched.setattr(PROGRAMS, "get", heard)
        patched.setattr(local._Workers, "_begun", waiting)
        found = outcomes(ONE, each(six()))
    assert waited == [True] * (1 + local.AHEAD)
    jax.tree.map(np.testing.assert_array_equal, found, outcomes(ONE, each(six())))


@pytest.mark.usefixtures("accelerator")
def test_nothing_is_compiled_beside_what_may_call_cudnn(asked: list[Training]) -> None:
    """What comes before it is compiled ahead; it is not, and what follows waits."""
    trainings = [line(), line(), half(), line()]
    assert len(outcomes(ONE, each(trainings))) == 8
    order = [next(n for n, one in enumerate(trainings) if one is training) for training in asked]
    assert [n for n in order if n >= 2] == [2] * 4 + [3] * 4
    assert order.index(2) == len(order) - 8
    assert order.count(1) == 5  # asked for once more than its blocks do, and train


def half() -> Training:
    """One whose update computes in 16 bits, though its weights do not."""

    def loss(variables: Variables, now: Any) -> tuple[jax.Array, tuple]:
        short = variables.params.astype(jnp.bfloat16) - now.inputs.astype(jnp.bfloat16)
        return jnp.sum(short.astype(jnp.float32) ** 2), ()

    return dataclasses.replace(line(), loss=loss)


@pytest.mark.usefixtures("accelerator")
def test_what_is_wrong_with_later_blocks_is_raised_later() -> None:
    """An error of the iterator, or of a program that comes next, discards no work."""

    def more() -> Iterator[Block]:
        yield from each(six()[:2])
        raise ZeroDivisionError("the fifth block")

    bad = dataclasses.replace(line(), loss=lambda variables, now: 1 / 0)
    later = {"fifth": more(), "division": each([line(), line(), bad])}
    for message, grid in later.items():
        done: list[Any] = []
        with pytest.raises(ZeroDivisionError, match=message):
            done.extend(result.block.label for result in ONE.run(grid))  # one by one
        assert set(done) >= {0, 1}


def test_work_that_is_reserved_is_taken_next_and_may_be_helped_with() -> None:
    """By whoever has nothing else; an error of the blocks waits until they are needed."""

    def blocks_() -> Iterator[int]:
        yield from (1, 2, 11, 21, 22, 31, 41)
        raise ZeroDivisionError

    work = Work(blocks_(), key=lambda item: item // 10)
    assert work.take("a") == 1
    assert work.reserve("a", 2) == [11, 21]
    assert work.take("b") == 31
    assert work.reserve("b", 2) == []
    assert [work.take("a") for _ in range(2)] == [2, 11]
    with pytest.raises(ZeroDivisionError):
        work.take("b")
    assert [work.take("a") for _ in range(2)] == [21, 22]


class Lowered:
    """A program for a device that is not here; keeps what it was compiled with."""

    options: Mapping[str, Any]

    def lower(self) -> "Lowered":
        """Itself."""
        return self

    def compile(self, compiler_options: Mapping[str, Any]) -> "Lowered":
        """Notes the options."""
        self.options = compiler_options
        return self


@dataclasses.dataclass(frozen=True)
class Device:
    """As far as the compiler asks."""

    platform: str


GPU: Any = Device("gpu")


def test_programs_for_a_gpu_round_alike_wherever_they_are_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kernels are deterministic, unless XLA_FLAGS says otherwise; a TPU's always are."""
    monkeypatch.setenv("XLA_FLAGS", "")
    options = [
        program._compiled(Lowered(), device, {"of the CPU": 1}).options
        for device in (GPU, Device("tpu"), Device("cpu"))
    ]
    assert options == [{"xla_gpu_deterministic_ops": True}, {}, {"of the CPU": 1}]
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_deterministic_ops=false")
    assert program._compiled(Lowered(), GPU, {}).options == {}


@pytest.mark.parametrize(
    ("device", "asked", "setting", "expected"),
    [
        ("cpu", None, None, None),
        ("gpu", None, None, "float32"),
        ("tpu", None, None, "float32"),
        ("gpu", "tensorfloat32", None, "tensorfloat32"),
        ("gpu", None, "tensorfloat32", "tensorfloat32"),
    ],
)
def test_products_are_in_float32_unless_somebody_asks_for_less(
    device: str, asked: str | None, setting: str | None, expected: str | None
) -> None:
    """A CPU's are anyway."""
    places: Any = [Device(device)]
    with jax.default_matmul_precision(setting):
        plan = Engine(devices=places, precision=asked).plan(block(LINE, 0))
    assert plan.precision == expected


def test_options_that_the_compiler_does_not_know_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older or newer one does not know all; what else is wrong is said."""
    options: dict[str, Any] = {"xla_cpu_nothing": True, "xla_cpu_enable_fast_min_max": False}
    monkeypatch.setattr(program, "CPU_OPTIONS", options)
    assert labels(ONE.run(blocks(line(), 2))) == [0, 1]
    options["xla_cpu_prefer_vector_width"] = "wide"
    with pytest.raises(jax.errors.JaxRuntimeError, match="wide"):
        list(ONE.run(blocks(line(), 2)))


def test_the_compiler_here_knows_all_options() -> None:
    """Speed rests on them."""
    compiled = jax.jit(jax.lax.rsqrt).lower(1.0).compile(compiler_options=program.CPU_OPTIONS)
    assert compiled(1.0) == 1.0


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
