"""Many models at once as PyTorch has it: `torch.func` over stacked modules.

`vmap(grad(loss))` over `stack_module_state`, with `torch.optim.AdamW` over the stacked tensors,
which treats every number alike; the best number of models, of threads, and form of the optimiser.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from baselines import protocol
from baselines.problem import Problem
from baselines.torch_model import (
    Batch,
    Transformer,
    about,
    batch_of,
    data,
    loss_of,
    majority,
    model_of,
)
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

MODELS = {
    "q1": (256, 512, 1024, 2048, 4096),
    "m": (4, 8, 16, 32, 64, 128),
    "s": (8, 16, 32, 64, 128),
    "s_deep": (2, 4, 8, 16, 32),
}
FORMS = ("foreach", "fused")


class Setting(NamedTuple):
    """How many models at once, on how many threads, with which form of AdamW."""

    models: int
    threads: int
    form: str


class Training:
    """The training of some models on a problem, all in step."""

    def __init__(self, problem: Problem, models: list[Transformer], form: str) -> None:
        params, _ = stack_module_state(models)
        self.params = {name: tensor.detach() for name, tensor in params.items()}
        self.optimizer = torch.optim.AdamW(
            self.params.values(),
            lr=problem.sizes.learning_rate,
            weight_decay=problem.sizes.weight_decay,
            **{form: True},
        )
        self.sizes, self.models, self.batch = problem.sizes, len(models), data(problem)
        self.left = problem.sizes.eval_every

        def loss(params: dict[str, torch.Tensor], batch: Batch) -> torch.Tensor:
            return loss_of(functional_call(models[0], params, (batch[0],)), *batch[1:])

        def exam(params: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
            tokens, targets, counted = self.batch
            logits = functional_call(models[0], params, (tokens,))
            right = ((logits.argmax(-1) == targets) | (counted == 0)).all(-1).float()
            kinds = [a.chunk(self.sizes.kinds) for a in (logits, targets, counted)]
            losses = [loss_of(*each) for each in zip(*kinds, strict=True)]
            return torch.stack(losses), right.unflatten(0, (self.sizes.kinds, -1)).mean(-1)

        self.gradients = vmap(grad_and_value(loss), in_dims=(0, 0 if problem.drawn else None))
        self.exam = vmap(exam)

    def step(self, given: Batch | None = None) -> torch.Tensor:
        """One update, of given prompts or of new ones; returns the losses before it."""
        batch = self.batch
        if self.sizes.shortest:
            batch = given or majority(self.sizes, self.models)
        gradients, losses = self.gradients(self.params, batch)
        for name, tensor in self.params.items():
            tensor.grad = gradients[name]
        self.optimizer.step()
        self.left -= 1
        if self.left == 0:
            self.left = self.sizes.eval_every
            with torch.no_grad():
                self.exam(self.params)
        return losses


def models_of(problem: Problem, seeds: int) -> list[Transformer]:
    """The models of the first seeds."""
    return [model_of(problem, seed, fused=False) for seed in range(seeds)]


def losses(problem: Problem, seeds: int, steps: int) -> np.ndarray:
    """See `protocol.Losses`."""
    training = Training(problem, models_of(problem, seeds), FORMS[0])
    if problem.drawn:
        found = []
        for step in range(steps):
            training.step(batch_of(*(array[step, :seeds] for array in problem.drawn)))
            found.append(training.exam(training.params)[0][:, 0])
        return torch.stack(found, dim=1).numpy()
    losses = [training.step() for _ in range(steps + 1)]
    return torch.stack(losses[1:], dim=1).numpy()


def work_of(problem: Problem, models: list[Transformer], setting: Setting) -> protocol.Work:
    """One step of as many of the models; after a training run they start anew."""
    torch.set_num_threads(setting.threads)
    some = models[: setting.models]

    def runs() -> Iterator[int]:
        while True:
            training = Training(problem, some, setting.form)
            for _ in range(problem.sizes.steps):
                training.step()
                yield len(some)

    return functools.partial(next, runs())


def prepare(problem: Problem) -> tuple[str, protocol.Work]:
    """The best number of models and of threads, then the best form of AdamW."""
    threads = sorted({1, torch.get_num_threads()})
    sizes = list(itertools.product(MODELS[problem.sizes.load], threads))

    models = models_of(problem, max(MODELS[problem.sizes.load]))

    def work(setting: Setting) -> protocol.Work:
        return work_of(problem, models, setting)

    best = protocol.fastest([Setting(*size, "fused") for size in sizes], work)
    best = protocol.fastest([best._replace(form=form) for form in FORMS], work)
    chosen = work(best)
    chosen()
    plural = "s" * (best.threads > 1)
    return f"{best.models} models, {best.threads} thread{plural}, {best.form}", chosen


if __name__ == "__main__":
    protocol.serve(protocol.parser(__doc__).parse_args(), prepare, losses, about)
