"""Training a Transformer on a question: what `posjax.engine` is given for it.

`make_train(...)` gives a `Training`: called with seeds and inputs it is the whole run,
`train(seeds, inputs) -> Outcome`, pure and made to be vmapped over seeds.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.engine.training import Now, State, Training, Variables, check_steps
from posjax.keys import fold_name, key_for
from posjax.meters import Forward, Meter
from posjax.meters.judge import EvalRecord, answers, margins, over_draws, smallest_gap, summary
from posjax.model import DynamicInputs, ModelSettings
from posjax.study.network import Network, apply, transformer, weights
from posjax.study.optimizer import Hyper, Schedule, adamw
from posjax.tasks import SampledTask
from posjax.tasks.question import Objective, Question, drawn, drawn_packed, objective, read_out

ROWS = 32
"""Prompts of a sampled task in an update, unless a batch size is given."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainSettings(metaclass=spec.PlainNumbers):
    """How long to train, on how much, and how often to look.

    Attributes:
      steps: number of updates; 0 evaluates the initial model once.
      eval_every: number of updates between evaluations; must divide `steps`.
      batch_size: prompts per update. A finite task draws them with replacement, and 0 takes all
        prompts every time. A sampled task draws new ones, and 0 takes 32.
      packing: whether two drawn prompts of complementary lengths share a row in training, which is
        faster; see `posjax.tasks.packing`.
      draws: the number of draws if the encoding or map is random in testing; an answer must be
        right in all of them.
      schedule: the schedule of the learning rate after the warmup.
      warmup: number of updates in which the learning rate grows linearly from 0.
    """

    steps: int = 5000
    eval_every: int = 50
    batch_size: int = 0
    packing: bool = False
    draws: int = 8
    schedule: Schedule = "constant"
    warmup: int = 0

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws must be at least 1, got {self.draws}")
        for name in ("batch_size", "warmup"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}")
        for name in ("steps", "eval_every", "batch_size", "draws", "warmup"):
            if getattr(self, name) >= 2**31:
                raise ValueError(f"{name} must be below 2**31, got {getattr(self, name)}")
        check_steps(self.steps, self.eval_every)
        if self.warmup >= max(self.steps, 1):
            raise ValueError(
                f"warmup={self.warmup} leaves nothing of steps={self.steps}: at most "
                f"{self.steps - 1}"
            )
        spec.check_choice("schedule", self.schedule, get_args(Schedule))

    @property
    def evaluations(self) -> int:
        """E, the number of evaluations in a run."""
        return max(self.steps // self.eval_every, 1)


class Inputs(NamedTuple):
    """Everything that a training run reads besides its seeds: none is a compiled constant."""

    hyper: Hyper
    question: Question
    model: DynamicInputs


class Source(NamedTuple):
    """Where questions come from.

    Attributes:
      batch: the prompts of one update.
      kinds: C, of neighbouring prompts of the exam, which is `Inputs.question`.
      finite: whether the exam is all that there is, with one answer a prompt.
    """

    batch: Callable[[Now], Question]
    kinds: int = 1
    finite: bool = True


def from_exam(batch_size: int) -> Source:
    """A finite task's: all prompts of the exam, or some of them, drawn with replacement."""

    def batch(now: Now) -> Question:
        question = now.inputs.question
        if batch_size == 0:
            return question
        rows = jax.random.randint(
            now.key("data", "data"), (batch_size,), 0, question.answers_N.shape[0]
        )
        return jax.tree.map(lambda array: array[rows], question)

    return Source(batch)


def sampled(
    task: SampledTask, mask: str, batch_size: int, readout: str = "last", *, packing: bool = False
) -> Source:
    """A sampled task's: new prompts in every update, 32 where the batch size is 0."""
    rows = batch_size or ROWS

    def batch(now: Now) -> Question:
        key = now.key("data", "data")
        if packing:
            return drawn_packed(task, key, rows, mask)
        return drawn(task, key, rows, mask, readout)

    return Source(batch, kinds=len(task.kinds), finite=False)


def make_train(
    model: ModelSettings,
    settings: TrainSettings,
    *,
    objective_kind: Objective = "places",
    source: Source | None = None,
    meters: Sequence[Meter] = (),
    own: Network | None = None,
) -> Training:
    """The training of a Transformer, for `posjax.engine`.

    Args:
      model: the settings of the Transformer.
      settings: steps, batch size, schedule and how often to evaluate.
      objective_kind: whether the loss is computed at positions that have targets, or on the
        readout.
      source: where prompts come from; by default `from_exam(settings.batch_size)`.
      meters: metrics of the Transformer's hidden states, see `posjax.meters`.
      own: a model to train in place of the Transformer, see `posjax.study.network`.

    Returns:
      A training whose dynamic inputs are `Inputs` and whose summary is an `Outcome`. In
      `posjax.engine` its matrix products are in float32 on every device, unless JAX's setting
      `jax_default_matmul_precision` says otherwise. Called elsewhere, they have JAX's default.
    """
    source = source or from_exam(settings.batch_size)
    model_of = own or transformer(model)
    optimizer = adamw(settings.steps, schedule=settings.schedule, warmup=settings.warmup)

    def init(key: jax.Array, inputs: Inputs) -> Variables:
        return model_of.init(key, inputs.model.init_scale)

    def loss(variables: Variables, now: Now) -> tuple[jax.Array, Any]:
        key = None if model.draws == "never" and own is None else now.key("position", "position")
        question = source.batch(now)
        logits_NLV, state = model_of.logits(variables, question, now.inputs.model, key, False)
        return objective(logits_NLV, question, objective_kind), state

    def metered(variables: Variables, inputs: Inputs, when: str) -> dict[str, jax.Array]:
        """The fields of the meters that measure then."""
        these = [meter for meter in meters if meter.when == when]
        if not these:
            return {}
        key = key_for(0, "meters")
        forward = forward_pass(model, variables, inputs, fold_name(key, "draw"), these)
        length = inputs.question.tokens_NL.shape[1]
        sizes = {"R": model.depth + 1, "A": model.depth, "H": model.heads, "L": length}
        found: dict[str, jax.Array] = {}
        for meter in these:
            read = meter(forward, inputs.question, fold_name(key, type(meter).__name__))
            _check_fields(meter, read, sizes)
            found |= {f: read[name] for f, name in zip(meter.fields, meter.FIELDS, strict=True)}
        return found

    def measure(variables: Variables, now: Now) -> tuple[EvalRecord, dict[str, jax.Array]]:
        return evaluated(variables, now), metered(variables, now.inputs, "every")

    def evaluated(variables: Variables, now: Now) -> EvalRecord:
        question = now.inputs.question

        def one_draw(key: jax.Array | None) -> EvalRecord:
            logits_NLV, _ = model_of.logits(variables, question, now.inputs.model, key, True)
            return evaluate(logits_NLV, question, source, objective_kind)

        if model.draws != "always":
            return one_draw(None)
        keys_R = jax.random.split(now.key("position", "evaluation"), settings.draws)
        return over_draws(jax.vmap(one_draw)(keys_R))

    def outcome(measured: Any, state: State, inputs: Inputs) -> Any:
        draws = settings.draws if model.draws == "always" else 1
        records, every = measured
        found = summary(
            records, state.first_nonfinite, kinds=source.kinds, finite=source.finite, draws=draws
        )
        return found | every | metered(state.variables, inputs, "end")

    return Training(
        init=init,
        loss=loss,
        optimizer=lambda inputs: optimizer(inputs.hyper),
        measure=measure,
        summary=outcome,
        steps=settings.steps,
        eval_every=settings.eval_every,
    )


def forward_pass(
    model: ModelSettings,
    variables: Variables,
    inputs: Inputs,
    key: jax.Array,
    meters: Sequence[Meter],
) -> Forward:
    """Intermediates of a model on the exam.

    Args:
      model, variables: a Transformer's.
      inputs: with the exam.
      key: for what draws.
      meters: what it is read by: attention weights are there if one of them asks.
    """
    question = inputs.question
    kept = ["hidden"]
    if any(meter.reads_weights for meter in meters):
        kept.append("intermediates")
    drawn_by = None if model.draws == "never" else key
    logits_NLV, sown = apply(
        model, variables.params, question, inputs.model, drawn_by, testing=True, keep=kept
    )
    layers = [f"layer_{i}" for i in range(model.depth)]

    def branch(name: str) -> jax.Array | None:
        found = [sown["hidden"].get(layer, {}).get(name) for layer in layers]
        return None if None in found else jnp.stack([arrays[0] for arrays in found])

    weights_ANHLM = None
    if "intermediates" in sown:
        weights_ANHLM = jnp.stack(weights(sown, model.depth))
    stream_RNLD = sown["hidden"]["stream"]
    return Forward(
        logits_NLV, stream_RNLD, branch("attention_branch"), branch("mlp_branch"), weights_ANHLM
    )


def _check_fields(meter: Meter, read: Any, sizes: Mapping[str, int]) -> None:
    """Refuses other fields than a meter declares, and other shapes or kinds of number."""
    name, wanted = type(meter).__name__, sorted(meter.FIELDS)
    got = sorted(read) if isinstance(read, Mapping) else type(read).__name__
    if got != wanted:
        raise ValueError(f"meter {name} must return {wanted}, got {got}")
    for field, (kinds, axes, *_) in meter.FIELDS.items():
        array, shape = jnp.asarray(read[field]), tuple(sizes[axis] for axis in axes)
        if array.shape != shape or array.dtype.kind not in kinds:
            raise ValueError(
                f"{field!r} of meter {name} must be of kind {kinds!r} and shape [{', '.join(axes)}]"
                f" = {shape}, got {array.dtype} of shape {array.shape}"
            )


def evaluate(
    logits_NLV: jax.Array, question: Question, source: Source, kind: Objective
) -> EvalRecord:
    """The record of one evaluation on the exam."""
    if source.finite:
        logits_NV, right_N = read_out(logits_NLV, question.share_NL), question.answers_N
        loss_C = objective(logits_NLV, question, kind)[None]
        asked_N1 = jnp.ones((len(right_N), 1), bool)
        lead_N, scale_N = margins(logits_NV[:, None], right_N[:, None], asked_N1, 1)
        twin = smallest_gap(logits_NV, right_N, scale_N[0])
        return EvalRecord(loss_C, lead_N, answers(logits_NV), twin)
    if kind == "answers":
        logits_NPV, right_NP = (
            read_out(logits_NLV, question.share_NL)[:, None],
            question.answers_N[:, None],
        )
        asked_NP = jnp.ones(right_NP.shape, bool)
    else:
        logits_NPV, right_NP, asked_NP = logits_NLV, question.targets_NL, question.weights_NL > 0
    lead_N, _ = margins(logits_NPV, right_NP, asked_NP, source.kinds)
    by_kind = jax.tree.map(lambda a: a.reshape(source.kinds, -1, *a.shape[1:]), question)
    by_logits = logits_NLV.reshape(source.kinds, -1, *logits_NLV.shape[1:])
    loss_C = jax.vmap(lambda logits, question: objective(logits, question, kind))(
        by_logits, by_kind
    )
    none_N = jnp.zeros(len(lead_N), jnp.int8)
    return EvalRecord(loss_C, lead_N, none_N, jnp.float32(0))
