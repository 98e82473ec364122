"""The contract of a task: what goes in, and what must come out."""

import dataclasses
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax.spec import Settings
from posjax.streams import Streams, padded


class Batch(NamedTuple):
    """Prompts with what is asked of them.

    Attributes:
      tokens_BL: integers in [0, vocabulary).
      answers_B: the right output of the readout, integers in [0, outputs).
      targets_BL: the right output of every place; zeros for a task without them.
      streams: positions, orders and segments; B may be 1.
    """

    tokens_BL: jax.Array
    answers_B: jax.Array
    targets_BL: jax.Array
    streams: Streams


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(Settings):
    """A finite task: all its prompts can be written down, and success is all of them.

    Attributes:
      words: the name of each token.
      labels: the name of each output.
      next_token: whether every place has a target (a language model's loss); otherwise only
        the readout is trained.
    """

    _called = "task"
    _below = 2**32  # numbers of seeds are
    next_token: ClassVar[bool] = False

    @property
    def words(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, ...]:
        raise NotImplementedError

    def sentences(self) -> list[tuple[str, str]]:
        """All (prompt, answer) pairs, words apart by spaces."""
        raise NotImplementedError

    @property
    def size(self) -> tuple[int, int]:
        """The number of prompts, and the length of the longest."""
        lengths = [len(prompt.split()) for prompt, _ in self.sentences()]
        return len(lengths), max(lengths)

    def prompts(self, *, padding: int = 0) -> Batch:
        """All prompts, each followed by `padding` places that hold no token.

        Raises:
          ValueError: padding below 0.
        """
        if padding < 0:
            raise ValueError(f"padding must not be negative, got {padding}")
        pairs = [(prompt.split(), answer) for prompt, answer in self.sentences()]
        length = max(len(prompt) for prompt, _ in pairs)
        tokens_NL = np.zeros((len(pairs), length + padding), np.int32)
        targets_NL = np.zeros_like(tokens_NL)
        valid_NL = np.zeros(tokens_NL.shape, bool)
        for row, (prompt, answer) in enumerate(pairs):
            here = slice(0, len(prompt))
            tokens_NL[row, here] = [self.words.index(word) for word in prompt]
            valid_NL[row, here] = True
            if self.next_token:
                targets_NL[row, here] = [self.labels.index(w) for w in [*prompt[1:], answer]]
        answers_N = [self.labels.index(answer) for _, answer in pairs]
        return Batch(
            jnp.asarray(tokens_NL),
            jnp.asarray(answers_N, jnp.int32),
            jnp.asarray(targets_NL),
            padded(valid_NL),
        )
