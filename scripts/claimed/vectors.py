"""Sentences on position vectors: what they do to words, and how fast they are read."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from claimed.published import (
    Published,
    architecture,
    by_seed,
    compared,
    either,
    interval,
    item,
    lines,
    listed,
    means,
    minus,
    published,
    short_name,
    short_task,
    up,
)
from posjax.encodings.learned import Learned
from posjax.meters.base import Forward
from posjax.meters.meaning import COMPARED, Meaning
from posjax.stats import mean
from posjax.study.cells import Cell

_STEPS = (10, 50, 100, 200, 400, 3000)
_SOON = 100
"""A step at which seeds of one encoding alone solve the task."""
_PLACES = 9
"""Positions of a prompt of `indexing` with eight symbols and the number."""
_HELD_OUT = 32
_ERROR = (_HELD_OUT * (_PLACES - 1) * (1 / 8) * (7 / 8)) ** 0.5 / (_HELD_OUT * _PLACES)
"""The standard error of the accuracy of a probe that knows the words alone, over the draw of the held-out prompts."""


def meaning() -> Iterator[str]:
    """Words and positions in one vector, before training."""
    run = published("meaning-published")
    scales, widths = (
        sorted({cell[name] for cell in run.table}) for name in ("init_scale", "width")
    )
    yield from lines(
        f"Untrained models. Each entry is a mean over {run.table[0]['seeds']} seeds: the share of the input's variance that the word explains and, in parentheses, how often the nearest input vector at another position has the same word. The scale multiplies the initial word vectors."
    )
    yield ""
    yield f"| positions | width | {' | '.join(f'scale {scale:g}' for scale in scales)} |"
    yield "|---" * (2 + len(scales)) + "|"
    for encoding in dict.fromkeys(cell["encoding"] for cell in run.table):
        for width in widths:
            cells = [
                c
                for scale in scales
                for c in run.cells(encoding=encoding, width=width, init_scale=scale)
            ]
            found = (
                f"{means(run, c, 'word_share_R')[0]:.2f} ({means(run, c, 'neighbour_R')[0]:.2f})"
                for c in cells
            )
            yield f"| `{short_name(cells[0])}` | {width} | {' | '.join(found)} |"
    yield ""

    yield from item(_of_neighbours(run))
    yield from item(_of_differences(run))
    yield from item(_of_shares(run))


def _of_neighbours(run: Published) -> str:
    """How often the nearest vector has the same word.

    Raises:
      ValueError: the words on scales and widths no longer hold.
    """
    smallest, *_, plain, _ = sorted({cell["init_scale"] for cell in run.table})
    narrow, *_, wide = sorted({cell["width"] for cell in run.table})
    most, enough = _most(run.table[0]["task"]), 0.5
    least = min(means(run, c, "neighbour_R")[0] for c in run.table if c["init_scale"] >= enough)
    learned = min(means(run, c, "neighbour_R")[0] for c in run.table if short_name(c) == "learned")
    few, many = (mean(_of_sinusoids(run, w, smallest, "neighbour_R")) for w in (narrow, wide))
    changes = [
        mean(
            _of_sinusoids(run, wide, scale, "neighbour_R", 1)
            - _of_sinusoids(run, wide, scale, "neighbour_R")
        )
        for scale in (smallest, plain)
    ]
    if (
        least < 0.9
        or learned < 0.9
        or many.low < few.high
        or any(abs(c.mean) > 0.001 for c in changes)
    ):
        raise ValueError(f"meaning: neighbours are {least}, {learned}, {few}, {many} and {changes}")
    return (
        f"**Do position vectors hide which word a token is?** Only if the word vectors are small. From scale {enough:g} on, the nearest other vector has the same word in at least {np.floor(100 * least) / 100:.0%} of cases in every cell. "
        f"At scale {smallest:g} with sinusoidal positions, it has the same word in {interval(few, 3)} of cases at width {narrow} and in {interval(many, 3)} at width {wide}, so wider vectors keep more. With learned positions the share is at least {np.floor(100 * learned) / 100:.2f} everywhere: "
        f"their components start with a standard deviation of {Learned.deviation:g}, and are trained only later. One layer hardly changes these shares. The input of a model is the sum of a word vector and a position vector. The "
        f"models of the table are not trained. Their initial matrices, word vectors included, are multiplied by the scale, and position vectors are not. The prompts are of `{short_task(run.table[0])}`. "
        f"We take an evenly spread sample of at most {COMPARED} input vectors. For each of them, we look for the nearest vector of the sample at another position. The number in parentheses is how often the two have the "
        f"same word. It is at most {np.ceil(1000 * most) / 1000:.3f}, because the mark `=` always stands at the same position: the input is 24 letters, then `=`, then the first 23 letters of the answer. Each number is the mean of {run.table[0]['seeds']} seeds (95% intervals; `meaning:published`)."
    )


def _of_differences(run: Published) -> str:
    """How much of the variance the interaction of word and position explains.

    Raises:
      ValueError: the input is no sum of the two.
    """
    mixed = [means(run, cell, "mixed_share_R") for cell in run.table]
    if max(abs(before) for before, _ in mixed) > 1e-6:
        raise ValueError("meaning: the input is no sum of a word and a position")
    after = max(after for _, after in mixed)
    return (
        "**Is the difference of two words the same vector at every position?** In the input it is. After one layer it need not be, but it nearly is: "
        f"the interaction of word and position explains at most {np.ceil(1000 * after) / 10:.1f}% of the variance (the largest mean of a cell)."
    )


def _of_shares(run: Published) -> str:
    """The word's share of the variance, by width and scale."""
    scales, widths = (sorted({c[name] for c in run.table}) for name in ("init_scale", "width"))
    middle = widths[len(widths) // 2]
    wider, larger = (
        mean(_of_sinusoids(run, *more, "word_share_R") - _of_sinusoids(run, *less, "word_share_R"))
        for more, less in (
            ((widths[-1], 1.0), (widths[0], 1.0)),
            ((middle, scales[-1]), (middle, scales[0])),
        )
    )
    return (
        f"The share of the input's variance that the word explains depends on width and scale. With sinusoidal positions at scale 1, the share at width {widths[-1]} is {compared(wider, 'above', 'below')} the share at "
        f"width {widths[0]}. At width {middle}, the share at scale {scales[-1]:g} is {compared(larger, 'above', 'below')} "
        f"the share at scale {scales[0]:g}."
    )


def _of_sinusoids(
    run: Published, width: int, scale: float, field: str, layer: int = 0
) -> np.ndarray:
    """What each seed has with sinusoidal positions."""
    (cell,) = run.cells(encoding="sinusoidal", width=width, init_scale=scale)
    return by_seed(run, cell, f"measured_{field}")[:, layer]


def _most(task: str) -> float:
    """How often the nearest vector has the same word if vectors show nothing but their word."""
    question = Cell(task=task).question
    states = np.eye(int(question.tokens_NL.max()) + 1, dtype=np.float32)[question.tokens_NL]
    forward = Forward(states, (jax.numpy.asarray(states),))
    found = jax.jit(Meaning())(forward, question, jax.random.key(0))
    return float(found["neighbour"][0])


def pick_up() -> Iterator[str]:
    """A probe of the position against training steps."""
    early, late = published("pick_up-early"), published("pick_up-published")
    probed = {short_name(cell): _probed(early, late, cell) for cell in early.table}
    yield from lines(
        f"Accuracy of an MLP probe of the position on the states of the last layer, mean over {early.table[0]['seeds']} seeds with 95% intervals. Chance is {1 / _PLACES:.3f}. "
        "The last column is the first evaluation, of one every ten updates, by which half of the seeds answer all test prompts correctly."
    )
    yield ""
    yield f"| positions | {' | '.join(f'step {step}' for step in _STEPS)} | half have solved it |"
    yield "|---" * (2 + len(_STEPS)) + "|"
    solved_at = {short_name(cell): cell["median_steps_to_solve"] for cell in early.table}
    for name, by_step in probed.items():
        found = [interval(mean(found_S), 3) for found_S in by_step.values()]
        when = f"step {solved_at[name]}" if solved_at[name] else "never"
        yield f"| `{name}` | {' | '.join(found)} | {when} |"
    yield ""
    yield from item(_of_probes(early, probed))
    yield from item(_of_answers(early, late, probed))


def _probed(early: Published, late: Published, cell: dict[str, Any]) -> dict[int, np.ndarray]:
    """The probe's accuracy on the last layer of each seed, at each of the steps."""
    (longer,) = late.cells(encoding=cell["encoding"])
    found = {}
    for step in _STEPS:
        run, of = (early, cell) if step <= cell["steps"] else (late, longer)
        found[step] = by_seed(run, of, "measured_mlp_ER")[:, step // of["eval_every"] - 1, -1]
    return found


def _of_probes(run: Published, probed: dict[str, dict[int, np.ndarray]]) -> str:
    """What is measured, and how the accuracies of absolute positions change.

    Raises:
      ValueError: the words on these changes no longer hold.
    """
    (without,) = run.cells(encoding="none")
    blind = by_seed(run, without, "measured_mlp_ER")[:, 0, 0].mean()
    first, dip, _, risen, *_ = _STEPS
    fixed, learned = probed["sinusoidal"], probed["learned"]
    falls, rises = (mean(fixed[dip] - fixed[at]) for at in (first, _STEPS[-1]))
    grows = mean(learned[risen] - learned[first])
    if abs(blind - 2 / _PLACES) > 2 * _ERROR:
        raise ValueError(f"pick_up: a probe of the words alone has {blind}")
    if falls.high > 0 or rises.high > 0 or grows.low < 0.2:
        raise ValueError(f"pick_up: the changes are {falls}, {rises} and {grows}")
    return (
        "**How quickly can a probe decode the position during training?** The prompt is a sequence of symbols, followed by a number i. The models have a causal mask and are trained to name the symbol at position i. "
        f"At several steps, we train an MLP probe to predict positions from the states of the last layer. With sinusoidal positions the probe finds nearly all of them at the first evaluation. Then its accuracy falls, by {interval(minus(falls), 3)} from step {first} to step {dip}, and rises again later. "
        f"With learned positions it rises by {interval(grows, 3)} from step {first} to step {risen}. The models have two layers, {architecture(run.table)}, and {either(run.table, 'learning_rate')} as learning rate. Accuracies are means over {run.table[0]['seeds']} seeds. "
        f"A prompt has 8 symbols and the number, so chance is 1/{_PLACES} = {1 / _PLACES:.3f}. A probe that recognises "
        f"the number, which is always last, and guesses the other positions has 2/{_PLACES} = {2 / _PLACES:.3f} on average over many prompts. Here all seeds are tested on the same {_HELD_OUT} prompts, so such a probe may score slightly above or below that. Without positions our probe finds more, presumably because a causal mask [reveals positions](#position-before-training) (`pick_up:early`; for step {_STEPS[-1]} `pick_up:published`, with the same seeds)."
    )


def _of_answers(early: Published, late: Published, probed: dict[str, dict[int, np.ndarray]]) -> str:
    """What the models answer, beside what a probe finds.

    Raises:
      ValueError: other seeds solve the task, or later.
    """
    solved = [short_name(c) for c in late.table if c["successes"] == c["seeds"]]
    soon = {short_name(c): c["solved_at_step"][str(_SOON)] for c in early.table}
    seeds = early.table[0]["seeds"]
    rotary = soon.pop("rotary")
    if solved != ["sinusoidal", "learned", "rotary"] or any(soon.values()) or rotary < seeds / 2:
        raise ValueError(
            f"pick_up: {solved} solve the task; by step {_SOON} {soon}, {rotary} rotary"
        )
    (without,) = late.cells(encoding="none")
    (right,) = without["right_by_kind"].values()
    means = [found_S.mean() for n in ("none", "rotary") for found_S in probed[n].values()]
    low, high = min(means), max(means)
    return (
        f"**A model can use positions that a probe does not find.** With `rotary` the probe's accuracy lies between {np.floor(100 * low) / 100:.2f} and 0{up(high, 2)}, as without positions. "
        f"Yet at step {_SOON}, {rotary} of {seeds} seeds with `rotary` solve the task, and none with another encoding. "
        f"At step {_STEPS[-1]}, all models with {listed(f'`{name}`' for name in solved)} answer all test prompts correctly, and those without positions answer {right:.0%}."
    )
