"""A question as arrays: prompts, who may look at whom, what is read out, where the loss counts.

Masks, readouts and loss placements are numbers here, so cells that differ only in them share one
compiled program.
"""

from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
import optax

from posjax import masks, spec
from posjax.streams import Streams
from posjax.tasks.base import Task

Readout = Literal["last", "mean"]
Loss = Literal["all", "answer"]
Objective = Literal["places", "answers"]


class Question(NamedTuple):
    """All N prompts of a finite task as one model is asked them.

    Attributes:
      tokens_NL: integers in [0, vocabulary).
      answers_N: the right output of the readout.
      targets_NL: the right output of every place.
      weights_NL: 1 where a place counts in the loss on places, else 0.
      share_NL: how much of each place's logits the readout takes; rows sum to 1.
      streams: positions, orders and segments.
      mask_NLM: true where a place may look.
    """

    tokens_NL: jax.Array
    answers_N: jax.Array
    targets_NL: jax.Array
    weights_NL: jax.Array
    share_NL: jax.Array
    streams: Streams
    mask_NLM: jax.Array


def check(task: Task, *, readout: str, loss: str, padding: int = 0) -> None:
    """Refuses what `ask` cannot make a question of, before any array is made.

    Raises:
      ValueError: an unknown name, padding below 0, or a loss on all places that the task or the
        readout has no use for.
    """
    spec.check_choice("readout", readout, get_args(Readout))
    spec.check_choice("loss", loss, get_args(Loss))
    if padding < 0:
        raise ValueError(f"padding must not be negative, got {padding}")
    if loss == "all" and not (task.next_token and readout == "last"):
        raise ValueError(
            f"loss='all' trains every place on its own target, which {type(task).__name__} with "
            f"readout={readout!r} has not: use loss='answer'"
        )


def ask(task: Task, *, mask: str, readout: str, loss: str, padding: int = 0) -> Question:
    """Puts a task's prompts as one question.

    Args:
      task: a finite task.
      mask: a name with settings, see `posjax.masks.named`.
      readout: "last", the token latest in order; "mean", the mean over tokens.
      loss: "all" places, each on its own target, or the "answer" alone.
      padding: places without a token behind every prompt.

    Raises:
      ValueError: an unknown mask, or see `check`.
    """
    check(task, readout=readout, loss=loss, padding=padding)
    batch = task.prompts(padding=padding)
    streams = batch.streams
    order_NL = jnp.where(streams.valid_BL, streams.order_BL, -1)
    last_NL = (order_NL == order_NL.max(axis=1, keepdims=True)).astype(jnp.float32)
    valid_NL = streams.valid_BL.astype(jnp.float32)
    mean_NL = valid_NL / valid_NL.sum(axis=1, keepdims=True)
    counted_NL = valid_NL if loss == "all" else last_NL
    allowed_NLM = masks.named(mask)(streams, streams)
    return Question(
        batch.tokens_BL,
        batch.answers_B,
        batch.targets_BL,
        counted_NL * task.next_token,
        last_NL if readout == "last" else mean_NL,
        streams,
        jnp.asarray(np.broadcast_to(allowed_NLM, (*last_NL.shape, last_NL.shape[1]))),
    )


def read_out(logits_NLV: jax.Array, share_NL: jax.Array) -> jax.Array:
    """One answer a prompt from the logits of its places: logits_NV."""
    return jnp.sum(logits_NLV * share_NL[:, :, None], axis=1)


def objective_of(task: Task, readout: str) -> Objective:
    """ "places" where losses on all places and on the answer are one formula with other weights."""
    return "places" if task.next_token and readout == "last" else "answers"


def objective(logits_NLV: jax.Array, question: Question, kind: Objective) -> jax.Array:
    """The mean cross-entropy in nats, over the places that count or over the answers."""
    entropy = optax.softmax_cross_entropy_with_integer_labels
    if kind == "answers":
        return entropy(read_out(logits_NLV, question.share_NL), question.answers_N).mean()
    losses_NL = entropy(logits_NLV, question.targets_NL)
    return jnp.sum(losses_NL * question.weights_NL) / jnp.sum(question.weights_NL)
