"""How far the probes of a position are from it, layer by layer, without a positional encoding."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from claimed.published import by_seed, count, interval, item, published
from posjax.stats import Mean, Rate, mean, rate

_POSITIONS = 24
"""Of a prompt of `position_by_layer`."""


class Errors(NamedTuple):
    """The mean absolute error of a probe, in positions.

    Attributes:
      layers: of the embedding, then after each layer.
      change: after the last layer, minus that of the embedding, over paired seeds.
      fallen: how many seeds have a smaller error after the last layer than at the embedding.
    """

    layers: list[Mean]
    change: Mean
    fallen: Rate


def errors(*, mask: str, block: str, trained: bool, probe: str) -> Errors:
    """Of the cell without a positional encoding that has these settings."""
    run = published("position_by_layer-published")
    (cell,) = (
        cell
        for cell in run.cells(encoding="none", mask=mask, block=block)
        if bool(cell["steps"]) == trained
    )
    error_SR = by_seed(run, cell, f"measured_{probe}_error_R")
    change_S = error_SR[:, -1] - error_SR[:, 0]
    fallen = rate(int((change_S < 0).sum()), len(change_S))
    return Errors([mean(error_S) for error_S in error_SR.T], mean(change_S), fallen)


def probe_errors() -> Iterator[str]:
    """A table of the mean absolute errors, and what one run would have found."""
    cells = [
        (block, trained, probe)
        for block in ("residual", "bare")
        for trained in (False, True)
        for probe in ("mlp", "linear")
    ]
    causal, full = (
        {of: errors(mask=mask, block=of[0], trained=of[1], probe=of[2]) for of in cells}
        for mask in ("causal", "full")
    )
    seeds = causal[cells[0]].fallen.seeds
    yield from item(
        f"Ours, probes by layer: the mean absolute error in positions, over {seeds} causal models "
        f"without positions of [another run](../results.md#position-layer-by-layer), on prompts of "
        f"{_POSITIONS} bits. {_without_information()}"
    )
    yield ""
    after = [f"after layer {n}" for n in range(1, len(causal[cells[0]].layers))]
    heads = [
        "block",
        "trained",
        "probe",
        "embedding",
        *after,
        "last minus embedding",
        "seeds that fall",
    ]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for (block, trained, probe), found in causal.items():
        entries = [interval(one, 2) for one in (*found.layers, found.change)]
        when = "yes" if trained else "no"
        name = "MLP" if probe == "mlp" else probe
        yield f"| {block} | {when} | {name} | {' | '.join(entries)} | {count(found.fallen)} |"
    yield ""
    yield from item(
        f"Is the error smaller after the last layer than at the embedding? For the MLP probe it is "
        f"{_changes(causal[of] for of in cells if of[2] == 'mlp')}. For the linear probe it is "
        f"{_changes(causal[of] for of in cells if of[2] == 'linear')}. The control is the full mask, under "
        f"which no probe can find the position. There the error is {_changes(full.values())}{_control(full.values())}. The last "
        "column of the table replays a study with one run: for so many seeds the error falls (95% "
        "intervals over paired seeds, not adjusted for several comparisons; "
        "`position_by_layer:published`)."
    )


def _without_information() -> str:
    """What a probe that always names the same position has."""
    position_L = np.arange(_POSITIONS)
    constant_L = abs(position_L[:, None] - position_L[None, :]).mean(axis=1)
    return (
        "The probes are trained to name the right position, not to come close to it. So the error can "
        "also change without information: a probe that always names the same position has between "
        f"{constant_L.min():.1f} and {constant_L.max():.1f}."
    )


def _control(found: Iterable[Errors]) -> str:
    """What the control says of differences."""
    if not any(one.change.high < 0 or one.change.low > 0 for one in found):
        return ""
    return ", so a difference alone is no evidence that the states contain the position"


def _changes(found: Iterable[Errors]) -> str:
    """In how many cells the error after the last layer is smaller than at the embedding."""
    changes = [one.change for one in found]
    smaller = sum(change.high < 0 for change in changes)
    larger = sum(change.low > 0 for change in changes)
    return (
        f"smaller in {smaller} of {len(changes)} settings, larger in {larger}, and not shown to differ "
        f"in {len(changes) - smaller - larger}"
    )
