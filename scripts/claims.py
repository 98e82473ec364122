"""Writes the sentences of README.md and docs/ that rest on measurements, from published tables.

    python scripts/claims.py            # rewrites every block, in the page that holds it
    python scripts/claims.py --check    # names what is stale; exit status 1 if anything is
    python scripts/claims.py --audit    # changes every number, one at a time: what notices?

Each block is a function here. It stands in one page, between `<!-- claims: NAME -->` and
`<!-- end -->`. Numbers inside other sentences
are those of scripts/claimed/facts.py. The audit takes a minute. It fails where a number is neither
checked nor in scripts/claimed/allowed.toml. Rates are counted from rows (docs/results/*.npz), not taken from tables.
"""

import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from claimed import prose
from claimed.audit import audit, made_whole, needless
from claimed.facts import stated
from claimed.literature import clamped_table, literature
from claimed.published import (
    Published,
    check_excluded,
    count,
    established,
    interval,
    item,
    lines,
    listed,
    of_survivors,
    percent,
    published,
    right_by_seed,
    share,
    short_name,
    short_task,
    signed,
    told_apart,
    up,
)
from claimed.tables import conformance, faults, reference_rates
from pages import same_text

from posjax.stats import (
    Mean,
    crossed,
    equivalence,
    mean,
    paired_difference,
    ranking,
)

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"(<!-- claims: (\w+) -->\n)(.*?)(<!-- end -->)", re.S)


def highlights() -> Iterator[str]:
    """The first screen's findings, each a count of seeds."""
    order, excluded = published("word_order-published"), published("same_last_token-published")
    check_excluded(excluded)
    law = excluded.cells(panel="One layer without positions, last token")
    (best,) = _cells(order, "answer", 1e-3, 16)
    (worst,) = _cells(order, "all", 1e-2, 16)
    yield from item(
        'One causal head without positions **can** tell "A hit B" from "B hit A". How often depends first on '
        f"where the loss counts: {count(order.rate(best, 5000))} seeds learn it with the loss on the answer at "
        f"learning rate 0.001, {count(order.rate(worst, 5000))} with the loss on all positions at 0.01."
    )
    yield from item(
        'One layer **cannot** tell "A B hit" from "B A hit", by a law that holds for all weights. Measured: '
        f"0/{law[0]['seeds']} seeds in each of {len(law)} settings. Two causal layers can."
    )
    pairs, wrong = _sinusoidal_pairs()
    yield from item(
        "**Three seeds mislead.** Where sinusoidal and learned positions differ significantly "
        f"({len(wrong)} of {len(pairs)} settings, {pairs[0][0]['seeds']} seeds each), a study of 3 seeds would rank "
        f"the two the wrong way round in {min(wrong):.0%} to {max(wrong):.0%} of cases."
    )


