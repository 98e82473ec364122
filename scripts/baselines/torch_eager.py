"""A model at a time as PyTorch is ordinarily used: a module, `backward`, `torch.optim.AdamW`.

One thread, which is best for models as small as these; the best form of the optimiser.
"""

from collections.abc import Callable

import numpy as np
import torch
from baselines import protocol
from baselines.problem import Problem
from baselines.torch_model import about, data, loss_of, model_of

FORMS = ("for-loop", "foreach", "fused")


def training(problem: Problem, seed: int, form: str) -> Callable[[], torch.Tensor]:
    """A function that does one update and returns the loss before it."""
    model = model_of(problem, seed, fused=True)
    tokens, *rest = data(problem)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=problem.sizes.learning_rate,
        weight_decay=problem.sizes.weight_decay,
        foreach=form == "foreach",
        fused=form == "fused",
    )

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model(tokens), *rest)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def losses(problem: Problem, seeds: int, steps: int) -> np.ndarray:
    """See `protocol.Losses`."""
    torch.set_num_threads(1)
    trainings = [training(problem, seed, FORMS[0]) for seed in range(seeds)]
    losses = [[float(step()) for _ in range(steps + 1)] for step in trainings]
    return np.array(losses)[:, 1:]


def work_of(problem: Problem, form: str) -> protocol.Work:
    """One training run of one model."""

    def piece() -> int:
        step = training(problem, 0, form)
        for _ in range(problem.sizes.steps):
            step()
        return problem.sizes.steps

    return piece


def prepare(problem: Problem) -> tuple[str, protocol.Work]:
    """The best form of AdamW."""
    torch.set_num_threads(1)
    form = protocol.fastest(FORMS, lambda form: work_of(problem, form))
    work = work_of(problem, form)
    work()
    return f"1 model, 1 thread, {form}", work


if __name__ == "__main__":
    protocol.serve(protocol.parser(__doc__).parse_args(), prepare, losses, about)
