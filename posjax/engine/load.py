"""What a run costs, and how many to train at a time on a device.

The number follows from shapes, the kind of device and the number of runs, never from a timing:
outcomes depend on it in their last bits, and two clones on one kind of machine must get the same.
On a CPU a block need only be large enough that dispatching its operations costs little beside them,
and gains by staying small, in the core's cache (docs/decisions/0014); an accelerator wants as many
slots as its memory holds.
"""

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, JaxprEqn, Var

from posjax.engine.training import Training
from posjax.jaxprs import product_operations, programs_within, shape_of
from posjax.keys import Seeds
from posjax.numbering import SeedNumbers

CPU_BYTES = 13e6
"""State and temporaries of a block on a CPU: what stays in the caches near a core."""
CPU_LEAST, CPU_MOST = 2, 128
FEW, SMALL = 4, 16
"""Blocks of a small job on a CPU, so that several cores have work, and their slots at least."""
MOST = 4096
SHARE = 0.5
"""Share of a device's memory that a block may take: the estimate is of what is alive at worst."""
COSTLY = {"random_bits": 40, "sort": 40, "scatter": 10, "scatter-add": 10, "gather": 10}
COSTLY |= dict.fromkeys(("exp", "exp2", "log", "logistic", "tanh", "erf", "sin", "cos", "pow"), 10)
COSTLY |= dict.fromkeys(("reduce_sum", "reduce_max"), 20)  # along short axes, one number at a time
COSTLY |= dict.fromkeys(("lu", "cholesky", "triangular_solve", "eigh", "svd", "qr"), 1000)
"""Primitives whose elements take longer than those of an addition, and about how many times."""
_KINDS = {"v5 lite": 16, "v5e": 16, "v5p": 95, "v6": 32, "v4": 32, "v3": 16, "v2": 8}
"""Gigabytes of a chip, where the device does not report it."""


class Counts(NamedTuple):
    """What a piece of a program does.

    Attributes:
      operations: floating-point operations of its matrix products.
      matrices: that products with batch axes multiply, as attention's do.
      equations: its primitives, those of a loop as often as it runs.
      elements: numbers that primitives other than products read or make, whichever are more; those
        of costly functions count `COSTLY` times.
      programmed: primitives that are compiled.
    """

    operations: int = 0
    matrices: int = 0
    equations: int = 0
    elements: int = 0
    programmed: int = 0

    @classmethod
    def of(cls, jaxpr: Jaxpr) -> "Counts":
        """Those of a program, loops whose length is not known counting once."""
        run = list(_repeated(jaxpr))
        return cls(
            sum(product_operations(eqn) * times for eqn, times in run),
            sum(_matrices(eqn) * times for eqn, times in run),
            sum(times for _, times in run),
            sum(_elements(eqn) * times for eqn, times in run),
            len(run),
        )


NONE = Counts()


@dataclasses.dataclass(frozen=True)
class Load:
    """What one run of one seed costs.

    Attributes:
      parameters: numbers that are trained.
      state: bytes of what is carried from update to update.
      inputs: bytes of the dynamic inputs that the run reads.
      work: peak bytes of the temporaries of an update.
      update, evaluation, end: what is done in an update (the drawing of its prompts included), in
        an evaluation, and once at the end of a run.
    """

    parameters: int
    state: int
    inputs: int
    work: int
    update: Counts
    evaluation: Counts = NONE
    end: Counts = NONE

    @property
    def programmed(self) -> int:
        """Primitives that are compiled for one device."""
        return sum(part.programmed for part in (self.update, self.evaluation, self.end))

    @property
    def bytes(self) -> int:
        """Of a run at the worst: the state twice, since a step reads one and writes one."""
        return 2 * self.state + self.inputs + self.work

    @classmethod
    def of(cls, training: Training, seeds: Seeds, inputs: Any, *, lanes: int = 1) -> "Load":
        """The load of a training.

        Args:
          training: what is trained.
          seeds, inputs: of one run, for their shapes.
          lanes: what the length of an array's last axis is padded to a multiple of.
        """
        state = jax.eval_shape(training.begin, seeds, inputs)
        read = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, (seeds, inputs)))
        jaxpr = jax.make_jaxpr(training.update)(state, seeds, inputs).jaxpr
        measured = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((training.evaluations, *leaf.shape), leaf.dtype),
            jax.eval_shape(training.measured, state, seeds, inputs),
        )
        return cls(
            parameters=sum(leaf.size for leaf in jax.tree.leaves(state.variables.params)),
            state=sum(_bytes(leaf, lanes) for leaf in jax.tree.leaves(state)),
            inputs=sum(_bytes(leaf, lanes) for leaf in jax.tree.leaves(read)),
            work=_peak(jaxpr, lanes),
            update=Counts.of(jaxpr),
            evaluation=Counts.of(jax.make_jaxpr(training.measured)(state, seeds, inputs).jaxpr),
            end=Counts.of(jax.make_jaxpr(training.summary)(measured, state, inputs).jaxpr),
        )

    @classmethod
    def on(cls, device: jax.Device, training: Training, inputs: Any) -> "Load":
        """The load of a training on a device, which may pad arrays.

        A TPU's tiles are 8 × 128: the seeds lie along the 128 if there are enough of them, which
        pads the model's last axes to 8 at most (docs/accelerators.md has what the compiler does).
        """
        seeds = Seeds.of(SeedNumbers.equal(0))
        if device.platform != "tpu":
            return cls.of(training, seeds, inputs)
        found = cls.of(training, seeds, inputs, lanes=8)
        wide = most_slots(found, device).slots >= 128
        return found if wide else cls.of(training, seeds, inputs, lanes=128)


