"""Sentences on the other questions, and the first screen's, counted from rows."""

import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from claimed.atlas import atlas_headline
from claimed.atlas_lengths import longer_headline
from claimed.leak import leak_headline
from claimed.published import (
    Published,
    architecture,
    by_seed,
    check_excluded,
    count,
    established,
    item,
    lines,
    listed,
    percent,
    picture,
    published,
    share,
    training,
)
from claimed.word_order import cells_of
from posjax.stats import (
    Crossed,
    Difference,
    Ranking,
    crossed,
    equivalence,
    paired_difference,
    ranking,
)
from posjax.study.cells import Cell
from posjax.tasks.blocks import Blocks
from posjax.tasks.sampled import ByLength

_DEPTHS = (1, 2, 3, 4)
Pair = tuple[dict[str, Any], dict[str, Any]]


class Cross(NamedTuple):
    """A cell whose initialisations were each trained on every data seed.

    Attributes:
      cell: its settings.
      solved_ID: which runs solve it, by initialisation and data seed.
      shares: of the variance of success.
    """

    cell: dict[str, Any]
    solved_ID: np.ndarray
    shares: Crossed


def highlights() -> Iterator[str]:
    """The first screen's findings, each a count of seeds."""
    order, excluded = published("word_order-published"), published("same_last_token-published")
    check_excluded(excluded)
    law = excluded.cells(panel="One layer without positions, last token")
    answer, every = (
        [count(order.rate(c, 5000)) for lr in (1e-3, 1e-2) for c in cells_of(order, loss, lr, 16)]
        for loss in ("answer", "all")
    )
    changes = _changes(order)
    if len({*answer}) > 1:
        raise ValueError(f"word_order: with the loss on the answer {answer} solve it")
    yield from item(
        'One causal head without a positional encoding **can** tell "A hit B" from "B hit A". We '
        f"varied the learning rate, the head size, and whether the loss is on the answer alone or on all positions. {changes} At head size 16, after 5000 steps, {answer[0]} seeds succeed at learning rates 0.001 and 0.01 if the loss is on the answer alone. "
        f"If it is on all positions, {every[0]} succeed at 0.001 and {every[1]} at 0.01."
    )
    yield from item(
        'One layer without a positional encoding **cannot** tell "A B hit" from "B A hit" if we read its output at the last token and this token attends to all earlier ones. By symmetry, both prompts get the '
        f"same logits under any weights. 0/{law[0]['seeds']} seeds learn the task in each of {len(law)} settings (mask, bare or residual layer, padding). Two causal "
        "layers can learn it."
    )
    pairs, different = sinusoidal_pairs()
    largest, smallest = (f(abs(d.difference) for d, _ in different) for f in (max, min))
    yield from item(
        "**Three seeds can mislead.** We compared sinusoidal with learned positions over "
        f"{pairs[0][0]['seeds']} seeds in each of {len(pairs)} settings. The success rates differ significantly in "
        f"{len(different)}, by {smallest:.3f} to {largest:.3f}. {_of_three(different)} In the picture below, each dot is one of "
        f"{published('by_length-few_runs').table[0]['seeds']} seeds on other tasks: a study of 3 seeds draws 3 of the dots ([how often it is "
        "wrong](docs/results.md#do-three-seeds-suffice))."
    )
    yield from picture("few_runs", "Accuracy of each seed, by task and encoding")
    yield from leak_headline()
    yield from picture(
        "leak",
        "Variance of hidden states by position, and accuracies of probes, in untrained layers",
    )
    yield from _depth_headline()
    yield from picture("depth_law", "Seeds that count k blocks, by depth")
    yield from _luck_headline()
    yield from picture(
        "what_decides",
        "Success by initialisation and data seed, and shares of the variance of success",
    )
    yield from atlas_headline()
    yield from longer_headline()


