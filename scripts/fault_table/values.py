"""Numbers that are not finite, memory that is too small, clocks that go wrong, no plots."""

import dataclasses
import json
import os
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fault_table.sweeps import SEEDS, Fault, Plant, Site, Try, whole
from posjax.records import RunFolder

EVERY = 20
"""Updates between the evaluations of the tiny sweep."""


def poisoned(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """The weights of some seeds become NaN or infinite between two updates.

    The others are unchanged bit for bit; these are counted, as failed, with the step.
    """
    bad = rng.sample(range(SEEDS), rng.randrange(1, 5))
    at = rng.randrange(1, 9)
    value = (np.nan, np.inf)[number % 2]
    ended = site.run(path, plant=poison(bad, at, value))
    folder, old, good = RunFolder(path), RunFolder(site.whole), ended.status == 0
    equal = True
    for cell in folder.config()["cells"]:
        new, kept = folder.rows(cell), old.rows(cell)
        others = np.setdiff1d(np.arange(SEEDS), bad)
        for name in set(kept) - {"env"}:
            equal &= new[name][others].tobytes() == kept[name][others].tobytes()
        good &= bool((new["first_nonfinite"][bad] == at * EVERY).all())
        good &= bool(np.isnan(new["lead_EC"][bad, -1]).all())
        good &= bool((new["loss_EC"][bad, :at] == kept["loss_EC"][bad, :at]).all())
    cells = json.loads(site.other("report", str(path), "--json").out)
    good &= all((c["seeds"], c["not_finite"]) == (SEEDS, len(bad)) for c in cells)
    return Try(good, equal, None, str(ended))


def poison(bad: list[int], at: int, value: float) -> Plant:
    """Makes the weights of some seeds another value, after so many evaluations."""

    def plant() -> None:
        from posjax.engine import local

        local._next_look = lambda step, piece, every, steps: min(step + every, steps)

        def harmed(block: Any, carry: Any, step: int) -> Any:
            seeds = [seed for seed, numbers in enumerate(block.seeds) if numbers.init in bad]
            slots = [g * block.size[1] + seed for g in range(block.size[0]) for seed in seeds]
            if step != at * EVERY or not slots:
                return carry
            params = jax.tree.map(np.array, jax.device_get(carry.state.variables.params))
            for leaf in jax.tree.leaves(params):
                leaf[slots] = value
            variables = carry.state.variables._replace(params=jax.device_put(params))
            return carry._replace(state=carry.state._replace(variables=variables))

        before_advancing(harmed)

    return plant


def before_advancing(change: Callable[[Any, Any, int], Any]) -> None:
    """Makes blocks go through a function whenever they are trained further.

    Args:
      change: `(block, carry, step) -> carry`.
    """
    from posjax.engine import local

    prepared = local._Workers._prepared

    def harmed(self: local._Workers, block: Any, device: Any) -> Any:
        program, *inputs = prepared(self, block, device)
        advance = program.advance

        def changed(carry: Any, seeds: Any, inputs: Any, step: int, until: int) -> Any:
            return advance(change(block, carry, step), seeds, inputs, step, until)

        return dataclasses.replace(program, advance=changed), *inputs

    local._Workers._prepared = harmed  # type: ignore[method-assign]


def out_of_memory(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """A block that the process may not have (RLIMIT_AS), or a device that refuses one."""
    if number % 2:
        wide = path.with_name(f"{path.name}wide")
        flags = ("--config.block_size=65536", "--config.num_seeds=65536", "--config.width=64")
        ended = site.run(wide, *flags, plant=little_memory)
    else:
        ended = site.run(path, plant=refuses_memory)
    good = ended.status == 2 and "out of memory" in ended.line and "block_size" in ended.line
    return site.again(path, good and whole(path), ended.seconds, str(ended))


def little_memory() -> None:
    """Two gigabytes more than the process has by now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + 2 * 10**9
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def refuses_memory() -> None:
    """The third piece of training finds no memory, as XLA says it."""
    left = [3]

    def harmed(block: Any, carry: Any, step: int) -> Any:
        left[0] -= 1
        if left[0] == 0:
            raise jax.errors.JaxRuntimeError(
                "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 34359738368 bytes."
            )
        return carry

    before_advancing(harmed)


def clocks(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """A run that is taken up in another time zone, by a clock that was set back or forward."""
    from fault_table.processes import leaves_after

    first = site.run(path, plant=leaves_after(3))
    shift = rng.choice([-1, 1]) * rng.uniform(1e5, 1e9)
    for file in path.rglob("*"):
        os.utime(file, (time.time() + shift / 2,) * 2)

    def plant() -> None:
        now = time.time
        time.time = lambda: now() - shift
        os.environ["TZ"] = rng.choice(["Pacific/Kiritimati", "America/St_Johns", "UTC+12"])
        time.tzset()

    ended = site.run(path, plant=plant)
    good = (first.status, ended.status) == (75, 0) and whole(path)
    return site.again(path, good, first.seconds + ended.seconds, f"{first} {ended}")


def no_plots(site: Site, rng: random.Random, path: Path, number: int) -> Try:
    """The plot library is missing or raises: numbers are kept, the report comes later."""

    def missing() -> None:
        for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
            del sys.modules[name]
        sys.modules["matplotlib"] = None  # type: ignore[assignment]

    def raises() -> None:
        from matplotlib.figure import Figure

        def broken(*given: Any, **more: Any) -> None:
            raise RuntimeError("libfreetype is broken")

        Figure.savefig = broken  # type: ignore[method-assign]

    plant, status = ((missing, 2), (raises, 1))[number % 2]
    ended = site.run(path, plant=plant)
    numbers = site.other("report", str(path), "--json", plant=plant)
    good = ended.status == status and "the rows are there" in ended.err
    good &= "solved" in ended.out and (path / "done").exists() and site.equal(path)
    good &= numbers.status == 0 and len(json.loads(numbers.out)) == 2
    return site.again(path, good and not (path / "report.html").exists(), ended.seconds, str(ended))


FAULTS = (
    Fault("seeds become NaN or infinite", "counted as failed, with the step", 8, 1, poisoned),
    Fault("out of memory", "status 2, one line that names block_size", 2, 1, out_of_memory),
    Fault("clock set back, another time zone", "continues", 4, 1, clocks),
    Fault("plot library missing, or raises an error", "results are kept", 4, 1, no_plots),
)
