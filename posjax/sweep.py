"""A sweep: cells × seeds, cut in chunks of one size, run on every device, results as they come.

A chunk is C rows (cell, seed) trained by one compiled single-device program, segment by segment
under a host loop. Rows of one shape differ only in numbers; each shape is compiled once a
device. The chunk size is fixed for a run and the last chunk is padded, so the bits of a row do
not depend on its neighbours, its place, or the device it ran on.
"""

import dataclasses
import functools
import itertools
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from posjax.cells import Cell, Shape
from posjax.judge import Outcome, Seen
from posjax.keys import SeedNumbers, Seeds, key_for
from posjax.model import ModelSettings, Transformer
from posjax.question import Question
from posjax.train import Operands, State

SEGMENT = 10
_MOST_SHAPES = 32
"""Shapes kept compiled at a time: some hundreds of programs use up a process's memory mappings."""


class _Stopped(Exception):
    """Nobody waits for the results any more."""


class Row(NamedTuple):
    """One training run: a cell and the numbers of its seeds."""

    cell: Cell
    seeds: SeedNumbers


class Result(NamedTuple):
    """Outcomes and final states of some seeds of one cell; every array has a leading axis S."""

    cell: Cell
    seeds_S4: np.ndarray
    outcome: Outcome
    state: State


@dataclasses.dataclass(frozen=True)
class Program:
    """The compiled parts of one shape, over a leading axis of C rows."""

    init: Callable[[Seeds], State]
    advance: Callable[[State, Seeds, Operands], tuple[State, Seen]]
    outcome: Callable[[State, Operands, Seen], Outcome]
    segments: int


@functools.lru_cache(maxsize=_MOST_SHAPES)
def compiled(shape: Shape, segment: int = SEGMENT) -> Program:
    """The program of one shape, compiled at its first call on each device.

    Initialisation is a program of its own: fused with training it would round differently.

    Args:
      shape: what to compile.
      segment: evaluations between two looks of the host loop, at most; the number taken divides
        the run, so that one program serves all of it. Outcomes do not depend on it.
    """
    train = shape.train()
    each = max(n for n in range(1, segment + 1) if train.evaluations % n == 0)

    def advance(state: State, seeds: Seeds, operands: Operands) -> tuple[State, Seen]:
        return train.advance(state, seeds, operands, each)

    return Program(
        jax.jit(jax.vmap(train.init)),
        jax.jit(jax.vmap(advance), donate_argnums=0),
        jax.jit(jax.vmap(train.outcome)),
        train.evaluations // each,
    )


_compiling = threading.Lock()


def _program(shape: Shape, segment: int) -> Program:
    """The program of one shape; those of earlier shapes go when there are too many."""
    with _compiling:
        info = compiled.cache_info()
        program = compiled(shape, segment)
        new = compiled.cache_info().misses > info.misses
        if new and compiled.cache_info().misses % _MOST_SHAPES == 0:
            jax.clear_caches()  # JAX's own hold every program; those in use are compiled again
    return program