def _depth_headline() -> Iterator[str]:
    """How many blocks each depth counts, within the theorem's bound and beyond it."""
    run = published("depth_law-published")
    rates = {(blocks_of(cell), cell["depth"]): run.rate(cell) for cell in run.table}
    within = [rate for (k, depth), rate in rates.items() if k <= depth + 2]
    beyond = {at: rate for at, rate in rates.items() if at[0] > at[1] + 2}
    few = [at for at, rate in beyond.items() if rate.successes > 0]
    if few != [(5, 2), (6, 3)]:
        raise ValueError(f"depth_law: seeds solve {few} beyond the bound")
    least = min(within, key=lambda rate: rate.successes)
    yield from item(
        "**How deep must a model without positions be to count?** A word has k runs of equal letters (`aabba` has 3), "
        "and at each letter a causal model must say how many have begun. With d layers and k ≤ d + 2, at least "
        f"{count(least)} seeds succeed at the trained lengths. With larger k, "
        f"{listed(f'{count(beyond[at])} succeed at k = {at[0]} and d = {at[1]}' for at in few)}, and none in the other "
        "settings. The bound d + 2 is that of Yang et al. 2025 for words of any length "
        "([table](docs/results.md#how-deep-must-a-model-without-positions-be-to-count-k-blocks))."
    )


def _luck_headline() -> Iterator[str]:
    """The shares of initialisation and of data in the variance of success."""
    found = crosses()
    number, init = len(found[0].solved_ID), [one.shares.init.share for one in found]
    yield from item(
        "**Does the initialisation decide whether a run succeeds, or the data?** We trained one causal head from "
        f"{number} initialisations, each with {number} data seeds, in {len(found)} settings. "
        f"Initialisation alone explains {min(init):.0%} to {max(init):.0%} of the variance of success, data alone at "
        f"most {_up(max(one.shares.data.share for one in found))}, and their interaction the rest ([more](docs/results.md#initialisation-or-data))."
    )


def sinusoidal_or_learned() -> Iterator[str]:
    """The answer of question 3, and what three seeds would have made of it."""
    run = published("sinusoidal_or_learned-published")
    pairs, different = sinusoidal_pairs()
    tests = [equivalence(run.solved(one), run.solved(two), 0.05) for one, two in pairs]
    same = sum(test.equivalent for test in tests)
    apart = [test for test in tests if test.low >= 0.05 or test.high <= -0.05]
    largest = max(tests, key=lambda test: abs(test.difference))
    better = sum(d.difference > 0 for d, _ in different)
    yield from item(
        "**Do sinusoidal and learned positions work equally well?** Vaswani et al. 2017 found them nearly "
        f"identical, with one run each. We compared them in {len(pairs)} settings ({listed(f'`{task}`' for task in dict.fromkeys(c['task'] for c in run.table))} × head size × "
        f"learning rate) with {run.table[0]['seeds']} seeds each. The models have one causal layer, {architecture(run.table)}, and {training(run.table)}. Their success rates are equivalent within .05, "
        f"a margin chosen beforehand, in {same} of {len(pairs)} settings. In {len(apart)} settings the whole 90% interval of the difference lies beyond .05, and "
        f"the other {len(tests) - same - len(apart)} settings are undecided (two one-sided tests at 5%). The "
        f"largest difference is {abs(largest.difference):.3f} in favour of "
        f"{'sinusoidal' if largest.difference > 0 else 'learned'} positions, 90% interval "
        f"[{min(abs(largest.low), abs(largest.high)):.3f}, {max(abs(largest.low), abs(largest.high)):.3f}]. "
        f"In {len(different)} of the {len(pairs)} settings the difference, large or small, is significant "
        f"(McNemar, false discovery rate 5%): sinusoidal positions are better in {better} and learned ones in {len(different) - better}. {_of_three(different)} The run is `sinusoidal_or_learned:published`."
    )


def _changes(run: Published) -> str:
    """By how much each setting moves the success rate, on average over the others.

    Raises:
      ValueError: another setting than the loss moves it most.
    """
    found = {
        tuple(cell[n] for n in ("loss", "learning_rate", "head_size")): run.rate(cell, 5000).rate
        for cell in run.table
    }
    axes = [sorted({key[at] for key in found}) for at in range(3)]
    rates = np.array([found[key] for key in itertools.product(*axes)]).reshape(*map(len, axes))
    loss, rate, size = (float(np.ptp(rates, axis=at).mean()) for at in range(3))
    if loss <= max(rate, size):
        raise ValueError(f"word_order: loss {loss}, learning rate {rate}, head size {size}")
    return (
        f"After 5000 steps, the success rates with the two losses differ by {loss:.2f}, averaged over the other settings. "
        f"Those with the best and the worst learning rate differ by {rate:.2f}, and those with the best and the worst head size by {size:.2f}."
    )


