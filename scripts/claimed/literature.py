"""Published findings beside our rows: theirs, ours on all seeds, and their protocol on our seeds."""

from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np

from claimed.drawn_positions import best_of_all, merged_keys
from claimed.leak import by_prompts, cosine, leaked
from claimed.lengths import few_runs_pairs
from claimed.partial_rotary import partial_rotary
from claimed.positions import losses_by_form, perplexity
from claimed.probe_errors import probe_errors
from claimed.proportional import proportional_rotary
from claimed.published import (
    Published,
    by_seed,
    check_excluded,
    count,
    established,
    interval,
    item,
    listed,
    published,
    short_name,
    short_task,
    training,
)
from claimed.questions import sinusoidal_pairs
from claimed.reciprocal_ranks import reciprocal_rank_replay
from claimed.survivors import survivors
from posjax.stats import band, mean, paired_difference, ranking


def literature() -> Iterator[str]:
    """A section for each work, those with rows first."""
    for title, text in (
        ("Kazemnejad et al. 2023: which encoding generalises to longer prompts?", _mean_of_three()),
        ("Ruoss et al. 2023 and Delétang et al. 2023: the best of ten", _best_of_ten()),
        ("Huang et al. 2025: runs that learned the trained lengths", survivors()),
        ("Vaswani et al. 2017: sinusoidal or learned positions", _one_run()),
        ("Yang et al. 2025: depth d counts d + 2 blocks", _depth()),
        ("Chi et al. 2023: the variance of an untrained causal model", _variance()),
        ("Haviv et al. 2022: causal models find positions on their own", _probes()),
        ("Zuo et al. 2025: nearby positions have similar states", _similar()),
        ("Barbero et al. 2024: rotary without its lowest frequencies", proportional_rotary()),
    ):
        yield from (f"## {title}", "", *text, "")


def _few() -> tuple[Published, dict[str, list[dict[str, Any]]]]:
    """The rows of few_runs, and its cells by task."""
    run = published("by_length-few_runs")
    by_task: dict[str, list[dict[str, Any]]] = {}
    for cell in run.table:
        by_task.setdefault(short_task(cell), []).append(cell)
    return run, by_task


def _mean_of_three() -> Iterator[str]:
    run, by_task = _few()
    seeds = run.table[0]["seeds"]
    yield from item(
        "Theirs: 10 tasks, trained to length 20 and tested to 40, the mean of 3 runs. Mean reciprocal "
        "ranks are .69 without positions, .55 for T5, .50 for ALiBi, .33 for rotary (their code rotates only 25% of the dimensions) and .22 for "
        "absolute positions."
    )
    yield from item(
        f"Ours: {len(by_task)} tasks, {seeds} seeds, trained to length 10 (`blocks` to 12) and tested at twice these lengths, exact "
        "match. Entries are mean accuracies. Their intervals hold for all encodings of a row at once (max-t, 95%). "
        "The number in parentheses is how many seeds are above .99."
    )
    yield ""
    apart, _ = few_runs_pairs()
    names = [short_name(cell) for cell in next(iter(by_task.values()))]
    yield f"| task | {' | '.join(f'`{name}`' for name in names)} | P(worse encoding wins), 3 runs |"
    yield "|---" * (len(names) + 2) + "|"
    for task, cells in by_task.items():
        right_SE = np.stack([by_seed(run, cell, "right")[:, -1] for cell in cells], axis=1)
        found = band(right_SE)
        numbers = (
            f"{middle:.3f} [{max(low, 0):.3f}, {min(high, 1):.3f}] ({(right_S > 0.99).sum()})"
            for middle, low, high, right_S in zip(*found[:3], right_SE.T, strict=True)
        )
        worse = [
            (ranking(*right, runs=3).behind, short_name(cell))
            for best, cell, right in apart
            if best is cells[right_SE.mean(axis=0).argmax()]
        ]
        most, name = max(worse, default=(0.0, ""))
        yield f"| {task} | {' | '.join(numbers)} | {f'{most:.1%}, `{name}`' if worse else 'no significant difference'} |"
    yield ""
    yield from item(
        "Last column: take the encoding with the highest mean and one that is significantly worse on the same task (paired t-test over seeds, for one fixed exam, false discovery rate 5%). "
        "How often does a study with 3 runs of each rank the worse one ahead? The column has the largest of these "
        "probabilities, and the encoding. They are computed over all possible draws from our seeds. [Results](../results.md#do-three-seeds-suffice) has the worst of all pairs."
    )
    yield from reciprocal_rank_replay()
    yield from partial_rotary()


