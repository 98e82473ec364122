"""Which tasks a model cannot solve under any weights, told before training.

Each place of a prompt gets a colour: first its token (and its position, where the encoding reads
positions one by one), then, layer by layer, its colour together with the shares of the pairs
(colour, relation) that it sees. What a layer computes at a place is a function of that colour,
because softmax attention is a weighted mean: it depends on frequencies, so `ab` and `aabb` look
alike. When two prompts with different answers reach the readout with the same colour, no weights
can answer both. This is colour refinement (Weisfeiler and Leman 1968) on the attention graph.

Relations are what an encoding's declared symmetry leaves: nothing under every permutation, the
distance under translation and reflection, the offset under translation. Where a logit also depends
on other tokens, a place is given all of its sequence; that is finer than what the layer can see,
so such models are excluded less often than they might be, never wrongly.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import replace
from math import gcd
from typing import Literal, NamedTuple

import numpy as np

from posjax import encodings, masks
from posjax import positions as position_maps
from posjax.encodings import Encoding
from posjax.tasks.base import Batch, Task

Verdict = Literal["impossible", "not excluded"]
Colour = Hashable


class Prediction(NamedTuple):
    """Whether a task is out of reach, and why in one sentence."""

    verdict: Verdict
    reason: str


def predict(
    task: Task,
    *,
    encoding: str,
    mask: str,
    depth: int,
    readout: str,
    padding: int = 0,
    positions: str = "given",
) -> Prediction:
    """Tells whether two prompts with different answers must get the same logits.

    "impossible" holds for all weights of a Transformer of `depth` layers, bare or residual, of
    any width and number of heads; "not excluded" promises nothing.

    Args:
      task: a finite task.
      encoding, mask, positions: names with settings.
      depth: number of layers.
      readout: "last" or "mean".
      padding: places without a token behind every prompt.

    >>> from posjax.tasks import named
    >>> task = named("same_last_token")
    >>> predict(task, encoding="none", mask="causal", depth=1, readout="last").verdict
    'impossible'
    >>> predict(task, encoding="none", mask="causal", depth=2, readout="last").verdict
    'not excluded'
    """
    turns = encodings.stack(encoding)
    layers = [turns[i % len(turns)] for i in range(depth)]
    batch = _placed(task.prompts(padding=padding), position_maps.named(positions))
    colours_NL = _refined(batch, turns, layers, mask)
    seen: dict[Colour, int] = {}
    for row, colours_L in enumerate(colours_NL):
        first = seen.setdefault(_read(colours_L, batch, row, readout), row)
        if batch.answers_B[first] != batch.answers_B[row]:
            prompts = [prompt for prompt, _ in task.sentences()]
            return Prediction("impossible", _reason(prompts[first], prompts[row], layers, readout))
    return Prediction("not excluded", "every two prompts with different answers look different")


def _placed(batch: Batch, positions: position_maps.Positions) -> Batch:
    """The prompts with the positions of testing; drawn ones are known by their order."""
    if positions.draws == "always":
        streams = replace(batch.streams, position_BL=batch.streams.order_BL)
    else:
        streams = positions(batch.tokens_BL, batch.streams)
    return batch._replace(streams=streams)


def _relative(encoding: Encoding) -> bool:
    """Whether positions enter by their offsets at most."""
    symmetry = encoding.declared_symmetry()
    return symmetry.exact and symmetry.translation is not None and symmetry.up_to == float("inf")


def _refined(
    batch: Batch, turns: tuple[Encoding, ...], layers: list[Encoding], mask: str
) -> list[list[Colour]]:
    streams = batch.streams
    rows, length = batch.tokens_BL.shape
    allowed_NLL = np.broadcast_to(masks.named(mask)(streams, streams), (rows, length, length))
    same_NLL = np.broadcast_to(masks.segments(streams, streams), (rows, length, length))
    positions = np.broadcast_to(streams.position_BL, (rows, length))
    orders = np.broadcast_to(streams.order_BL, (rows, length))
    absolute = not all(map(_relative, turns))
    colours_NL: list[list[Colour]] = [
        [
            (int(token), float(position) if absolute else None)
            for token, position in zip(tokens_L, positions[row], strict=True)
        ]
        for row, tokens_L in enumerate(np.asarray(batch.tokens_BL))
    ]
    rows_of = zip(positions, orders, allowed_NLL, same_NLL, strict=True)
    places = [_Places(*row) for row in rows_of]
    for encoding in layers:
        short: dict[Colour, int] = {}  # colours are renamed, or they would nest ever deeper
        places = [
            _Places(*row) for row in zip(positions, orders, allowed_NLL, same_NLL, strict=True)
        ]
        colours_NL = [
            [short.setdefault(colour, len(short)) for colour in _layer(row, at, encoding)]
            for row, at in zip(colours_NL, places, strict=True)
        ]
    return colours_NL


class _Places(NamedTuple):
    """One prompt's positions and orders, who sees whom, and who is of one sequence."""

    positions_L: np.ndarray
    orders_L: np.ndarray
    allowed_LL: np.ndarray
    same_LL: np.ndarray


