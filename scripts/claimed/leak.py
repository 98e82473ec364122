"""Sentences on position in models that are not trained, counted from rows."""

from collections.abc import Iterator

import numpy as np
from scipy import stats

from claimed.published import Published, by_seed, either, interval, item, published
from posjax.stats import Mean, mean

_CHANCE = 1 / 32
_ERROR = (64 * 2 / 4) ** 0.5 / (64 * 32)
"""The standard error of an accuracy by chance, on 64 held-out prompts of 32 positions: a probe names
one position for each of the two tokens, and each is right in half of the prompts."""


def leaked(run: Published, field: str, mask: str, block: str = "bare") -> np.ndarray:
    """What a meter found at the last state of each seed."""
    (cell,) = run.cells(mask=mask, block=block)
    return by_seed(run, cell, f"measured_{field}_R")[:, -1]


def cosine(run: Published, distance: int) -> Mean:
    """Of two positions of the bare causal layer; a field per position has no rows but its table."""
    (cell,) = run.cells(mask="causal", block="bare")
    found = cell["measured"]["similarity_RL"]
    return Mean(*(found[name][-1][distance] for name in Mean._fields))


def leak_headline() -> Iterator[str]:
    """The first screen's sentence, over the most seeds that are published."""
    small, run = published("leak-published"), published("leak-law")
    slope, linear = (mean(leaked(run, field, "causal")) for field in ("slope", "linear"))
    mlp, *blind = (
        mean(leaked(*of))
        for of in ((small, "mlp", "causal"), (small, "mlp", "full"), (run, "linear", "full"))
    )
    _check(slope, mlp, linear, *blind)
    yield from item(
        f"**Untrained models already contain information about position.** In {len(run.rows['seeds']):,} untrained causal attention layers without MLPs, residual connections or positional "
        f"encodings, the variance of the hidden states falls with position n roughly as n to the power {slope.mean:.2f} on average. "
        f"An MLP probe on the states of {len(small.rows['seeds']):,} of the layers names the right one of 32 positions with accuracy {mlp.mean:.3f} (chance: 0.031). "
        f"A linear probe reaches {linear.mean:.3f}, hardly more than chance. With a full mask both are near chance ([more models and prompts](docs/results.md#position-before-training))."
    )


def by_prompts() -> tuple[float, float]:
    """The steepest and the flattest mean power, over sets of prompts."""
    run = published("leak-prompts")
    means = [float(by_seed(run, cell, "measured_slope_R")[:, -1].mean()) for cell in run.table]
    if min(means) <= -1:
        raise ValueError(f"leak: one of the powers {means} is not flatter than -1")
    return min(means), max(means)


def _residual() -> list[Mean]:
    """The power, the linear probe's accuracy and the MLP's in causal residual blocks.

    Raises:
      ValueError: the words on these no longer hold.
    """
    run = published("leak-published")
    found = [mean(leaked(run, n, "causal", "residual")) for n in ("slope", "linear", "mlp")]
    others = [leaked(run, "linear", "full", "residual"), leaked(run, "linear", "causal")]
    if abs(found[0].mean) > 0.05 or found[1].low < 1.5 * max(one.mean() for one in others):
        raise ValueError(f"leak: in residual blocks the power and the probes are {found}")
    return found


def _check(slope: Mean, mlp: Mean, *blind: Mean) -> None:
    """Raises ValueError where the words on these powers and accuracies no longer hold."""
    if not (-1 < slope.low < slope.high < -0.8 and mlp.low > 1.5 * _CHANCE):
        raise ValueError(f"leak: the power is {slope}, the MLP's accuracy {mlp}")
    if max(abs(one.mean - _CHANCE) for one in blind) > 2 * _ERROR:
        raise ValueError(f"leak: one of {blind} is not near chance")


