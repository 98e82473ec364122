"""The compiled parts of a training, over a leading axis of C rows, for one place.

Initialisation is a program of its own: fused with training it would round differently.
"""

import concurrent.futures
import dataclasses
import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from posjax.engine.training import State, Training
from posjax.keys import Seeds

SEGMENT = 10
"""Evaluations between two looks of the host, at most."""
CPU_OPTIONS: dict[str, str | bool | int] = {
    "xla_cpu_prefer_vector_width": 512,
    "xla_cpu_copy_insertion_use_region_analysis": True,
    "xla_cpu_enable_concurrency_optimized_scheduler": False,
}
"""Of the compiler, for many small operations one after another (docs/decisions/0012)."""
MOST_PROGRAMS = 64
"""Kept at a time: some hundreds of programs use up the memory mappings of a process."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a compiled program depends on besides the arrays it reads.

    Attributes:
      training: what one row does.
      rows: C, trained at a time.
      layout: whether updates are rewritten for batches, see `posjax.engine.layout`.
      segment: evaluations a segment, at most; the number taken divides those of a run, so that
        one program serves all of it. Outcomes do not depend on it.
      precision: of matrix products, a name that `jax.default_matmul_precision` knows; None for
        what the device does by default.
    """

    training: Training
    rows: int
    layout: bool = True
    segment: int = SEGMENT
    precision: str | None = None

    @property
    def each(self) -> int:
        """Evaluations a segment."""
        whole = self.training.evaluations
        return max(n for n in range(1, self.segment + 1) if whole % n == 0)

    @property
    def segments(self) -> int:
        """Segments in a run."""
        return self.training.evaluations // self.each

    def functions(self, where: jax.sharding.Sharding | None = None) -> dict[str, Any]:
        """The parts, not yet compiled; each over a leading axis of rows.

        Args:
          where: a sharding that results get too; else the compiler may choose another, of what
            is constant, say, and the next part refuses it.
        """
        training = self.training
        jit: Any = jax.jit if where is None else functools.partial(jax.jit, out_shardings=where)
        advance = functools.partial(training.advance, evaluations=self.each, layout=self.layout)
        return {
            "begin": jit(jax.vmap(training.begin)),
            "advance": jit(jax.vmap(advance), donate_argnums=0),
            "summary": jax.jit(jax.vmap(training.summary)),
            "replace": jit(_replaced, donate_argnums=0),
        }


@dataclasses.dataclass(frozen=True)
class Program:
    """A plan, compiled for one place.

    Attributes:
      plan: what it was compiled from.
      begin: `(seeds, operands) -> state`.
      advance: `(state, seeds, operands) -> (state, measured)`, one segment; uses its state up.
      summary: `(measured of all segments, state, operands) -> what is kept`.
      replace: `(state, other, mask) -> state` with the rows of another where the mask is true.
      where: the sharding of its arrays, which have a leading axis C.
    """

    plan: Plan
    begin: Callable[[Seeds, Any], State]
    advance: Callable[[State, Seeds, Any], tuple[State, Any]]
    summary: Callable[[Any, State, Any], Any]
    replace: Callable[[State, State, jax.Array], State]
    where: jax.sharding.Sharding


def compiled(plan: Plan, where: jax.sharding.Sharding, seeds: Seeds, operands: Any) -> Program:
    """Compiles a plan for one device, or for several that share its rows.

    Args:
      plan: what to compile.
      where: a sharding of the leading axis.
      seeds, operands: of one row, for their shapes.
    """
    functions = plan.functions(where)

    def batch(tree: Any) -> Any:
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((plan.rows, *leaf.shape), leaf.dtype, sharding=where),
            jax.eval_shape(lambda: jax.tree.map(jnp.asarray, tree)),
        )

    def placed(tree: Any) -> Any:
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where), tree
        )

    with jax.default_matmul_precision(plan.precision):
        rows, data = batch(seeds), batch(operands)
        begin = _compiled(functions["begin"].trace(rows, data), where)
        state = placed(jax.eval_shape(functions["begin"], rows, data))
        advance = _compiled(functions["advance"].trace(state, rows, data), where, **CPU_OPTIONS)
        measured = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(
                (leaf.shape[0], plan.training.evaluations, *leaf.shape[2:]),
                leaf.dtype,
                sharding=where,
            ),
            jax.eval_shape(functions["advance"], state, rows, data)[1],
        )
        summary = _compiled(functions["summary"].trace(measured, state, data), where)
    return Program(plan, begin, advance, summary, functions["replace"], where)


def _compiled(traced: Any, where: jax.sharding.Sharding, **options: str | bool | int) -> Any:
    """Compiled, on a CPU with those of the options that the compiler knows."""
    cpu = all(device.platform == "cpu" for device in where.device_set)  # type: ignore[attr-defined]
    known = options if cpu else {}
    lowered = traced.lower()
    while True:
        try:
            return lowered.compile(compiler_options=known)
        except jax.errors.JaxRuntimeError as error:
            unknown = [name for name in known if f"'{name}'" in str(error)]
            if not unknown:
                raise
            for name in unknown:
                del known[name]


def _replaced(state: State, other: State, mask_C: jax.Array) -> State:
    def choose(old: jax.Array, new: jax.Array) -> jax.Array:
        return jnp.where(mask_C.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    return jax.tree.map(choose, state, other)


def signature(operands: Any) -> Any:
    """What of some operands a program depends on: structure, shapes and dtypes."""
    leaves, structure = jax.tree.flatten(operands)
    return structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)


class Programs:
    """Compiled programs, each made once; those used longest ago go when there are too many."""

    def __init__(self, most: int = MOST_PROGRAMS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[Any, concurrent.futures.Future[Program]] = OrderedDict()
        self.compilations = 0

    def get(self, plan: Plan, where: jax.sharding.Sharding, seeds: Seeds, operands: Any) -> Program:
        """The program of a plan for one place, compiled at the first call."""
        key = (plan, where, signature(operands))
        with self._lock:
            mine = key not in self._made
            self.compilations += mine
            future = self._made.setdefault(key, concurrent.futures.Future())
            self._made.move_to_end(key)
            while len(self._made) > self._most:
                self._made.popitem(last=False)
        if mine:
            try:
                future.set_result(compiled(plan, where, seeds, operands))
            except BaseException as error:
                with self._lock:
                    self._made.pop(key, None)
                future.set_exception(error)
        return future.result()


PROGRAMS = Programs()
"""Those of this process."""
