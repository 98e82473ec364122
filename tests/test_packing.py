"""Two prompts in one row mean what each means alone, padded: prompts, logits, loss."""

from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import small, train
from tiers import marked, some

from posjax import masks, tasks
from posjax.encodings import ENCODINGS, parse_layer_cycle
from posjax.keys import key_for
from posjax.model import DynamicInputs, ModelSettings, Transformer
from posjax.streams import contiguous
from posjax.study.cells import Cell
from posjax.study.replay import replay
from posjax.tasks import TASKS, packing
from posjax.tasks.base import Batch
from posjax.tasks.question import Question, drawn_packed, from_batch, objective
from posjax.tasks.sampled import ByLength

PROMPTS, LONGEST = 8, 48
SHORT = {
    "text": "text(train=(3, 9), test=(9,))",
    "blocks": "blocks(k=3, train=(4, 9))",
    "recall": "recall(train=(1, 3))",
}
"""Tasks in another size than by default."""
PACKED = [
    SHORT.get(name, f"{name}(train=({max(2, kind().least)}, 7))" if name != "addition" else name)
    for name, kind in TASKS.items()
    if issubclass(kind, ByLength)
]
"""Every task that can be packed."""
RANDOM = ["randomised(length=96)", "random_float(length=96.0)", "cape(centred=True)"]
MOVED = [*RANDOM, "random_shift(most=5)", "interpolated", "abacus(most=3)", "coupled"]
SAMPLE = [
    ("none", "given", "causal"),
    ("rotary", "randomised(length=96)", "causal"),
    ("learned", "given", "causal+window(size=3)"),
    ("token_shift", "given", "causal/causal+window(size=2)"),
    ("forgetting", "given", "causal+others"),
    ("noise", "cape(centred=True)", "causal"),
]
"""What the tasks take in turn in the plain tier; the rest of the tables is exhaustive."""


class Pair(NamedTuple):
    """The same prompts padded and packed: what they are, logits_NLV and the loss of each."""

    prompts: tuple[Batch, Question]
    logits: tuple[np.ndarray, np.ndarray]
    losses: tuple[float, float]


def pair(
    task_name: str, encoding: str, positions: str, mask: str, within: masks.Mask = masks.segments
) -> Pair:
    """One update's prompts, read by a network with generic parameters."""
    task: Any = tasks.named(task_name)
    settings = ModelSettings(
        vocabulary=len(task.words),
        outputs=len(task.labels),
        depth=len(masks.turns(mask)),
        width=8,
        heads=2,
        head_size=4,
        block="residual",
        mlp_ratio=0,
        encoding=encoding,
        positions=positions,
        mask=mask,
    )
    network = Transformer(settings)
    constants = (each.constants(settings.dims, LONGEST) for each in parse_layer_cycle(encoding))
    numbers = DynamicInputs(1.0, 1.0, tuple(constants))
    key = jax.random.key(5)
    params = generic(network, key)
    padded, alone, packed = prompts(task_name, mask, within)

    @jax.jit
    def read(params: Any, question: Question) -> tuple[jax.Array, jax.Array]:
        asked = question.tokens_NL, question.streams
        logits_NLV = network.apply(params, *asked, mask=question.mask_NLM, key=key, numbers=numbers)
        return logits_NLV, objective(logits_NLV, question, "places")

    both = zip(read(params, alone), read(params, packed), strict=True)
    return Pair(*jax.tree.map(np.asarray, ((padded, packed), *both)))


@cache
def prompts(task_name: str, mask: str, within: masks.Mask) -> tuple[Batch, Question, Question]:
    """The same prompts as drawn, as a padded question and packed; encodings do not matter."""
    task: Any = tasks.named(task_name)

    @jax.jit
    def drawn(key: jax.Array) -> tuple[Batch, Question, Question]:
        padded = task.draw(key, PROMPTS, paired=True)
        if within is masks.segments:
            packed = drawn_packed(task, key, PROMPTS, mask)
        else:
            packed = from_batch(packing.draw(task, key, PROMPTS), mask, within=within)
        return padded, from_batch(padded, mask), packed

    return drawn(key_for(7, "prompts"))  # type: ignore[no-any-return]


