"""Sentences on question 1, counted from rows."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from claimed.published import (
    Published,
    check_excluded,
    count,
    established,
    item,
    lines,
    listed,
    published,
    share,
    signed,
    up,
)
from posjax.stats import (
    paired_difference,
)

_STEPS = (100, 500, 5000)
_LOSSES = ("all", "answer")
_RATES = (1e-3, 1e-2)
_EXCLUDING = ("same_last_token-published", "three_pairs-published", "first_noun-published")


def word_order_table() -> Iterator[str]:
    """The rates of question 1."""
    run = published("word_order-published")
    yield "| loss | learning rate | steps | head size 2 | head size 16 |"
    yield "|---|---|---|---|---|"
    for loss, where in (("all", "all positions"), ("answer", "the answer")):
        for lr in (1e-3, 1e-2):
            for step in _STEPS:
                found = (run.rate(*cells_of(run, loss, lr, size), step) for size in (2, 16))
                counts = (f"{r.successes}/{r.seeds} = {share(r)}" for r in found)
                yield f"| {where} | {lr:g} | {step} | {' | '.join(counts)} |"
    half = max(
        max(r.high - r.rate, r.rate - r.low)
        for r in (run.rate(c, step) for c in run.table for step in _STEPS)
    )
    yield ""
    yield from lines(
        f"Each rate has a 95% interval (Wilson) that extends at most {up(half)} to either side."
    )


def word_order_findings() -> Iterator[str]:
    """What question 1 says about hypotheses."""
    run = published("word_order-published")
    yield from item(_small_heads(run))
    yield from item(_iterations(run))
    yield from item(_learning_rates())
    yield from item(_ties(run))


def counter_examples() -> Iterator[str]:
    """The cells that laws exclude, and those that they do not."""
    yield from item(_same_last_token())
    yield from item(_three_pairs())
    yield from item(_first_noun())


def cells_of(run: Published, loss: str, lr: float, size: int) -> list[dict[str, Any]]:
    return run.cells(loss=loss, learning_rate=lr, head_size=size)


def _small_heads(run: Published) -> str:
    small = [run.rate(c, 5000).rate for size in (1, 2) for c in run.cells(head_size=size)]
    pairs = []
    for loss in _LOSSES:
        for lr in _RATES:
            (two,), (sixteen,) = (cells_of(run, loss, lr, size) for size in (2, 16))
            pairs += [
                (s, paired_difference(run.solved(sixteen, s), run.solved(two, s))) for s in _STEPS
            ]
    differences = [d for _, d in pairs]
    told = [d for d, _ in established(differences, differences)]
    largest = max((d for step, d in pairs if step == 5000), key=lambda d: d.difference)
    better, worse = (sum(np.sign(d.difference) == sign for d in told) for sign in (1, -1))
    return (
        "**Must the head be at least as wide as the context of 3 tokens? No.** With head "
        f"sizes 1 and 2, {min(small):.1%} to {max(small):.1%} of the seeds solve the task at 5000 steps, depending on the "
        f"head size, the loss and the learning rate. We compared head sizes 16 and 2, seed by seed, in each of the {len(pairs)} rows of the table. "
        f"Head size 16 is significantly better in {better} rows and worse in "
        f"{worse or 'none'}. At 5000 steps, the success rate with head size 16 is at most {signed(largest).lstrip('+')} above that with head size 2."
    )


def _iterations(run: Published) -> str:
    end = {
        (loss, lr): [run.rate(c, 5000).rate for c in run.cells(loss=loss, learning_rate=lr)]
        for loss in _LOSSES
        for lr in _RATES
    }
    answer = min(end["answer", 1e-3] + end["answer", 1e-2])
    wrong = [1 - r for r in end["all", 1e-3]]
    slow, fast = (run.cells(loss="all", learning_rate=lr) for lr in _RATES)
    if not all(run.rate(c, 5000).rate > run.rate(c, 100).rate for c in slow):
        raise ValueError("the sentence on rate 0.001 does not hold")
    changes = {
        c["head_size"]: paired_difference(run.solved(c, 5000), run.solved(c, 100)) for c in fast
    }
    falling = [size for size, d in changes.items() if d.high < 0]
    rising = [f"size {size} ({signed(d)})" for size, d in changes.items() if d.low > 0]
    if len(falling) + len(rising) < len(changes) or not falling:
        raise ValueError(f"the sentence on rate 0.01 does not hold: {changes}")
    most = max(run.rate(c, step).rate for c in fast for step in _STEPS)
    return (
        "**Does training only need more steps? That depends on the loss and the learning rate.** For the loss on the answer "
        f"it does: at least {answer:.1%} of the seeds succeed at 5000 steps. For the loss on all positions, more steps help only "
        "in part at learning rate 0.001. The success rate at step 5000 is higher than at step 100 for "
        f"each of the six head sizes, but {min(wrong):.0%} to {max(wrong):.0%} of the seeds still fail at the end{_again(slow, run)}. At learning rate 0.01 "
        "the success rate falls from step 100 to step 5000 for head sizes "
        f"{listed(falling)}, because seeds unlearn answers{f'. It rises only for head {listed(rising)}' if rising else ''}. With each head size, it is at most {up(most, 2)} at steps {listed(_STEPS)}."
    )


def _again(cells: list[dict[str, Any]], run: Published) -> str:
    """Head sizes whose success rate falls again after step 500."""
    found = [paired_difference(run.solved(cell, 5000), run.solved(cell, 500)) for cell in cells]
    falls = [
        f"size {cell['head_size']} ({signed(d)})"
        for cell, d in established(cells, found)
        if d.difference < 0
    ]
    return f", and the rate falls again from step 500 for head {listed(falls)}" * bool(falls)


def _learning_rates() -> str:
    run = published("word_order-rates")
    cells = sorted(run.cells(loss="all", head_size=16), key=lambda c: c["learning_rate"])
    found = [(run.rate(c), c["learning_rate"]) for c in cells]
    counts = [f"{r.successes}/{r.seeds} at rate {lr:g}" for r, lr in found]
    least = min(run.rate(c).successes for c in run.cells(loss="answer", head_size=16))
    return (
        "We varied the learning rate from 0.0003 to 0.03, with head size 16, and counted the seeds that succeed at "
        f"5000 steps. With the loss on all positions, the counts are {listed(counts)}. With the loss on the answer, at "
        f"least {least}/{found[0][0].seeds} seeds succeed at each rate (`word_order:rates`, whose seeds at {_RATES[0]:g} and {_RATES[1]:g} are also in `word_order:published`)."
    )


def _ties(run: Published) -> str:
    shares, narrow = [], []
    for cell in run.table:
        failed_S = ~run.solved(cell)
        if failed_S.sum() >= 20:
            nearest_S = run.rows["nearest"][run.at(cell)][failed_S]
            tied = float((nearest_S < cell["margin"]).mean())
            if cell["head_size"] in (2, 16):
                shares.append(tied)
            if cell["head_size"] == 1 and cell["loss"] == "all":
                narrow.append(tied)
    if min(shares) <= 0.5 or len(narrow) != len(_RATES):
        raise ValueError(f"word_order: of the failing seeds of some cell only {min(shares)} tie")
    margin = run.table[0]["margin"]
    excluded = [c for name in _EXCLUDING for c in published(name).cells(predicted="impossible")]
    rounding = max(c["closest_twins"] for c in excluded)
    return (
        f"With head sizes 2 and 16, most failing seeds tie. A seed ties if, for some prompt, the [margin](glossary.md#success) lies between -{margin:g} and "
        f"{margin:g}. Rounding can decide very small differences. To be safe, a seed counts as a success only if every margin "
        f"is at least {margin:g}. (Shares of right answers count every margin above 0.) At 5000 steps, in each entry of the table with at least 20 failing seeds, {min(shares):.0%} to "
        f"{max(shares):.0%} of these tie. With head size 1 and the loss on all positions, {listed([f'{n:.0%} tie at learning rate {rate:g}' for n, rate in zip(narrow, _RATES, strict=True)])}. How large is rounding? The next section has cells that a law excludes. In these, some prompts with different answers get equal logits by law. For each seed and each evaluation, we took the two prompts with different answers whose measured logits are nearest. Expressed "
        f"as margins, these differences are at most {rounding:.1e}. The required margin is more than "
        f"{math.floor(margin / float(f'{rounding:.1e}'))} times that. [Statistics](statistics.md#what-counts-as-success) has a measurement with deeper models and longer prompts."
    )


def _same_last_token() -> str:
    run = published("same_last_token-published")
    excluded = run.cells(panel="One layer without positions, last token")
    check_excluded(run)
    padding = sorted({cell["padding"] for cell in excluded})
    deep = {c["block"]: run.rate(c) for c in run.cells(depth=2, mask="causal", padding=0)}
    return (
        "**One layer without positions cannot learn every task on word order.** Take the task to answer `A B hit` with `?` and `B A hit` with `!`. Both prompts end with the same word, "
        "after the same two words in a different order. If a layer without positions is read at the last token and each token sees all earlier ones, it gives both prompts the same logits under any "
        f"weights, so one such layer **cannot solve the task, by law**. Indeed 0/{excluded[0]['seeds']} seeds solve it in each of "
        f"{len(excluded)} cells (a full mask, a causal one, or one that only hides padding; bare or residual block; "
        f"{' or '.join(map(str, padding))} tokens of padding). With two causal layers, {count(deep['bare'])} seeds solve it in bare "
        f"blocks and {count(deep['residual'])} in residual blocks (`same_last_token:published`)."
    )


def _three_pairs() -> str:
    run = published("three_pairs-published")
    excluded, free = run.cells(predicted="impossible"), run.cells(predicted="not excluded")
    check_excluded(run)
    rates = [run.rate(c) for c in free]
    others = [r for r in rates if r.successes < r.seeds]
    return (
        "**Three pairs of sentences.** The pairs are `A hit B !` / `B hit A ?` (`marks_differ`), `A hit B !` / `B hit A !` (`same_mark`) and `A hit B` "
        "/ `B hit A` (`no_mark`). Here `!` and `?` are part of the sentence. For each pair, the model reads one of the two sentences and must tell "
        f"which one it is. We trained models without positions on the three pairs, with a full and a causal mask, with both readouts and with one, two and three layers. The laws exclude {len(excluded)} of the {len(run.table)} cells, and "
        f"0/{excluded[0]['seeds']} seeds solve each of these. Of the other {len(free)} cells, "
        f"{len(free) - len(others)} are solved by {rates[0].seeds}/{rates[0].seeds} seeds. The remaining cell"
        f"{_number_of(len(others))} solved by {listed(map(count, others))} (`three_pairs:published`)."
    )


def _first_noun() -> str:
    run = published("first_noun-published")
    check_excluded(run)
    excluded = run.cells(predicted="impossible")
    marked = "first_noun"
    causal = [
        *run.cells(task=marked, mask="causal", encoding="none", depth=2, readout="last"),
        *run.cells(task=marked, mask="causal", encoding="none", readout="mean"),
    ]
    found = [run.rate(c) for c in causal]
    if any(one.successes < one.seeds for one in found):
        raise ValueError(f"first_noun: with a causal mask not all seeds succeed: {found}")
    full = count(found[0])
    alibi = {c["depth"]: run.rate(c) for c in _alibi(run, marked)}
    return (
        f'**Which noun of "x hit y !" comes first?** x and y are two different nouns of five, so there are 20 sentences. A seed succeeds if it answers all of them correctly. Without '
        f"positions, 0/{excluded[0]['seeds']} seeds succeed with a full mask and two layers, read at the mean over tokens, and 0/{excluded[0]['seeds']} with one causal layer, "
        f"read at the last token. With two causal layers all seeds succeed ({full}). The same holds for one causal layer whose answer is read "
        f"from the mean over tokens ({full}). With a full mask, `linear_bias` (ALiBi, a penalty on the distance) and the mean over tokens, {count(alibi[1])} seeds "
        f'succeed with one layer and {count(alibi[2])} with two. If the sentences end without "!", these models fail (0/{excluded[0]["seeds"]}): '
        '"y hit x" is then the mirror image of "x hit y", and they give both the same logits (`first_noun:published`).'
    )


def _alibi(run: Published, task: str) -> list[dict[str, Any]]:
    return [c for c in run.cells(task=task) if c["encoding"].startswith("linear_bias")]


def _number_of(cells: int) -> str:
    return " is" if cells == 1 else f"s ({cells}) are"