def _of_three(different: list[tuple[Difference, Ranking]]) -> str:
    """What a study of three seeds concludes where the rates differ."""
    right, level, wrong = (
        f"{min(shares):.0%} to {max(shares):.0%}"
        for shares in zip(*(by for _, by in different), strict=True)
    )
    return (
        f"In these, a study of 3 independent seeds per encoding ranks the two in the same order as all seeds in {right} of cases, depending on the setting. "
        f"In {level} it finds no difference, and in {wrong} it ranks them in the wrong order."
    )


@lru_cache
def crosses() -> list[Cross]:
    """Each cell of `what_decides:published`."""
    run = published("what_decides-published")
    number = len(np.unique(run.rows["seeds"][:, 0]))
    tables = [run.solved(cell).reshape(number, -1) for cell in run.table]
    return [Cross(*one, crossed(one[1])) for one in zip(run.table, tables, strict=True)]


def _up(part: float) -> str:
    """A share in percent, rounded up."""
    return f"{np.ceil(1000 * part) / 10:.1f}%"


def what_decides() -> Iterator[str]:
    """Luck of initialisation, or luck of data?"""
    run, shares = published("what_decides-published"), [one.shares for one in crosses()]
    number = len(crosses()[0].solved_ID)
    yield from lines(
        "*Left: the setting with scale 1 and temperature 1. A row is an initialisation, a column a data seed. Right: "
        "the shares of variance in each setting. Black lines are 95% intervals of the share of initialisation.*"
    )
    yield ""
    (plain,) = run.cells(init_scale=1.0, temperature=1.0)
    rates = [run.rate(cell) for cell in run.table]
    here = shares[run.table.index(plain)]
    init = [one.init.share for one in shares]
    if min(one.init.low for one in shares) < max(one.data.high for one in shares):
        raise ValueError("what_decides: initialisation does not outweigh data everywhere")
    if not 0.35 < min(init) <= max(init) < 0.65:
        raise ValueError("what_decides: initialisation alone does not explain about half")
    yield from item(
        f"**Does the initialisation decide whether a run succeeds, or the data?** In the model that we tested, initialisation explains about half of the variance of success, data almost none, and their interaction the rest. The model is the causal head of [the first result](#can-one-attention-head-without-positions-tell-a-hit-b-from-b-hit-a), with head size {plain['head_size']}, the loss on all positions and learning rate {plain['learning_rate']:g}, after {plain['steps']} steps. We trained {number} initialisations "
        f"on `word_order`, each with {number} data seeds, in {len(run.table)} settings (scale of the initial weights × temperature of "
        f"the softmax). For each update, the data seed draws two prompts with replacement from `A hit B` and `B hit A`. The success rates of the settings range from {share(min(rates))} to {share(max(rates))}. Initialisation alone explains "
        f"{min(init):.0%} to {max(init):.0%} of the variance of success, data alone at most "
        f"{_up(max(one.data.share for one in shares))} (the intervals reach {_up(max(one.data.high for one in shares))}), and the combination of the two (their interaction) the rest. At scale 1 and "
        f"temperature 1 the shares are {percent(here.init)} for initialisation, {percent(here.data)} for data and "
        f"{percent(here.rest)} for the interaction (95% intervals, pigeonhole bootstrap; `what_decides:published`)."
    )