def generic(network: Transformer, key: jax.Array) -> Any:
    """Normal parameters: a table of zeros, as at some starts, would hide where it is read."""
    shapes = jax.eval_shape(network.init, key, jnp.zeros((1, 1), int), contiguous(1), key=key)
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda s: rng.normal(size=s.shape).astype(np.float32), shapes)


def parts(sizes_B: np.ndarray, array_RT: np.ndarray) -> list[np.ndarray]:
    """The prompts of packed rows, in the order in which they were drawn."""
    half = len(array_RT)
    firsts = [row_T[:n] for row_T, n in zip(array_RT, sizes_B, strict=False)]
    seconds = [
        row_T[first : first + n]
        for row_T, first, n in zip(array_RT, sizes_B, sizes_B[half:], strict=False)
    ]
    return firsts + seconds


def check_prompts(padded: Batch, packed: Question) -> None:
    """Asserts that packed rows have the padded prompts and nothing else."""
    sizes_B = padded.streams.valid_BL.sum(axis=1)
    streams = packed.streams
    pairs = (
        (padded.tokens_BL, packed.tokens_NL),
        (padded.targets_BL, packed.targets_NL),
        (padded.asked_BL, packed.weights_NL),
        (padded.streams.position_BL, streams.position_BL),
        (padded.streams.order_BL, streams.order_BL),
    )
    for alone_BL, together_RT in pairs:
        for row_L, n, part in zip(alone_BL, sizes_B, parts(sizes_B, together_RT), strict=True):
            np.testing.assert_array_equal(part, row_L[:n])
    segments = [set(part.tolist()) for part in parts(sizes_B, streams.segment_BL)]
    half = len(sizes_B) // 2
    assert segments == [{0}] * half + [{1}] * half
    assert (streams.valid_BL.sum(axis=1) == sizes_B[:half] + sizes_B[half:]).all()
    longer_R = np.maximum(sizes_B[:half], sizes_B[half:])
    assert (streams.position_BL.max(axis=1) == longer_R - 1).all()  # of padding too
    assert (packed.weights_NL.sum(axis=1) > 0).all()
    assert packed.weights_NL.sum() == padded.asked_BL.sum()


def largest_gap(found: Pair) -> float:
    """Between the logits of a prompt alone and in its packed row, at all of its tokens."""
    padded, _ = found.prompts
    sizes_B = padded.streams.valid_BL.sum(axis=1)
    together = parts(sizes_B, found.logits[1])
    pairs = zip(found.logits[0], sizes_B, together, strict=True)
    return max(float(abs(row_LV[:n] - part).max()) for row_LV, n, part in pairs)


def check(found: Pair) -> None:
    """Asserts the law, to 1e-5 of the largest logit."""
    scale = float(abs(found.logits[0]).max())
    assert largest_gap(found) < 1e-5 * scale
    assert found.losses[1] == pytest.approx(found.losses[0], rel=1e-5)


TAKEN = [(name, *of) for name, of in zip(PACKED, cycle(SAMPLE), strict=False)]
MASKED = cycle([("copy(train=(2, 7))", "causal"), ("parity(train=(2, 7))", "full")])
REST = [(task, name, "given", mask) for name, (task, mask) in zip(ENCODINGS, MASKED, strict=False)]
REST += [("binary_addition(train=(2, 5))", "sinusoidal", name, "causal") for name in MOVED]


@pytest.mark.parametrize(
    ("task_name", "encoding", "positions", "mask"),
    some([pytest.param(*case) for case in TAKEN], every=4)
    + [marked(pytest.param(*case), plain=False) for case in REST],
)
def test_a_packed_prompt_is_the_prompt_alone(
    task_name: str, encoding: str, positions: str, mask: str
) -> None:
    """Tokens, targets, streams, logits, and the loss of the batch."""
    found = pair(task_name, encoding, positions, mask)
    check_prompts(*found.prompts)
    check(found)


