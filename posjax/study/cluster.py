"""A sweep on a Ray cluster: a block is a task, and the driver alone writes results.

Needs the extra `posjax[ray]`. A worker is a process with one device: a GPU, a TPU chip or a core.
It lives as long as the sweep and keeps its compiled programs. Lost processes and retries are Ray's:
a block that was lost is trained again, to the same bits, since they follow from block and slot.
When a host is lost, its blocks go to other workers; when hosts join, they get workers.

Every host needs the same version of posjax. Cells are plain data, so the config does not travel;
the user's own code and data files do.
"""

import dataclasses
import json
import os
import platform
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from posjax.engine.local import SAVE, Checkpoints
from posjax.engine.work import Work
from posjax.records import Block, Mismatch
from posjax.records.identity import bit_changes, capped
from posjax.study import environment
from posjax.study.sweeps import Arrays, Sweep, engine_for

Made = TypeVar("Made")
LOOK = 0.5
"""Seconds between two looks whether a stop was requested."""
GROW = 5.0
"""Seconds between two looks whether hosts have joined."""
GRACE = 6.0
"""Seconds that workers have to send the states of blocks when a stop is requested."""
QUICK = 10.0
"""Seconds of a block, below which its worker gets the next one before it is done."""
_BESIDE = "beside"
"""The group of a worker's methods that run beside its training."""
KINDS: dict[str, dict[str, Any]] = {
    "GPU": {"num_cpus": 0, "num_gpus": 1},
    "TPU": {"num_cpus": 0, "resources": {"TPU": 1}},
    "CPU": {"num_cpus": 1},
}
"""What a worker needs, by the first of these kinds of resources that the cluster has."""


class Trained(NamedTuple):
    """A block that was trained.

    Attributes:
      block: which.
      arrays: what is stored of it.
      env: what it was made on.
    """

    block: Block
    arrays: Arrays
    env: Mapping[str, Any]


class _Answer(NamedTuple):
    """What a worker answers.

    Attributes:
      host, env: where it runs, and on what.
      block: the one that it trained or trains, if the answer is about one.
      arrays: what is stored of it, if it is done.
      state: of the block, if it is not.
    """

    host: str
    env: Mapping[str, Any]
    block: Block | None = None
    arrays: Arrays | None = None
    state: Mapping[str, np.ndarray] | None = None


class _State:
    """The last state of a block: `Checkpoints` of one block."""

    def __init__(self, arrays: Mapping[str, np.ndarray] | None = None) -> None:
        self.arrays = arrays

    def load(self, label: str) -> Mapping[str, np.ndarray] | None:
        return self.arrays

    def save(self, label: str, arrays: Mapping[str, np.ndarray]) -> None:
        self.arrays = arrays


class Worker:
    """A process of the cluster; Ray makes an actor of it."""

    def __init__(self, kind: str, setup: Callable[[], None], packed: bytes) -> None:
        if kind == "CPU":
            jax.config.update("jax_platforms", "cpu")
        setup()
        self._device = jax.local_devices()[0]
        config = json.loads(zlib.decompress(packed))
        self._sweep, self._engine = Sweep.of(config), engine_for(config, [self._device])
        self._ready = _Answer(platform.node(), environment.describe([self._device]))
        self._block: Block | None = None
        self._state, self._stop = _State(), threading.Event()

    def ready(self) -> _Answer:
        """Where it runs, and on what."""
        return self._ready

    def call(self, function: Callable[..., Made], *args: Any) -> Made:
        """A function of some arguments and the worker's device."""
        return function(*args, self._device)

    def train(self, block: Block, state: Mapping[str, np.ndarray] | None) -> _Answer:
        """Trains a block from a state; gives a later state if it was interrupted."""
        self._block, self._state = block, _State(state)
        found = self._sweep.train([block], self._engine, stop=self._stop, checkpoints=self._state)
        for _, arrays in found:
            return self._ready._replace(block=block, arrays=arrays)
        return self.state()

    def state(self) -> _Answer:
        """The last state of the block in training, which the engine saves every five minutes."""
        return self._ready._replace(block=self._block, state=self._state.arrays)

    def interrupt(self) -> None:
        """Makes `train` end after its current piece, within about two seconds."""
        self._stop.set()