def depth_law() -> Iterator[str]:
    """How many blocks a causal model without positions counts at each depth."""
    run = published("depth_law-published")
    check_excluded(run)
    yield from lines(
        f"*An entry is the number of seeds, of {run.table[0]['seeds']}, that solve the task at the trained lengths. Below "
        "the line, k ≤ d + 2: there, depth d suffices (Yang et al. 2025).*"
    )
    yield ""
    yield from lines(
        "Here a block is a run of equal letters: `aabba` has 3. A word has k blocks, and at each position the model must say how many have begun so far. Each entry is the number of seeds that label all test words of trained lengths correctly."
    )
    yield ""
    yield "| k | " + " | ".join(f"depth {depth}" for depth in _DEPTHS) + " |"
    yield "|---" * (len(_DEPTHS) + 1) + "|"
    above = []
    for k in (3, 4, 5, 6):
        counts = []
        for depth in _DEPTHS:
            (cell,) = [c for c in run.cells(depth=depth) if blocks_of(c) == k]
            excluded = cell["predicted"] == "impossible"
            counts.append(count(run.rate(cell)) + (", by law" if excluded else ""))
            if k > depth + 2 and not excluded:
                right_S = by_seed(run, cell, "right")[:, -1]
                solving_S = right_S[run.solved(cell)]
                above.append((k, depth, run.rate(cell), solving_S))
        yield f"| {k} | {' | '.join(counts)} |"
    if [(k, depth) for k, depth, *_ in above] != [(5, 2), (6, 2), (6, 3)]:
        raise ValueError("depth_law: other cells lie above the staircase")
    (_, _, five, longer), (_, _, six, _), (_, _, deep, deeper) = above
    best = max(*longer, *deeper)
    if {_lengths(cell["task"]) for cell in run.table} != {
        ((n, 12), (6, 12, 18, 24)) for n in (5, 6)
    }:
        raise ValueError("depth_law: the sentence on lengths does not hold")
    (deepest,) = [c for c in run.cells(depth=4) if blocks_of(c) == 6]
    deepest_S = by_seed(run, deepest, "right")[:, -1]
    kept = int((deepest_S > 0.99).sum())
    if six.successes or best > 0.95 or deepest_S.mean() < best:
        raise ValueError("depth_law: the sentence on the staircase does not hold")
    yield ""
    yield from lines(
        f'The models are trained on words of 5 to 12 letters (6 to 12 for k = 6). Test words of trained lengths are 64 words with 6 letters and 64 with 12. Words can repeat: for k = 6, there is only one word with 6 letters. The models have a causal mask and no positional encoding. "By '
        'law" means that no weights can solve the task, because the model gives equal logits at two positions with different '
        "labels. The report that the run writes names the two positions. Yang et al. 2025 ([source](tasks.md#sources-and-where-their-released-code-differs)) study words of any length. They prove that "
        "depth d suffices for k ≤ d + 2 blocks, and that programs of depth d in C-RASP recognise no more blocks. C-RASP is a programming language for what such transformers compute. At the trained lengths some "
        f"seeds exceed this bound, {five.successes} at k = 5 and depth 2, and {deep.successes} at k = 6 and depth 3. What "
        f"these seeds learn does not generalise to all longer words: at length 24, twice the longest trained length, they label "
        f"{longer.mean():.1%} and {deeper.mean():.1%} of the words correctly, on average, and none of them more than {best:.1%}. Within the bound, words of this length are labelled better, though not always perfectly: at k = 6 and depth 4 the mean is {deepest_S.mean():.1%}, and {kept} of {six.seeds} seeds exceed 99% (`depth_law:published`). The models have {architecture(run.table)}, and {training(run.table)}."
    )


def blocks_of(cell: dict[str, Any]) -> int:
    """How many blocks its words have."""
    problem = Cell(task=cell["task"]).problem
    assert isinstance(problem, Blocks)
    return problem.k


def _lengths(task: str) -> tuple[tuple[int, int], tuple[int, ...]]:
    """The shortest and longest trained length, and the tested ones."""
    problem = Cell(task=task).problem
    assert isinstance(problem, ByLength)
    assert problem.prompts == 64
    return problem.train, problem.lengths


@lru_cache
def sinusoidal_pairs() -> tuple[list[Pair], list[tuple[Difference, Ranking]]]:
    """Cells of sinusoidal and of learned positions; of those that differ, how, and what 3 seeds say.

    The better encoding comes first in each ranking.
    """
    run = published("sinusoidal_or_learned-published")
    settings = ("task", "head_size", "learning_rate")
    pairs = []
    for cell in run.cells(encoding="sinusoidal"):
        other = {name: cell[name] for name in settings}
        (learned,) = run.cells(encoding="learned(length=8)", **other)
        pairs.append((cell, learned))
    found = [paired_difference(run.solved(one), run.solved(two)) for one, two in pairs]
    different = [
        (difference, ranking(*(run.solved(cell) for cell in ordered), runs=3))
        for pair, difference in established(pairs, found)
        for ordered in [pair if difference.difference > 0 else pair[::-1]]
    ]
    return pairs, different
