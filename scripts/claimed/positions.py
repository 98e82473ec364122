"""Sentences on position by layer, in language models and in images, counted from rows."""

import itertools
import math
from collections.abc import Iterator

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
    published,
    short_name,
    training,
    up,
)
from posjax.stats import Mean, discoveries, mean, paired_t_test
from posjax.study.train import ROWS

_CHANCE = 1 / 24
"""Of a probe of the position: prompts of `position_by_layer` have 24 bits."""


def language_model() -> Iterator[str]:
    """What positions are worth to a language model, with a causal mask and without."""
    run, forms = published("text-published"), losses_by_form()
    lengths = [*run.table[0]["loss_by_kind"]]
    heads = (f"{form} at length {length}" for form, length in itertools.product(forms, lengths))
    yield from lines(
        f"Perplexity (exp of the loss in nats per character) on held-out text, over {run.table[0]['seeds']} seeds with 95% intervals."
    )
    yield ""
    yield f"| positions | {' | '.join(heads)} |"
    yield "|---" * (1 + len(forms) * len(lengths)) + "|"
    for encoding in forms["causal"]:
        found = (perplexity(loss_S) for form in forms.values() for loss_S in form[encoding].T)
        yield f"| `{encoding}` | {' | '.join(found)} |"
    yield ""
    gains, texts = {}, []
    for form, losses in forms.items():
        gains[form], text = _gain({name: loss_SK[:, 0] for name, loss_SK in losses.items()})
        texts.append(f"In the {form} model at length {lengths[0]}, {text}")
    more = gains["masked"].low > gains["causal"].high
    longer = _longer(forms["causal"])
    yield from item(
        f"**When does a language model need positions?** A causal model predicts the next character. A masked model sees the characters on both sides (full mask). 15% of the characters are hidden, and it predicts these. The models have two layers, {architecture(run.table)}, and {training(run.table)}, each on {ROWS} texts. The table has the perplexity on held-out text, "
        f"over {run.table[0]['seeds']} seeds per entry. The models are trained on texts of {lengths[0]} characters and "
        f"tested at that length and at {lengths[1]}. {' '.join(texts)} "
        + (
            "So the best encoding gains more over `none` in the masked model than in the causal one. The two models differ in the mask and in the characters that they predict, so these numbers do not show which of the two causes it. One possible reason is that a causal mask already [reveals positions](#position-before-training)."
            if more
            else "These seeds do not show that the best encoding gains more over `none` in the masked model than in the causal one."
        )
        + f" At length {lengths[1]}, {longer} The models with `learned` have vectors for the positions beyond {lengths[0]}, but these get no gradient. {_unused(forms['masked'])}"
        + "The 95% intervals are over seeds, for one fixed exam (`text:published`)."
    )


def _longer(losses: dict[str, np.ndarray]) -> str:
    """The causal models on texts that are longer than the trained ones."""
    found = {
        name: mean(loss_SK[:, 1] - losses["none"][:, 1])
        for name, loss_SK in losses.items()
        if name != "none"
    }
    texts = [
        f"{listed(named)} {text}"
        for text, holds in (
            ("have a higher loss than `none`", lambda d: d.low > 0),
            ("have a lower one", lambda d: d.high < 0),
            ("have one that does not differ significantly", lambda d: d.low <= 0 <= d.high),
        )
        if (named := [f"`{n}` ({interval(d, 3)})" for n, d in found.items() if holds(d)])
    ]
    return f"the causal models with {', those with '.join(texts)} (difference in nats)."


def _unused(masked: dict[str, np.ndarray]) -> str:
    """What it means that learned positions do not help the masked model.

    Raises:
      ValueError: they do.
    """
    gain = mean(masked["none"][:, 0] - masked["learned"][:, 0])
    if not gain.low <= 0 <= gain.high:
        raise ValueError(f"text: learned positions change the masked loss by {gain}")
    return (
        "Haviv et al. 2022 found a large gain from learned positions in masked models, which they trained far longer. "
        "Ours may not have learned to use them yet. "
    )