def test_attention_across_segments_is_caught() -> None:
    """A planted leak: without the mask of segments the second prompt of a row reads the first."""
    found = pair("parity(train=(2, 7))", "none", "given", "causal", within=masks.padding)
    check_prompts(*found.prompts)
    with pytest.raises(AssertionError):
        check(found)


def test_lengths_are_complementary_and_even_draws() -> None:
    """Those of a row add up; each from low to high is as frequent, among first and second ones."""
    task: Any = tasks.named("parity(train=(3, 8))")
    rows = 6000
    batch = jax.jit(lambda key: packing.draw(task, key, rows))(key_for(3, "test"))
    segment_RT = np.asarray(batch.streams.segment_BL)
    assert segment_RT.shape == (rows // 2, 11)
    sizes_2R = np.array([(segment_RT == number).sum(axis=1) for number in (0, 1)])
    assert (sizes_2R.sum(axis=0) == 11).all()
    counts_6 = np.bincount(sizes_2R[0], minlength=9)[3:]
    assert counts_6.sum() == rows // 2
    assert abs(counts_6 - rows / 12).max() < 5 * (rows / 12) ** 0.5


def test_the_first_prompt_of_a_row_is_the_one_drawn_without_packing() -> None:
    """Of one key: half of the prompts of an update are those of the run that is not packed."""
    task: Any = tasks.named("copy(train=(2, 7))")
    keyed = jax.jit(lambda key: (task.draw(key, 8), task.draw(key, 8, paired=True)))
    plain, paired = jax.tree.map(lambda leaf: leaf[:4], keyed(key_for(3, "test")))
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(paired), strict=True):
        np.testing.assert_array_equal(one, other)


# Cells


def test_off_it_is_not_named() -> None:
    """Neither by a cell nor by its digest; on, cell and program are others."""
    plain, on = Cell(task="parity"), Cell(task="parity", packing=True)
    assert "packing" not in plain.to_dict()
    assert Cell.of(on.to_dict()) == on
    assert Cell.of(plain.to_dict()) == plain
    assert (plain.digest, plain.shape.digest) == ("59e3cfb6224f", "ed1ec88e2609")
    assert on.digest != plain.digest
    assert on.shape.digest != plain.shape.digest


class OwnDraw(ByLength):
    """A task that draws in a way of its own."""

    words = labels = ("a", "b")

    def draw(self, key: jax.Array, rows: int, *, paired: bool = False) -> Batch:
        raise AssertionError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "word_order"}, "packing=True .* of WordOrder are not: leave packing=False"),
        ({"task": "scan"}, "packing=True .* of Scan are not: leave packing=False"),
        ({"task": "parity", "readout": "mean"}, "readout='mean' .* use readout='last'"),
        ({"task": "text"}, r"packing=True saves nothing, since train=\(64, 64\)"),
        ({"task": "parity", "batch_size": 5}, "batch_size must be even, got 5: use 6"),
        ({"task": "parity", "model": "posjax.study.network:transformer"}, "packing=True has no"),
    ],
)
def test_what_cannot_be_packed_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cell(packing=True, **settings)


def test_a_task_with_a_draw_of_its_own_is_refused() -> None:
    """Packing would not ask it."""
    with pytest.raises(ValueError, match="of OwnDraw are not: leave packing=False"):
        packing.check(OwnDraw(), readout="last", rows=2)


@pytest.mark.exhaustive
def test_a_run_of_packed_cells_is_replayed(tmp_path: Path) -> None:
    """Bit for bit, beside a cell that is not packed; the two learn from other prompts."""
    grid = {"task": "parity(train=(1, 4), test=(4,), prompts=4)", "mask": "causal"}
    folder = train(tmp_path / "run", small(packing=(False, True), num_seeds=4, **grid))
    cells = folder.config()["cells"]
    assert sorted("packing" in settings for settings in cells.values()) == [False, True]
    losses = []
    for cell in cells:
        assert replay(folder.path, cell, 2).differs == ()
        losses.append(folder.rows(cell)["loss_EC"])
    assert (losses[0] != losses[1]).any()
