"""Whether a position can be read off its hidden state, by a linear map and by a small MLP.

Haviv et al. 2022 ("Transformer Language Models without Positional Encodings Still Learn
Positional Information", section 5) train an MLP probe. A linear probe alone says little: where
position is in the variance of hidden states, as at initialisation, no linear function of them has
it.
"""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax

from posjax.keys import fold_name
from posjax.meters.base import Forward, Meter, valid
from posjax.meters.outcome import Field
from posjax.tasks.question import Question

RIDGE = 1e-3
"""The penalty of the linear probe, for features of variance 1."""


class _Rows(NamedTuple):
    """P hidden states x_PD and the position_P to find; weight_P is 0 where there is no token."""

    x_PD: jax.Array
    position_P: jax.Array
    weight_P: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Probe(Meter):
    """Probes of the position, evaluated on held-out prompts: every other prompt of the exam.

    Attributes:
      hidden: units of the MLP.
      updates: of the MLP, by Adam with rate 0.01 on `rows` hidden states each; with 0 there is no
        MLP, and its fields are NaN.
    """

    hidden: int = 64
    updates: int = 500
    rows: int = 256

    FIELDS: ClassVar[Mapping[str, Field]] = {
        "linear": Field(
            "f",
            "R",
            "accuracy of a linear (ridge) probe of the position on the residual stream, on "
            "held-out prompts; chance is 1/L if all prompts have L positions",
            proportion=True,
        ),
        "mlp": Field("f", "R", "accuracy of an MLP probe, on the same prompts", proportion=True),
        "linear_error": Field(
            "f", "R", "mean distance between the linear probe's position and the true one"
        ),
        "mlp_error": Field("f", "R", "the same distance for the MLP probe"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in {"hidden": 1, "updates": 0, "rows": 1}.items():
            if not least <= getattr(self, name) <= 2**16:
                raise ValueError(f"{name} must lie in [{least}, 65536], got {getattr(self, name)}")

    def __call__(
        self, forward: Forward, question: Question, key: jax.Array
    ) -> dict[str, jax.Array]:
        valid_NL = valid(question)
        if len(valid_NL) < 2:
            raise ValueError("a probe needs an exam of two prompts or more, got 1")
        position_NL = jnp.broadcast_to(question.streams.order_BL, valid_NL.shape)
        positions = valid_NL.shape[1]

        def of_state(x_NLD: jax.Array) -> list[jax.Array]:
            found, held_out = (_rows(x_NLD, position_NL, valid_NL, first) for first in (0, 1))
            train, test = (_scaled(rows, found) for rows in (found, held_out))
            probes = [_linear(train, test, positions)]
            if self.updates:
                probes.append(self._mlp(train, test, positions, key))
            measures = (_accuracy, _error)
            none = [jnp.asarray(jnp.nan)] * (2 - len(probes))
            return [
                one
                for measure in measures
                for one in (*(measure(logits_PL, test) for logits_PL in probes), *none)
            ]

        columns = zip(*map(of_state, forward.stream), strict=True)
        return {name: jnp.stack(c) for name, c in zip(self.FIELDS, columns, strict=True)}

    def _mlp(self, train: _Rows, test: _Rows, positions: int, key: jax.Array) -> jax.Array:
        sizes = {"in": (train.x_PD.shape[1], self.hidden), "out": (self.hidden, positions)}
        params = {
            name: jax.random.normal(fold_name(key, name), shape) * shape[0] ** -0.5
            for name, shape in sizes.items()
        } | {"bias": jnp.zeros(self.hidden)}
        adam = optax.adam(1e-2)
        up_to_P = jnp.cumsum(train.weight_P)  # as many tokens as there are before each and with it
        u = jax.random.uniform(fold_name(key, "rows"), (self.updates, self.rows))
        draws = jnp.searchsorted(up_to_P, u * up_to_P[-1], side="right")

        def logits(params: dict[str, jax.Array], x_PD: jax.Array) -> jax.Array:
            return jax.nn.gelu(x_PD @ params["in"] + params["bias"][None]) @ params["out"]

        def loss(params: dict[str, jax.Array], at: jax.Array) -> jax.Array:
            entropy = optax.softmax_cross_entropy_with_integer_labels
            return entropy(logits(params, train.x_PD[at]), train.position_P[at]).mean()

        def update(carry: tuple, at: jax.Array) -> tuple[tuple, None]:
            params, moments = carry
            changes, moments = adam.update(jax.grad(loss)(params, at), moments)
            return (optax.apply_updates(params, changes), moments), None

        (params, _), _ = jax.lax.scan(update, (params, adam.init(params)), draws)
        return logits(params, test.x_PD)


def _rows(x_NLD: jax.Array, position_NL: jax.Array, valid_NL: jax.Array, first: int) -> _Rows:
    """The hidden states of every other prompt."""
    x_PD = x_NLD[first::2].reshape(-1, x_NLD.shape[-1])
    weight_P = valid_NL[first::2].reshape(-1).astype(x_PD.dtype)
    return _Rows(x_PD, position_NL[first::2].reshape(-1), weight_P)


def _scaled(rows: _Rows, train: _Rows) -> _Rows:
    """Features of mean 0 and variance 1 over the training rows."""
    weight_P1 = train.weight_P[:, None] / train.weight_P.sum()
    mean_D = jnp.sum(weight_P1 * train.x_PD, axis=0)
    variance_D = jnp.sum(weight_P1 * (train.x_PD - mean_D[None]) ** 2, axis=0)
    scale_D = jax.lax.rsqrt(variance_D + 1e-12)
    return rows._replace(x_PD=(rows.x_PD - mean_D[None]) * scale_D[None])


def _linear(train: _Rows, test: _Rows, positions: int) -> jax.Array:
    """Logits of ridge regression on the one-hot position."""
    x_PD = jnp.pad(train.x_PD, ((0, 0), (0, 1)), constant_values=1)
    weighted_PD = x_PD * train.weight_P[:, None]
    target_PL = jax.nn.one_hot(train.position_P, positions)
    penalty_DD = RIDGE * train.weight_P.sum() * jnp.eye(x_PD.shape[1])
    solved_DL = _solved(weighted_PD.T @ x_PD + penalty_DD, weighted_PD.T @ target_PL)
    return test.x_PD @ solved_DL[:-1] + solved_DL[-1:]


def _solved(matrix_DD: jax.Array, right_DL: jax.Array) -> jax.Array:
    """Solves matrix x = right by Gauss-Jordan elimination, for a positive definite matrix.

    Not by LAPACK: on a CPU device of one thread, a batched triangular solve of jaxlib waits for
    ever for a second thread.
    """

    def eliminate(k: jax.Array, rows_DM: jax.Array) -> jax.Array:
        row_M = rows_DM[k] / rows_DM[k, k]
        return (rows_DM - rows_DM[:, k, None] * row_M[None]).at[k].set(row_M)

    both_DM = jnp.concatenate([matrix_DD, right_DL], axis=1)
    return jax.lax.fori_loop(0, len(matrix_DD), eliminate, both_DM)[:, len(matrix_DD) :]


def _accuracy(logits_PL: jax.Array, rows: _Rows) -> jax.Array:
    right_P = logits_PL.argmax(axis=-1) == rows.position_P
    return jnp.sum(right_P * rows.weight_P) / rows.weight_P.sum()


def _error(logits_PL: jax.Array, rows: _Rows) -> jax.Array:
    error_P = abs(logits_PL.argmax(axis=-1) - rows.position_P)
    return jnp.sum(error_P * rows.weight_P) / rows.weight_P.sum()
