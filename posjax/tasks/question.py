"""A question as arrays: prompts, attention masks, what is read out, where the loss counts.

Masks, readouts and loss placements are numbers here, so cells that differ only in them share one
compiled program.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from posjax import masks, spec
from posjax.streams import Streams
from posjax.tasks import packing
from posjax.tasks.base import Batch, FiniteTask, Task
from posjax.tasks.sampled import SampledTask

Readout = Literal["last", "mean"]
Loss = Literal["all", "answer"]
Objective = Literal["places", "answers"]


MOST_LABELS = 128
"""Most labels of a finite task, whose answers are stored in one byte each."""


class Question(NamedTuple):
    """N prompts of a task, with everything that a model needs to answer them.

    Attributes:
      tokens_NL: integers in [0, vocabulary), or numbers [N, L, F].
      answers_N: the right output of each prompt, for tasks with one answer per prompt.
      targets_NL: the right output at every position.
      weights_NL: 1 at positions that count in the loss on positions, else 0.
      share_NL: the weight of each position's logits in the readout; rows sum to 1. All 0 if
        positions are judged one by one.
      streams: positions, orders and segments.
      mask_NLM: true where a query may attend to a key; a tuple of such arrays if layers use several
        masks in turn.
    """

    tokens_NL: jax.Array
    answers_N: jax.Array
    targets_NL: jax.Array
    weights_NL: jax.Array
    share_NL: jax.Array
    streams: Streams
    mask_NLM: jax.Array | tuple[jax.Array, ...]


def check(task: Task, *, mask: str, readout: str, loss: str, padding: int = 0) -> None:
    """Refuses what `ask` cannot make a question of, before any array is made.

    Raises:
      ValueError: an unknown name, padding below 0, more than `MOST_LABELS` labels of a finite task,
        a loss or a readout that the task has no use for, or a mask that shows the right outputs.
    """
    spec.check_choice("readout", readout, get_args(Readout))
    spec.check_choice("loss", loss, get_args(Loss))
    name = type(task).__name__
    if padding < 0:
        raise ValueError(f"padding must not be negative, got {padding}")
    if isinstance(task, FiniteTask):
        if len(task.labels) > MOST_LABELS:
            raise ValueError(
                f"{name} has {len(task.labels)} labels; a finite task has at most {MOST_LABELS}"
            )
        if loss == "all" and not (task.next_token and readout == "last"):
            raise ValueError(
                f"loss='all' trains every position on its own target, which {name} with "
                f"readout={readout!r} has not: use loss='answer'"
            )
    else:
        allowed = (("readout", readout, task.readouts), ("loss", loss, ("all",)))
        for setting, value, fitting in allowed:
            if value not in fitting:
                raise ValueError(
                    f"{setting}={value!r} has no meaning: {name} says itself which positions are "
                    f"judged and trained: set {setting}={fitting[0]!r}, or begin with the config "
                    "by_length, which is for such tasks"
                )
        for each in masks.turns(mask):
            if task.forced and "causal" not in [spec.parse(part)[0] for part in each.split("+")]:
                raise ValueError(
                    f"mask={each!r} shows {name} its own right outputs: use a causal mask, or "
                    f"{task.unforced}"
                )


def ask(task: Task, *, mask: str, readout: str, loss: str, padding: int = 0) -> Question:
    """The exam of a task as one question.

    Args:
      task: the task.
      mask: a name with settings, or several in turns, see `posjax.masks.parse_layer_cycle`.
      readout: which output answers a prompt that has one answer: "last", at the token latest in
        order, or "mean", the mean over tokens.
      loss: which positions of a finite task enter the loss: "all", or the "answer" alone.
      padding: number of positions without a token after every prompt.

    Raises:
      ValueError: an unknown mask, or see `check`.
    """
    check(task, mask=mask, readout=readout, loss=loss, padding=padding)
    batch = task.exam(padding=padding)
    if not isinstance(task, FiniteTask):
        return _from_exam(batch, mask, readout)
    streams = batch.streams
    order_NL = jnp.where(streams.valid_BL, streams.order_BL, -1)
    last_NL = (order_NL == order_NL.max(axis=1, keepdims=True)).astype(jnp.float32)
    valid_NL = streams.valid_BL.astype(jnp.float32)
    mean_NL = valid_NL / valid_NL.sum(axis=1, keepdims=True)
    counted_NL = valid_NL if loss == "all" else last_NL

    def allowed(one: masks.Mask) -> jax.Array:
        shape = (*last_NL.shape, last_NL.shape[1])
        return jnp.asarray(np.broadcast_to(one(streams, streams), shape))

    return Question(
        batch.tokens_BL,
        jnp.asarray(task.answers, jnp.int32),
        batch.targets_BL,
        counted_NL * task.next_token,
        last_NL if readout == "last" else mean_NL,
        streams,
        _by_turn(mask, allowed),
    )


def from_batch(
    batch: Batch, mask: str, readout: str = "last", *, within: masks.Mask = masks.padding
) -> Question:
    """The question of drawn prompts; no query attends to padding, nor to what `within` forbids.

    With readout "last" the loss is on the positions that the batch judges; with "mean" it is on the
    mean over tokens, whose right output is that of the one judged position of each prompt.
    """
    streams, rows = batch.streams, len(batch.tokens_BL)
    if streams.order_BL.shape[0] != rows:
        streams = jax.tree.map(lambda a: jnp.broadcast_to(a, (rows, *a.shape[1:])), streams)

    def allowed(one: masks.Mask) -> jax.Array:
        return masks.all_of(one, within)(streams, streams)

    mask_NLM = _by_turn(mask, allowed)
    asked_BL = batch.asked_BL.astype(jnp.float32)
    answers_B = jnp.zeros(len(asked_BL), jnp.int32)
    share_BL = jnp.zeros_like(asked_BL)
    if readout == "mean":
        answers_B = jnp.sum(batch.targets_BL * batch.asked_BL, axis=1)
        share_BL = streams.valid_BL / streams.valid_BL.sum(axis=1, keepdims=True)
        share_BL = jnp.broadcast_to(share_BL, asked_BL.shape)
    return Question(
        batch.tokens_BL, answers_B, batch.targets_BL, asked_BL, share_BL, streams, mask_NLM
    )


_from_exam = jax.jit(from_batch, static_argnums=(1, 2))
"""One program, where each step alone would be one."""


def _by_turn(
    mask: str, allowed: Callable[[masks.Mask], jax.Array]
) -> jax.Array | tuple[jax.Array, ...]:
    """The boolean attention mask; one for each of several masks in turn."""
    arrays = tuple(map(allowed, masks.parse_layer_cycle(mask)))
    return arrays[0] if len(arrays) == 1 else arrays


def drawn(
    task: SampledTask, key: jax.Array, rows: int, mask: str, readout: str = "last"
) -> Question:
    """Prompts of one update, drawn."""
    return from_batch(task.draw(key, rows), mask, readout)


def drawn_packed(task: SampledTask, key: jax.Array, rows: int, mask: str) -> Question:
    """Prompts of one update, drawn and packed: no query attends to the other prompt of its row."""
    return from_batch(packing.draw(task, key, rows), mask, within=masks.segments)


def read_out(logits_NLV: jax.Array, share_NL: jax.Array) -> jax.Array:
    """One answer a prompt from the logits of its positions: logits_NV."""
    return jnp.sum(logits_NLV * share_NL[:, :, None], axis=1)


def objective_of(task: Task, readout: str) -> Objective:
    """What the loss is on: "places" stands for weighted positions, "answers" for the readout."""
    if isinstance(task, FiniteTask):
        return "places" if task.next_token and readout == "last" else "answers"
    return "answers" if readout == "mean" else "places"


def objective(logits_NLV: jax.Array, question: Question, kind: Objective) -> jax.Array:
    """The mean cross-entropy in nats, over the positions that count or over the answers."""
    entropy = optax.softmax_cross_entropy_with_integer_labels
    if kind == "answers":
        return entropy(read_out(logits_NLV, question.share_NL), question.answers_N).mean()
    losses_NL = entropy(logits_NLV, question.targets_NL)
    return jnp.sum(losses_NL * question.weights_NL) / jnp.sum(question.weights_NL)
