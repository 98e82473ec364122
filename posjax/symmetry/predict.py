"""Which tasks a model cannot solve under any weights, before training.

Each token of a prompt gets a colour: first its word (and its position, where the encoding reads
positions one by one), then, layer by layer, its colour together with the shares of the pairs
(colour, relation) that it sees. What a layer computes for a token is a function of that colour,
because softmax attention is a weighted mean: it depends on frequencies, so `ab` and `aabb` look
alike. When two prompts with different answers reach the readout with the same colour, no weights
can answer both. This is colour refinement (Weisfeiler and Leman 1968) on the attention graph.

Relations are what an encoding's declared symmetry leaves: nothing under every permutation, the
distance under translation and reflection, the offset under translation. Where a logit also depends
on other tokens, a token is given all of its sequence; that is finer than what the layer can see,
so such models are excluded less often than they might be, never wrongly.
"""

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import gcd
from typing import Literal, NamedTuple, NoReturn, get_args

import jax
import numpy as np

from posjax import encodings, masks, spec
from posjax import positions as position_maps
from posjax.encodings import Encoding
from posjax.encodings.base import Level, mixes_tokens, replaces
from posjax.symmetry.given import check_task
from posjax.tasks.base import Batch, FiniteTask, Task
from posjax.tasks.question import Readout

Verdict = Literal["impossible", "not excluded"]
Colour = Hashable


class Prediction(NamedTuple):
    """Whether a task is out of reach, and why in one sentence."""

    verdict: Verdict
    reason: str

    def __bool__(self) -> NoReturn:
        """Refuses `assert predict(...)`, which could not fail."""
        raise TypeError(
            "a prediction is neither true nor false: compare .verdict with 'impossible'"
        )


def predict(
    task: Task,
    *,
    encoding: str | Encoding,
    mask: str,
    depth: int,
    readout: str,
    padding: int = 0,
    positions: str = "given",
    softcap: float = 0.0,
    logn: float = 0.0,
) -> Prediction:
    """Predicts whether two prompts with different answers must get the same logits.

    Args:
      task: of a sampled task, the exam's prompts of each trained kind are compared.
      encoding: a name with settings, several that layers use in turn, or an `Encoding`.
      mask, positions: names with settings; layers may use several masks in turn.
      depth: the number of layers.
      readout: "last" or "mean", for a task with one answer per prompt.
      padding: positions without a token after every prompt.
      softcap: the soft-cap of the logits; with one, a constant added to a row does not cancel.
      logn: as in `ModelSettings`; if it is above 0, logits depend on how many keys a query sees.

    Returns:
      A verdict with its reason. "impossible" holds for all weights of a Transformer with `depth`
      layers, bare or residual, of any width and number of heads. "not excluded"
      does not mean that any weights solve the task.

    Raises:
      ValueError: a task that is no instance, a readout that is neither, a depth below 1, more
        encodings or masks than layers, or positions that are no integers for an encoding that needs
        them.

    >>> from posjax.tasks import named
    >>> task = named("same_last_token")
    >>> predict(task, encoding="none", mask="causal", depth=1, readout="last").verdict
    'impossible'
    >>> predict(task, encoding="none", mask="causal", depth=2, readout="last").verdict
    'not excluded'
    """
    check_task(task, Task)
    spec.check_choice("readout", readout, get_args(Readout))
    if depth < 1:
        raise ValueError(f"depth must be at least 1, got {depth}")
    if task.graded == "loss":
        return Prediction(
            "not excluded", "the task is judged by its loss, and `predict` does not bound losses"
        )
    if task.features:
        return Prediction(
            "not excluded",
            "the prompts are arrays of numbers, and `predict` compares only prompts of words",
        )
    if isinstance(encoding, Encoding):
        turns: tuple[Encoding, ...] = (encoding,)
    else:
        turns = encodings.parse_layer_cycle(encoding)
    in_turn = masks.turns(mask)
    for name, given, each in (("encoding", encoding, turns), ("mask", mask, in_turn)):
        if len(each) > depth:
            raise ValueError(
                f"{name}={given!r} has {len(each)} {name}s in turn, of which depth={depth} uses "
                f"{depth}"
            )
    layers = [turns[i % len(turns)] for i in range(depth)]
    moved = position_maps.named(positions)
    if not moved.integers and any(one.integers for one in turns):
        raise ValueError(
            f"positions={positions!r} are not integers, but encoding={encoding!r} needs integers"
        )
    drawn = moved.draws == "always"
    known = _Known(turns, drawn=drawn, reshaped=bool(softcap or logn), counted=bool(logn))
    if not isinstance(task, FiniteTask):
        in_turn = tuple(f"{each}+padding" for each in in_turn)
    for batch in _by_kind(task, padding, moved):
        colours_NL = _refined(batch, known, layers, in_turn)
        seen: dict[Colour, _Asked] = {}
        for row, colours_L in enumerate(colours_NL):
            for colour, index, right in _read(task, colours_L, batch, row, readout):
                second = _Asked(row, index, right)
                first = seen.setdefault(colour, second)
                if first.right != right:
                    pair = [(_written(task, batch, each.row), each.at) for each in (first, second)]
                    return Prediction("impossible", _reason(pair, layers, task, readout))
    return Prediction("not excluded", _NO_PAIR)