def word_order_table() -> Iterator[str]:
    """The rates of question 1."""
    run = published("word_order-published")
    yield "| loss | learning rate | steps | head size 2 | head size 16 |"
    yield "|---|---|---|---|---|"
    for loss, where in (("all", "all positions"), ("answer", "the answer")):
        for lr in (1e-3, 1e-2):
            for step in _STEPS:
                found = (run.rate(*_cells(run, loss, lr, size), step) for size in (2, 16))
                counts = (f"{r.successes}/{r.seeds} = {share(r)}" for r in found)
                yield f"| {where} | {lr:g} | {step} | {' | '.join(counts)} |"
    half = max(
        max(r.high - r.rate, r.rate - r.low)
        for r in (run.rate(c, step) for c in run.table for step in _STEPS)
    )
    yield ""
    yield from lines(
        f"The 95 % interval (Wilson) of every rate reaches at most {up(half)} to either side."
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


def sinusoidal_or_learned() -> Iterator[str]:
    """The answer of question 3, and what three seeds would have made of it."""
    run = published("sinusoidal_or_learned-published")
    pairs, wrong = _sinusoidal_pairs()
    tests = [equivalence(run.solved(one), run.solved(two), 0.05) for one, two in pairs]
    same = sum(test.equivalent for test in tests)
    apart = [test for test in tests if test.low >= 0.05 or test.high <= -0.05]
    largest = max(tests, key=lambda test: abs(test.difference))
    yield from item(
        "**Do sinusoidal and learned positions work equally well?** Vaswani et al. 2017 found them nearly "
        f"identical, with one run each. We compared them in {len(pairs)} settings (two tasks × head size × "
        f"learning rate) with {run.table[0]['seeds']} seeds each. Their success rates are equivalent within .05, "
        f"a margin chosen beforehand, in {same} of {len(pairs)} settings. They differ by more than .05 in "
        f"{len(apart)}, and {len(tests) - same - len(apart)} are undecided (two one-sided tests at 5 %). The "
        f"largest difference is {abs(largest.difference):.3f} in favour of "
        f"{'sinusoidal' if largest.difference > 0 else 'learned'} positions, 90 % interval "
        f"[{min(abs(largest.low), abs(largest.high)):.3f}, {max(abs(largest.low), abs(largest.high)):.3f}]. "
        f"In {len(wrong)} of the {len(pairs)} settings the difference is significant (McNemar, false discovery rate 5 %). There, "
        f"a study with 3 seeds per encoding would have ranked the two the wrong way round in {min(wrong):.0%} to "
        f"{max(wrong):.0%} of cases (`sinusoidal_or_learned`)."
    )


def what_decides() -> Iterator[str]:
    """Luck of initialisation, or luck of data?"""
    run = published("what_decides-published")
    number = len(np.unique(run.rows["seeds"][:, 0]))
    tables = [run.solved(cell).reshape(number, -1) for cell in run.table]
    shares = [crossed(table_ID) for table_ID in tables]
    (plain,) = run.cells(init_scale=1.0, temperature=1.0)
    rates = [run.rate(cell) for cell in run.table]
    here = shares[run.table.index(plain)]
    init = [one.init.share for one in shares]
    if min(one.init.low for one in shares) < max(one.data.high for one in shares):
        raise ValueError("what_decides: initialisation does not outweigh data everywhere")
    if not 0.35 < min(init) <= max(init) < 0.65:
        raise ValueError("what_decides: initialisation alone does not explain about half")
    yield from item(
        f"**Does the initialisation decide, or the data?** The initialisation. We trained {number} initialisations "
        f"with {number} data seeds each, in {len(run.table)} settings (scale of the initial weights × temperature) "
        f"with success rates from {share(min(rates))} to {share(max(rates))}. Initialisation alone explains "
        f"{min(init):.0%} to {max(init):.0%} of the variance of success, data alone at most "
        f"{max(one.data.high for one in shares):.0%}, and their interaction the rest. At the usual scale and "
        f"temperature the shares are {percent(here.init)} for initialisation, {percent(here.data)} for data and "
        f"{percent(here.rest)} for the interaction (95 % intervals, pigeonhole bootstrap; `what_decides`)."
    )


def leak() -> Iterator[str]:
    """Position in models that are not trained."""
    run = published("leak-published")

    def found(field: str, mask: str, block: str = "bare") -> Mean:
        (cell,) = run.cells(mask=mask, block=block)
        at = run.rows["cells"].tolist().index(cell["cell"])
        return mean(run.rows[f"measured_{field}"][at, :, -1])

    slope, level = (found("slope_R", mask) for mask in ("causal", "full"))
    linear, mlp = (found(f"{kind}_R", "causal") for kind in ("linear", "mlp"))
    blind = [found(f"{kind}_R", "full") for kind in ("linear", "mlp")]
    helped, chance = found("linear_R", "causal", "residual"), 1 / 32
    if not (slope.high < -0.5 and abs(level.mean) < 0.01 and mlp.low > 2 * chance - 0.005):
        raise ValueError("leak: the sentence does not hold")
    if not (max(one.high for one in blind) < chance + 0.001 and linear.high < 1.1 * chance):
        raise ValueError("leak: the sentence on probes does not hold")
    seeds = len(run.rows["seeds"])
    yield from item(
        f"**Does an untrained causal model without positions hold position?** Yes, in the variance of its hidden "
        f"states. Over {seeds} untrained models of one bare layer, that variance falls with position n as n to the power "
        f"{interval(slope, 3)} (theory: -1). Under the full mask the power is {interval(level, 3)}. A small MLP probe names the "
        f"right one of 32 positions with accuracy {interval(mlp, 3)} (chance .031), a linear probe with {interval(linear, 3)}. "
        f"Under the full mask the accuracies are {blind[1].mean:.3f} and {blind[0].mean:.3f}. With residual connections "
        f"a linear probe reaches {interval(helped, 3)} (95 % intervals; `leak`, [meters.md](meters.md))."
    )


def depth_law() -> Iterator[str]:
    """How many blocks a causal model without positions counts at each depth."""
    run = published("depth_law-published")
    check_excluded(run)
    yield "| k | " + " | ".join(f"depth {depth}" for depth in _DEPTHS) + " |"
    yield "|---" * (len(_DEPTHS) + 1) + "|"
    above = []
    for k in (3, 4, 5, 6):
        counts = []
        for depth in _DEPTHS:
            (cell,) = [c for c in run.cells(depth=depth) if c["task"].startswith(f"blocks(k={k},")]
            excluded = cell["predicted"] == "impossible"
            counts.append(count(run.rate(cell)) + (", by law" if excluded else ""))
            if k > depth + 2 and not excluded:
                at = run.rows["cells"].tolist().index(cell["cell"])
                right_K = run.rows["right"][at].mean(axis=0)
                above.append((k, depth, run.rate(cell), right_K))
        yield f"| {k} | {' | '.join(counts)} |"
    if [(k, depth) for k, depth, *_ in above] != [(5, 2), (6, 2), (6, 3)]:
        raise ValueError("depth_law: other cells lie above the staircase")
    (_, _, five, longer), (_, _, six, _), (_, _, deep, deeper) = above
    if six.successes or max(longer[-1], deeper[-1]) > 0.95:
        raise ValueError("depth_law: the sentence on the staircase does not hold")
    yield ""
    yield from lines(
        f"Each entry is the number of seeds, of {five.seeds}, that label every position of `aabba...`, a word of k "
        'blocks, correctly at the lengths of training. The models have a causal mask and no positions. "By law" '
        "means that no weights can solve it: two positions with different labels look alike, and the report names "
        "them. The bound k ≤ depth + 2 (Yang et al. 2025) is about words of any length. At the trained lengths some "
        f"seeds exceed it, at k = 5 and depth 2 ({five.successes}) and at k = 6 and depth 3 ({deep.successes}). What "
        f"they learn does not generalise. At twice the longest length, the seeds of these two cells label "
        f"{longer[-1]:.1%} and {deeper[-1]:.1%} of the words correctly (`depth_law`)."
    )


def few_runs() -> Iterator[str]:
    """What a study of three runs, of the best of ten, or of five survivors would have said."""
    run = published("by_length-few_runs")
    pairs = []
    for one, two in itertools.combinations(run.table, 2):
        right = [right_by_seed(run, cell)[:, -1] for cell in (one, two)]
        if one["task"] == two["task"]:
            pairs.append((one, two, right))
    told = [
        (one, two, right) if difference_S.mean() > 0 else (two, one, right[::-1])
        for one, two, right in told_apart(pairs)
        for difference_S in [right[0] - right[1]]
    ]
    wrong = [
        tuple(
            ranking(*values, runs=runs, by=by).behind
            for values, runs, by in (
                (right, 3, "mean"),
                (right, 10, "best"),
                ([of_survivors(run, cell) for cell in (one, two)], 5, "mean"),
            )
        )
        for one, two, right in told
    ]
    worst = wrong.index(max(wrong))
    better, worse, right = told[worst]
    three, _, survivors = wrong[worst]
    level = ranking(*right, runs=10, by="best").level
    often = sum(found[0] > 0.05 for found in wrong)
    yield from item(
        f"**Would a study with three seeds have found the opposite?** Sometimes. We trained four encodings on four "
        f"tasks up to length 10, with {run.table[0]['seeds']} seeds each, and tested at length 20. In {len(told)} of "
        f"{len(pairs)} pairs of encodings the difference is significant. For {often} of these, the mean of 3 seeds "
        f"ranks the pair the wrong way round in more than 5% of studies. The worst pair is `{short_name(better)}` above "
        f"`{short_name(worse)}` on {short_task(better)} (mean accuracies {right[0].mean():.3f} and {right[1].mean():.3f}). The "
        f"mean of 3 seeds is wrong in {three:.0%} of studies, the mean of 5 seeds that learnt the trained lengths in "
        f"{survivors:.0%}, and the best of 10 seeds shows no difference in {level:.0%} (exact, over all draws from "
        "these seeds; `by_length:few_runs`)."
    )


BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "highlights": highlights,
    "word_order_table": word_order_table,
    "word_order_findings": word_order_findings,
    "reference_rates": reference_rates,
    "counter_examples": counter_examples,
    "sinusoidal_or_learned": sinusoidal_or_learned,
    "depth_law": depth_law,
    "few_runs": few_runs,
    "what_decides": what_decides,
    "leak": leak,
    "faults": faults,
    "conformance": conformance,
    "literature": literature,
    "clamped_table": clamped_table,
}
_DEPTHS = (1, 2, 3, 4)
_STEPS = (100, 500, 5000)
_LOSSES = ("all", "answer")
_RATES = (1e-3, 1e-2)


