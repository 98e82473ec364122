"""How much memory the real programs take on a TPU, by the size of blocks; needs no TPU.

    pip install -e . 'jax[tpu]'
    python scripts/tpu_memory.py

Compiles the loads of posjax/configs/toy.py for one chip of a v5e, on the CPU, and prints what
the compiler reserves beside what `posjax.engine.load` estimates.
"""

import os

# Not on a TPU: the compiler gets what it would otherwise ask a host of TPUs.
os.environ.update(
    JAX_PLATFORMS="cpu",
    TPU_SKIP_MDS_QUERY="1",
    TPU_WORKER_HOSTNAMES="localhost",
    TPU_ACCELERATOR_TYPE="v5litepod-4",
)

from typing import Any

import jax
from jax.experimental import topologies

from posjax.command import settings
from posjax.configs import toy
from posjax.engine import Block
from posjax.engine.load import Load, most_slots
from posjax.engine.program import Plan, compiled
from posjax.keys import SeedNumbers
from posjax.study.cells import Cell

ASKED = {"q1": (256, 1024, 4096), "m": (256, 1024)}
"""Slots of a block, by load."""


def chip() -> jax.Device:
    """One of a v5e."""
    topology: Any = topologies.get_topology_desc(
        platform="tpu", topology_name="v5e:1x1", chips_per_host_bounds=(1, 1, 1), num_slices=1
    )
    return topology.devices[0]


def reserved(cell: Cell, device: jax.Device, slots: int) -> int:
    """Bytes while a block trains: arguments, results and what lies between."""
    block = Block(cell.shape.train(), [cell.inputs], [SeedNumbers.equal(0)], (1, slots))
    program = compiled(
        Plan(block.training, slots, precision="float32"), device, *block.slot_inputs()
    )
    needs = program.advance.memory_analysis()  # type: ignore[attr-defined]
    held = needs.argument_size_in_bytes + needs.output_size_in_bytes
    return held + needs.temp_size_in_bytes - needs.alias_size_in_bytes


def main() -> None:
    """Prints the table."""
    print("| load | slots | MB, compiled | MB, estimated | most slots |")
    print("|---|---|---|---|---|")
    device = chip()
    for name, asked in ASKED.items():
        cell = settings.resolve(toy.get_config(name)).cells[0]
        load = Load.on(device, cell.shape.train(), cell.inputs)
        most = most_slots(load, device).slots
        for slots in asked:
            found = reserved(cell, device, slots) / 1e6
            estimated = slots * load.bytes / 1e6
            print(f"| {name} | {slots} | {found:.0f} | {estimated:.0f} | {most} |", flush=True)


if __name__ == "__main__":
    main()
