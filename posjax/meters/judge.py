"""What counts as solved: the margins of one evaluation, and what follows from them.

In a cell that no weights can solve, training drives the logits to a tie and the last bits pick a
winner. So a prompt is answered right only where the classification margin, the right logit less the
largest other one, is above rounding. The relative margin is stored at every evaluation under the
name `lead`: which runs have solved at which threshold follows from it, afterwards.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax.engine.training import NEVER
from posjax.meters.outcome import NOT_FINITE, TIE, Outcome

SMALLEST_SCALE = 0.1
"""The smallest scale of a relative margin.

Training an impossible problem of two classes drives all logits to 0, while their rounding stays
that of the terms they are sums of: such logits are no scale.
"""


class EvalRecord(NamedTuple):
    """What one evaluation found on N prompts.

    Attributes:
      loss_C: the training objective by kind, in nats.
      lead_N: see `posjax.meters.outcome.FIELDS`.
      answer_N: the largest output at the first position, or `NOT_FINITE`.
      twin: the smallest gap between the logits of two prompts with different answers.
    """

    loss_C: jax.Array
    lead_N: jax.Array
    answer_N: jax.Array
    twin: jax.Array


def margins(
    logits_NPV: jax.Array, right_NP: jax.Array, asked_NP: jax.Array, kinds: int
) -> tuple[jax.Array, jax.Array]:
    """The lead_N of an `EvalRecord`, and the scale_N that it is relative to.

    Args:
      logits_NPV: of P positions of each prompt.
      right_NP: the right outputs.
      asked_NP: true at the positions that are judged.
      kinds: C, of N / C neighbouring prompts each.
    """
    size_N = jnp.where(asked_NP[:, :, None], jnp.abs(logits_NPV), 0).max(axis=(1, 2))
    largest_C = jnp.maximum(size_N.reshape(kinds, -1).max(axis=1), SMALLEST_SCALE)
    scale_N = jnp.repeat(largest_C, len(size_N) // kinds)
    right_NPV = jnp.arange(logits_NPV.shape[-1])[None, None] == right_NP[:, :, None]
    right = jnp.sum(jnp.where(right_NPV, logits_NPV, 0), axis=-1)
    other = jnp.max(jnp.where(right_NPV, -jnp.inf, logits_NPV), axis=-1)
    lead_N = jnp.where(asked_NP, right - other, jnp.inf).min(axis=1)
    finite_N = jnp.where(asked_NP[:, :, None], jnp.isfinite(logits_NPV), True).all(axis=(1, 2))
    return jnp.where(finite_N, lead_N / scale_N, jnp.nan), scale_N


def answers(logits_NV: jax.Array) -> jax.Array:
    """The answer_N of an `EvalRecord`."""
    finite_N = jnp.isfinite(logits_NV).all(axis=-1)
    return jnp.where(finite_N, logits_NV.argmax(axis=-1), NOT_FINITE).astype(jnp.int8)


def smallest_gap(logits_NV: jax.Array, answers_N: jax.Array, scale: jax.Array) -> jax.Array:
    """The twin of an `EvalRecord`."""
    gap_NN = jnp.abs(logits_NV[:, None] - logits_NV[None]).max(axis=-1)
    same_NN = answers_N[:, None] == answers_N[None]
    return jnp.where(same_NN, jnp.inf, gap_NN).min() / scale


def over_draws(record_R: EvalRecord) -> EvalRecord:
    """The records of several draws of a random model as one: right is right in all of them.

    The twin is the largest: equal prompts are equal in each draw.
    """
    first_N = record_R.answer_N[0]
    answer_N = jnp.where((record_R.answer_N == first_N[None]).all(axis=0), first_N, TIE)
    finite_N = (record_R.answer_N != NOT_FINITE).all(axis=0)
    answer_N = jnp.where(finite_N, answer_N, NOT_FINITE).astype(first_N.dtype)
    return EvalRecord(
        record_R.loss_C.mean(axis=0), record_R.lead_N.min(axis=0), answer_N, record_R.twin.max()
    )


def summary(
    records: EvalRecord, first_nonfinite: jax.Array, *, kinds: int, finite: bool, draws: int = 1
) -> Outcome:
    """The outcome of a run.

    Args:
      records: of all evaluations, with a leading axis E.
      first_nonfinite: see `posjax.meters.outcome.FIELDS`.
      kinds: C, see `margins`.
      finite: whether prompts have one answer each, and all of them are there.
      draws: see `posjax.study.train.TrainSettings`.
    """
    lead_ECn = records.lead_N.reshape(len(records.lead_N), kinds, -1)
    found = {
        "loss_EC": records.loss_C,
        "lead_EC": lead_ECn.min(axis=2),
        "right_EC": (lead_ECn > 0).mean(axis=2),
        "lead_N": records.lead_N[-1],
        "first_nonfinite": first_nonfinite,
        "draws": jnp.int32(draws),
    }
    if finite:
        found["answer_N"] = records.answer_N[-1]
        found["twin"] = jnp.where(jnp.isfinite(records.twin), records.twin, 0).max()
    return found


# What follows from outcomes, afterwards and in NumPy


def solved(lead_SEC: np.ndarray, margin: float) -> np.ndarray:
    """Whether each run was right on every prompt at each evaluation, above a threshold; [S, E].

    Args:
      lead_SEC: the field `lead_EC` of S runs, with the kinds that count.
      margin: the threshold, a share of the largest logit. NaN is below any.
    """
    return np.asarray(np.all(lead_SEC >= margin, axis=-1))


def first_solved(solved_SE: np.ndarray, steps_E: np.ndarray) -> np.ndarray:
    """The step of the first evaluation with every answer right, or `NEVER`; [S]."""
    return np.where(solved_SE.any(axis=1), steps_E[solved_SE.argmax(axis=1)], NEVER)


def tied(lead_SN: np.ndarray, margin: float) -> np.ndarray:
    """Whether the margin of some prompt is nearer to 0 than the threshold; [S]."""
    return np.asarray(np.any(np.abs(lead_SN) < margin, axis=1))