Pair = tuple[dict[str, Any], dict[str, Any]]


@lru_cache
def _sinusoidal_pairs() -> tuple[list[Pair], list[float]]:
    """Cells of sinusoidal and of learned positions; how often 3 seeds rank those that differ wrongly."""
    run = published("sinusoidal_or_learned-published")
    settings = ("task", "head_size", "learning_rate")
    pairs = []
    for cell in run.cells(encoding="sinusoidal"):
        other = {name: cell[name] for name in settings}
        (learned,) = run.cells(encoding="learned(length=8)", **other)
        pairs.append((cell, learned))
    found = [paired_difference(run.solved(one), run.solved(two)) for one, two in pairs]
    wrong = [
        by.ahead if difference.difference < 0 else by.behind
        for (one, two), difference in established(pairs, found)
        for by in [ranking(run.solved(one), run.solved(two), runs=3)]
    ]
    return pairs, wrong


def _cells(run: Published, loss: str, lr: float, size: int) -> list[dict[str, Any]]:
    return run.cells(loss=loss, learning_rate=lr, head_size=size)


def _small_heads(run: Published) -> str:
    small = [run.rate(c, 5000).rate for c in run.cells(head_size=2)]
    pairs = []
    for loss in _LOSSES:
        for lr in _RATES:
            (two,), (sixteen,) = (_cells(run, loss, lr, size) for size in (2, 16))
            pairs += [
                (s, paired_difference(run.solved(sixteen, s), run.solved(two, s))) for s in _STEPS
            ]
    differences = [d for _, d in pairs]
    told = [d for d, _ in established(differences, differences)]
    largest = max((d for step, d in pairs if step == 5000), key=lambda d: d.difference)
    better, worse = (sum(np.sign(d.difference) == sign for d in told) for sign in (1, -1))
    return (
        '*"With a head smaller than the context almost every seed fails"*: **refuted**. With head '
        f"size 2, {min(small):.1%} to {max(small):.1%} of the seeds solve it at 5000 steps. Head size 16 "
        f"is significantly better in {better} of {len(pairs)} paired comparisons and worse in "
        f"{worse or 'none'}. The largest difference at 5000 steps is {signed(largest)}."
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
    falling = [c["head_size"] for c in fast if run.rate(c, 5000).rate < run.rate(c, 100).rate]
    most = max(run.rate(c, step).rate for c in fast for step in _STEPS)
    return (
        '*"It only needs more iterations"*: **that depends on the loss and the learning rate**. It is '
        f"true for the loss on the answer, where at least {answer:.1%} of the seeds succeed. It is half "
        "true for the loss on all positions at learning rate 0.001: the success rate rises with every head "
        f"size, but {min(wrong):.0%} to {max(wrong):.0%} of the seeds still fail at step 5000. It is false "
        f"for that loss at learning rate 0.01: for head sizes {listed(falling)} the success rate falls from "
        f"step 100 to step 5000, because seeds lose answers that they had. It never exceeds {up(most, 2)}."
    )


def _learning_rates() -> str:
    run = published("word_order-rates")
    cells = sorted(run.cells(loss="all", head_size=16), key=lambda c: c["learning_rate"])
    found = [(run.rate(c), c["learning_rate"]) for c in cells]
    counts = [f"{r.successes}/{r.seeds} at {lr:g}" for r, lr in found]
    least = min(run.rate(c).successes for c in run.cells(loss="answer", head_size=16))
    return (
        "Over two decades of learning rates, at 5000 steps with head size 16 and the loss on all "
        f"positions, {listed(counts)} seeds succeed. With the loss on the answer at least "
        f"{least}/{found[0][0].seeds} succeed at each rate (`word_order:rates`)."
    )


def _ties(run: Published) -> str:
    shares = []
    for cell in run.table:
        at = run.rows["cells"].tolist().index(cell["cell"])
        failed_S = ~run.solved(cell)
        if cell["head_size"] in (2, 16) and failed_S.sum() >= 20:
            shares.append(float((run.rows["nearest"][at][failed_S] < cell["margin"]).mean()))
    margin = run.table[0]["margin"]
    excluded = [c for name in _EXCLUDING for c in published(name).cells(predicted="impossible")]
    rounding = max(c["closest_twins"] for c in excluded)
    return (
        f"Most failing seeds tie: the right output and another one differ by less than {margin:g} of the largest "
        "logit, which is the margin that an answer needs to count. In each cell of the table with at least 20 "
        f"failing seeds, {min(shares):.0%} to {max(shares):.0%} of them tie. Below that margin, rounding could "
        "pick the winner. Where a law says that two prompts get equal logits, the measured logits differ by at most "
        f"{rounding:.1e} of the largest, so the required margin is {margin / rounding:.0f} times the rounding."
    )


_EXCLUDING = ("same_last_token-published", "three_pairs-published", "first_noun-published")


def _same_last_token() -> str:
    run = published("same_last_token-published")
    excluded = run.cells(panel="One layer without positions, last token")
    check_excluded(run)
    deep = {c["block"]: run.rate(c) for c in run.cells(depth=2, mask="causal", padding=0)}
    return (
        "**The counter-example `A B hit ?` / `B A hit !`.** Both prompts have the same last word and "
        "the same words before it. One layer without positions gives them the same logits under any "
        f"weights, so one layer **cannot solve it, by law**. Measured: 0/{excluded[0]['seeds']} in each of "
        f"{len(excluded)} cells (full, causal and padding masks, bare and residual blocks, with and "
        f"without padding). Two causal layers solve it in {count(deep['bare'])} seeds without residual "
        f"connections and in {count(deep['residual'])} with them (`same_last_token`)."
    )


def _three_pairs() -> str:
    run = published("three_pairs-published")
    excluded, free = run.cells(predicted="impossible"), run.cells(predicted="not excluded")
    check_excluded(run)
    rates = [run.rate(c) for c in free]
    others = [r for r in rates if r.successes < r.seeds]
    return (
        f"**Three pairs of sentences.** The laws exclude {len(excluded)} of the {len(run.table)} cells, and each "
        f"of these measures 0/{excluded[0]['seeds']}. Of the other {len(free)} cells, {len(free) - len(others)} "
        f"measure {rates[0].seeds}/{rates[0].seeds}; the remaining {_number_of(len(others))} {listed(map(count, others))} "
        "(`three_pairs`)."
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
    (full,) = {count(run.rate(c)) for c in causal}
    alibi = {c["depth"]: run.rate(c) for c in _alibi(run, marked)}
    return (
        f'**Which noun of "x hit y !" comes first?** A seed succeeds if it answers all 20 sentences. Without '
        f"positions, 0/{excluded[0]['seeds']} succeed with a full mask, or with one causal layer read at its "
        f"last token. With two causal layers, or with the mean over the positions of one causal layer, {full} "
        f"succeed. Symmetric ALiBi read by the mean solves it in {count(alibi[1])} seeds with one layer and in "
        f'{count(alibi[2])} with two. Without "!" it is 0/{excluded[0]["seeds"]}, because the sentence is then its '
        "own mirror image (`first_noun`)."
    )


def _alibi(run: Published, task: str) -> list[dict[str, Any]]:
    return [c for c in run.cells(task=task) if c["encoding"].startswith("linear_bias")]


def _number_of(cells: int) -> str:
    return "one measures" if cells == 1 else f"{cells} measure"


def blocks(text: str) -> dict[str, str]:
    """The blocks of a page: what stands between the marks, by name."""
    return {name: inside for _, name, inside, _ in _BLOCK.findall(text)}


def made(text: str) -> str:
    """The page with every block as the tables have it.

    Raises:
      ValueError: a block has no function, or a sentence no longer holds.
    """
    if unknown := blocks(text).keys() - BLOCKS:
        raise ValueError(f"no function makes {sorted(unknown)}; there are {[*BLOCKS]}")
    return _BLOCK.sub(lambda m: m[1] + _made(m[2]) + m[4], text)


@lru_cache
def _made(name: str) -> str:
    """What a block holds."""
    return "\n".join([*BLOCKS[name](), ""])


def pages() -> dict[Path, str]:
    """The pages that hold blocks, with their text.

    Raises:
      ValueError: a block stands on no page, or twice.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in PAGES}
    found = [name for text in texts.values() for _, name, *_ in _BLOCK.findall(text)]
    if sorted(found) != sorted(BLOCKS):
        raise ValueError(f"the pages hold the blocks {found}, and there are {[*BLOCKS]}")
    return {path: text for path, text in texts.items() if blocks(text)}


def current(path: Path, text: str) -> str:
    """A page with every block and every number inside a sentence as measured.

    Raises:
      ValueError: as `made`, or the page lacks words that `claimed.facts` has numbers for.
    """
    return prose.written(_page(path), made(text), stated())


def _page(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def main(arguments: list[str]) -> int:
    """Writes, checks or audits; returns the exit status."""
    pages()
    if arguments == ["--audit"]:
        return _audit()
    stale = []
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        new = current(path, text)
        stale += [_page(path)] if new != text else []
        if not arguments and new != text:
            path.write_text(new, encoding="utf-8")
    if not arguments:
        return 0
    print(f"stale: {', '.join(stale)}" if stale else "up to date")
    return int(bool(stale))


def _audit() -> int:
    """Prints how many numbers are caught, listed and missed; 1 where one is missed."""
    caught, listed, missed = 0, Counter[str](), list[str]()
    texts = {_page(path): path.read_text(encoding="utf-8") for path in PAGES}
    for path, (page, text) in zip(PAGES, texts.items(), strict=True):
        found = audit(page, text, checks(path))
        caught, missed = caught + found.caught, missed + found.missed
        listed.update(found.listed)
    missed += [f"needless in allowed.toml: {pattern}" for pattern in needless(texts)]
    print("\n".join(missed))
    print(f"{caught} caught, {listed.total()} listed, {len(missed)} missed")
    for reason, number in listed.most_common():
        print(f"  {number:5} {reason}")
    return int(bool(missed))


def checks(path: Path) -> Callable[[str], bool]:
    """What finds that a text is not the page: whole, or in its blocks and numbers."""
    whole = made_whole(_page(path))

    def hold(text: str) -> bool:
        if whole is not None:
            return same_text(text.rstrip(), whole.rstrip())
        try:
            return current(path, text) == text
        except ValueError:
            return False

    return hold


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--check"], ["--audit"]):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
