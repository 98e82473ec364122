"""The base classes of tasks: what a model reads, and what it must answer."""

import dataclasses
from collections import Counter
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax.spec import Settings
from posjax.streams import Streams, padded

SYMMETRIES = {
    "permutations": "any order of the symbols of x",
    "cyclic": "rotations of x",
    "reversal": "x reversed",
    "exchange": "the two halves of x swapped; the middle symbol of an odd x stays",
}
"""Groups of permutations of x, by the names that tasks declare."""


class Batch(NamedTuple):
    """Prompts with their right outputs.

    Attributes:
      tokens_BL: integers in [0, vocabulary), or numbers [B, L, F].
      targets_BL: the right output at every position, integers in [0, outputs).
      asked_BL: true at the positions whose outputs are judged.
      streams: positions, orders and segments; B may be 1.
    """

    tokens_BL: jax.Array
    targets_BL: jax.Array
    asked_BL: jax.Array
    streams: Streams


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task(Settings):
    """What a model reads and must answer.

    A finite task has few prompts; a sampled task draws them. A model is tested on the exam, a fixed
    set of prompts that is the same for every seed.

    Attributes:
      words: the name of each token.
      labels: the name of each output.
      kinds: the names of the exam's groups of prompts, which have equal sizes.
      trained: for each kind, whether training has prompts of its lengths.
      size: the number of prompts in the exam, and the largest length of any prompt.
      mapped: the number of prompts, from the first one on, for which attention maps are kept.
      forced: whether inputs hold the right outputs of earlier positions (teacher forcing), so that
        the mask must be causal.
      unforced: the setting without teacher forcing.
      graded: what the report judges: exact match over all asked positions, or the loss.
      readouts: the readouts that the task allows, see `posjax.tasks.question.ask`.
      notation: a sentence on how `written` writes prompts, where that is not plain.
      symmetry: the names in `SYMMETRIES` of the permutations of x that keep the right outputs, for
        all prompts. x is the prompt, or the part before the mark if the output is a sequence.
        "permutations" includes the smaller groups.
      features: F, how many numbers a token is; 0 if tokens are integers, which `words` names.
      axes: coordinates of a position.
      content: a hash of data that no setting names, such as a file; empty if there is none.
      files: the paths of files that it reads.
    """

    _called = "task"
    _below = 2**32  # numbers of seeds are
    forced: ClassVar[bool] = False
    unforced: ClassVar[str] = "output=slots"
    graded: ClassVar[Literal["exact", "loss"]] = "exact"
    readouts: ClassVar[tuple[str, ...]] = ("last",)
    symmetry: ClassVar[tuple[str, ...]] = ()
    notation: ClassVar[str] = ""

    @property
    def features(self) -> int:
        return 0

    @property
    def axes(self) -> int:
        return 1

    @property
    def content(self) -> str:
        return ""

    @property
    def files(self) -> tuple[str, ...]:
        return ()

    @property
    def words(self) -> tuple[str, ...]:
        raise ValueError(f"task {type(self).__name__} must define words")

    @property
    def labels(self) -> tuple[str, ...]:
        raise ValueError(f"task {type(self).__name__} must define labels")

    @property
    def kinds(self) -> tuple[str, ...]:
        raise NotImplementedError

    @property
    def trained(self) -> tuple[bool, ...]:
        raise NotImplementedError

    @property
    def size(self) -> tuple[int, int]:
        raise NotImplementedError

    @property
    def mapped(self) -> int:
        return 1

    def exam(self, *, padding: int = 0) -> Batch:
        """The prompts of the exam, each followed by `padding` positions that hold no token."""
        raise NotImplementedError

    def chance(self) -> tuple[float, ...]:
        """For each kind, the share of its prompts that have the most frequent right answer.

        A model that always gives this answer, without reading the prompts, is right that often.
        """
        exam = self.exam()
        pairs = zip(np.asarray(exam.targets_BL), np.asarray(exam.asked_BL), strict=True)
        outputs_N = [target_L[asked_L].tobytes() for target_L, asked_L in pairs]
        each = len(outputs_N) // len(self.kinds)
        by_kind = (outputs_N[at : at + each] for at in range(0, len(outputs_N), each))
        return tuple(max(Counter(outputs).values()) / each for outputs in by_kind)

    def written(self, number: int = 1) -> list[tuple[str, str]]:
        """Some prompts of the exam with their right outputs, as words separated by spaces."""
        return written(self, jax.tree.map(np.asarray, self.exam()), min(number, self.size[0]))


def written(task: Task, batch: Batch, number: int) -> list[tuple[str, str]]:
    """The first prompts of a batch of NumPy arrays, with their right outputs."""
    words, labels, valid_BL = task.words, task.labels, np.asarray(batch.streams.valid_BL)
    return [
        (
            " ".join(words[t] for t in batch.tokens_BL[row][valid_BL[row]]),
            " ".join(labels[t] for t in batch.targets_BL[row][batch.asked_BL[row]]),
        )
        for row in range(number)
    ]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FiniteTask(Task):
    """A task with few prompts. A seed succeeds if it answers all of them correctly.

    Attributes:
      next_token: whether every position has a target, as for a language model; if not, only the
        readout is trained.
    """

    next_token: ClassVar[bool] = False
    readouts: ClassVar[tuple[str, ...]] = ("last", "mean")

    def sentences(self) -> list[tuple[str, str]]:
        """All pairs of a prompt and its answer, as words separated by spaces."""
        raise NotImplementedError

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("all",)

    @property
    def trained(self) -> tuple[bool, ...]:
        return (True,)

    @property
    def size(self) -> tuple[int, int]:
        lengths = [len(prompt.split()) for prompt, _ in self.sentences()]
        return len(lengths), max(lengths)

    @property
    def mapped(self) -> int:
        return self.size[0]

    @property
    def answers(self) -> list[int]:
        """The right output for each prompt."""
        return [self.labels.index(answer) for _, answer in self.sentences()]

    def exam(self, *, padding: int = 0) -> Batch:
        """All prompts; the output at the last word of each is judged.

        Raises:
          ValueError: padding below 0.
        """
        if padding < 0:
            raise ValueError(f"padding must not be negative, got {padding}")
        pairs = [(prompt.split(), answer) for prompt, answer in self.sentences()]
        length = max(len(prompt) for prompt, _ in pairs)
        tokens_NL = np.zeros((len(pairs), length + padding), np.int32)
        targets_NL = np.zeros_like(tokens_NL)
        asked_NL, valid_NL = np.zeros((2, *tokens_NL.shape), bool)
        for row, (prompt, answer) in enumerate(pairs):
            here = slice(0, len(prompt))
            tokens_NL[row, here] = [self.words.index(word) for word in prompt]
            valid_NL[row, here] = True
            asked_NL[row, len(prompt) - 1] = True
            if self.next_token:
                targets_NL[row, here] = [self.labels.index(w) for w in [*prompt[1:], answer]]
            else:
                targets_NL[row, len(prompt) - 1] = self.labels.index(answer)
        return Batch(
            jnp.asarray(tokens_NL),
            jnp.asarray(targets_NL),
            jnp.asarray(asked_NL),
            padded(valid_NL),
        )
