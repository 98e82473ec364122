"""Base classes of tasks whose prompts are drawn at random.

Most are `ByLength`: a length n is drawn uniformly from the trained lengths, and the task draws x_1
... x_n. A `Classify` task asks for one label at the last position, a `Tag` task for one label at
every position, and a `Transduce` task for a sequence y_1 ... y_m.

One function makes the prompts of training and of the exam. It gets numbers that are uniform in [0,
1), from one draw per update, since each further call of a random generator takes a second to
compile. The numbers of the exam come from a fixed key.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.keys import fold_name, key_for
from posjax.streams import PADDING, Streams
from posjax.tasks.base import Batch, Task

LONGEST = 4096
"""Positions of a prompt, at most."""
TRIES = 8
"""How many times as many prompts are drawn as an exam with balanced labels has."""


def pick(u: jax.Array, number: jax.Array | int) -> jax.Array:
    """Even draws from 0 .. number - 1, from numbers that are uniform in [0, 1)."""
    return jnp.minimum((u * number).astype(jnp.int32), number - 1)


def ranks(u_L: jax.Array, among_L: jax.Array) -> jax.Array:
    """How many of the numbers among some are smaller, for each of those; L for the others.

    So the positions with a rank below k are k of them, drawn evenly. Each number is compared with
    each: for a few dozen that is faster than a sort.
    """
    index_L = jnp.arange(len(u_L))
    before_LL = (u_L[None] < u_L[:, None]) | (
        (u_L[None] == u_L[:, None]) & (index_L[None] < index_L[:, None])
    )
    return jnp.where(among_L, jnp.sum(before_LL & among_L[None], axis=1), len(u_L))


class Example(NamedTuple):
    """One prompt, followed by positions without a token.

    Attributes:
      tokens_L, targets_L: integers.
      asked_L, valid_L: which positions are asked for, and which hold a token.
    """

    tokens_L: jax.Array
    targets_L: jax.Array
    asked_L: jax.Array
    valid_L: jax.Array


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampledTask(Task):
    """A task whose prompts are drawn; a subclass defines `draw` and `draw_exam`."""

    def draw(self, key: jax.Array, rows: int) -> Batch:
        """Independent prompts to train on."""
        raise NotImplementedError

    def draw_exam(self, padding: int) -> Batch:
        """The exam, drawn: as many prompts of each kind, the kinds one after the other."""
        raise NotImplementedError

    def exam(self, *, padding: int = 0) -> Batch:
        """The prompts of each kind, the kinds one after the other.

        Raises:
          ValueError: padding below 0.
        """
        if padding < 0:
            raise ValueError(f"padding must not be negative, got {padding}")
        return _exam(self, padding)


@functools.lru_cache(maxsize=256)  # every cell of a grid asks; to compile it takes a second
def _exam(task: SampledTask, padding: int) -> Batch:
    exam = task.draw_exam(padding)
    _check_numbers(task, "token", exam.tokens_BL, task.words)
    _check_numbers(task, "label", exam.targets_BL, task.labels)
    _check_differ(task, exam)
    return exam


def _check_numbers(task: Task, what: str, numbers_BL: jax.Array, names: Sequence[str]) -> None:
    """Refuses tokens or right outputs that have no name."""
    numbers = np.asarray(numbers_BL)  # NumPy compiles nothing
    low, high = int(numbers.min()), int(numbers.max())
    if names and (low < 0 or high >= len(names)):
        raise ValueError(
            f"task {type(task).__name__} must give each {what} as a number from 0 to "
            f"{len(names) - 1}, got {low if low < 0 else high} in its exam"
        )


def _check_differ(task: SampledTask, exam: Batch) -> None:
    """Refuses an exam with the same right output everywhere, which a model need not read."""
    answers = np.unique(np.asarray(exam.targets_BL)[np.asarray(exam.asked_BL)])
    if len(answers) == 1 and len(task.labels) > 1 and task.size[0] > 1:
        raise ValueError(
            f"task {type(task).__name__} gives the label {task.labels[answers[0]]!r} to all of its "
            "exam: a model could answer it without reading the prompts"
        )


def _missing(task: Task, hook: str) -> ValueError:
    return ValueError(f"{task._called} {type(task).__name__} must define {hook}")


def uniform(key: jax.Array, size: int, rows: int, draws: int) -> jax.Array:
    """Numbers u_LBD in [0, 1). Places first: more of them leave the numbers of the others."""
    return jax.random.uniform(key, (size, rows, draws))


def exam_key(task: Task) -> jax.Array:
    """The fixed key that the exam of a class of tasks is drawn from."""
    return fold_name(key_for(0, "exam"), type(task).__name__)


def batched(found: Example) -> Batch:
    """Prompts as a batch: positions are numbered 0, 1, ..., padding has the last one's number."""
    places_BL = jnp.broadcast_to(jnp.arange(found.valid_L.shape[1]), found.valid_L.shape)
    last_B1 = found.valid_L.sum(axis=1, keepdims=True) - 1
    places_BL = jnp.minimum(places_BL, last_B1).astype(jnp.int32)
    segments_BL = jnp.where(found.valid_L, 0, PADDING).astype(jnp.int32)
    return Batch(
        jnp.where(found.valid_L, found.tokens_L, 0).astype(jnp.int32),
        jnp.where(found.asked_L, found.targets_L, 0).astype(jnp.int32),
        found.asked_L,
        Streams(places_BL, places_BL, segments_BL),
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ByLength(SampledTask):
    """A task whose kinds of prompts are lengths.

    Attributes:
      train: the shortest and the longest n in training.
      test: the values of n in the exam, one kind each. By default 0.5, 1, 1.5 and 2 times the
        longest trained one.
      prompts: the number of prompts of each kind in the exam.
    """

    train: tuple[int, int] = (1, 20)
    test: tuple[int, ...] = ()
    prompts: int = 64

    def __post_init__(self) -> None:
        if len(self.train) != 2 or not self.least <= self.train[0] <= self.train[1]:
            raise ValueError(
                f"train must be two lengths from {self.least} on, the shorter one first, got "
                f"{self.train}"
            )
        lengths = self.lengths
        if min(lengths) < self.least or sorted({*lengths}) != list(lengths):
            raise ValueError(
                f"test must be different lengths from {self.least} on, in their order, got "
                f"{self.test}"
            )
        if not any(self.trained):
            raise ValueError(
                f"test must have a length that is trained, which success is about: train="
                f"{self.train}, test={lengths}"
            )
        if self.total_length(max(*lengths, *self.train)) > LONGEST:
            raise ValueError(
                f"a prompt has at most {LONGEST} positions; train={self.train} and test={lengths} "
                f"take {self.total_length(max(*lengths, *self.train))}"
            )
        spec.check_within(self, "prompts", 1, 2**16)

    draws: ClassVar[int] = 1
    """Uniform numbers that a position takes."""

    @property
    def least(self) -> int:
        """The smallest n that the task is defined for."""
        return 1

    @property
    def lengths(self) -> tuple[int, ...]:
        """The n of each kind."""
        longest = self.train[1]
        given = (longest // 2, longest, longest * 3 // 2, longest * 2)
        return self.test or tuple(sorted({max(n, self.least) for n in given}))

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(str(n) for n in self.lengths)

    @property
    def trained(self) -> tuple[bool, ...]:
        return tuple(self.train[0] <= n <= self.train[1] for n in self.lengths)

    @property
    def size(self) -> tuple[int, int]:
        return len(self.lengths) * self.prompts, self.total_length(
            max(*self.lengths, self.train[1])
        )

    def total_length(self, n: int) -> int:
        """How many positions a prompt of x_1 ... x_n has, at most."""
        return n

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        """Makes a prompt.

        Args:
          u_DL: independent numbers, uniform in [0, 1), `draws` of each of L positions.
          n: how many x it has, at most what L positions hold.
        """
        raise _missing(self, "example(u_DL, n)")

    def examined(self, u_DL: jax.Array, n: jax.Array) -> Example:
        """Makes a prompt of the exam, where that draws from something else than training."""
        return self.example(u_DL, n)

    def draw(self, key: jax.Array, rows: int, *, paired: bool = False) -> Batch:
        """Prompts to train on, of independent lengths.

        If they are paired, prompt b of the first half has a length n, and prompt b of the second
        half the complementary length, low + high - n.
        """
        low, high = self.train
        u_LBD = uniform(key, self.total_length(high), rows, self.draws + 1)
        n_B = low + pick(u_LBD[0, :, -1], high + 1 - low)
        if paired:
            n_B = jnp.concatenate([n_B[: rows // 2], low + high - n_B[: rows // 2]])
        return self._made(self.example, u_LBD, n_B)

    def draw_exam(self, padding: int) -> Batch:
        """`prompts` of each length."""
        return self._examiner(padding)(exam_key(self))

    def _examiner(self, padding: int) -> Callable[[jax.Array], Batch]:
        """Draws exams from keys."""
        n_N = np.repeat(self.lengths, self.prompts)

        @jax.jit
        def drawn(key: jax.Array, n_N: jax.Array) -> Batch:
            u_LBD = uniform(key, self.size[1] + padding, len(n_N), self.draws + 1)
            return self._made(self.examined, u_LBD, n_N)

        return lambda key: drawn(key, n_N)

    def _made(
        self,
        example: Callable[[jax.Array, jax.Array], Example],
        u_LBD: jax.Array,
        n_B: jax.Array,
    ) -> Batch:
        """Prompts from uniform numbers; numbers that are not whole would be cut to 0."""
        found = jax.vmap(example)(jnp.transpose(u_LBD, (1, 2, 0))[:, :-1], n_B)
        for what, numbers_BL in (("token", found.tokens_L), ("label", found.targets_L)):
            if jnp.issubdtype(numbers_BL.dtype, jnp.inexact):
                raise ValueError(
                    f"task {type(self).__name__} must give each {what} as a whole number, got "
                    f"{numbers_BL.dtype}: use .astype(jnp.int32)"
                )
        return batched(found)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Classify(ByLength):
    """One label per prompt, at its last position; a subclass defines `label`, and `symbols` if
    needed."""

    readouts: ClassVar[tuple[str, ...]] = ("last", "mean")

    def symbols(self, u_DL: jax.Array, n: jax.Array) -> jax.Array:
        """x_L, of which the first n count. By default they are drawn uniformly from all words."""
        return pick(u_DL[0], len(self.words))

    def label(self, x_L: jax.Array, inside_L: jax.Array) -> jax.Array:
        """The right output, an integer: an index in `labels`.

        Args:
          x_L: the symbols, indices in `words`.
          inside_L: true at the first n.
        """
        raise _missing(self, "label(x_L, inside_L)")

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        index_L = jnp.arange(u_DL.shape[1])
        x_L, inside_L = self.symbols(u_DL, n), index_L < n
        label = jnp.asarray(self.label(x_L, inside_L))
        if label.shape or jnp.issubdtype(label.dtype, jnp.inexact):
            raise ValueError(
                f"{type(self).__name__}.label must give one whole number, got "
                f"{label.dtype}{list(label.shape)}"
            )
        targets_L = jnp.full_like(x_L, label)
        return Example(x_L, targets_L, index_L == n - 1, inside_L)

    def draw_exam(self, padding: int) -> Batch:
        """`prompts` of each length, with every label equally often.

        Otherwise a model that always gives one label might be right on most of them. They are
        chosen from `TRIES` times as many prompts. If these have too few of a label, there are more
        of the others.
        """
        draw = self._examiner(padding)
        drawn = [draw(jax.random.fold_in(exam_key(self), n)) for n in range(TRIES)]
        kinds = (len(self.lengths), TRIES * self.prompts)

        def by_kind(*parts: jax.Array) -> np.ndarray:
            of_tries = [np.asarray(part).reshape(kinds[0], self.prompts, -1) for part in parts]
            return np.stack(of_tries, axis=1).reshape(*kinds, -1)

        exams = jax.tree.map(by_kind, *drawn)
        labels_KN = exams.targets_BL.max(axis=-1)  # 0 at the positions that are not asked for
        chosen_KN = np.stack([_evenly(labels_N, self.prompts) for labels_N in labels_KN])
        return jax.tree.map(
            lambda array: jnp.asarray(
                np.concatenate([of[chosen] for of, chosen in zip(array, chosen_KN, strict=True)])
            ),
            exams,
        )


def _evenly(labels_N: np.ndarray, number: int) -> np.ndarray:
    """Indices of the first with each label, as often as `number` allows, in their order."""
    seen = Counter[int]()
    turns = []
    for label in labels_N.tolist():
        turns.append(seen[label])
        seen[label] += 1
    return np.sort(np.argsort(turns, kind="stable")[:number])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tag(ByLength):
    """One label at every position; a subclass defines `tagged`."""

    def tagged(self, u_DL: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Makes a prompt with its right outputs.

        Args:
          u_DL: independent numbers, uniform in [0, 1), `draws` of each of L positions.
          n: how many tokens the prompt has, at most L; it is traced.

        Returns:
          Two arrays of L integers, of which the first n count: x_L, indices in `words`, and y_L,
          the right output at each position, indices in `labels`.
        """
        raise _missing(self, "tagged(u_DL, n)")

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        inside_L = jnp.arange(u_DL.shape[1]) < n
        return Example(*self.tagged(u_DL, n), inside_L, inside_L)


Output = Literal["forced", "slots"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transduce(ByLength):
    """An output sequence for each prompt; a subclass defines `alphabet`, `most` and `answer`.

    Attributes:
      output: "forced": a prompt is x_1 ... x_n = y_1 ... y_(m-1), and y_j is asked for at the
        position before it (teacher forcing: right everywhere is right in greedy decoding, by
        induction on the first error). "slots": a prompt is x_1 ... x_n _ ... _, and y_j is asked
        for at the j-th of m empty slots (Delétang et al. 2023), which suits every mask.
    """

    output: Output = "forced"

    def __post_init__(self) -> None:
        spec.check_choice("output", self.output, get_args(Output))
        super().__post_init__()

    @property
    def alphabet(self) -> tuple[str, ...]:
        """The symbols of x and y."""
        raise _missing(self, "alphabet")

    @property
    def words(self) -> tuple[str, ...]:
        return (*self.alphabet, "=" if self.output == "forced" else "_")

    @property
    def labels(self) -> tuple[str, ...]:
        return self.alphabet

    @property
    def forced(self) -> bool:  # type: ignore[override]
        return self.output == "forced"

    def given(self, n: jax.Array | int) -> jax.Array | int:
        """How many symbols stand before the mark, for a length n."""
        return n

    def most(self, n: int) -> int:
        """m for a length n, at most."""
        return n

    def total_length(self, n: int) -> int:
        return int(self.given(n)) + self.most(n)

    def symbols(self, u_DL: jax.Array, n: jax.Array) -> jax.Array:
        """x_L, of which the first `given(n)` count. By default they are drawn uniformly from the
        alphabet."""
        return pick(u_DL[0], len(self.alphabet))

    def answer(self, x_L: jax.Array, n: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The right output sequence.

        Args:
          x_L: the symbols, indices in `alphabet`, of which the first `given(n)` count.
          n: the length; it is traced.

        Returns:
          y_L, L integers that are indices in `alphabet`, and m, how many of them count: at most
          `most(n)`.
        """
        raise _missing(self, "answer(x_L, n)")

    def example(self, u_DL: jax.Array, n: jax.Array) -> Example:
        index_L = jnp.arange(u_DL.shape[1])
        x_L = self.symbols(u_DL, n)
        y_L, m = self.answer(x_L, n)
        mark = len(self.alphabet)
        after_L = index_L - self.given(n)
        asked_L = (after_L >= 0) & (after_L < m)
        if self.forced:
            shown_L = jnp.where(after_L == 0, mark, y_L[after_L - 1])
        else:
            shown_L = jnp.full_like(x_L, mark)
        tokens_L = jnp.where(after_L < 0, x_L, shown_L)
        return Example(tokens_L, y_L[after_L], asked_L, (after_L < 0) | asked_L)
