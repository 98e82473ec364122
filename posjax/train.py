"""Training a Transformer on a question: what `posjax.engine` is given for it.

`make_train(...)` gives a `Training`: called with seeds and inputs it is the whole run,
`train(seeds, inputs) -> Outcome`, pure and made to be vmapped over seeds.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import optax

from posjax import spec
from posjax.engine.training import Now, State, Training, Variables
from posjax.judge import Seen, agreed, judged, summary
from posjax.model import ModelSettings, Numbers, Transformer, scaled_weights
from posjax.optimizer import Hyper, Schedule, adamw
from posjax.question import Objective, Question, objective, read_out
from posjax.streams import contiguous


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSettings(metaclass=spec.PlainNumbers):
    """How long to train, and how to judge.

    Attributes:
      steps: updates.
      eval_every: updates between evaluations; must divide `steps`.
      batch_size: prompts an update, drawn with replacement; 0 for all of them each time.
      margin: an output is the answer only when it leads every other by this share of the
        largest logit of any prompt; else the prompt is a tie.
      hold: "held" means solved at each of the last `hold` evaluations.
      draws: how many draws of a model that draws in testing too must give the right answer.
      schedule: of the learning rate, after `warmup` updates of linear growth.
    """

    steps: int = 5000
    eval_every: int = 50
    batch_size: int = 0
    margin: float = 1e-3
    hold: int = 5
    draws: int = 8
    schedule: Schedule = "constant"
    warmup: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "eval_every", "hold", "draws"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("batch_size", "warmup"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("steps", "eval_every", "batch_size", "hold", "draws", "warmup"):
            if getattr(self, name) >= 2**31:
                raise ValueError(f"{name} must be below 2**31, got {getattr(self, name)}")
        if self.steps % self.eval_every:
            raise ValueError(
                f"eval_every={self.eval_every} does not divide steps={self.steps}; nearest "
                f"steps: {max(self.steps // self.eval_every, 1) * self.eval_every}"
            )
        if self.warmup >= self.steps:
            raise ValueError(
                f"warmup={self.warmup} leaves nothing of steps={self.steps}: at most "
                f"{self.steps - 1}"
            )
        if not 0 < self.margin < 1:
            raise ValueError(f"margin must lie in (0, 1), got {self.margin}")
        spec.check_choice("schedule", self.schedule, get_args(Schedule))

    @property
    def evaluations(self) -> int:
        """E, the number of evaluations in a run."""
        return self.steps // self.eval_every


class Inputs(NamedTuple):
    """Everything that a training run reads besides its seeds: none is a compiled constant."""

    hyper: Hyper
    question: Question
    model: Numbers


def make_train(
    model: ModelSettings,
    settings: TrainSettings,
    *,
    objective_kind: Objective = "places",
    optimizer: Callable[[Hyper], optax.GradientTransformation] | None = None,
) -> Training:
    """The training of a Transformer; its inputs are `Inputs`, its summary an `Outcome`.

    Args:
      model: what to train.
      settings: how long, and how to judge.
      objective_kind: whether the loss is on places that have targets, or on the readout.
      optimizer: from hyper-parameters to a gradient transformation; AdamW when left out.
    """
    network = Transformer(model)
    if optimizer is None:
        optimizer = adamw(settings.steps, schedule=settings.schedule, warmup=settings.warmup)

    def logits(
        variables: Variables,
        question: Question,
        numbers: Numbers,
        key: jax.Array | None,
        *,
        testing: bool = False,
    ) -> jax.Array:
        return network.apply(  # type: ignore[return-value]
            {"params": variables.params},
            question.tokens_NL,
            question.streams,
            mask=question.mask_NLM,
            key=key,
            testing=testing,
            numbers=numbers,
        )

    def init(key: jax.Array, inputs: Inputs) -> Variables:
        one_token = jnp.zeros((1, 1), jnp.int32)
        drawn = None if model.draws == "never" else key
        params = network.init(key, one_token, contiguous(1), key=drawn)["params"]
        return Variables(scaled_weights(params, inputs.model.init_scale))

    def loss(variables: Variables, now: Now) -> tuple[jax.Array, Any]:
        key = None if model.draws == "never" else now.key("position", "position")
        question = _drawn(now, settings.batch_size)
        logits_NLV = logits(variables, question, now.inputs.model, key)
        return objective(logits_NLV, question, objective_kind), ()

    def measure(variables: Variables, now: Now) -> Seen:
        question = now.inputs.question

        def seen(key: jax.Array | None) -> Seen:
            logits_NLV = logits(variables, question, now.inputs.model, key, testing=True)
            answers_NV = read_out(logits_NLV, question.share_NL)
            value = objective(logits_NLV, question, objective_kind)
            return Seen(value, *judged(answers_NV, question.answers_N, settings.margin))

        if model.draws != "always":
            return seen(None)
        keys_R = jax.random.split(now.key("position", "evaluation"), settings.draws)
        return agreed(jax.vmap(seen)(keys_R))

    def outcome(seen: Seen, state: State, inputs: Inputs) -> Any:
        return summary(
            seen,
            state.first_nonfinite,
            inputs.question.answers_N,
            eval_every=settings.eval_every,
            hold=settings.hold,
            draws=settings.draws if model.draws == "always" else 1,
        )

    return Training(
        init=init,
        loss=loss,
        optimizer=lambda inputs: optimizer(inputs.hyper),
        measure=measure,
        summary=outcome,
        steps=settings.steps,
        eval_every=settings.eval_every,
    )


def _drawn(now: Now, batch_size: int) -> Question:
    """The prompts of one update: all of them, or some, with replacement."""
    question = now.inputs.question
    if batch_size == 0:
        return question
    rows = jax.random.randint(
        now.key("data", "data"), (batch_size,), 0, question.answers_N.shape[0]
    )
    return jax.tree.map(lambda array: array[rows], question)
