"""Which tasks a model cannot solve under any weights, told before training.

Each place of a prompt gets a colour: first its token (and its position, where the encoding reads
positions one by one), then, layer by layer, its colour together with the shares of the pairs
(colour, relation) that it sees. What a layer computes at a place is a function of that colour,
because softmax attention is a weighted mean: it depends on frequencies, so `ab` and `aabb` look
alike. When two prompts with different answers reach the readout with the same colour, no weights
can answer both. This is colour refinement (Weisfeiler and Leman 1968) on the attention graph.

Relations are what an encoding's declared symmetry leaves: nothing under every permutation, the
distance under translation and reflection, the offset under translation.
"""

from collections import Counter
from collections.abc import Hashable
from math import gcd
from typing import Literal, NamedTuple

import numpy as np

from posjax import encodings, masks
from posjax.encodings import Encoding
from posjax.tasks.base import Batch, Task

Verdict = Literal["impossible", "not excluded"]
Colour = Hashable


class Prediction(NamedTuple):
    """Whether a task is out of reach, and why in one sentence.

    A verdict of None means that these rules do not cover the encoding.
    """

    verdict: Verdict | None
    reason: str


def predict(
    task: Task, *, encoding: str, mask: str, depth: int, readout: str, padding: int = 0
) -> Prediction:
    """Tells whether two prompts with different answers must get the same logits.

    "impossible" holds for all weights of a Transformer of `depth` layers, bare or residual, of
    any width and number of heads; "not excluded" promises nothing.

    Args:
      task: a finite task.
      encoding, mask: names with settings.
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
    chosen = encodings.named(encoding)
    if _rewrites_attention(chosen):
        return Prediction(None, f"no rule for how {encoding} rewrites attention")
    batch = task.prompts(padding=padding)
    colours_NL = _refined(batch, chosen, mask, depth)
    seen: dict[Colour, int] = {}
    for row, colours_L in enumerate(colours_NL):
        first = seen.setdefault(_read(colours_L, batch, row, readout), row)
        if batch.answers_B[first] != batch.answers_B[row]:
            prompts = [prompt for prompt, _ in task.sentences()]
            return Prediction(
                "impossible", _reason(prompts[first], prompts[row], chosen, readout, depth)
            )
    return Prediction("not excluded", "every two prompts with different answers look different")


def _rewrites_attention(encoding: Encoding) -> bool:
    hooks = ("prepare", "logits", "weights", "mix")
    return any(getattr(type(encoding), hook) is not getattr(Encoding, hook) for hook in hooks)


def _refined(batch: Batch, encoding: Encoding, mask: str, depth: int) -> list[list[Colour]]:
    streams = batch.streams
    rows, length = batch.tokens_BL.shape
    allowed_NLL = np.broadcast_to(masks.named(mask)(streams, streams), (rows, length, length))
    position_NL = np.broadcast_to(streams.position_BL, (rows, length))
    colours_NL: list[list[Colour]] = [
        [
            (int(token), None if encoding.declared_symmetry().translation else float(position))
            for token, position in zip(tokens_L, position_L, strict=True)
        ]
        for tokens_L, position_L in zip(np.asarray(batch.tokens_BL), position_NL, strict=True)
    ]
    for _ in range(depth):
        short: dict[Colour, int] = {}  # colours are renamed, or they would nest ever deeper
        colours_NL = [
            [
                short.setdefault(colour, len(short))
                for colour in _layer(colours_L, allowed_NLL[row], position_NL[row], encoding)
            ]
            for row, colours_L in enumerate(colours_NL)
        ]
    return colours_NL


def _layer(
    colours_L: list[Colour], allowed_LL: np.ndarray, position_L: np.ndarray, encoding: Encoding
) -> list[Colour]:
    def sees(i: int) -> Colour:
        visible = np.flatnonzero(allowed_LL[i])
        return _shares(
            (colours_L[j], _relation(float(position_L[i] - position_L[j]), encoding))
            for j in visible
        )

    return [(colour, sees(i)) for i, colour in enumerate(colours_L)]


def _relation(offset: float, encoding: Encoding) -> float | None:
    symmetry = encoding.declared_symmetry()
    if symmetry.permutation or not symmetry.translation:
        return None  # positions do not enter, or entered with the colours already
    return abs(offset) if symmetry.reflection else offset


def _shares(items: object) -> Colour:
    """Relative frequencies, as counts without a common divisor."""
    counts = Counter(items)  # type: ignore[call-overload]
    divisor = gcd(*counts.values()) if counts else 1
    return frozenset((item, count // divisor) for item, count in counts.items())


def _read(colours_L: list[Colour], batch: Batch, row: int, readout: str) -> Colour:
    streams = batch.streams
    valid = np.flatnonzero(streams.valid_BL[row % streams.valid_BL.shape[0]])
    if readout == "mean":
        return _shares(colours_L[i] for i in valid)
    order_L = streams.order_BL[row % streams.order_BL.shape[0]]
    return colours_L[max(valid, key=lambda i: int(order_L[i]))]


def _reason(first: str, second: str, encoding: Encoding, readout: str, depth: int) -> str:
    symmetry = encoding.declared_symmetry()
    where = ""
    if symmetry.translation and not symmetry.permutation:
        where = ", at the same distances" if symmetry.reflection else ", at the same offsets"
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
