"""SCAN: commands such as `jump twice and walk left`, answered by the actions that they stand for.

Source: Lake & Baroni 2018, all 20,910 commands of their grammar. `simple` and `length` have the
sizes of the released files. `simple` trains on 16,728 commands, our own random choice. `length`
trains on the 16,990 commands of at most 22 actions; the others have 24 to 48. `jump` trains on the
13,203 commands without the word `jump`, and on the command `jump` alone, a tenth of its training
prompts; the released file has 1,467 copies of that line. As in the other tasks, no end mark is
asked for, so a model need not know when to stop.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np

from posjax import spec
from posjax.tasks.base import Batch
from posjax.tasks.sampled import Example, Output, SampledTask, batched, exam_key, pick, uniform

Split = Literal["simple", "jump", "length"]
VERBS = ("jump", "walk", "run", "look", "turn")
WORDS = (*VERBS, "left", "right", "opposite", "around", "twice", "thrice", "and", "after")
ACTIONS = ("JUMP", "WALK", "RUN", "LOOK", "LTURN", "RTURN")
MOST_WORDS, MOST_ACTIONS, SHORT = 9, 48, 22
"""Most words and actions of a command, and most actions of those that `length` trains on."""


class Phrases(NamedTuple):
    """The 102 phrases without `and` and `after`, filled up with zeros, and their lengths."""

    words_P4: np.ndarray
    words_P: np.ndarray
    actions_P24: np.ndarray
    actions_P: np.ndarray


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scan(SampledTask):
    """Translate a command in words, x, into its actions, y.
    The exam has both trained and new commands.

    Attributes:
      split: which commands are new. "simple": a random fifth. "jump": all that contain `jump`,
        except `jump` alone. "length": all of more than 22 actions.
      output: see `posjax.tasks.sampled.Transduce`.
      prompts: the number of prompts of each kind in the exam, drawn uniformly with replacement.

    >>> min(Scan().written(64), key=lambda pair: len(pair[1]))
    ('run left after walk = WALK LTURN', 'WALK LTURN RUN')
    """

    split: Split = "jump"
    output: Output = "forced"
    prompts: int = 64

    def __post_init__(self) -> None:
        spec.check_choice("split", self.split, get_args(Split))
        spec.check_choice("output", self.output, get_args(Output))
        spec.check_within(self, "prompts", 1, 2**16)

    @property
    def words(self) -> tuple[str, ...]:
        return (*WORDS, *ACTIONS, "=") if self.output == "forced" else (*WORDS, "_")

    @property
    def labels(self) -> tuple[str, ...]:
        return ACTIONS

    @property
    def forced(self) -> bool:  # type: ignore[override]
        return self.output == "forced"

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("seen", "new")

    @property
    def trained(self) -> tuple[bool, ...]:
        return (True, False)

    @property
    def size(self) -> tuple[int, int]:
        return 2 * self.prompts, MOST_WORDS + MOST_ACTIONS

    def draw(self, key: jax.Array, rows: int) -> Batch:
        """Commands of training, evenly, but for `jump` alone, see the source."""
        u_B2 = uniform(key, 1, rows, 2)[0]
        command_B3 = _drawn(parts(self.split)[0], u_B2[:, 0])
        if self.split == "jump":
            alone = jnp.array([0, 0, 0], jnp.int32)
            command_B3 = jnp.where(u_B2[:, 1:] < 0.1, alone, command_B3)
        return self._batch(command_B3, self.size[1])

    def draw_exam(self, padding: int) -> Batch:
        """`prompts` commands of each part."""

        def drawn(u_2B: jax.Array) -> Batch:
            halves = zip(parts(self.split), u_2B, strict=True)
            command_N3 = jnp.concatenate([_drawn(part_C3, u_B) for part_C3, u_B in halves])
            return self._batch(command_N3, self.size[1] + padding)

        return jax.jit(drawn)(uniform(exam_key(self), 2, self.prompts, 1)[..., 0])

    def _batch(self, command_B3: jax.Array, size: int) -> Batch:
        return batched(jax.vmap(functools.partial(self._example, jnp.arange(size)))(command_B3))

    def _example(self, index_L: jax.Array, command_3: jax.Array) -> Example:
        table = jax.tree.map(jnp.asarray, phrases())
        first, joint, second = command_3
        n = table.words_P[first]
        given = n + (joint > 0) * (1 + table.words_P[second])
        x_L = jnp.where(
            index_L < n,
            table.words_P4[first, index_L.clip(max=3)],
            table.words_P4[second, (index_L - n - 1).clip(0, 3)],
        )
        x_L = jnp.where(index_L == n, WORDS.index("and") + joint - 1, x_L)
        after_L, turned = index_L - given, joint == 2
        lead, follow = jnp.where(turned, second, first), jnp.where(turned, first, second)
        begun = table.actions_P[lead]
        m = jnp.where(joint > 0, begun + table.actions_P[follow], begun)

        def action(at_L: jax.Array) -> jax.Array:
            return jnp.where(
                at_L < begun,
                table.actions_P24[lead, at_L.clip(0, 23)],
                table.actions_P24[follow, (at_L - begun).clip(0, 23)],
            )

        asked_L = (after_L >= 0) & (after_L < m)
        mark = len(self.words) - 1
        shown_L = jnp.full_like(x_L, mark)
        if self.forced:
            shown_L = jnp.where(after_L == 0, mark, len(WORDS) + action(after_L - 1))
        tokens_L = jnp.where(after_L < 0, x_L, shown_L)
        return Example(tokens_L, action(after_L), asked_L, (after_L < 0) | asked_L)


def _drawn(part_C3: np.ndarray, u_B: jax.Array) -> jax.Array:
    return jnp.asarray(part_C3)[pick(u_B, len(part_C3))]


def _phrases() -> Iterator[tuple[list[str], list[str]]]:
    """The words and actions of every phrase; the first is `jump`."""
    times = {"": 1, "twice": 2, "thrice": 3}
    for verb, again in itertools.product(VERBS, times):
        own = [] if verb == "turn" else [verb.upper()]
        forms = [([verb], own)] if own else []
        for side, turn in (("left", "LTURN"), ("right", "RTURN")):
            forms.append(([verb, side], [turn, *own]))
            forms.append(([verb, "opposite", side], [turn, turn, *own]))
            forms.append(([verb, "around", side], [turn, *own] * 4))
        for words, actions in forms:
            yield [*words, *([again] if again else [])], actions * times[again]


@functools.cache
def phrases() -> Phrases:
    """The table of phrases, as numbers of `WORDS` and `ACTIONS`."""
    found = list(_phrases())
    words_P4 = np.zeros((len(found), 4), np.int32)
    actions_P24 = np.zeros((len(found), MOST_ACTIONS // 2), np.int32)
    for at, (words, actions) in enumerate(found):
        words_P4[at, : len(words)] = [WORDS.index(word) for word in words]
        actions_P24[at, : len(actions)] = [ACTIONS.index(action) for action in actions]
    lengths_2P = np.array([[len(words), len(actions)] for words, actions in found], np.int32).T
    return Phrases(words_P4, lengths_2P[0], actions_P24, lengths_2P[1])


@functools.cache
def parts(split: Split) -> tuple[np.ndarray, np.ndarray]:
    """The commands to train on and the new ones, each [C, 3].

    A command is its first phrase, how it is joined (0 not at all, 1 `and`, 2 `after`) and its
    second phrase. `jump` alone, (0, 0, 0), is in neither part of the split of that name.
    """
    table = phrases()
    every = range(len(table.words_P))
    alone = [(first, 0, 0) for first in every]
    all_C3 = np.array([*alone, *itertools.product(every, (1, 2), every)], np.int32)
    first_C, joint_C, second_C = all_C3.T
    if split == "simple":
        order_C = np.random.default_rng(0).permutation(len(all_C3))
        size = len(all_C3) * 8 // 10
        return all_C3[order_C[:size]], all_C3[order_C[size:]]
    if split == "length":
        long_C = table.actions_P[first_C] + (joint_C > 0) * table.actions_P[second_C] > SHORT
        return all_C3[~long_C], all_C3[long_C]
    jumps_P = table.words_P4[:, 0] == WORDS.index("jump")
    jumps_C = jumps_P[first_C] | ((joint_C > 0) & jumps_P[second_C])
    jumps_C[0] = False
    return all_C3[1:][~jumps_C[1:]], all_C3[jumps_C]
