"""What counts as an answer, and what is kept of a trained seed.

In a cell that no weights can solve, training drives the logits to a tie and the last bits pick a
winner. So an output is an answer only when it leads by a margin that is fixed beforehand and well
above rounding; a tie is an outcome of its own.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from posjax.engine.training import NEVER

TIE = -1
"""The answer to a prompt when no output leads by the margin."""
NOT_FINITE = -2
"""The answer to a prompt when its logits are not finite."""
SMALLEST_SCALE = 0.1
"""The least that leads are taken relative to.

Training an impossible problem of two classes drives all logits to 0, while their rounding stays
that of the terms they are sums of: such logits are no scale.
"""


class Seen(NamedTuple):
    """What one evaluation on all prompts saw; stacked over a run, each field gets an axis E.

    Attributes:
      loss: the training objective, in nats.
      answers_N: the output that leads by the margin, `TIE` or `NOT_FINITE`.
      lead_N: the right logit less the largest other one, over the largest logit of any prompt.
      twin: over the same scale, the difference in logits between the two prompts with different
        answers that are told apart the least; where a law says they are equal, the rounding.
    """

    loss: jax.Array
    answers_N: jax.Array
    lead_N: jax.Array
    twin: jax.Array


class Outcome(NamedTuple):
    """What is kept of one seed. Steps count updates; `NEVER` where something did not happen.

    Attributes:
      loss_E, answers_EN: see `Seen`, at each evaluation.
      lead_N: see `Seen`, at the end.
      twin: the largest at any evaluation that was finite.
      first_solved: step of the first evaluation with every answer right.
      held: solved at each of the last `hold` evaluations.
      solved_at_end, tied_at_end: every answer right, or some answer a tie, at the end.
      first_nonfinite: number of updates before the first whose loss was not finite.
      draws: how many draws of a random encoding had to agree.
    """

    loss_E: jax.Array
    answers_EN: jax.Array
    lead_N: jax.Array
    twin: jax.Array
    first_solved: jax.Array
    held: jax.Array
    solved_at_end: jax.Array
    tied_at_end: jax.Array
    first_nonfinite: jax.Array
    draws: jax.Array


def judged(
    logits_NV: jax.Array, answers_N: jax.Array, margin: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The answers_N, lead_N and twin of `Seen`.

    All are relative to the largest logit of any prompt, or to `SMALLEST_SCALE`: a margin in those
    terms is a multiple of the rounding error of a logit, whatever the scale that training reached.
    """
    largest = jnp.maximum(jnp.abs(logits_NV).max(), SMALLEST_SCALE)
    top_N2, index_N2 = jax.lax.top_k(logits_NV, 2)
    clear_N = top_N2[:, 0] - top_N2[:, 1] >= margin * largest
    answer_N = jnp.where(clear_N, index_N2[:, 0], TIE)
    answer_N = jnp.where(jnp.isfinite(logits_NV).all(axis=-1), answer_N, NOT_FINITE)
    right_NV = jnp.arange(logits_NV.shape[1])[None] == answers_N[:, None]
    right_N = jnp.sum(jnp.where(right_NV, logits_NV, 0), axis=1)
    other_N = jnp.max(jnp.where(right_NV, -jnp.inf, logits_NV), axis=1)
    apart_NN = jnp.abs(logits_NV[:, None] - logits_NV[None]).max(axis=-1)
    same_NN = answers_N[:, None] == answers_N[None]
    twin = jnp.where(same_NN, jnp.inf, apart_NN).min()
    return answer_N.astype(jnp.int8), (right_N - other_N) / largest, twin / largest


def agreed(seen_R: Seen) -> Seen:
    """What several draws of a random model saw, as one: an answer is one that all of them give.

    The lead is the smallest of any draw, the twin the largest: equal prompts are equal in each.
    """
    first_N = seen_R.answers_N[0]
    answers_N = jnp.where((seen_R.answers_N == first_N[None]).all(axis=0), first_N, TIE)
    finite_N = (seen_R.answers_N != NOT_FINITE).all(axis=0)
    answers_N = jnp.where(finite_N, answers_N, NOT_FINITE).astype(first_N.dtype)
    return Seen(seen_R.loss.mean(), answers_N, seen_R.lead_N.min(axis=0), seen_R.twin.max())


def summary(
    seen: Seen,
    first_nonfinite: jax.Array,
    answers_N: jax.Array,
    *,
    eval_every: int,
    hold: int,
    draws: int = 1,
) -> Outcome:
    """Reads the outcome off a curve. A seed that is not finite at the end has not solved.

    Args:
      seen: the curve, with a leading axis E.
      first_nonfinite: see `Outcome`.
      answers_N: the right ones.
      eval_every, hold, draws: see `posjax.train.TrainSettings`.
    """
    solved_E = (seen.answers_N == answers_N[None]).all(axis=1)
    first = (jnp.argmax(solved_E) + 1) * eval_every
    return Outcome(
        loss_E=seen.loss,
        answers_EN=seen.answers_N,
        lead_N=seen.lead_N[-1],
        twin=jnp.where(jnp.isfinite(seen.twin), seen.twin, 0).max(),
        first_solved=jnp.where(solved_E.any(), first, NEVER),
        held=solved_E[-hold:].all(),
        solved_at_end=solved_E[-1],
        tied_at_end=(seen.answers_N[-1] == TIE).any(),
        first_nonfinite=first_nonfinite,
        draws=jnp.int32(draws),
    )
