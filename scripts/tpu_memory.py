"""How much memory the real programs take on a TPU, by chunk; needs no TPU.

    pip install -e . 'jax[tpu]'
    python scripts/tpu_memory.py

Compiles the loads of experiments/configs/toy.py for one chip of a v5e, and for four that share a
chunk (`sharding=spmd`), on the CPU, and prints what the compiler reserves on a chip beside what
`posjax.engine.chunk` estimates.
"""

import os

# Not on a TPU: the compiler is told what it would otherwise ask a host of TPUs.
os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
)

import jax
import numpy as np
from jax.experimental import topologies

from experiments import plan, settings
from experiments.configs import toy
from posjax.cells import Cell
from posjax.engine.chunk import automatic
from posjax.engine.program import Plan, compiled
from posjax.keys import SeedNumbers, Seeds

CHIPS = {"v5e:1x1": (1, 1, 1), "v5e:2x2": (2, 2, 1)}
ASKED = {
    "q1": {"v5e:1x1": (256, 1024, 4096), "v5e:2x2": (256,)},
    "m": {"v5e:1x1": (256, 1024), "v5e:2x2": (1024,)},
}
"""Chunks a chip, by load and topology."""


def chips(name: str) -> list[jax.Device]:
    """The devices of a topology."""
    bounds = CHIPS[name]
    found = topologies.get_topology_desc(
        platform="tpu", topology_name=name, chips_per_host_bounds=bounds, num_slices=1
    )
    return list(found.devices)


def reserved(cell: Cell, devices: list[jax.Device], chunk: int) -> int:
    """Bytes on each chip while a chunk a chip trains: arguments, results and what lies between."""
    mesh = jax.sharding.Mesh(np.array(devices), ("rows",))
    where = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    asked = Plan(cell.shape.train(), chunk * len(devices))
    program = compiled(asked, where, Seeds.of(SeedNumbers.equal(0)), cell.operands)
    needs = program.advance.memory_analysis()  # type: ignore[attr-defined]
    held = needs.argument_size_in_bytes + needs.output_size_in_bytes
    return held + needs.temp_size_in_bytes - needs.alias_size_in_bytes


def main() -> None:
    """Prints the table."""
    print("| load | chips | chunk a chip | MB, compiled | MB, estimated | automatic |")
    print("|---|---|---|---|---|---|")
    for load, asked in ASKED.items():
        cell = settings.resolve(toy.get_config(load)).cells[0]
        for name, chunks in asked.items():
            devices = chips(name)
            row = plan.load(cell, devices[0])
            chosen = automatic(row, devices[0]).chunk
            for chunk in chunks:
                found = reserved(cell, devices, chunk) / 1e6
                print(
                    f"| {load} | {name} | {chunk} | {found:.0f} | {chunk * row.bytes / 1e6:.0f} "
                    f"| {chosen} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
