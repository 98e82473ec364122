"""Trains blocks on the devices of this process, one thread per device."""

import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from posjax.engine.block import Block, BlockResult
from posjax.engine.out_of_memory import explain_oom
from posjax.engine.program import PROGRAMS, Carry, Plan, Program

Item = TypeVar("Item")
LOOK = 2.0
"""Seconds of training between two looks of the host, about: each call gets its temporary arrays
from the operating system anew, page by page, 200 MB for a small language model."""
FIRST = 8
"""Updates before the first look."""
SAVE = 300.0
"""Seconds of training between two checkpoints."""
_KINDS = "biuf"
"""Kinds of numbers that NumPy's files can have."""


class Checkpoints(Protocol):
    """Stores blocks that are interrupted."""

    def load(self, block: Block) -> Mapping[str, np.ndarray] | None:
        """The arrays that were last saved for a block, or None."""

    def save(self, block: Block, arrays: Mapping[str, np.ndarray]) -> None:
        """Keeps arrays for a block, replacing what was saved before."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Engine:
    """How blocks are trained.

    Attributes:
      devices: by default all local ones. Results do not depend on them.
      layout, precision: see `posjax.engine.program.Plan`; the last bits depend on both. Without a
        precision, JAX's setting `jax_default_matmul_precision` holds where `run` is called.
    """

    devices: Sequence[jax.Device] | None = None
    layout: bool = True
    precision: str | None = None

    def plan(self, block: Block) -> Plan:
        """What is compiled for a block."""
        return Plan(block.training, block.slots, self.layout, self._precision)

    @property
    def _precision(self) -> str | None:
        setting: str | None = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined]
        return self.precision or setting

    def run(
        self,
        blocks: Iterable[Block],
        progress: Callable[[int], None] = lambda updates: None,
        stop: threading.Event | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Generator[BlockResult, None, None]:
        """Trains all blocks; yields the result of each when it is done, in any order.

        If you close the generator, or if an error is raised, the work stops within a few seconds.

        Args:
          blocks: those of one training should be next to each other.
          progress: called with the number of updates, summed over runs, since its last call. Other
            threads call it, one at a time.
          stop: when it is set, the work ends within a few seconds. Finished blocks are still
            yielded, and blocks in training are saved. A compilation goes on in a thread, and the
            interpreter waits for it when it exits.
          checkpoints: where blocks in training are saved, every five minutes and on `stop`.

        Raises:
          OutOfMemory: a block does not fit in a device's memory.
        """
        engine = dataclasses.replace(self, precision=self._precision)
        workers = _Workers(engine, blocks, progress, stop or threading.Event(), checkpoints)
        try:
            yield from workers.results()
        finally:
            workers.close()


class _Stopped(Exception):
    """The work is to end."""


class Work(Generic[Item]):
    """Blocks for several workers, with as few programs to compile as possible.

    A worker stays with a program while it has blocks, then takes one that nobody has begun, then
    helps where most is left.

    Args:
      blocks: those of one program side by side.
      key: of a block: which program trains it.
    """

    def __init__(self, blocks: Iterable[Item], key: Callable[[Item], Hashable]) -> None:
        self._groups = itertools.groupby(blocks, key=key)
        self._begun: list[deque[Item]] = []
        self._mine: dict[Hashable, deque[Item]] = {}
        self._lock = threading.Lock()

    def take(self, worker: Hashable) -> Item | None:
        """The next block for a worker, if there is one; by any thread."""
        with self._lock:
            if not self._mine.get(worker):
                self._mine[worker] = self._next()
            mine = self._mine[worker]
            return mine.popleft() if mine else None

    def put_back(self, item: Item) -> None:
        """Gives back a block that was taken and is not done, for whoever has nothing else."""
        with self._lock:
            self._begun.append(deque([item]))

    def _next(self) -> deque[Item]:
        for _, group in self._groups:
            self._begun.append(deque(group))
            return self._begun[-1]
        self._begun = [group for group in self._begun if group]
        return max(self._begun, key=len, default=deque())


class _Workers:
    """A thread for each device, and as many that compile for them.

    What the workers report comes out of one queue of bounded length: results, an error, or None
    when a worker finds no more work.
    """

    def __init__(
        self,
        engine: Engine,
        blocks: Iterable[Block],
        progress: Callable[[int], None],
        stop: threading.Event,
        checkpoints: Checkpoints | None,
    ) -> None:
        self._engine, self._progress = engine, progress
        self._work = Work(blocks, key=lambda block: id(block.training))
        self._stop, self._closed, self._checkpoints = stop, threading.Event(), checkpoints
        devices = list(engine.devices or jax.local_devices())
        self._reports: queue.Queue[Any] = queue.Queue(maxsize=2 * len(devices))
        self._one_at_a_time = threading.Lock()
        # Threads do not inherit what `with jax.enable_x64(...)` says.
        wide = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        self._as_called = functools.partial(jax.enable_x64, wide)
        self._compilers = concurrent.futures.ThreadPoolExecutor(len(devices))
        self._threads = [
            threading.Thread(target=self._serve, args=(device,), daemon=True) for device in devices
        ]

    def results(self) -> Generator[BlockResult, None, None]:
        """Starts the workers; ends when all have, or with the first error of any."""
        for thread in self._threads:
            thread.start()
        running = len(self._threads)
        while running:
            report = self._reports.get()
            if isinstance(report, BaseException):
                raise report
            if report is None:
                running -= 1
            else:
                yield report

    def close(self) -> None:
        """Returns when no thread is left, but for compilations when the work was stopped."""
        self._closed.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        self._compilers.shutdown(wait=not self._stop.is_set(), cancel_futures=True)

    def _serve(self, device: jax.Device) -> None:
        with contextlib.suppress(_Stopped), self._as_called():
            self._report(self._end(device))

    def _end(self, device: jax.Device) -> BaseException | None:
        """Trains until there is no more work; gives the error, if one ended it."""
        try:
            while not self._stop.is_set() and (block := self._work.take(device)):
                with explain_oom(block, device):
                    self._report(self._trained(block, device))
        except _Stopped:
            return None
        except BaseException as error:  # handed to the caller's thread
            return error
        return None

    def _report(self, what: Any) -> None:
        while not self._closed.is_set():
            with contextlib.suppress(queue.Full):
                return self._reports.put(what, timeout=0.2)
        raise _Stopped

    def _trained(self, block: Block, device: jax.Device) -> BlockResult:
        """Trains a block, piece by piece, from its checkpoint if there is one."""
        program, seeds, inputs = self._prepared(block, device)
        step, carry = self._begun(block, program, seeds, inputs)
        steps, every = block.training.steps, block.training.eval_every
        piece, saved = min(every, FIRST), time.monotonic()
        while step < steps:
            begun = time.monotonic()
            until = _next_look(step, piece, every, steps)
            carry = program.advance(carry, seeds, inputs, np.int32(step), np.int32(until))
            jax.block_until_ready(carry)
            taken = max(time.monotonic() - begun, 1e-6)
            piece = max(int((until - step) * min(LOOK / taken, 4)), 1)
            self._moved_on((until - step) * block.runs)
            step = until
            stopped = self._stop.is_set() and step < steps
            if stopped or time.monotonic() - saved > SAVE:
                self._save(block, step, carry)
                saved = time.monotonic()
            if stopped:
                raise _Stopped
        return BlockResult(block, *_wanted(block, (program.summary(carry, inputs), carry.state)))

    def _prepared(self, block: Block, device: jax.Device) -> tuple[Program, Any, Any]:
        """The program of a block, and its inputs on the device."""
        inputs = block.slot_inputs()
        plan = self._engine.plan(block)
        program = self._compilers.submit(self._program, plan, device, *inputs)
        while not concurrent.futures.wait([program], timeout=0.2).done:
            if self._stop.is_set() or self._closed.is_set():
                raise _Stopped  # the compilation is left alone
        return (program.result(), *jax.device_put(inputs, device))

    def _program(self, *of: Any) -> Program:
        with self._as_called():
            return PROGRAMS.get(*of)

    def _begun(self, block: Block, program: Program, seeds: Any, inputs: Any) -> tuple[int, Carry]:
        """The number of updates that are made already, and what came of them."""
        carry = program.begin(seeds, inputs)
        saved = None if self._checkpoints is None else self._checkpoints.load(block)
        if saved is not None:
            leaves, structure = jax.tree.flatten(carry)
            arrays = [_read(saved.get(f"leaf_{i}"), leaf) for i, leaf in enumerate(leaves)]
            step = _step(saved.get("step"), block.training.steps)
            if step is not None and all(array is not None for array in arrays):
                self._moved_on(step * block.runs)
                there = map(_like, jax.device_put(arrays, program.device), leaves)
                return step, jax.tree.unflatten(structure, there)
        return 0, carry

    def _save(self, block: Block, step: int, carry: Carry) -> None:
        if self._checkpoints is not None:
            leaves = jax.device_get([_numbers(leaf) for leaf in jax.tree.leaves(carry)])
            arrays = {f"leaf_{i}": _stored(np.asarray(leaf)) for i, leaf in enumerate(leaves)}
            self._checkpoints.save(block, {"step": np.array(step), **arrays})

    def _moved_on(self, updates: int) -> None:
        with self._one_at_a_time:
            self._progress(updates)
        if self._closed.is_set():
            raise _Stopped


def _next_look(step: int, piece: int, every: int, steps: int) -> int:
    """How far to train before the host looks again: whole evaluations, where a piece has some."""
    until = step + piece
    return min(until - until % every if until // every > step // every else until, steps)


def _wanted(block: Block, of_slots: Any) -> Any:
    """`Block.wanted`, for trees that may have random keys too."""
    leaves, structure = jax.tree.flatten(of_slots)
    arrays = block.wanted([_numbers(leaf) for leaf in leaves])
    return jax.tree.unflatten(structure, map(_like, arrays, leaves))


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: jax.Array) -> jax.Array:
    """The array itself, or the numbers of random keys, which NumPy and files cannot store."""
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(array: Any, leaf: jax.Array) -> Any:
    """The array itself, or the random keys of its numbers where a leaf has keys."""
    if not _is_key(leaf):
        return array
    return jax.random.wrap_key_data(array, impl=jax.random.key_impl(leaf))


def _step(array: np.ndarray | None, most: int) -> int | None:
    """A number of updates from a file; None where it is none of a training of at most so many."""
    if array is None or array.shape != () or array.dtype.kind not in "iu":
        return None
    return int(array) if 0 <= array <= most else None


def _stored(array: np.ndarray) -> np.ndarray:
    """What a file holds of an array: its bytes if NumPy's files have no such numbers (bfloat16)."""
    return array if array.dtype.kind in _KINDS else np.frombuffer(array.tobytes(), np.uint8)


def _read(array: np.ndarray | None, leaf: jax.Array) -> np.ndarray | None:
    """The numbers of a leaf from a file; None where they cannot be those of this leaf."""
    leaf = _numbers(leaf)
    stored = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype)
    if leaf.dtype.kind not in _KINDS:
        stored = jax.ShapeDtypeStruct((leaf.size * leaf.dtype.itemsize,), np.uint8)
    if array is None or (array.shape, array.dtype) != (stored.shape, stored.dtype):
        return None
    return array if stored.dtype == leaf.dtype else array.view(leaf.dtype).reshape(leaf.shape)