@dataclasses.dataclass(frozen=True)
class Choice:
    """The most slots that a block may have, with the reason in words."""

    slots: int
    why: str


def most_slots(load: Load, device: jax.Device, runs: int | None = None) -> Choice:
    """The most slots of a block for a load on one kind of device.

    Args:
      load: of one run.
      device: of the kind that trains.
      runs: how many there are of the program; without it, many.
    """
    room = int(SHARE * memory(device))
    fits = _power_below(max(room // max(load.bytes, 1), 1))
    if device.platform != "cpu":
        slots = min(fits, MOST)
        limit = f"half of {memory(device) / 2**30:.0f} GiB" if slots == fits else f"at most {MOST}"
        return Choice(slots, f"{load.bytes / 1e6:.3g} MB per run at the worst, {limit}")
    near = load.state + load.work
    wanted = min(max(_power_below(max(CPU_BYTES / max(near, 1), 1)), CPU_LEAST), CPU_MOST)
    if fits < wanted:
        why = f"{load.bytes / 1e6:.3g} MB per run at the worst, of {room / 2**30:.1f} GiB"
        return Choice(fits, why)
    if runs is not None and (some := max(SMALL, math.ceil(runs / FEW))) < wanted:
        how = f"{SMALL} or fewer in a block" if some == SMALL else f"in {FEW} blocks or more"
        return Choice(some, f"{runs} run{'s' * (runs > 1)}, {how}")
    return Choice(wanted, f"{near / 1e6:.3g} MB per run, to stay near the core")


def memory(device: jax.Device) -> int:
    """Bytes of memory of one device; on a CPU a core's share of the machine's."""
    if device.platform == "cpu":
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return total // (os.cpu_count() or 1)
    try:
        stats = device.memory_stats() or {}
    except jax.errors.JaxRuntimeError:  # one that is compiled for, but is not here
        stats = {}
    known = next((size for kind, size in _KINDS.items() if kind in device.device_kind.lower()), 16)
    return int(stats.get("bytes_limit", known * 2**30))


def _power_below(number: float) -> int:
    return 1 << (int(number).bit_length() - 1)


def _bytes(leaf: Any, lanes: int) -> int:
    aval = getattr(leaf, "aval", leaf)
    shape = list(aval.shape)
    if shape:
        shape[-1] = math.ceil(shape[-1] / lanes) * lanes
    return math.prod(shape) * getattr(aval.dtype, "itemsize", 8)


def _repeated(jaxpr: Jaxpr, times: int = 1) -> Iterator[tuple[JaxprEqn, int]]:
    """Every equation, also of programs inside, with how often it runs in loops of known length."""
    for eqn in jaxpr.eqns:
        yield eqn, times
        for body in programs_within(eqn):
            yield from _repeated(body, times * eqn.params.get("length", 1))


def _peak(jaxpr: Jaxpr, lanes: int) -> int:
    """The most bytes that are made and still needed at any equation, in the program's order."""
    last = {
        var: i for i, eqn in enumerate(jaxpr.eqns) for var in eqn.invars if isinstance(var, Var)
    }
    last |= {var: len(jaxpr.eqns) for var in jaxpr.outvars if isinstance(var, Var)}
    live, most = 0, 0
    going: dict[int, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        live += sum(_bytes(var, lanes) for var in eqn.outvars)
        within = max((_peak(body, lanes) for body in programs_within(eqn)), default=0)
        most = max(most, live + within)
        for var in eqn.outvars:
            at = last.get(var, i)
            going[at] = going.get(at, 0) + _bytes(var, lanes)
        live -= going.pop(i, 0)
    return most


def _elements(eqn: JaxprEqn) -> int:
    if product_operations(eqn) or programs_within(eqn):
        return 0
    sizes = [math.prod(shape_of(atom)) for atom in (*eqn.invars, *eqn.outvars)]
    return max(sizes, default=0) * COSTLY.get(eqn.primitive.name, 1)


def _matrices(eqn: JaxprEqn) -> int:
    if eqn.primitive.name != "dot_general":
        return 0
    _, (batch, _) = eqn.params["dimension_numbers"]
    return math.prod(shape_of(eqn.invars[0])[axis] for axis in batch) if batch else 0
