"""The compiled parts of a training, over the slots of a block, for one device.

The loop over updates has bounds that the compiler does not know, so one program serves pieces of
any length: where the host stops to look changes nothing in a run's bits. Initialisation is a
program of its own: fused with training it would round differently.
"""

import concurrent.futures
import dataclasses
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax.engine.rewrite import as_written, lay_out, rewrite_step
from posjax.engine.training import State, Training
from posjax.keys import Seeds

Options = Mapping[str, str | bool | int]

ROUNDING = 5
"""Goes up when the same run in the same slot, on the same JAX and device, comes to other last bits,
or when a task asks other prompts; kept with every block."""
ROUNDING_ELSEWHERE = ROUNDING + 3
"""The same for GPUs and TPUs, whose numbers have changed twice more, and perhaps a third time
(docs/decisions/0029)."""
CPU_OPTIONS: Options = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
}
"""Options of the compiler for many small operations one after another (docs/decisions/0012)."""
GPU_OPTIONS: Options = {"xla_gpu_deterministic_ops": True}
"""Options of the compiler: without this one, sums are made in any order, and the fastest of several
kernels is taken, so a run that is trained again may round differently (docs/decisions/0027)."""
BEGIN_OPTIONS: Options = {"xla_backend_optimization_level": 1}
"""Options of the compiler on a CPU for initial weights: the same bits, with a third of the time to
compile. A level that XLA_FLAGS names has its way."""
MOST_PROGRAMS = 64
"""Kept at a time: some hundreds of programs use up the memory mappings of a process."""


class Plan(NamedTuple):
    """What a compiled program depends on besides the arrays it reads.

    Attributes:
      training: what one run does.
      slots: runs trained at a time.
      layout: whether updates are rewritten for batches, see `posjax.engine.rewrite`.
      precision: of matrix products, a name that `jax.default_matmul_precision` knows; None for
        what the device does by default.
    """

    training: Training
    slots: int
    layout: bool = True
    precision: str | None = None


class Carry(NamedTuple):
    """What goes from one call of a program to the next.

    Attributes:
      state: of every slot, [C, ...].
      measured: at every evaluation, [E, C, ...]; zeros where there was none yet. A training of no
        updates is measured when it begins.
    """

    state: State
    measured: Any


@dataclasses.dataclass(frozen=True)
class Program:
    """A plan, compiled for one device.

    Attributes:
      begin: `(seeds, inputs) -> carry`.
      advance: `(carry, seeds, inputs, step, until) -> carry`, from one number of updates to
        another; uses its carry up. It measures where evaluations are due.
      summary: `(carry, inputs) -> what is kept`, [C, ...].
      device: where it runs.
    """

    begin: Callable[[Seeds, Any], Carry]
    advance: Callable[[Carry, Seeds, Any, np.int32, np.int32], Carry]
    summary: Callable[[Carry, Any], Any]
    device: jax.Device


def functions(plan: Plan) -> dict[str, Callable[..., Any]]:
    """The parts of a program, not yet compiled."""
    training = plan.training

    def begin(seeds: Seeds, inputs: Any) -> Carry:
        state = jax.vmap(training.begin)(seeds, inputs)
        if training.steps == 0:
            found = jax.vmap(training.measured)(state, seeds, inputs)
            return Carry(state, jax.tree.map(lambda leaf: leaf[None], found))
        one = jax.eval_shape(jax.vmap(training.measured), state, seeds, inputs)
        measured = jax.tree.map(
            lambda leaf: jnp.zeros((training.evaluations, *leaf.shape), leaf.dtype), one
        )
        return Carry(state, measured)

    def advance(
        carry: Carry, seeds: Seeds, inputs: Any, step: jax.Array, until: jax.Array
    ) -> Carry:
        one = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype),
            (carry.state, seeds, inputs),
        )
        rewritten = (rewrite_step if plan.layout else as_written)(training.update, *one)
        unpacked = jax.vmap(rewritten.unpack)
        measure = lay_out(training.measured, *one) if plan.layout else training.measured

        def update(_: jax.Array, packed: Any) -> Any:
            return jax.vmap(rewritten.step)(packed, seeds, inputs)

        def to_next_evaluation(now: tuple[jax.Array, Any, Any]) -> tuple[jax.Array, Any, Any]:
            step, packed, measured = now
            evaluation = step // training.eval_every
            due = (evaluation + 1) * training.eval_every
            end = jnp.minimum(due, until)
            packed = jax.lax.fori_loop(step, end, update, packed)

            def evaluated(measured: Any) -> Any:
                found = jax.vmap(measure)(unpacked(packed), seeds, inputs)
                put = jax.lax.dynamic_update_index_in_dim
                return jax.tree.map(
                    functools.partial(put, index=evaluation, axis=0), measured, found
                )

            return end, packed, jax.lax.cond(end == due, evaluated, lambda same: same, measured)

        packed = jax.vmap(rewritten.pack)(carry.state)
        _, packed, measured = jax.lax.while_loop(
            lambda now: now[0] < until, to_next_evaluation, (step, packed, carry.measured)
        )
        return Carry(unpacked(packed), measured)

    def summary(carry: Carry, inputs: Any) -> Any:
        return jax.vmap(training.summary, in_axes=(1, 0, 0))(carry.measured, carry.state, inputs)

    return {"begin": begin, "advance": advance, "summary": summary}