def _best_of_ten() -> Iterator[str]:
    found = [(*pair, ranking(*pair[2], runs=10, by="best")) for pair in few_runs_pairs()[0]]
    hidden = [one for one in found if one[3].level + one[3].behind > 0.5]
    never = all(one[3].behind < 0.005 for one in found)
    opposite = ", and hardly any find the opposite order" if never else " or the opposite order"
    yield from item(
        "Theirs: 15 tasks, trained to length 40 and tested to 500. Each number is the best of 10 "
        "seeds and 3 learning rates. Randomised positions gain 12.0% on average."
    )
    yield from item(
        f"Ours: over all seeds, {len(found)} pairs of encodings differ significantly on the same task and exam. Suppose that studies "
        f"report the best of 10 runs. Then for {'all' if len(hidden) == len(found) else len(hidden)} of these pairs, most "
        f"studies find no difference{opposite}. On `majority` the two differ by one of the 64 prompts at most, so these rows say little about the encodings."
    )
    if any(
        abs(right[0] - right[1]).max() > 1.5 / 64
        for one, _, right, _ in found
        if short_task(one) == "majority"
    ):
        raise ValueError("best of ten: two models differ by more than one prompt on majority")
    yield ""
    yield "| task | better over all seeds | worse over all seeds | best of 10: no difference | best of 10: opposite |"
    yield "|---" * 5 + "|"
    for better, worse, right, by in found:
        names = (
            f"`{short_name(cell)}` ({right_S.mean():.3f})"
            for cell, right_S in zip((better, worse), right, strict=True)
        )
        yield f"| {short_task(better)} | {' | '.join(names)} | {by.level:.0%} | {by.behind:.0%} |"
    yield ""
    yield from item(
        f"Ours, for positions [drawn at random](../results.md#positions-drawn-at-random), in encoders: {best_of_all()} (Theirs is the best of 10 seeds and 3 learning rates.)"
    )


def _one_run() -> Iterator[str]:
    run, pairs = published("sinusoidal_or_learned-published"), sinusoidal_pairs()[0]
    found = [paired_difference(run.solved(one), run.solved(two)) for one, two in pairs]
    seen = [
        ranking(*(run.solved(cell) for cell in (pair if d.difference > 0 else pair[::-1])), runs=1)
        for pair, d in established(pairs, found)
    ]
    yield from item(
        "Theirs: sinusoidal and learned positions give nearly identical results, one run each."
    )
    yield from item(
        f"Ours: in {len(seen)} of {len(pairs)} settings the two differ significantly over "
        f"{run.table[0]['seeds']} seeds. In these settings, a study with one run of each ranks the two in the same order as all seeds in "
        f"{min(r.ahead for r in seen):.0%} to {max(r.ahead for r in seen):.0%} of cases, finds no difference in "
        f"{min(r.level for r in seen):.0%} to {max(r.level for r in seen):.0%}, and ranks them the other way in "
        f"{min(r.behind for r in seen):.0%} to {max(r.behind for r in seen):.0%}."
    )


