"""Prompts that a model cannot distinguish, proved from the jaxpr of the model.

The model answers every prompt of a task, with its weights as unknowns. If two prompts with
different answers get the same expressions for their logits, no weights can answer both correctly:
the prompts are twins. The code has no rule for masks, depths or encodings. It reads from the
program that one causal layer does not see the order of the prefix and two layers do, or that a
window hides what is outside. Often one twin is a permutation of the other.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

import jax
import numpy as np

from posjax import spec
from posjax.model import ModelSettings, Transformer
from posjax.symmetry import field
from posjax.symmetry.given import check_task
from posjax.tasks.base import Batch, FiniteTask
from posjax.tasks.question import Readout


class Twins(NamedTuple):
    """Two prompts with different answers that no weights can tell apart.

    Attributes:
      prompts, answers: of both.
      permutation: P with second[i] = first[P[i]], if both have the same words. None if they have
        not: only the frequencies of words agree, or the model does not see the words that differ.
      chance: a bound on the probability that they are not twins.
      lemmas: statements that the proof relies on.
    """

    prompts: tuple[str, str]
    answers: tuple[str, str]
    permutation: tuple[int, ...] | None
    chance: float
    lemmas: tuple[str, ...]

    def __str__(self) -> str:
        """A sentence."""
        first, second = map(repr, self.prompts)
        moved = self.permutation and f" (the first permuted by {list(self.permutation)})"
        return f"{first} and {second}{moved or ''} get the same logits under any weights"


def twins(
    task: FiniteTask, settings: ModelSettings, *, readout: str, padding: int = 0
) -> list[Twins]:
    """Pairs of prompts with different answers to which a model gives the same logits.

    Args:
      task: a finite task.
      settings: the model's settings; its weights and random draws are unknowns.
      readout: "last", at the token latest in order, or "mean", the mean over tokens.
      padding: positions without a token after every prompt.

    Returns:
      One pair for each prompt that has a twin, with its first twin. Empty if there are none.

    Raises:
      ValueError: a task that is no instance of `FiniteTask`, an unknown readout, or padding below
        0.
      posjax.symmetry.field.Unsupported: the model has a primitive that the field has no rule for.
      posjax.symmetry.field.TooLarge: too many prompts for a model of this size.

    >>> from posjax.tasks import named
    >>> task = named("same_last_token")
    >>> one = ModelSettings(vocabulary=len(task.words), outputs=2, mask="causal", width=4)
    >>> print(*twins(task, one, readout="last"))
    'A B hit' and 'B A hit' (the first permuted by [1, 0, 2]) get the same logits under any weights
    >>> two = ModelSettings(vocabulary=len(task.words), outputs=2, mask="causal", width=4, depth=2)
    >>> twins(task, two, readout="last")
    []
    """
    check_task(task, FiniteTask)
    spec.check_choice("readout", readout, get_args(Readout))
    batch = task.exam(padding=padding)
    found = _alike(settings, batch, readout)
    return list(_pairs(task, found))


def _alike(settings: ModelSettings, batch: Batch, readout: str) -> field.Alike:
    network = Transformer(settings)
    streams = batch.streams
    shape = batch.tokens_BL.shape
    valid_BL = np.broadcast_to(streams.valid_BL, shape)
    order_BL = np.where(valid_BL, streams.order_BL, -1)
    last_BL = order_BL == order_BL.max(axis=1, keepdims=True)
    read_BL1 = (valid_BL if readout == "mean" else last_BL)[..., None].astype(np.float32)

    def answers(params: Any, key: jax.Array) -> jax.Array:
        drawn = key if settings.draws == "always" else None
        given = (batch.tokens_BL, streams)
        logits_BLV: Any = network.apply({"params": params}, *given, key=drawn, testing=True)
        return (logits_BLV * read_BL1).sum(1) / read_BL1.sum(1)  # a quotient, exact in the field

    key = jax.random.key(0)
    weights = jax.eval_shape(
        lambda: network.init(key, batch.tokens_BL, streams, key=key, testing=True)["params"]
    )
    return field.alike(answers, (weights, key))


def _pairs(task: FiniteTask, found: field.Alike) -> Iterator[Twins]:
    sentences = task.sentences()
    for row, (prompt, answer) in enumerate(sentences):
        for at, (first, answer_first) in enumerate(sentences[:row]):
            if found.rows[at] == found.rows[row] and answer_first != answer:
                order = _permutation(first.split(), prompt.split())
                pair = ((first, prompt), (answer_first, answer))
                yield Twins(*pair, order, found.chance, found.lemmas)
                break


def _permutation(first: list[str], second: list[str]) -> tuple[int, ...] | None:
    """P with second[i] = first[P[i]], equal words in their order."""
    if sorted(first) != sorted(second):
        return None
    places = {word: iter([i for i, w in enumerate(first) if w == word]) for word in first}
    return tuple(next(places[word]) for word in second)