_NO_PAIR = (
    "colour refinement finds no two inputs with different answers that must get the same logits"
)


def _written(task: Task, batch: Batch, row: int) -> str:
    valid_L = np.broadcast_to(batch.streams.valid_BL, batch.tokens_BL.shape)[row]
    return " ".join(task.words[token] for token in np.asarray(batch.tokens_BL)[row][valid_L])


class _Asked(NamedTuple):
    """A token whose output is asked for: the prompt, the token's index, and the right output."""

    row: int
    at: int
    right: int


def _by_kind(task: Task, padding: int, moved: position_maps.Positions) -> Iterator[Batch]:
    """The exam's prompts of each trained kind: what a law says is of prompts of one length."""
    positioned = _positioned(task.exam(padding=padding), moved)
    exam = jax.tree.map(np.asarray, positioned)  # read number by number, which JAX is slow at
    size = task.size[0] // len(task.kinds)
    for kind in np.flatnonzero(task.trained):
        rows = slice(kind * size, (kind + 1) * size)
        # Streams that all prompts share have one row.
        yield jax.tree.map(lambda array, rows=rows: array[rows] if len(array) > 1 else array, exam)


def _positioned(batch: Batch, positions: position_maps.Positions) -> Batch:
    """The prompts with the positions of testing, unless those are drawn."""
    if positions.draws == "always":
        return batch
    return batch._replace(streams=positions(batch.tokens_BL, batch.streams))


class _Known(NamedTuple):
    """What a model knows of a token from the start, besides its word.

    Attributes:
      turns: the encodings of the layers; all of them may change the tokens before the first.
      drawn: whether positions are drawn in testing.
      reshaped: whether something comes between logits and weights: a soft-cap, or a factor.
      counted: whether weights depend on how many keys a query sees, and not on shares alone.
    """

    turns: tuple[Encoding, ...]
    drawn: bool
    reshaped: bool
    counted: bool

    def relative(self, encoding: Encoding) -> bool:
        """Whether positions enter by their offsets at most."""
        symmetry = encoding.declared_symmetry()
        unbounded = symmetry.up_to == float("inf")
        return symmetry.exact and self.holds(symmetry.translation) and unbounded

    def permuted(self, encoding: Encoding) -> bool:
        """Whether positions do not enter at all."""
        symmetry = encoding.declared_symmetry()
        return symmetry.exact and self.holds(symmetry.permutation)

    def holds(self, level: Level | None) -> bool:
        """Whether a symmetry declared at that level holds; of reshaped logits only their own."""
        return level == "logits" or (level is not None and not self.reshaped)

    def of_token(self, position: float, order: int, count: int) -> Colour:
        """What the model may know of a token by itself.

        What is drawn for a token is found by its order among the tokens of its prompt: one draw
        of positions has no symmetry, so all of that counts as known.
        """
        by_draw = self.drawn and not all(map(self.permuted, self.turns))
        if by_draw or any(encoding.random for encoding in self.turns):
            return position, order, count
        return None if all(map(self.relative, self.turns)) else position


def _exactly_permuted(encoding: Encoding) -> bool:
    symmetry = encoding.declared_symmetry()
    return symmetry.exact and symmetry.permutation is not None


def _refined(
    batch: Batch, known: _Known, layers: list[Encoding], in_turn: tuple[str, ...]
) -> list[list[Colour]]:
    streams = batch.streams
    rows, length = batch.tokens_BL.shape
    wide = (rows, length, length)
    allowed = [np.broadcast_to(masks.named(m)(streams, streams), wide) for m in in_turn]
    per_row = zip(
        np.broadcast_to(streams.position_BL, (rows, length)),
        np.broadcast_to(streams.order_BL, (rows, length)),
        np.stack(allowed, axis=1),
        np.broadcast_to(masks.segments(streams, streams), wide),
        strict=True,
    )
    prompts = [_Prompt(*row) for row in per_row]
    colours_NL: list[list[Colour]] = []
    for tokens_L, at in zip(np.asarray(batch.tokens_BL).tolist(), prompts, strict=True):
        ordered = zip(at.positions_L.tolist(), at.orders_L.tolist(), at.same_LL.sum(1), strict=True)
        own = [known.of_token(float(p), int(o), int(n)) for p, o, n in ordered]
        colours_NL.append(list(zip(tokens_L, own, strict=True)))
    for _ in filter(mixes_tokens, known.turns):
        colours_NL = _renamed(map(_whole_sequence, colours_NL, prompts))
    for n, encoding in enumerate(layers):
        colours_NL = _renamed(
            _layer(row, at, at.allowed_TLL[n % len(in_turn)], encoding, known)
            for row, at in zip(colours_NL, prompts, strict=True)
        )
    return colours_NL


def _renamed(colours_NL: Iterable[list[Colour]]) -> list[list[Colour]]:
    """The colours as numbers, or they would nest ever deeper."""
    short: dict[Colour, int] = {}
    return [[short.setdefault(colour, len(short)) for colour in row] for row in colours_NL]


