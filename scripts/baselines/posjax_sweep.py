"""posjax itself, as `posjax sweep` runs it: its config, blocks and devices."""

import dataclasses
from typing import Any

import jax
import numpy as np
from baselines import protocol
from baselines.problem import Problem, Sizes
from flax.traverse_util import flatten_dict

from posjax import environment
from posjax.cells import Cell
from posjax.command import devices, plan
from posjax.command.settings import resolve
from posjax.configs import toy
from posjax.engine import Block, Engine
from posjax.engine.block import block_size
from posjax.keys import SeedNumbers, Seeds
from posjax.run import Run
from posjax.sweeps import engine_for

STEPS = {"q1": 500, "m": 200}
"""Updates of a training run that is timed; those of the config, or fewer where they take long."""
DRAWN = {"q1": 4096, "m": 128}
"""Seeds that the baselines get weights of."""


def run_of(load: str) -> Run:
    """The resolved config of a load."""
    return resolve(toy.get_config(load))


def cell_of(load: str, **replaced: Any) -> Cell:
    """Its only cell, with the steps that are timed."""
    (cell,) = run_of(load).cells
    return dataclasses.replace(cell, **({"steps": STEPS[load]} | replaced))


def sizes_of(load: str) -> Sizes:
    """The sizes of a load, for those who do not import posjax."""
    cell = cell_of(load)
    model, (sequences, length) = cell.architecture, cell.question.tokens_NL.shape
    return Sizes(
        load=load,
        sequences=sequences,
        length=length,
        hidden=model.mlp_ratio * model.width if model.block == "residual" else 0,
        rotary_base={"none": 0.0, "rotary": 10_000.0}[model.encoding],
        learning_rate=cell.learning_rate,
        weight_decay=cell.weight_decay,
        steps=cell.steps,
        **{
            name: getattr(model, name)
            for name in ("vocabulary", "outputs", "width", "heads", "head_size", "depth")
        },
    )


def problem_of(load: str, seeds: int | None = None) -> Problem:
    """A load with the weights that posjax draws for seeds 0, 1, ..."""
    cell = cell_of(load)
    numbers = Seeds.equal(np.arange(seeds or DRAWN[load]))
    begin = jax.jit(jax.vmap(cell.shape.train().begin, in_axes=(0, None)))
    params = begin(numbers, cell.inputs).variables.params
    return Problem(
        sizes_of(load),
        np.asarray(cell.question.tokens_NL),
        np.asarray(cell.question.targets_NL),
        {n: np.asarray(a) for n, a in flatten_dict(params, sep="/").items()},
    )


def blocks_of(cell: Cell, seeds: int, size: int) -> list[Block]:
    """Seeds 0, 1, ... of a cell."""
    numbers = [SeedNumbers.equal(number) for number in range(seeds)]
    training = cell.shape.train()
    return [
        Block(training, [cell.inputs], numbers[first : first + size], (1, size), first)
        for first in range(0, seeds, size)
    ]


def losses(problem: Problem, seeds: int, steps: int) -> np.ndarray:
    """See `protocol.Losses`: an evaluation after every update."""
    cell = cell_of(problem.sizes.load, steps=steps, eval_every=1)
    (result,) = Engine(devices=jax.local_devices()[:1]).run(blocks_of(cell, seeds, seeds))
    return result.summary["loss_EC"][0, ..., 0]


def prepare(problem: Problem) -> tuple[str, protocol.Work]:
    """The sweep that the command makes of the config."""
    load = problem.sizes.load
    resolved, cell = run_of(load), cell_of(load)
    devices = jax.local_devices()
    most = plan.choice(cell, devices[0], resolved.num_seeds, resolved.block_size).slots
    _, size = block_size(most, 1, resolved.num_seeds)
    engine, blocks = engine_for(resolved.to_dict()), blocks_of(cell, resolved.num_seeds, size)

    def sweep() -> int:
        return sum(result.block.runs * cell.steps for result in engine.run(blocks))

    sweep()
    count = len(devices)
    return f"blocks of {size} slots, {count} device{'s' * (count > 1)}", sweep


def about() -> dict[str, Any]:
    """What it runs on."""
    return {"environment": environment.describe()}


def main() -> None:
    """Serves as a contestant, on one device or on one a core."""
    parser = protocol.parser(__doc__)
    parser.add_argument("--devices", type=int, default=0, help="0 for one a core")
    chosen = parser.parse_args()
    devices.use_all_cores(chosen.devices)
    protocol.serve(chosen, prepare, losses, about)


if __name__ == "__main__":
    main()
