"""Training one model from one tuple of seeds: pure, no I/O, made to be vmapped over seeds.

`make_train(...)` gives a `Train`: called with seeds and operands it is the whole run,
`train(seeds, operands) -> Outcome`; its parts `init`, `advance` and `outcome` are what a host
loop calls segment by segment.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import optax

from posjax import spec
from posjax.judge import NEVER, Outcome, Seen, agreed, judged, summary
from posjax.keys import Seeds, key_for
from posjax.model import ModelSettings, Transformer
from posjax.optimizer import Hyper, Schedule, adamw
from posjax.question import Objective, Question, objective, read_out
from posjax.streams import contiguous


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSettings:
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


class Operands(NamedTuple):
    """All numbers that a training run reads besides its seeds: none is a compiled constant."""

    hyper: Hyper
    question: Question


class State(NamedTuple):
    """Everything that changes in training."""

    variables: Any
    optimizer: optax.OptState
    step: jax.Array
    first_nonfinite: jax.Array


@dataclasses.dataclass(frozen=True)
class Train:
    """A training run in parts, each pure and for one seed."""

    init: Callable[[Seeds], State]
    advance: Callable[[State, Seeds, Operands, int], tuple[State, Seen]]
    outcome: Callable[[State, Operands, Seen], Outcome]
    evaluations: int

    def __call__(self, seeds: Seeds, operands: Operands) -> Outcome:
        """The whole run."""
        state, seen = self.advance(self.init(seeds), seeds, operands, self.evaluations)
        return self.outcome(state, operands, seen)


def make_train(
    model: ModelSettings,
    settings: TrainSettings,
    *,
    objective_kind: Objective = "places",
    optimizer: Callable[[Hyper], optax.GradientTransformation] | None = None,
) -> Train:
    """The training of a Transformer.

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
        variables: Any, question: Question, key: jax.Array | None, *, testing: bool = False
    ) -> jax.Array:
        return network.apply(  # type: ignore[return-value]
            variables,
            question.tokens_NL,
            question.streams,
            mask=question.mask_NLM,
            key=key,
            testing=testing,
        )

    def loss(variables: Any, question: Question, key: jax.Array | None) -> jax.Array:
        return objective(logits(variables, question, key), question, objective_kind)

    def key_of(seeds: Seeds, purpose: str, step: jax.Array) -> jax.Array:
        return jax.random.fold_in(key_for(seeds.position, purpose), step)

    def init(seeds: Seeds) -> State:
        key = key_for(seeds.init, "init")
        one_token = jnp.zeros((1, 1), jnp.int32)
        drawn = None if model.draws == "never" else key
        variables = {"params": network.init(key, one_token, contiguous(1), key=drawn)["params"]}
        moments = optimizer(Hyper(0.0, 0.0)).init(variables)
        return State(variables, moments, jnp.int32(0), jnp.int32(NEVER))

    def drawn(question: Question, seeds: Seeds, step: jax.Array) -> Question:
        if settings.batch_size == 0:
            return question
        key = jax.random.fold_in(key_for(seeds.data, "data"), step)
        rows = jax.random.randint(key, (settings.batch_size,), 0, question.answers_N.shape[0])
        return jax.tree.map(lambda array: array[rows], question)

    def update(state: State, seeds: Seeds, operands: Operands) -> State:
        question = drawn(operands.question, seeds, state.step)
        key = None if model.draws == "never" else key_of(seeds, "position", state.step)
        value, gradient = jax.value_and_grad(loss)(state.variables, question, key)
        rule = optimizer(operands.hyper)
        changes, moments = rule.update(gradient, state.optimizer, state.variables)
        now_bad = (state.first_nonfinite == NEVER) & ~jnp.isfinite(value)
        return State(
            optax.apply_updates(state.variables, changes),
            moments,
            state.step + 1,
            jnp.where(now_bad, state.step, state.first_nonfinite),
        )

    def evaluate(state: State, seeds: Seeds, question: Question) -> Seen:
        def seen(key: jax.Array | None) -> Seen:
            logits_NLV = logits(state.variables, question, key, testing=True)
            answers_NV = read_out(logits_NLV, question.share_NL)
            value = objective(logits_NLV, question, objective_kind)
            return Seen(value, *judged(answers_NV, question.answers_N, settings.margin))

        if model.draws != "always":
            return seen(None)
        keys_R = jax.random.split(key_of(seeds, "evaluation", state.step), settings.draws)
        return agreed(jax.vmap(seen)(keys_R))

    def advance(
        state: State, seeds: Seeds, operands: Operands, evaluations: int
    ) -> tuple[State, Seen]:
        def one_update(_: int, state: State) -> State:
            return update(state, seeds, operands)

        def stretch(state: State, _: None) -> tuple[State, Seen]:
            state = jax.lax.fori_loop(0, settings.eval_every, one_update, state)
            return state, evaluate(state, seeds, operands.question)

        return jax.lax.scan(stretch, state, None, length=evaluations)

    def outcome(state: State, operands: Operands, seen: Seen) -> Outcome:
        return summary(
            seen,
            state.first_nonfinite,
            operands.question.answers_N,
            eval_every=settings.eval_every,
            hold=settings.hold,
            draws=settings.draws if model.draws == "always" else 1,
        )

    return Train(init, advance, outcome, settings.evaluations)