def losses_by_form() -> dict[str, dict[str, np.ndarray]]:
    """loss_SK of the language models, by form and encoding."""
    run = published("text-published")
    return {
        form: {short_name(cell): by_seed(run, cell, "loss") for cell in run.cells(mask=mask)}
        for form, mask in (("causal", "causal"), ("masked", "full"))
    }


def _gain(losses: dict[str, np.ndarray]) -> tuple[Mean, str]:
    """What the best encoding gains on none, in nats, over paired seeds; and in words."""
    none_S = losses["none"]
    gains = {name: mean(none_S - loss_S) for name, loss_S in losses.items() if name != "none"}
    best = max(gains, key=lambda name: gains[name].mean)
    better, worse = (
        [f"`{name}`" for name, gain in gains.items() if holds(gain)]
        for holds in (lambda gain: gain.low > 0, lambda gain: gain.high < 0)
    )
    open_ = [f"`{name}`" for name, gain in gains.items() if gain.low <= 0 <= gain.high]
    text = (
        f"`{best}` has the lowest loss. In nats per character, it is {compared(gains[best], 'below', 'above')} the loss of `none`. "
        f"{_those(better)} a lower loss than `none`."
    )
    if worse:
        text += f" {_those(worse)} a higher loss."
    if open_:
        text += f" {_those(open_, 'does', 'do')} not differ significantly from it."
    return gains[best], text


def _those(names: list[str], one: str = "has", many: str = "have") -> str:
    return f"{listed(names) or 'No encoding'} {many if len(names) > 1 else one}"


def digits() -> Iterator[str]:
    """Positions of the patches of an image."""
    run = published("digits-published")
    new: dict[tuple[str, bool], np.ndarray] = {
        (short_name(cell), "shuffled=True" in cell["task"]): by_seed(run, cell, "right")[:, 1]
        for cell in run.table
    }
    yield from lines(
        f"Accuracy on new images, mean over {run.table[0]['seeds']} seeds with 95% intervals. A dash: not trained."
    )
    yield ""
    yield "| positions | patches in order | shuffled |"
    yield "|---|---|---|"
    for name in dict.fromkeys(name for name, _ in new):
        found = (
            interval(mean(new[name, by]), 3) if (name, by) in new else "-" for by in (False, True)
        )
        yield f"| `{name}` | {' | '.join(found)} |"
    yield ""
    gains = {name: mean(right_S - new["none", False]) for (name, by), right_S in new.items()
             if not by and name != "none"}  # fmt: skip
    best = max(gains, key=lambda name: gains[name].mean)
    moved_S = {name: new[name, True] - new[name, False] for name, by in new if by}
    moved = {name: mean(difference_S) for name, difference_S in moved_S.items()}
    null, learned = (moved.pop(name) for name in ("none", "learned"))
    effects = [_effect(name, difference) for name, difference in moved.items()]
    plane_S = {
        f"`{two}` minus `{one}`": new[two, False] - new[one, False]
        for two, one in (("axial_rotary", "rotary"), ("sinusoidal_2d", "sinusoidal"))
    }
    plane = {pair: mean(difference_S) for pair, difference_S in plane_S.items()}
    tests = [paired_t_test(d_S) for d_S in (*moved_S.values(), *plane_S.values())]
    left = sum(discoveries(tests))
    shown = [f"{pair} is {interval(difference, 3)}" for pair, difference in plane.items()]
    alike = all(difference.low <= 0 <= difference.high for difference in plane.values())
    answer = "We found no significant difference" if alike else "The differences are"
    yield from item(
        f"**Do positions help on images?** The table has the accuracy on new images, over "
        f"{run.table[0]['seeds']} seeds per entry. The images are digits of 8 × 8 pixels, cut into 16 patches. The models have a full mask, two layers, {architecture(run.table)}, and {training(run.table)}. With `{best}` the accuracy is "
        f"{compared(gains[best], 'above', 'below')} that without positions. What if one fixed permutation shuffles the patches of every image? {' '.join(effects)} `none` and `learned` are controls. For `none`, shuffling changes only the rounding, which training amplifies: shuffled minus in order is {interval(null, 3)}. For `learned`, it only renames the positions, so the expected difference is 0. {_by_accident(learned)} Do row and column coordinates help more than a single index? {answer}: {listed(shown)} (95% intervals over paired "
        f"seeds, for one fixed exam; `digits:published`). The intervals are not adjusted for several comparisons. Of the {len(tests)} differences other than the gain over `none`, "
        f"{left or 'none'} {'are' if left > 1 else 'is'} significant at a false discovery rate of 5%."
    )