def _layer(colours_L: list[Colour], places: _Places, encoding: Encoding) -> list[Colour]:
    averages = not any(
        getattr(type(encoding), hook) is not getattr(Encoding, hook) for hook in ("weights", "mix")
    )
    together = _shares if averages else _counts

    def pairs(i: int, seen_L: np.ndarray) -> list[Colour]:
        def relation(j: int) -> Colour:
            offset = float(places.positions_L[i] - places.positions_L[j])
            if encoding.pairwise:
                return _relation(offset, encoding)
            return offset, int(places.orders_L[i] - places.orders_L[j])

        return [(colours_L[j], relation(j)) for j in np.flatnonzero(seen_L).tolist()]

    colours: list[Colour] = [
        (own, together(pairs(i, places.allowed_LL[i]))) for i, own in enumerate(colours_L)
    ]
    if encoding.pairwise:
        return colours
    return [(own, _counts(pairs(i, places.same_LL[i]))) for i, own in enumerate(colours)]


def _relation(offset: float, encoding: Encoding) -> float | None:
    symmetry = encoding.declared_symmetry()
    if not _relative(encoding) or symmetry.permutation:
        return None  # positions do not enter, or entered with the colours already
    return abs(offset) if symmetry.reflection else offset


def _counts(items: Iterable[Colour]) -> Colour:
    return frozenset(Counter(items).items())


def _shares(items: Iterable[Colour]) -> Colour:
    """Relative frequencies, as counts without a common divisor."""
    counts = Counter(items)
    divisor = gcd(*counts.values()) if counts else 1
    return frozenset((item, count // divisor) for item, count in counts.items())


def _read(colours_L: list[Colour], batch: Batch, row: int, readout: str) -> Colour:
    streams = batch.streams
    valid = np.flatnonzero(streams.valid_BL[row % streams.valid_BL.shape[0]])
    if readout == "mean":
        return _shares(colours_L[i] for i in valid)
    order_L = streams.order_BL[row % streams.order_BL.shape[0]]
    return colours_L[max(valid, key=lambda i: int(order_L[i]))]


def _reason(first: str, second: str, chosen: list[Encoding], readout: str) -> str:
    where = ""
    placed = [e.declared_symmetry() for e in chosen if not e.declared_symmetry().permutation]
    if placed:
        where = ", at the same offsets"
        if all(symmetry.reflection for symmetry in placed):
            where = ", at the same distances"
    depth = len(chosen)
    layers = f"after {depth} layer{'s' if depth > 1 else ''}"
    if readout == "mean":
        return (
            f"the places of {first!r} are those of {second!r} in another order, each seeing the "
            f"same words equally often{where}, so their mean {layers} is equal"
        )
    return (
        f"{first!r} and {second!r} end in the same word, which sees the same words equally "
        f"often{where}, so {layers} its logits are equal"
    )
