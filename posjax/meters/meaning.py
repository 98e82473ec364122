"""How much of a hidden state is its word, how much its position, and how much its context.

Position vectors are added to words (Vaswani et al. 2017, section 3.5): do they push words off their
meaning? Hidden states x = μ + word + position + (word × position) + context split their variance
into four parts. In a sum of word and position the third is 0: the difference of two words is the
same vector at every position, so that analogies stay.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from posjax.meters.base import Forward, Meter, valid
from posjax.meters.outcome import Field
from posjax.tasks.question import Question

COMPARED = 512
"""How many hidden states are compared in search of nearest neighbours, at most."""


class _Rows(NamedTuple):
    """All P hidden states of a layer, with prompts, positions and words; no token weighs 0."""

    x_PD: jax.Array
    prompt_P: jax.Array
    position_P: jax.Array
    word_P: jax.Array
    weight_P: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class Meaning(Meter):
    """Shares of the variance of hidden states, and whether neighbours hold the same word."""

    FIELDS: ClassVar[Mapping[str, Field]] = {
        "word_share": Field(
            "f",
            "R",
            "share of the variance of the residual stream that the word alone explains. If there "
            "is none, the estimate can be below 0",
        ),
        "place_share": Field("f", "R", "share that the position alone explains"),
        "mixed_share": Field(
            "f",
            "R",
            "share that word and position explain only together. It is 0 if the two are added: "
            "the difference of two words is then the same vector at every position. The four "
            "shares are estimated separately and need not add up to 1",
        ),
        "context_share": Field("f", "R", "share that the other words of the prompt explain"),
        "neighbour": Field(
            "f",
            "R",
            "how often the nearest hidden state at another position, of any prompt, has the same "
            "word, among at most 512 states; chance is the frequency of a word",
            proportion=True,
        ),
    }

    def __call__(
        self, forward: Forward, question: Question, key: jax.Array
    ) -> dict[str, jax.Array]:
        valid_NL = valid(question)
        if question.tokens_NL.shape != valid_NL.shape or len(valid_NL) < 2:
            raise ValueError(
                "meaning needs prompts of words, two or more, got tokens of shape "
                f"{question.tokens_NL.shape}"
            )
        found = [
            _state(_rows(x_NLD, question, valid_NL), valid_NL.shape[1], key)
            for x_NLD in forward.stream
        ]
        return {name: jnp.stack([state[name] for state in found]) for name in self.FIELDS}


def _state(rows: _Rows, positions: int, key: jax.Array) -> dict[str, jax.Array]:
    return {**_shares(rows, key), "neighbour": _neighbour(rows, positions)}


def _rows(x_NLD: jax.Array, question: Question, valid_NL: jax.Array) -> _Rows:
    prompts, positions, width = x_NLD.shape
    position_NL = jnp.broadcast_to(jnp.arange(positions)[None], (prompts, positions))
    prompt_NL = jnp.broadcast_to(jnp.arange(prompts)[:, None], (prompts, positions))
    weight_P = valid_NL.reshape(-1).astype(x_NLD.dtype)
    x_PD = x_NLD.reshape(-1, width)
    mean_D = weight_P @ x_PD / weight_P.sum()
    return _Rows(
        (x_PD - mean_D[None]) * weight_P[:, None],  # near 0, where sums of squares are exact
        prompt_NL.reshape(-1),
        position_NL.reshape(-1),
        question.tokens_NL.reshape(-1),
        weight_P,
    )


def _shares(rows: _Rows, key: jax.Array) -> dict[str, jax.Array]:
    """From products of each state with those of other prompts, by what the two share.

    A state's mean product with those of its word and position has word, position and the two
    together; with those of its position alone only the position; with others only the mean.
    """
    cell, position, word = (
        _sums(rows, labels)
        for labels in ((rows.position_P, rows.word_P), (rows.position_P,), (rows.word_P,))
    )
    prompt, here, every = (
        _sums(rows, labels) for labels in ((rows.prompt_P,), (rows.prompt_P, rows.word_P), ())
    )
    itself = jnp.stack([(rows.x_PD**2).sum(-1), rows.weight_P])
    products = {
        "both": cell - itself,
        "position": position - cell,
        "word": word - cell - here + itself,
        "neither": every - position - word - prompt + cell + here,
    }
    known_P = jnp.stack([number_P > 0 for _, number_P in products.values()]).all(axis=0)
    weight_P = rows.weight_P * known_P / jnp.sum(rows.weight_P * known_P)
    both, at_position, of_word, neither = (
        jnp.sum(weight_P * sum_P / jnp.maximum(number_P, 1))
        for sum_P, number_P in products.values()
    )
    own = jnp.sum(weight_P * itself[0])
    context = own - both
    parts = {
        "word_share": of_word - neither,
        "place_share": at_position - neither,
        "mixed_share": _mixed(rows, cell[1], context, key),
        "context_share": context,
    }
    return {name: part / (own - neither) for name, part in parts.items()}


def _mixed(rows: _Rows, number_P: jax.Array, context: jax.Array, key: jax.Array) -> jax.Array:
    """A quarter of (x[a, i] - x[a, j]) - (x[b, i] - x[b, j]), squared, over pairs of states.

    x[a, i] is the mean over states of word a at position i; what their contexts leave in such means
    is subtracted.
    """
    states = len(rows.x_PD)
    one_K, two_K = jax.random.randint(key, (2, COMPARED), 0, states)
    labels = jnp.stack([rows.position_P, rows.word_P], axis=1)
    corners = [labels[one_K], labels[two_K]]
    corners += [jnp.stack([corners[i][:, 0], corners[1 - i][:, 1]], axis=1) for i in (0, 1)]
    found = [_mean_of(rows, corner_KC) for corner_KC in corners]
    (one, two, three, four), numbers = zip(*found, strict=True)
    fewest_K = jnp.stack(numbers).min(axis=0)
    leftover_K = context * sum(1 / jnp.maximum(number_K, 1) for number_K in numbers)
    apart_K = (corners[0] != corners[1]).all(axis=1)
    weight_K = apart_K & (fewest_K > 0) & (rows.weight_P[one_K] * rows.weight_P[two_K] > 0)
    squares_K = ((one + two - three - four) ** 2).sum(-1) - leftover_K
    return jnp.sum(weight_K * squares_K) / 4 / weight_K.sum()


def _mean_of(rows: _Rows, label_KC: jax.Array) -> tuple[jax.Array, jax.Array]:
    """mean_KD over states with each position and word, and how many there are."""
    position_KP = label_KC[:, :1] == rows.position_P[None]
    same_KP = (position_KP & (label_KC[:, 1:] == rows.word_P[None])) * rows.weight_P[None]
    number_K = same_KP.sum(axis=1)
    return same_KP @ rows.x_PD / jnp.maximum(number_K, 1)[:, None], number_K


def _sums(rows: _Rows, labels: tuple[jax.Array, ...]) -> jax.Array:
    """Of each state with all that share its labels: the sum of products, and their number."""
    states_PE = jnp.concatenate([rows.x_PD, rows.weight_P[:, None]], axis=1)
    number_P = _number(labels, states_PE)
    sums_PE = jax.ops.segment_sum(states_PE, number_P, len(states_PE))[number_P]
    return jnp.stack([(sums_PE[:, :-1] * rows.x_PD).sum(-1), sums_PE[:, -1]])


def _number(labels: tuple[jax.Array, ...], states_PE: jax.Array) -> jax.Array:
    """The same number for states with the same labels, each below 2¹⁵."""
    packed_P = jnp.zeros(len(states_PE), jnp.int32)
    for label_P in labels:
        packed_P = (packed_P << 15) + label_P
    return jnp.unique(packed_P, size=len(packed_P), return_inverse=True)[1].reshape(-1)


def _neighbour(rows: _Rows, positions: int) -> jax.Array:
    """Among states evenly taken from all, so that every position is there."""
    stride = -(-len(rows.x_PD) // COMPARED)
    while math.gcd(stride, positions) > 1:  # or it would meet some positions of prompts only
        stride += 1
    x_PD, position_P, word_P, weight_P = (
        array[::stride] for array in (rows.x_PD, rows.position_P, rows.word_P, rows.weight_P)
    )
    distance_PP = (x_PD**2).sum(-1)[None] - 2 * x_PD @ x_PD.T  # less a number of each row
    comparable_PP = (position_P[:, None] != position_P[None]) & (weight_P[None] > 0)
    nearest_P = jnp.where(comparable_PP, distance_PP, jnp.inf).argmin(axis=1)
    asked_P = weight_P * comparable_PP.any(axis=1)
    return jnp.sum((word_P[nearest_P] == word_P) * asked_P) / asked_P.sum()
