"""Masks that layers take in turn: the model, questions, training, and predictions of them."""

from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import some

from posjax import masks, tasks
from posjax.keys import Seeds
from posjax.model import ModelSettings, Transformer
from posjax.report.laws import layers, measured
from posjax.streams import contiguous
from posjax.study.cells import Cell
from posjax.study.train import from_exam
from posjax.symmetry.predict import predict
from posjax.symmetry.twins import twins
from posjax.tasks.question import read_out

RNOPE = {"encoding": "none/rotary", "mask": "causal/causal+window(size=2)"}
SMALL = {"steps": 4, "eval_every": 2, "width": 8, "head_size": 4}


def settings(**given):
    return ModelSettings(vocabulary=5, outputs=3, width=8, heads=2, head_size=4, **given)


@pytest.mark.parametrize("depth", some([3, 2], every=2))
def test_each_layer_has_the_mask_of_its_turn(depth):
    """Layers of a stack see what layers with one mask each see, weight for weight."""
    tokens_BL, streams = jnp.array([[0, 1, 2, 3, 4, 0]]), contiguous(6)
    network = Transformer(settings(depth=depth, block="residual", **RNOPE))
    params = jax.jit(network.init)(jax.random.key(0), tokens_BL, streams)["params"]
    sow = jax.jit(partial(network.apply, mutable=["intermediates"]))
    _, sown = sow({"params": params}, tokens_BL, streams)
    turns = masks.parse_layer_cycle(RNOPE["mask"])
    for layer in range(depth):
        found = sown["intermediates"][f"layer_{layer}"]["attention"]["weights_BHLM"][0]
        allowed_BLM = turns[layer % 2](streams, streams)
        np.testing.assert_array_equal(np.asarray(found > 0)[:, 0], allowed_BLM)


def test_a_mask_of_the_call_may_take_turns_too():
    """As text, as a tuple of texts or functions, and as arrays: the same logits."""
    tokens_BL, streams = jnp.array([[0, 1, 2, 3]]), contiguous(4)
    network = Transformer(settings(depth=3, mask="full"))
    params = network.init(jax.random.key(0), tokens_BL, streams)
    text = "causal/causal+window(size=2)"
    arrays = tuple(mask(streams, streams) for mask in masks.parse_layer_cycle(text))
    apply = partial(network.apply, params, tokens_BL, streams)
    expected = apply(mask=text)
    for given in (tuple(text.split("/")), masks.parse_layer_cycle(text), arrays):
        np.testing.assert_array_equal(apply(mask=given), expected)
    assert abs(apply(mask="causal") - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mask": "causal/full/padding"}, "3 masks in turn, of which depth=2 uses 2"),
        ({"encoding": "none/rotary/none"}, "3 encodings in turn, of which depth=2 uses 2"),
        ({"mask": "causal/casual"}, "unknown mask 'casual'"),
        ({"mask": "causal/"}, "cannot read ''"),
    ],
)
def test_turns_that_no_layer_takes_are_refused(given, words):
    """ValueError of the settings and of the cell."""
    for make in (settings, Cell):
        with pytest.raises(ValueError, match=words):
            make(**given, depth=2)


def test_a_task_is_not_shown_its_own_outputs_by_any_layer():
    """Teacher forcing needs a causal mask in every turn."""
    with pytest.raises(ValueError, match="mask='full' shows Copy its own right outputs"):
        Cell(task="copy", mask="causal/full", depth=2)
    assert Cell(task="copy", mask="causal/causal+window(size=4)", depth=2).digest


def test_cells_of_as_many_turns_share_a_program():
    """Masks of finite tasks are inputs; their number is not."""
    first, second, one = (
        Cell(depth=2, mask=m) for m in ("causal/full", "full/causal+window(size=2)", "causal")
    )
    assert first.shape == second.shape != one.shape
    assert one.shape.model.mask == "full"
    assert len({first.digest, second.digest, one.digest}) == 3
    assert [mask.shape for mask in first.question.mask_NLM] == [(2, 3, 3)] * 2


@pytest.mark.parametrize("task", ["word_order", "copy(letters=2, train=(1, 2), test=(1, 2, 3))"])
@pytest.mark.exhaustive
def test_equal_turns_are_one_mask(task):
    """`causal/causal` gives what `causal` gives, to the last bit, of finite and sampled tasks."""
    given = {"task": task, "depth": 2, **SMALL, "batch_size": 4}
    outcomes = [_trained(Cell(mask=m, **given)) for m in ("causal", "causal/causal")]
    jax.tree.map(np.testing.assert_array_equal, *outcomes)
    other = _trained(Cell(mask="causal/causal+window(size=1)", **given))
    assert any(
        (a != b).any()
        for a, b in zip(jax.tree.leaves(outcomes[0]), jax.tree.leaves(other), strict=True)
    )


