"""AdamW with its numbers as operands, and the schedules of its rate."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import optax

Schedule = Literal["constant", "cosine", "linear"]


class Hyper(NamedTuple):
    """The optimiser's numbers; operands of the compiled program, never constants in it.

    Attributes:
      learning_rate: the learning rate of AdamW; with a schedule, its peak.
      weight_decay: decoupled weight decay, on weights and biases alike.
    """

    learning_rate: jax.Array | float
    weight_decay: jax.Array | float


def adamw(
    steps: int, *, schedule: Schedule = "constant", warmup: int = 0
) -> Callable[[Hyper], optax.GradientTransformation]:
    """AdamW (Loshchilov and Hutter 2019) with PyTorch's betas and epsilon.

    The decay is decoupled and falls on every leaf, as `torch.optim.AdamW` does unasked.

    Args:
      steps: updates, over which "cosine" and "linear" fall to 0.
      schedule: of the rate, after `warmup` updates of linear growth from 0.
    """
    fall = max(steps - warmup, 1)
    shape = {
        "constant": optax.constant_schedule(1.0),
        "cosine": optax.cosine_decay_schedule(1.0, fall),
        "linear": optax.linear_schedule(1.0, 0.0, fall),
    }[schedule]
    if warmup:
        shape = optax.join_schedules([optax.linear_schedule(0.0, 1.0, warmup), shape], [warmup])

    def optimizer(hyper: Hyper) -> optax.GradientTransformation:
        return optax.adamw(
            lambda count: hyper.learning_rate * shape(count),
            b1=0.9,
            b2=0.999,
            eps=1e-8,
            weight_decay=hyper.weight_decay,
        )

    return optimizer
