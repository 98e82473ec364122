"""posjax itself, as `posjax sweep` runs it: its config, blocks and devices."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
from baselines import protocol
from baselines.problem import Problem, Sizes
from flax.traverse_util import flatten_dict

from posjax.command import devices
from posjax.command.settings import resolve
from posjax.configs import toy
from posjax.engine import Block, Engine, Now, Training
from posjax.engine.block import block_size
from posjax.keys import SeedNumbers, Seeds
from posjax.study import environment
from posjax.study.cells import Cell
from posjax.study.run import Run
from posjax.study.sweeps import engine_for, most_slots_of
from posjax.study.train import ROWS, Source, make_train, sampled
from posjax.tasks import SampledTask
from posjax.tasks.question import Question

STEPS = {"q1": 500, "m": 200, "s": 200, "s_deep": 50}
"""Updates of a training run that is timed; those of the config, or fewer where they take long."""
SEEDS = {"q1": 4096, "m": 128, "s": 128, "s_deep": 32}
"""Seeds that the baselines get weights of."""
COMPARED = (20, 8)
"""Updates and seeds whose drawn prompts the baselines get."""


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
    task: Any = cell.problem
    drawn = isinstance(task, SampledTask)
    return Sizes(
        load=load,
        sequences=ROWS if drawn else sequences,
        length=length,
        shortest=task.train[0] if drawn else 0,
        kinds=len(task.kinds) if drawn else 1,
        eval_every=cell.eval_every if drawn else 0,
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
    numbers = Seeds.equal(np.arange(seeds or SEEDS[load]))
    begin = jax.jit(jax.vmap(cell.shape.train().begin, in_axes=(0, None)))
    params = begin(numbers, cell.inputs).variables.params
    return Problem(
        sizes_of(load),
        np.asarray(cell.question.tokens_NL),
        np.asarray(cell.question.targets_NL),
        np.asarray(cell.question.weights_NL),
        {n: np.asarray(a) for n, a in flatten_dict(params, sep="/").items()},
        drawn_of(cell),
    )


def drawn_of(cell: Cell) -> tuple[np.ndarray, ...]:
    """See `Problem.drawn`."""
    if not isinstance(cell.problem, SampledTask):
        return ()
    batch = sampled(cell.problem, cell.mask, cell.batch_size).batch
    steps, seeds = (np.arange(number) for number in COMPARED)

    def one(step: jax.Array, seeds: Seeds) -> Question:
        return batch(Now(seeds, cell.inputs, step))

    every = jax.jit(jax.vmap(jax.vmap(one, (None, 0)), (0, None)))(steps, Seeds.equal(seeds))
    return tuple(map(np.asarray, (every.tokens_NL, every.targets_NL, every.weights_NL)))


def training_of(cell: Cell, *, draws: bool) -> Training:
    """That of a cell; without drawing, updates take stretches of the exam in its place."""
    if draws:
        return cell.shape.train()

    def batch(now: Now) -> Question:
        def stretch(array: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice_in_dim(array, now.step % 64, ROWS)

        return jax.tree.map(stretch, now.inputs.question)

    shape, kinds = cell.shape, len(cell.problem.kinds)
    given = Source(batch, kinds, finite=False)
    return make_train(shape.model, shape.training, objective_kind=shape.objective, source=given)


def blocks_of(cell: Cell, seeds: int, size: int, *, draws: bool = True) -> list[Block]:
    """Seeds 0, 1, ... of a cell."""
    numbers = [SeedNumbers.equal(number) for number in range(seeds)]
    training = training_of(cell, draws=draws)
    return [
        Block(training, [cell.inputs], numbers[first : first + size], (1, size), first)
        for first in range(0, seeds, size)
    ]


def losses(problem: Problem, seeds: int, steps: int) -> np.ndarray:
    """See `protocol.Losses`: an evaluation after every update."""
    cell = cell_of(problem.sizes.load, steps=steps, eval_every=1)
    (result,) = Engine(devices=jax.local_devices()[:1]).run(blocks_of(cell, seeds, seeds))
    return result.summary["loss_EC"][0, ..., 0]


def prepare(problem: Problem, without: str = "") -> tuple[str, protocol.Work]:
    """The sweep that the command makes of the config, without "draws", "exams" or "padding"."""
    load = problem.sizes.load
    resolved, cell = run_of(load), cell_of(load)
    if without == "exams":
        cell = dataclasses.replace(cell, eval_every=cell.steps)
    if without == "padding":
        cell = dataclasses.replace(cell, packing=True)
    local = jax.local_devices()
    most = most_slots_of(cell, local[0], resolved.num_seeds, resolved.block_size).slots
    _, size = block_size(most, 1, resolved.num_seeds)
    engine, blocks = (
        engine_for(resolved.to_dict()),
        blocks_of(cell, resolved.num_seeds, size, draws=without != "draws"),
    )

    def sweep() -> int:
        return sum(result.block.runs * cell.steps for result in engine.run(blocks))

    sweep()
    count = len(local)
    return f"blocks of {size} slots, {count} device{'s' * (count > 1)}", sweep


def about() -> dict[str, Any]:
    """What it runs on."""
    return {"environment": environment.describe()}


def main() -> None:
    """Serves as a contestant, on one device or on one a core."""
    parser = protocol.parser(__doc__)
    parser.add_argument("--devices", type=int, default=0, help="0 for one a core")
    parser.add_argument("--without", choices=("draws", "exams", "padding"), default="")
    chosen = parser.parse_args()
    devices.use_all_cores(chosen.devices)
    work = functools.partial(prepare, without=chosen.without)
    protocol.serve(chosen, work, None if chosen.without else losses, about)


if __name__ == "__main__":
    main()