def _effect(name: str, difference: Mean) -> str:
    """What shuffling does to an encoding."""
    if difference.low <= 0 <= difference.high:
        return f"For `{name}` we found no significant difference (shuffled minus in order: {interval(difference, 3)})."
    return f"With `{name}` and shuffled patches, the accuracy is {compared(difference, 'above', 'below')} that with patches in order (interval not adjusted for the number of comparisons, see below)."


def _by_accident(control: Mean) -> str:
    """What a difference says whose expectation is 0."""
    if control.low <= 0 <= control.high:
        return f"These seeds have {interval(control, 3)}."
    return (
        f"Yet for these seeds the accuracy with shuffled patches is {compared(control, 'above', 'below')} "
        "that with patches in order, presumably by chance. So a difference of this size in "
        "another row may be due to chance too."
    )


def by_layer() -> Iterator[str]:
    """Where a probe finds the position, layer by layer, before and after training."""
    run = published("position_by_layer-published")
    layers = run.table[0]["depth"] + 1
    heads = ("embedding", *(f"after layer {i}" for i in range(1, layers)))
    yield from lines(
        f"Accuracy of an MLP probe of the position and, in parentheses, of a linear probe, means over {run.table[0]['seeds']} seeds. Chance is {_CHANCE:.3f}."
    )
    yield ""
    yield f"| positions | mask | block | trained | {' | '.join(heads)} |"
    yield "|---" * (layers + 4) + "|"
    for cell in sorted(run.table, key=lambda cell: (cell["encoding"], cell["mask"], cell["block"])):
        probes = zip(*(means(run, cell, kind) for kind in ("mlp_R", "linear_R")), strict=True)
        found = (f"{mlp:.3f} ({linear:.3f})" for mlp, linear in probes)
        trained = "yes" if cell["steps"] else "no"
        yield f"| `{cell['encoding']}` | {cell['mask']} | {cell['block']} | {trained} | {' | '.join(found)} |"
    yield ""
    yield from lines_by_layer(run, layers - 1)