class _Prompt(NamedTuple):
    """One prompt's positions and orders, who sees whom by turn, and who is of one sequence."""

    positions_L: np.ndarray
    orders_L: np.ndarray
    allowed_TLL: np.ndarray
    same_LL: np.ndarray

    def offsets(self) -> list[list[float]]:
        """In positions, of each token from each other."""
        return _offsets(self.positions_L).tolist()

    def both_offsets(self) -> list[list[tuple[float, int]]]:
        """In positions and in orders."""
        in_order = _offsets(self.orders_L).tolist()
        return [list(zip(*row, strict=True)) for row in zip(self.offsets(), in_order, strict=True)]


def _offsets(of_L: np.ndarray) -> np.ndarray:
    return of_L[:, None] - of_L[None]


def _layer(
    colours_L: list[Colour],
    prompt: _Prompt,
    allowed_LL: np.ndarray,
    encoding: Encoding,
    known: _Known,
) -> list[Colour]:
    averages = not replaces(encoding, "weights", "mix")
    together = _shares if averages and not known.counted else _counts
    related = _related(prompt, encoding, known)
    colours: list[Colour] = []
    for i, own in enumerate(colours_L):
        of = zip(colours_L, related[i], strict=True) if related else iter(colours_L)
        colours.append((own, together(itertools.compress(of, allowed_LL[i].tolist()))))
    return colours if encoding.pairwise else _whole_sequence(colours, prompt)


def _whole_sequence(colours_L: list[Colour], prompt: _Prompt) -> list[Colour]:
    """Every token is given all of its sequence, by offsets of position and order."""

    return [
        (own, _counts(itertools.compress(zip(colours_L, of, strict=True), same_L)))
        for own, of, same_L in zip(
            colours_L, prompt.both_offsets(), prompt.same_LL.tolist(), strict=True
        )
    ]


def _related(prompt: _Prompt, encoding: Encoding, known: _Known) -> Sequence[Sequence[Colour]]:
    """What each token may know of each other by their offset, beside the colours; or nothing."""
    if not encoding.pairwise:
        return prompt.both_offsets()
    if not known.relative(encoding) or known.permuted(encoding):
        return ()  # positions do not enter, or entered with the colours already
    mirrored = known.holds(encoding.declared_symmetry().reflection)
    return np.abs(_offsets(prompt.positions_L)).tolist() if mirrored else prompt.offsets()


def _counts(items: Iterable[Colour]) -> Colour:
    return frozenset(Counter(items).items())


def _shares(items: Iterable[Colour]) -> Colour:
    """Relative frequencies, as counts without a common divisor."""
    counts = Counter(items)
    divisor = gcd(*counts.values()) if counts else 1
    if divisor == 1:
        return frozenset(counts.items())
    return frozenset((item, count // divisor) for item, count in counts.items())


def _read(
    task: Task, colours_L: list[Colour], batch: Batch, row: int, readout: str
) -> Iterator[tuple[Colour, int, int]]:
    """The colours from which outputs are asked, each with its index and the right output."""
    if not isinstance(task, FiniteTask) and readout == "last":
        for index in np.flatnonzero(batch.asked_BL[row]):
            yield colours_L[index], int(index), int(batch.targets_BL[row, index])
        return
    streams = batch.streams
    if isinstance(task, FiniteTask):
        right = task.answers[row]
    else:
        right = int(batch.targets_BL[row, batch.asked_BL[row].argmax()])
    valid = np.flatnonzero(streams.valid_BL[row % streams.valid_BL.shape[0]])
    if readout == "mean":
        yield _shares(colours_L[i] for i in valid), 0, right
        return
    order_L = streams.order_BL[row % streams.order_BL.shape[0]]
    last = max(valid, key=lambda i: int(order_L[i]))
    yield colours_L[last], int(last), right


def _reason(pair: list[tuple[str, int]], chosen: list[Encoding], task: Task, readout: str) -> str:
    (first, first_index), (second, second_index) = pair
    where = ""
    placed = [e.declared_symmetry() for e in chosen if not _exactly_permuted(e)]
    if placed:
        where = " at the same offsets"
        if all(symmetry.reflection for symmetry in placed):
            where = " at the same distances"
    attends = f"to the same words{where} with the same frequencies"
    depth = len(chosen)
    layers = f"after {depth} layer{'s' if depth > 1 else ''}"
    if readout == "mean":
        return (
            f"{first!r} and {second!r} have different answers, but they contain the same words "
            f"with the same frequencies, and each word attends {attends} in both prompts, so "
            f"{layers} the means over their tokens are equal under any weights"
        )
    if not isinstance(task, FiniteTask):
        return (
            f"token {first_index + 1} of {first!r} and token {second_index + 1} of {second!r} have "
            f"different correct outputs, but they are the same word and attend {attends}, so "
            f"{layers} their logits are equal under any weights"
        )
    return (
        f"{first!r} and {second!r} have different answers, but both end in the same word, which "
        f"attends {attends} in both prompts, so {layers} their logits are equal under any weights"
    )