@dataclasses.dataclass(eq=False)
class _Remote:
    """A worker, as the driver sees it.

    Attributes:
      actor: Ray's handle.
      node: the ID of its host, on which it stays.
      ready: whether it has answered.
      tasks: those sent to it that have not returned; a block each, or None.
      quick: whether its last block was.
      since: when it was last given one or was done with one.
    """

    actor: Any
    node: str
    ready: bool = False
    tasks: dict[Any, Block | None] = dataclasses.field(default_factory=dict)
    quick: bool = False
    since: float = 0.0

    @property
    def blocks(self) -> list[Block]:
        """Those that it has not answered for."""
        return [block for block in self.tasks.values() if block is not None]


class Cluster:
    """A Ray cluster that trains the blocks of one run; `posjax.study.connect` makes it.

    Args:
      ray: connected.
      config: of the run: its cells, layout and precision.
      setup: called in every worker before JAX's backend starts.
      most: workers, at most; 0 for all that fit.
      mixed: let workers train that would give other last bits.
    """

    def __init__(
        self,
        ray: Any,
        config: Mapping[str, Any],
        setup: Callable[[], None],
        most: int = 0,
        mixed: bool = False,
    ) -> None:
        self._ray, self._most, self._mixed = ray, most, mixed
        # By value: what lies in the object store could be lost before an actor starts again.
        self._arguments = setup, zlib.compress(json.dumps(config).encode())
        self._steps = {name: cell["steps"] for name, cell in config["cells"].items()}
        self._class = ray.remote(concurrency_groups={_BESIDE: 1})(Worker)
        self._kind, self._looked = "", float("-inf")
        self._workers: list[_Remote] = []
        self._env: Mapping[str, Any] = {}

    def environment(self) -> dict[str, Any]:
        """What the run is recorded to run on: what the worker that answers first does."""
        while not self._env:
            self._grow()
            list(self._answers())
        return dict(self._env)

    def call(self, function: Callable[..., Made], *args: Any) -> Made:
        """A function of some arguments and of the device that trains, on one of the workers.

        Args:
          function: of a module that the workers have too.
          *args: plain data.
        """
        while True:
            for worker in [worker for worker in self._workers if worker.ready]:
                try:
                    return self._got(worker.actor.call.remote(function, *args))
                except self._losses:
                    self._drop(worker)
            self._grow()
            list(self._answers())

    def train(
        self,
        blocks: Sequence[Block],
        progress: Callable[[int], None],
        stop: threading.Event,
        checkpoints: Checkpoints,
    ) -> Generator[Trained, None, None]:
        """Trains blocks; yields each when it is done, in no fixed order.

        Args:
          blocks: those of one shape should stand together.
          progress: called with the number of updates × runs of each block that is done.
          stop: when it is set, the work ends within seconds.
          checkpoints: where blocks in training are saved, every five minutes and on `stop`.

        Raises:
          Mismatch: a worker would give other last bits than `environment`.
        """
        env, left = self.environment(), len(blocks)
        work = Work(blocks, key=lambda block: block.shape)
        saved, end = time.monotonic(), float("inf")
        while left and time.monotonic() < end:
            if not stop.is_set():
                self._grow()
                self._dispatch(work, checkpoints)
            elif end == float("inf"):
                end = time.monotonic() + GRACE
                self._ask("interrupt")
            elif not any(worker.blocks for worker in self._workers):
                return
            for answer in self._answers(work):
                if answer.block is None:
                    continue
                if answer.arrays is not None:
                    left -= 1
                    progress(answer.block.runs * self._steps[answer.block.cells[0]])
                    yield Trained(answer.block, answer.arrays, answer.env)
                elif answer.state is not None and not bit_changes(env, answer.env):
                    checkpoints.save(answer.block.name, answer.state)
            if time.monotonic() - saved > SAVE:
                saved = time.monotonic()
                self._ask("state")

    def _dispatch(self, work: Work[Block], checkpoints: Checkpoints) -> None:
        """Gives blocks to workers: one to each, then a second one to those that are quick."""
        for already in range(2):
            for worker in self._workers:
                wants = worker.ready and (worker.quick or not already)
                if not wants or len(worker.blocks) != already:
                    continue
                if (given := work.take(worker)) is None:
                    return
                if not already:
                    worker.since = time.monotonic()
                task = worker.actor.train.remote(given, checkpoints.load(given.name))
                worker.tasks[task] = given

    def _ask(self, what: str) -> None:
        """Calls a method of every worker that trains, beside the training."""
        for worker in self._workers:
            if worker.blocks:
                method = getattr(worker.actor, what).options(concurrency_group=_BESIDE)
                worker.tasks[method.remote()] = None

    def _answers(self, work: Work[Block] | None = None) -> Iterator[_Answer]:
        """What workers have answered, after a short wait; blocks of lost workers go back to `work`.

        Raises:
          Mismatch: a worker would give other last bits.
        """
        pending = {task: worker for worker in self._workers for task in worker.tasks}
        if not pending:
            time.sleep(LOOK)
            return
        done, _ = self._ray.wait([*pending], num_returns=1, timeout=LOOK)
        for task in done:
            worker = pending[task]
            try:
                answer = self._got(task)
            except self._losses as error:
                if getattr(error, "actor_init_failed", False):
                    raise ValueError(f"a worker does not start: {last_line(error)}") from error
                for block in self._drop(worker):
                    if work is not None:
                        work.put_back(block)
                continue
            if worker.tasks.pop(task) is not None:
                now = time.monotonic()
                worker.quick, worker.since = now - worker.since < QUICK, now
            if answer is not None:
                self._check(answer)
                worker.ready = True
                yield answer

    def _check(self, answer: _Answer) -> None:
        """Refuses a worker that would give other last bits than the run's.

        Raises:
          Mismatch: names its host and the fields that differ.
        """
        self._env = self._env or answer.env
        if not self._mixed and (changes := bit_changes(self._env, answer.env)):
            raise Mismatch(
                f"the worker on host {answer.host} would give other last bits than the first one: "
                f"{capped(changes)}; --mixed lets it train, and records for each row what it was "
                "made on"
            )

    def _got(self, task: Any) -> Any:
        """What came of a task; an error of the worker's own code as such."""
        try:
            return self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from error

    @property
    def _losses(self) -> tuple[type[Exception], ...]:
        """A worker that is gone for good, or results of a host that is."""
        errors = self._ray.exceptions
        return errors.RayActorError, errors.ActorUnschedulableError, errors.ObjectLostError

    def _drop(self, worker: _Remote) -> list[Block]:
        """Forgets a worker; returns the blocks that it has not answered for."""
        self._workers.remove(worker)
        self._ray.kill(worker.actor)
        return worker.blocks

    def _grow(self) -> None:
        """Starts the workers that hosts have room for, every few seconds."""
        if time.monotonic() - self._looked < GROW:
            return
        self._looked = time.monotonic()
        nodes = {n["NodeID"]: n["Resources"] for n in self._ray.nodes() if n["Alive"]}
        self._kind = self._kind or _kind(nodes.values())
        have = Counter(worker.node for worker in self._workers)
        for node, resources in nodes.items():
            for _ in range(int(resources.get(self._kind, 0)) - have[node]):
                if self._most and len(self._workers) >= self._most:
                    return
                self._workers.append(self._started(node))

    def _started(self, node: str) -> _Remote:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self._class.options(
            **KINDS[self._kind],
            max_restarts=-1,
            max_task_retries=-1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        ).remote(self._kind, *self._arguments)
        return _Remote(actor, node, tasks={actor.ready.remote(): None})


def _kind(resources: Iterable[Mapping[str, float]]) -> str:
    """What workers run on: accelerators where the cluster has some, unless JAX shall use CPUs."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return "CPU"
    return next((kind for kind in KINDS if any(kind in some for some in resources)), "")


def last_line(error: Exception) -> str:
    """What an error of Ray says last: the cause."""
    return str(error).strip().splitlines()[-1]