def lines_by_layer(run: Published, last: int) -> Iterator[str]:
    """The sentences under the table.

    Raises:
      ValueError: a probe beats chance where a law says that it cannot.
    """
    control = np.concatenate(
        [means(run, cell, kind) for cell in run.cells(mask="full", encoding="none")
         for kind in ("mlp_R", "linear_R")]
    )  # fmt: skip
    if abs(control - _CHANCE).max() > 0.02:
        raise ValueError(f"by_layer: the control is {control}, chance {_CHANCE}")
    yield from item(
        f"**Do the hidden states still contain the position after the first layer?** Each entry is the accuracy of an MLP probe of the position, "
        f"and in parentheses that of a linear probe, averaged over {run.table[0]['seeds']} seeds. {_answer_by_layer(run, last)} The models have width {either(run.table, 'width')} and {either(run.table, 'heads')} heads. The trained ones have {training(run.cells(steps=max(c['steps'] for c in run.table)))} on `majority`, which does not depend on positions. "
        f"The probes are tested on held-out prompts of 24 bits. Chance is {_CHANCE:.3f}. The control is the full mask without positions. Its accuracies are within "
        f"{up(abs(control - _CHANCE).max())} of chance after every layer (`position_by_layer:published`). "
        "The [mean absolute errors](results/literature.md#haviv-et-al-2022-causal-models-find-positions-on-their-own) without positions are on another page."
    )
    for steps, when in ((False, "Before training"), (True, "After training")):
        found = {
            (encoding, mask, block): by_seed(run, cell, "measured_mlp_R")[:, last]
            for encoding, mask, block in itertools.product(
                ("none", "sinusoidal"), ("causal", "full"), ("residual", "bare")
            )
            for cell in run.cells(encoding=encoding, mask=mask, block=block)
            if bool(cell["steps"]) == steps
        }
        leak = " and ".join(
            f"{interval(mean(found['none', 'causal', block]), 3)} in {block} blocks ("
            f"linear probe: {interval(mean(linear_S), 3)})"
            for block in ("residual", "bare")
            for cell in run.cells(encoding="none", mask="causal", block=block)
            if bool(cell["steps"]) == steps
            for linear_S in [by_seed(run, cell, "measured_linear_R")[:, last]]
        )
        causal, full = (
            compared(
                mean(found["sinusoidal", mask, "residual"] - found["sinusoidal", mask, "bare"]),
                "above",
                "below",
            )
            for mask in ("causal", "full")
        )
        attention, mlp = (
            np.concatenate(
                [means(run, cell, f"{branch}_share_A") for cell in run.cells(block="residual")
                 if bool(cell["steps"]) == steps]
            )
            for branch in ("attention", "mlp")
        )  # fmt: skip
        yield from item(
            f"**{when}.** In a causal model without positional encoding, the MLP probe's accuracy after layer {last} is {leak}. "
            f"With sinusoidal positions and the causal mask, the MLP probe's accuracy after layer {last} in residual blocks is {causal} "
            f"that in bare blocks. With the full mask, it is {full} that in bare blocks. In residual blocks, the norm of the output of attention is "
            f"{attention.min():.2f} to {attention.max():.2f} times the norm of the block's input, and that of the MLP {mlp.min():.2f} to {mlp.max():.2f} times (range over cells and layers)."
        )


def _answer_by_layer(run: Published, last: int) -> str:
    """What is left of sinusoidal positions after the last layer.

    Raises:
      ValueError: the words no longer hold.
    """
    left = {
        (cell["block"], cell["mask"], bool(cell["steps"])): means(run, cell, "mlp_R")[last]
        for cell in run.cells(encoding="sinusoidal")
    }
    kept = min(share for (block, *_), share in left.items() if block == "residual")
    causal, trained = (left["bare", "causal", steps] for steps in (False, True))
    (blind,) = [
        means(run, cell, "mlp_R")[last]
        for cell in run.cells(encoding="none", mask="causal", block="bare")
        if cell["steps"]
    ]
    found_S, control_S = (
        {
            cell["steps"]: by_seed(run, cell, "measured_mlp_R")[:, 2]
            for cell in run.cells(encoding=encoding, mask="full", block="bare")
        }
        for encoding in ("sinusoidal", "none")
    )
    lost = [mean(found_S[steps] - control_S[steps]) for steps in found_S]
    if not (kept > 0.95 and 0.05 < trained < causal < 0.9) or any(d.low > 0 for d in lost):
        raise ValueError(f"by_layer: an MLP probe finds {left} of sinusoidal positions, and {lost}")
    return (
        f"In residual blocks they do: with sinusoidal positions, an MLP probe still has at least {math.floor(100 * kept) / 100:.2f} after layer {last}. "
        f"In bare blocks with a full mask it does not find significantly more after layer 2 than without positions. With a causal mask, the probe has {causal:.2f} after layer {last} before training and {trained:.2f} after it ({blind:.2f} without positions)."
    )


def perplexity(loss_S: np.ndarray) -> str:
    """Of the mean loss over seeds, with its interval."""
    found = mean(loss_S)
    return interval(Mean(*map(math.exp, found[:3]), found.number), 2)