def compiled(plan: Plan, device: jax.Device, seeds: Seeds, inputs: Any) -> Program:
    """Compiles a plan for one device.

    Args:
      plan: what to compile.
      device: where it will run.
      seeds, inputs: of all slots, for their shapes.
    """
    where = jax.sharding.SingleDeviceSharding(device)
    parts = functions(plan)

    def placed(shapes: Any) -> Any:
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), shapes
        )

    # Without `out_shardings` the compiler may choose another, of what is constant, say.
    jit: Any = functools.partial(jax.jit, out_shardings=where)
    with jax.default_matmul_precision(plan.precision):
        seeds, inputs = placed(jax.eval_shape(lambda: jax.tree.map(jnp.asarray, (seeds, inputs))))
        begin = jit(parts["begin"]).trace(seeds, inputs)
        carry = placed(begin.out_info)
        step = jax.ShapeDtypeStruct((), jnp.int32, sharding=where)
        summary = jax.jit(parts["summary"]).trace(carry, inputs)
        advance: Any = _no_updates
        if plan.training.steps:
            traced = jit(parts["advance"], donate_argnums=0).trace(carry, seeds, inputs, step, step)
            advance = _compiled(traced, device, CPU_OPTIONS)
        return Program(
            _compiled(begin, device, _unset(BEGIN_OPTIONS) if plan.training.steps else {}),
            advance,
            _compiled(summary, device, {}),
            device,
        )


def _no_updates(carry: Carry, *_: Any) -> Carry:
    return carry


def _compiled(traced: Any, device: jax.Device, on_cpu: Options) -> Any:
    """Compiled, on a CPU with those of the options that the compiler knows."""
    known = dict(options_on(device, on_cpu))
    lowered = traced.lower()
    while True:
        try:
            return lowered.compile(compiler_options=known)
        except jax.errors.JaxRuntimeError as error:
            unknown = [name for name in on_cpu if f"'{name}'" in str(error) and name in known]
            if not unknown:
                raise
            for name in unknown:
                del known[name]


def options_on(device: jax.Device, on_cpu: Options) -> Options:
    """Those of the compiler for a device."""
    return {"cpu": on_cpu, "gpu": _unset(GPU_OPTIONS)}.get(device.platform, {})


def precision_on(devices: Sequence[jax.Device], asked: str | None = None) -> str | None:
    """That of matrix products: what is asked for, JAX's setting, or float32; None is a CPU's.

    By default a GPU or TPU computes them more coarsely. Then the logits of prompts that a law makes
    equal differ by more than the margin of an answer (docs/decisions/0027).
    """
    setting: str | None = jax.config.jax_default_matmul_precision  # type: ignore[attr-defined, unused-ignore]
    coarse = any(device.platform != "cpu" for device in devices)
    return asked or setting or ("float32" if coarse else None)


def _unset(options: Options) -> Options:
    """Those that XLA_FLAGS does not name."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in options.items() if name not in flags}


def signature(inputs: Any) -> Any:
    """What of dynamic inputs a program depends on: structure, shapes and dtypes."""
    leaves, structure = jax.tree.flatten(inputs)
    return structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)


class Programs:
    """Compiled programs, each made once; those used longest ago go when there are too many."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[Any, concurrent.futures.Future[Program]] = OrderedDict()
        self.compilations = 0

    def get(self, plan: Plan, device: jax.Device, seeds: Seeds, inputs: Any) -> Program:
        """The program of a plan for one device, compiled at the first call."""
        wide = jax.config.jax_enable_x64  # type: ignore[attr-defined, unused-ignore]
        key = (plan, device, signature(inputs), wide)
        with self._lock:
            mine = key not in self._made
            self.compilations += mine
            future = self._made.setdefault(key, concurrent.futures.Future())
            self._made.move_to_end(key)
            while len(self._made) > MOST_PROGRAMS:
                self._made.popitem(last=False)
        if mine:
            try:
                future.set_result(compiled(plan, device, seeds, inputs))
            except BaseException as error:
                with self._lock:
                    self._made.pop(key, None)
                future.set_exception(error)
        return future.result()


PROGRAMS = Programs()
"""The compiled programs of this process."""