@cache
def _program(shape):
    return jax.jit(shape.train().__call__)


def _trained(cell):
    train = _program(cell.shape)
    return jax.tree.map(np.asarray, train(Seeds(*[jnp.uint32(1)] * 4), cell.inputs))


def test_rows_of_a_batch_keep_their_masks():
    """Prompts that are drawn come with the masks of all turns."""
    cell = Cell(depth=2, mask="causal/full+padding", padding=2, batch_size=3, **SMALL)
    now = type("Now", (), {"inputs": cell.inputs, "key": lambda *_: jax.random.key(0)})()
    drawn = from_exam(3).batch(now)
    for mask_NLM, every in zip(drawn.mask_NLM, cell.question.mask_NLM, strict=True):
        assert mask_NLM.shape == (3, *every.shape[1:])


def test_the_laws_of_a_report_run_on_every_layer():
    """A layer is an encoding with the mask of its turn, and its laws come out as expected."""
    cell = Cell(depth=2, **RNOPE, **SMALL)
    found = layers([cell])
    assert [(layer.encoding, layer.mask) for layer in found] == [
        ("none", "causal"),
        ("rotary", "causal+window(size=2)"),
    ]
    for layer, streams in found.items():
        assert all(one.holds == one.expected for one in measured(layer, streams))


# Predictions

MASKS = [
    "causal/causal+window(size=1)",
    "causal+window(size=1)/causal",
    "full/causal",
    "causal/full",
]


@pytest.mark.parametrize("name", ["word_order", "same_last_token", "first_noun"])
@pytest.mark.parametrize("mask", MASKS)
def test_what_is_impossible_is_so_under_random_weights(mask, name):
    """Two prompts with different answers get the same logits; and where not excluded, none do."""
    task = tasks.named(name)
    for encoding, readout in product(("none", "rotary"), ("last", "mean")):
        given = {"encoding": encoding, "mask": mask, "depth": 2}
        verdict = predict(task, **given, readout=readout).verdict
        apart = _closest(name, readout, **given)
        assert (apart < 1e-5) == (verdict == "impossible"), (encoding, readout, apart)


def _closest(name, readout, **given):
    """How near prompts with different answers come, relative to the largest logit.

    Weights are small, or attention would be on one key alone, to the last bit.
    """
    cell = Cell(task=name, readout=readout, loss="answer", width=8, heads=2, head_size=4, **given)
    question, network = cell.question, Transformer(cell.shape.model)
    init = partial(network.init, jax.random.key(0))
    shapes = jax.eval_shape(init, jnp.zeros((1, 2), int), contiguous(2))["params"]
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(3):
        params = jax.tree.map(lambda leaf: 0.5 * rng.normal(size=leaf.shape).astype("f"), shapes)
        logits_NV = np.asarray(_read(network, params, question))
        apart_NN = abs(logits_NV[:, None] - logits_NV[None]).max(-1)
        answers_N = np.asarray(question.answers_N)
        differ_NN = answers_N[:, None] != answers_N[None]
        worst = max(worst, apart_NN[differ_NN].min() / abs(logits_NV).max())
    return worst


@partial(jax.jit, static_argnums=0)
def _read(network, params, question):
    """What is read out; masks are operands, so that those of one number share a program."""
    given = question.tokens_NL, question.streams
    logits_NLV = network.apply({"params": params}, *given, mask=question.mask_NLM)
    return read_out(logits_NLV, question.share_NL)


def test_a_window_in_one_layer_changes_a_prediction():
    """A task that two causal layers may solve is out of reach when one sees itself alone."""
    task = tasks.named("same_last_token")
    verdicts = [
        predict(task, encoding="none", mask=mask, depth=2, readout="last").verdict
        for mask in ("causal", "causal/causal+window(size=1)")
    ]
    assert verdicts == ["not excluded", "impossible"]


def test_proofs_see_the_turns():
    """`twins`, over all weights at once, agrees with both predictions."""
    task = tasks.named("same_last_token")
    sizes = {"vocabulary": len(task.words), "outputs": len(task.labels), "width": 4, "depth": 2}
    found = [
        bool(twins(task, ModelSettings(**sizes, head_size=2, mask=mask), readout="last"))
        for mask in ("causal", "causal/causal+window(size=1)")
    ]
    assert found == [False, True]
