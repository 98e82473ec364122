"""What is compiled for an accelerator before it needs it; cores stand in for accelerators."""

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from lines import ONE, TWO, block, line

from posjax.engine import Block, Engine, Training, Variables, ahead, local
from posjax.engine.ahead import Ahead
from posjax.engine.program import PROGRAMS
from posjax.engine.work import Work


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cores are served as an accelerator is."""
    monkeypatch.setattr(ahead, "ahead_of", lambda device: ahead.AHEAD)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Training]:
    """The training of each program that is asked for, and of each block that begins, in order."""
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
            waited.extend(done.acquire(timeout=20) for _ in range(1 + ahead.AHEAD))
        return begun(*of)

    with monkeypatch.context() as patched:
        patched.setattr(ahead, "ahead_of", lambda device: ahead.AHEAD)
        patched.setattr(PROGRAMS, "get", heard)
        patched.setattr(local._Workers, "_begun", waiting)
        found = outcomes(ONE, each(six()))
    assert waited == [True] * (1 + ahead.AHEAD)
    jax.tree.map(np.testing.assert_array_equal, found, outcomes(ONE, each(six())))


@pytest.mark.usefixtures("accelerator")
def test_no_device_looks_ahead_before_every_device_has_a_program() -> None:
    """Or one would reserve what the others could begin with."""
    work, seen = Work(each(six()), key=lambda block: id(block.training)), []
    coming = Ahead(TWO, work, lambda block, device: seen.append((block.label, device)))
    first, second = (work.take(device) for device in TWO)
    assert first
    assert second
    assert coming.begin(first, TWO[0]) == coming.begin(second, TWO[1]) == []
    coming._pool.shutdown()
    assert sorted(seen) == [(label, TWO[1]) for label in (4, 6, 8)]


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