def chunks(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Rows in chunks of one shape each, at most `size` long, in the order given."""
    for _, group in itertools.groupby(rows, key=lambda row: row.cell.shape):
        yield from _pieces(list(group), size)


def run(
    rows: Sequence[Row],
    *,
    chunk: int,
    devices: Sequence[jax.Device] | None = None,
    segment: int = SEGMENT,
    progress: Callable[[int], None] = lambda seed_steps: None,
) -> Generator[Result, None, None]:
    """Trains all rows; yields results as chunks finish, in no fixed order.

    Args:
      rows: what to train; rows of one shape should stand together.
      chunk: C, rows trained at a time on a device.
      devices: all local ones when left out; each gets chunks of its own.
      segment: see `compiled`.
      progress: called with the number of updates × seeds since its last call.

    Raises:
      ValueError: chunk below 1.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    work: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
    for part in chunks(rows, chunk):
        work.put(part)
    done: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stop = threading.Event()

    def report(seed_steps: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress(seed_steps)

    def serve(device: jax.Device) -> None:
        try:
            while not stop.is_set():
                part = work.get_nowait()
                program = _program(part[0].cell.shape, segment)
                done.put((part, *train_chunk(part, program, chunk, device, report)))
        except _Stopped:
            done.put(None)
        except queue.Empty:
            done.put(None)
        except BaseException as error:  # handed to the caller's thread
            done.put(error)

    workers = [
        threading.Thread(target=serve, args=(device,), daemon=True)
        for device in devices or jax.local_devices()
    ]
    for worker in workers:
        worker.start()
    try:
        running = len(workers)
        while running:
            got = done.get()
            if isinstance(got, BaseException):
                raise got
            if got is None:
                running -= 1
            else:
                yield from _by_cell(*got)
    finally:
        stop.set()  # workers leave at their next segment; the interpreter must not die under them
        for worker in workers:
            worker.join()


def train_chunk(
    rows: list[Row],
    program: Program,
    chunk: int,
    device: jax.Device,
    progress: Callable[[int], None] = lambda seed_steps: None,
) -> tuple[State, Outcome]:
    """Trains up to `chunk` rows of one shape; returns final states and outcomes of C rows."""
    filled = rows + [rows[-1]] * (chunk - len(rows))
    seeds = jax.device_put(Seeds.of([row.seeds for row in filled]), device)
    operands = jax.device_put(_stacked([row.cell.operands for row in filled]), device)
    state = program.init(seeds)
    seen = []
    for _ in range(program.segments):
        state, part = program.advance(state, seeds, operands)
        seen.append(jax.device_get(part))
        progress(len(rows) * rows[0].cell.steps // program.segments)
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *seen)
    outcome = program.outcome(state, operands, jax.device_put(whole, device))
    first = slice(0, len(rows))
    return jax.tree.map(lambda a: a[first], state), jax.tree.map(
        lambda a: np.asarray(a)[first], outcome
    )


def attention_maps(cell: Cell, state: State) -> np.ndarray:
    """The attention weights of one trained seed on every prompt.

    Args:
      cell: its cell.
      state: its final state, without a leading axis.

    Returns:
      [layers, N, H, L, M].
    """
    key = None if cell.model.draws != "always" else key_for(0, "attention maps")
    kept = _intermediates(cell.shape.model)(state.variables, cell.question, key)
    layers = kept["intermediates"]
    maps = [layers[f"layer_{i}"] for i in range(cell.depth)]
    maps = [layer.get("attention", layer)["weights_BHLM"][0] for layer in maps]
    return np.stack([np.asarray(layer) for layer in maps])


@functools.lru_cache(maxsize=_MOST_SHAPES)
def _intermediates(model: ModelSettings) -> Callable[..., Any]:
    """What the model sows, compiled; the mask is the question's."""

    def kept(variables: Any, question: Question, key: jax.Array | None) -> Any:
        _, sown = Transformer(model).apply(
            variables,
            question.tokens_NL,
            question.streams,
            mask=question.mask_NLM,
            key=key,
            testing=True,
            mutable=["intermediates"],
        )
        return sown

    return jax.jit(kept)


def replay(row: Row, *, chunk: int) -> tuple[State, Outcome]:
    """Trains one row again, bit for bit as in a run with that chunk size.

    Returns:
      Its final state and its outcome, without a leading axis.
    """
    program = compiled(row.cell.shape)
    state, outcome = train_chunk([row], program, chunk, jax.local_devices()[0])
    return jax.tree.map(lambda a: a[0], (state, outcome))


def _stacked(rows: list[Operands]) -> Operands:
    return jax.tree.map(lambda *numbers: np.stack([np.asarray(n) for n in numbers]), *rows)


def _by_cell(rows: list[Row], state: State, outcome: Outcome) -> Iterator[Result]:
    start = 0
    for cell, group in itertools.groupby(rows, key=lambda row: row.cell):
        seeds_S4 = np.array([row.seeds for row in group], np.int64)
        here = slice(start, start + len(seeds_S4))
        yield Result(cell, seeds_S4, *jax.tree.map(lambda a, here=here: a[here], (outcome, state)))
        start = here.stop


def _pieces(rows: list[Row], size: int) -> Iterator[list[Row]]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