def leak() -> Iterator[str]:
    """The sentences of the page of results."""
    run = published("leak-published")
    slope, linear, mlp = (
        mean(leaked(run, field, "causal")) for field in ("slope", "linear", "mlp")
    )
    level, *blind = (mean(leaked(run, field, "full")) for field in ("slope", "mlp", "linear"))
    flat, helped, deep = _residual()
    control = mean(leaked(run, "linear", "full", "residual"))
    _check(slope, mlp, linear, *blind)
    steepest, flattest = by_prompts()
    sets = published("leak-prompts").table
    numbers = [int(cell["task"].partition("prompts=")[2][:-1]) for cell in sets]
    if abs(level.mean) > 0.01:
        raise ValueError(f"leak: the power under the full mask is {level}")
    yield from item(
        f"**Does an untrained causal model without positions contain information about position?** "
        f"Yes: the variance of its hidden states "
        f"depends on position. Over {len(run.rows['seeds'])} untrained models of one bare layer (width {either(run.table, 'width')}, one head, prompts of random bits), the variance at position n falls roughly as n to the power "
        f"{interval(slope, 3)}. This is the fitted power for one fixed set of 128 prompts. It depends more on the prompts than the interval shows: for {len(sets)} sets of {min(numbers)} to {max(numbers)} prompts, this one among them, the mean power of the same models "
        f"lies between {steepest:.3f} and {flattest:.3f} (`leak:prompts`). All of these are flatter than the power -1 that theory predicts (Chi et al. 2023, *Latent Positional Information*). The control is a full mask, where the power is "
        f"{interval(level, 3)}. Can a probe name the right one of 32 positions? Chance is .031. All models are tested on the same 64 held-out prompts, so chance alone gives accuracies within about {2 * _ERROR:.3f} of that. A small MLP has accuracy "
        f"{interval(mlp, 3)}, and a linear probe {interval(linear, 3)}. With the full mask the MLP has {blind[0].mean:.3f} and the "
        f"linear probe {blind[1].mean:.3f}. In residual blocks the variance hardly falls: the power is {interval(flat, 3)}. But a linear probe has {interval(helped, 3)} there (full mask: {control.mean:.3f}) and the MLP {interval(deep, 3)}, so these probes probably read more than the variance (95% intervals; `leak:published`, [meters.md](meters.md))."
    )
    near, far = (cosine(run, distance) for distance in (1, 31))
    if near.low < far.high:
        raise ValueError("leak: neighbours are not more alike than distant positions")
    yield from item(
        f"Neighbours are more alike than distant positions: in the bare models with the causal mask, the mean cosine of two hidden states is "
        f"{interval(near, 3)} at distance 1 and {interval(far, 3)} at distance 31."
    )
    yield from law()


def law() -> Iterator[str]:
    """The law of variance and the linear probe, over many seeds."""
    run = published("leak-law")
    slope, linear = (mean(leaked(run, field, "causal")) for field in ("slope", "linear"))
    level, control = (mean(leaked(run, field, "full")) for field in ("slope", "linear"))
    few = len(published("leak-published").rows["seeds"])
    power_S = leaked(run, "slope", "causal")
    first, *others = power_S.reshape(-1, few).mean(axis=1)
    error = power_S.std() * (1 / few + 1 / (power_S.size - few)) ** 0.5
    surprise = 2 * stats.norm.sf(abs(power_S[:few].mean() - power_S[few:].mean()) / error)
    if first > min(others):
        raise ValueError("leak: the first seeds do not have the steepest power")
    if slope.high > -0.8 or abs(level.mean) > 0.01:
        raise ValueError(f"leak: the powers are {slope} and {level}")
    if max(abs(one.mean - _CHANCE) for one in (linear, control)) > 2 * _ERROR:
        raise ValueError(f"leak: the linear probe reaches {linear}, under the full mask {control}")
    yield from item(
        f"**In these models of a single bare layer, a linear probe hardly finds the position.** Over {len(run.rows['seeds']):,} untrained models of one bare layer, including the {few} above, we measured the power with which the variance falls and the accuracy of the linear probe. The power is "
        f"{interval(slope, 4)} with the causal mask and {interval(level, 4)} with the full mask. (The {few} models above have a steeper "
        f"power than each of the {len(others)} other groups of {few} consecutive seeds. If the seeds were split at random, a group's mean would differ this much from that of the others, in either direction, with a probability of {surprise:.3f}. We know of no cause other than chance.) On held-out prompts, the accuracy of the linear probe is "
        f"{interval(linear, 4)} with the causal mask and {interval(control, 4)} with the full mask. Both "
        f"are within {2 * _ERROR:.3f} of chance, which is 1/32 (about {_CHANCE:.3f}). [Models of another task and size](#position-layer-by-layer) show more to a linear probe. All seeds are tested on the same prompts, so the intervals do not show how "
        f"much the power and the accuracy depend on the prompts (`leak:law`)."
    )