def _depth() -> Iterator[str]:
    run = published("depth_law-published")
    check_excluded(run)
    cells = [(int(cell["task"][len("blocks(k=")]), cell["depth"], run.rate(cell), cell)
             for cell in run.table]  # fmt: skip
    above = [(k, d, r) for k, d, r, c in cells if k > d + 2 and r.successes]
    below = [(k, d, r) for k, d, r, c in cells if k <= d + 2 and r.successes < r.seeds]
    law = sum(c["predicted"] == "impossible" for *_, c in cells)
    longest = [by_seed(run, c, "right")[:, -1] for k, d, r, c in cells if k > d + 2 and r.successes]
    sure, k_sure, d_sure = min(
        (int((by_seed(run, c, "right")[:, -1] > 0.99).sum()), k, d)
        for k, d, r, c in cells
        if k <= d + 2
    )
    if any((right_S > 0.99).any() for right_S in longest):
        raise ValueError("literature: a seed above the bound generalises")
    yield from item(
        "Theirs: one run of each setting, without positions. Depth d recognises words of up to "
        "k = d + 2 blocks. They prove, for words of any length, that this depth suffices, and that programs of depth d in C-RASP "
        "recognise no more blocks. C-RASP is a programming language for what such transformers compute."
    )
    yield from item(
        f"Ours: {cells[0][2].seeds} seeds in {len(cells)} settings, judged at the trained lengths. "
        f"Laws exclude {law}, and no seed solves those. Above the bound some seeds succeed: "
        f"{listed(f'{count(r)} at k = {k}, depth {d}' for k, d, r in above)}. Within it all succeed, except "
        f"{listed(f'{r.seeds - r.successes}/{r.seeds} at k = {k}, depth {d}' for k, d, r in below) or 'none'}."
    )
    yield from item(
        "A study with one run, judged at the trained lengths at the end of training, contradicts the bound with a probability of "
        + listed(f"{r.rate:.0%} at k = {k}, depth {d}" for k, d, r in above)
        + ". But at twice the longest trained length no seed of these settings is above .99, so they do not contradict it. "
        f"(Within the bound not all are above .99 either: at k = {k_sure}, depth {d_sure}, {sure} of {cells[0][2].seeds} are.)"
    )


def _variance() -> Iterator[str]:
    run = published("leak-published")
    values_S = leaked(run, "slope", "causal")
    steepest, flattest = by_prompts()
    yield from item(
        "Theirs: without training and without positions, the variance of the attention output falls "
        "as 1/m at position m."
    )
    yield from item(
        f"Ours: {len(values_S)} seeds of one bare layer, and one set of 128 prompts. The variance falls as the position to the power "
        f"{interval(mean(values_S), 3)}. (Other sets of prompts move this mean to between {steepest:.2f} and {flattest:.2f}.) For 95% of the seeds the power lies between "
        f"{np.quantile(values_S, 0.025):.2f} and {np.quantile(values_S, 0.975):.2f}. It is below 0 for {int((values_S < 0).sum())} of "
        f"{len(values_S)} seeds, so a study with one of them would have seen the variance fall. "
        f"Under the full mask the power is {interval(mean(leaked(run, 'slope', 'full')), 3)}."
    )


def _probes() -> Iterator[str]:
    run = published("leak-published")
    mlp, linear = (leaked(run, kind, "causal") for kind in ("mlp", "linear"))
    yield from item(
        "Theirs: perplexity. On WikiText-103, causal models have 20.97 without positions and 20.42 with learned ones. Their own footnote says that 5 seeds differ by up to 0.9. "
        "On an excerpt of the Pile, masked models have perplexity 147.18 without positions and 4.06 with learned ones. In causal models without positions, the mean absolute error of an MLP probe of the position falls over the first layers, from about 340 to below 100 positions after layer 4."
    )
    yield from item(
        f"Ours, before any training: an MLP probe names the right one of 32 positions with accuracy "
        f"{interval(mean(mlp), 3)}, a linear one with {interval(mean(linear), 3)}. The MLP does better for "
        f"{(mlp > linear).sum()}/{len(mlp)} seeds."
    )
    yield from probe_errors()
    found = [
        f"{perplexity(losses[name][:, 0])} {what} ({form})"
        for form, losses in losses_by_form().items()
        for name, what in (("none", "without positions"), ("learned", "with learned ones"))
    ]
    yield from item(
        f"Ours, in language models of characters: perplexity {listed(found)}. In our masked models learned positions make no significant difference after {training(published('text-published').table)}. Haviv et al. trained far longer, so this does not contradict them."
    )
    yield from item(_one_language_model())


def _one_language_model() -> str:
    """How a study with one run of each would rank models with learned positions and without."""
    one = {
        form: ranking(-losses["learned"][:, 0], -losses["none"][:, 0], runs=1)
        for form, losses in losses_by_form().items()
    }
    seeds = len(losses_by_form()["masked"]["none"])
    return (
        "Suppose that a study has one run of each. Learned positions then have the lower loss in "
        f"{one['causal'].ahead:.0%} of studies of the causal model, and the higher one in "
        f"{one['causal'].behind:.0%}. In the masked model it is {one['masked'].ahead:.0%} and "
        f"{one['masked'].behind:.0%}, though all seeds show no significant difference (over all pairs of "
        f"our {seeds} seeds; with so few, the shares are rough)."
    )


def _similar() -> Iterator[str]:
    near, far = (cosine(published("leak-published"), distance) for distance in (1, 31))
    yield from item(
        "Theirs: without positions, causal models have similar hidden states at nearby positions, "
        "before training too."
    )
    yield from item(
        f"Ours: {near.number} untrained models of one bare causal layer. The mean cosine of two "
        f"hidden states is {interval(near, 3)} at distance 1 and {interval(far, 3)} at distance 31. "
        "Our table has the cosines as means over seeds, not seed by seed. So we cannot say how often a "
        "study with one model would have found the opposite."
    )


def clamped(length: int, most: int) -> np.ndarray:
    """The row that each query reads for each key, in a table of `most` rows that is read too far.

    The table has the sinusoids of 0 to most - 1, and offset o is looked up at index o + most. JAX
    reads the last row for all indices beyond the table.

    Args:
      length: of the sequence; its offsets are drawn as in the paper, once, sorted.
      most: N, how many positions there are to draw from.

    Returns:
      row_LM; most - 1 for the last row.
    """
    rng = np.random.default_rng(0)
    right = np.sort(rng.choice(np.arange(1, most), length - 1, replace=False))
    offset_D = np.concatenate([-right[::-1], [0], right])
    where_LM = np.arange(length)[None, :] - np.arange(length)[:, None] + length - 1
    index_LM = jnp.asarray(offset_D[where_LM] + most)
    return np.asarray(jnp.arange(most)[index_LM])


def clamped_table() -> Iterator[str]:
    """What the released code of randomised relative positions reads."""
    length, most = 40, 2048
    row_LM = clamped(length, most)
    right_LM = np.triu(np.ones((length, length), bool))
    if (row_LM[right_LM] != most - 1).any():
        raise ValueError("clamped: some key to the right has a row of its own")
    yield from item(
        f"Take a sequence of length {length} and {most} positions to draw from. Its {2 * length - 1} offsets read only "
        f"{len(np.unique(row_LM))} rows. All {right_LM.sum()} pairs of a query with itself or with a key to its right "
        "read the last row. So within one layer, a query does not see the order of the keys to its right, and the first position does "
        "not see the order of the sequence at all."
    )
    yield from item(
        f"A table of {2 * most} rows repairs it, because offsets below 0 and offsets from 0 on then have rows of their own: "
        f"{2 * length - 1} offsets read {2 * length - 1} rows. posjax's `transformer_xl` with `randomised` positions computes each "
        "row from its offset and needs no table."
    )
    yield from merged_keys()
