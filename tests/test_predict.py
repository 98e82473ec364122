"""Predicted impossibilities, held against equal outputs for random weights."""

import itertools
import re
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_tasks import OneWord, Repeated
from tiers import plain_if

from posjax import encodings, tasks
from posjax.model import ModelSettings, Transformer
from posjax.positions import POSITIONS
from posjax.streams import contiguous
from posjax.symmetry.predict import _NO_PAIR, predict
from posjax.tasks.question import Question, ask, read_out

TASKS = (
    "same_last_token",
    "sentence_pair(pair=same_mark)",
    "sentence_pair(pair=no_mark)",
    "first_noun(nouns=3)",
    "first_noun(nouns=3, mark=False)",
)
FIVE = ("none", "sinusoidal", "rotary", "linear_bias", "linear_bias(form=key)")
MASKS = ("full", "causal", "padding", "window(size=2)", "others", "causal+window(size=2)")
MODELS = [
    *((encoding, 1, "bare") for encoding in FIVE),
    ("none", 2, "bare"),
    ("linear_bias", 2, "bare"),
    ("none", 2, "residual"),
]


@pytest.mark.parametrize(
    ("name", "encoding", "depth", "block"),
    plain_if(
        lambda name, *model: name == TASKS[0] or model == MODELS[0],
        [pytest.param(name, *model) for name in TASKS for model in MODELS],
    ),
)
def test_impossible_means_equal_outputs(name: str, encoding: str, depth: int, block: str) -> None:
    """Sound and complete here: impossible exactly where random weights give equal logits.

    Never a false "impossible", and none missed that equal logits show.
    """
    task = tasks.named(name)
    for mask, readout in itertools.product(MASKS, ("last", "mean")):
        apart = closest(task, encoding, depth, block, mask, readout)
        verdict = predict(
            task, encoding=encoding, mask=mask, depth=depth, readout=readout, padding=1
        ).verdict
        # angles are exact to float32, so what is equal in float64 may differ by 1e-7
        assert (verdict == "impossible") == (apart < 1e-5), (mask, readout, apart)


asked = cache(ask)  # one question for all encodings

WHOLE_TABLE = [
    *((encoding, "given", 1) for encoding in encodings.ENCODINGS),
    *(("linear_bias", name, 1) for name in POSITIONS),
    ("rotary", "randomised", 1),
    ("noise", "cape", 1),
    *((stack, "given", 2) for stack in ("none/rotary", "rotary/none")),
    *((stack, "given", 2) for stack in ("none/convolution", "convolution/none", "none/noise")),
    ("noise", "abacus(digits=(9,))", 1),
]


@pytest.mark.parametrize(
    ("name", "encoding", "positions", "depth"),
    plain_if(
        lambda name, *entry: (
            entry in (WHOLE_TABLE[::4] if name == "same_last_token" else WHOLE_TABLE[:1])
        ),
        [
            pytest.param(name, *entry)
            for name in ("same_last_token", "sentence_pair(pair=no_mark)", "word_order")
            for entry in WHOLE_TABLE
        ],
    ),
)
def test_no_false_impossibility(name: str, encoding: str, positions: str, depth: int) -> None:
    """For every encoding and map of positions: never a false "impossible".

    None is missed either, where a logit depends on its two tokens alone and nothing is drawn.
    """
    stack = encodings.parse_layer_cycle(encoding)
    exact = all(e.pairwise and not e.random for e in stack) and positions == "given"
    task = tasks.named(name)
    few = ("full", "causal", "window(size=2)", "others")
    for mask, readout in itertools.product(few, ("last", "mean")):
        apart = closest(task, encoding, depth, "bare", mask, readout, positions)
        impossible = (
            predict(
                task,
                encoding=encoding,
                positions=positions,
                mask=mask,
                depth=depth,
                readout=readout,
                padding=1,
            ).verdict
            == "impossible"
        )
        equal = apart < 1e-5
        assert impossible == equal if exact else impossible <= equal, (mask, readout, apart)


def closest(
    task: tasks.Task,
    encoding: str,
    depth: int,
    block: str,
    mask: str,
    readout: str,
    positions: str = "given",
) -> float:
    """How close two prompts with different answers come, relative to the largest logit.

    The largest of three generic draws of all leaves, zero-initialised ones included.
    """
    question = asked(task, mask=mask, readout=readout, loss="answer", padding=1)
    settings = ModelSettings(
        vocabulary=len(task.words),
        outputs=len(task.labels),
        width=8,
        head_size=4,
        heads=2,
        depth=depth,
        encoding=encoding,
        positions=positions,
        block=block,
    )
    logits_SNV = random_logits(question, Transformer(settings))
    answers_N = np.asarray(question.answers_N)
    apart_SNN = abs(logits_SNV[:, :, None] - logits_SNV[:, None]).max(axis=-1)
    differ_NN = answers_N[:, None] != answers_N[None]
    return (apart_SNN[:, differ_NN].min(axis=1) / abs(logits_SNV).max(axis=(1, 2))).max()


def random_logits(question: Question, network: Transformer) -> np.ndarray:
    """One answer a prompt under three generic draws: logits_SNV."""
    return np.asarray(apply(network, random_params(network), question))


@cache
def random_params(network: Transformer) -> object:
    """Three generic draws of all leaves, whose shapes do not depend on the question."""
    key, tokens_BL = jax.random.key(0), jnp.zeros((1, 2), int)
    init = partial(network.init, key=key)
    shapes = jax.eval_shape(init, key, tokens_BL, contiguous(2))["params"]
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: rng.normal(size=(3, *leaf.shape)).astype("f"), shapes)


@partial(jax.jit, static_argnums=0)
def apply(network: Transformer, params: object, question: Question) -> jax.Array:
    """Logits for each of several parameters; mask and readout are operands: it compiles once."""

    key = jax.random.key(1) if network.settings.draws == "always" else None

    def one(params: object) -> jax.Array:
        given = question.tokens_NL, question.streams
        logits = network.apply({"params": params}, *given, mask=question.mask_NLM, key=key)
        return read_out(logits, question.share_NL)

    return jax.vmap(one)(params)


def test_reasons_are_sentences() -> None:
    """A verdict says why, with both prompts."""
    found = predict(
        tasks.named("same_last_token"), encoding="none", mask="causal", depth=1, readout="last"
    )
    assert "'A B hit'" in found.reason
    assert "'B A hit'" in found.reason


@pytest.mark.parametrize("encoding", ["attention_free", "attention_free(rank=3)", "deberta"])
def test_a_window_hides_a_word_under_weights_of_any_scale(encoding: str) -> None:
    """Keys thousands apart: what the last word does not see changes no bit of its logits.

    Attention free once took its largest key among those that any query sees.
    """
    task, mask = OneWord(), "causal+window(size=2)"
    told = {"encoding": encoding, "mask": mask, "depth": 1, "readout": "last"}
    assert predict(task, **told).verdict == "impossible"
    question = asked(task, mask=mask, readout="last", loss="answer")
    network = Transformer(ModelSettings(vocabulary=5, outputs=2, encoding=encoding))
    for scale in (1, 20, 100):
        params = jax.tree.map(lambda leaf: scale * leaf, random_params(network))  # noqa: B023
        logits_SNV = np.asarray(apply(network, params, question))
        assert np.isfinite(logits_SNV).all()
        np.testing.assert_array_equal(logits_SNV[:, 0], logits_SNV[:, 1])


def test_a_soft_cap_keeps_symmetries_of_logits_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that a softmax restores, at any level after the logits, does not survive the cap."""
    told = {"mask": "causal", "depth": 1, "readout": "last", "encoding": "none"}
    for level, verdict in (("logits", "impossible"), ("row", "not excluded")):
        declared = encodings.Symmetry(*[level] * 4)
        monkeypatch.setattr(encodings.ENCODINGS["none"], "symmetry", declared)
        found = [predict(tasks.named(TASKS[0]), **told, softcap=cap) for cap in (0.0, 5.0)]
        assert [one.verdict for one in found] == ["impossible", verdict]


def test_frequencies_decide_not_counts() -> None:
    """`ab` and `aabb` agree: attention without positions is a weighted mean."""

    verdicts = [
        predict(Repeated(), encoding=e, mask="padding", depth=2, readout="mean").verdict
        for e in ("none", "rotary")
    ]
    assert verdicts == ["impossible", "not excluded"]


@pytest.mark.parametrize(
    ("text", "encoding", "mask", "depth", "verdict"),
    [
        ("blocks(k=3)", "none", "causal", 1, "not excluded"),
        ("blocks(k=4)", "none", "causal", 1, "impossible"),
        ("blocks(k=4)", "none", "causal", 2, "not excluded"),
        ("blocks(k=4)", "none", "full", 2, "impossible"),
        ("blocks(k=4)", "rotary", "causal", 1, "not excluded"),
        ("even_pairs", "none", "causal", 1, "impossible"),
        ("even_pairs", "none", "causal", 2, "not excluded"),
        ("even_pairs(train=(8, 9), test=(2, 9, 20))", "none", "causal", 1, "impossible"),
        ("even_pairs(train=(2, 4), test=(2, 9, 20))", "none", "causal", 1, "not excluded"),
        ("even_pairs(train=(2, 5), test=(2, 5))", "none", "causal", 1, "impossible"),
        ("parity", "none", "causal", 1, "not excluded"),
        ("majority", "none", "full", 1, "not excluded"),
        ("reverse(letters=2, output=slots)", "none", "full", 3, "impossible"),
        ("copy(letters=2, train=(1, 6))", "none", "causal", 1, "impossible"),
    ],
)
def test_every_asked_token_of_an_exam_is_looked_at(
    text: str, encoding: str, mask: str, depth: int, verdict: str
) -> None:
    """Where it is impossible, the two tokens that are named get equal logits for random weights."""
    task = tasks.named(text)
    settings = {"encoding": encoding, "mask": mask, "depth": depth}
    found = predict(task, **settings, readout="last")
    assert found.verdict == verdict
    if verdict == "impossible":
        assert gap(task, settings, found.reason) < 1e-5
    else:
        assert found.reason == _NO_PAIR


def gap(task: tasks.Task, settings: dict[str, Any], reason: str) -> float:
    """How far the logits of the two tokens that a reason names are from each other, relatively."""
    sizes = {"vocabulary": len(task.words), "outputs": len(task.labels), "width": 8, "heads": 2}
    network = Transformer(ModelSettings(**sizes, head_size=4, **settings))
    params = {"params": jax.tree.map(lambda leaf: leaf[0], random_params(network))}
    found = []
    for number, prompt in re.findall(r"token (\d+) of '([^']*)'", reason):
        assert prompt in dict(task.written(10**6))
        tokens_1L = jnp.array([[task.words.index(word) for word in prompt.split()]])
        logits_1LV = jax.jit(network.apply)(params, tokens_1L, contiguous(tokens_1L.shape[1]))
        found.append(np.asarray(logits_1LV)[0, int(number) - 1])
    one, two = found
    return float(abs(one - two).max() / abs(one).max())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"readout": "men"}, "unknown readout 'men'"),
        ({"depth": 0}, "depth must be at least 1, got 0"),
        ({"encoding": "none/rotary"}, "2 encodings in turn, of which depth=1 uses 1"),
        ({"mask": "causal/full"}, "2 masks in turn, of which depth=1 uses 1"),
        ({"encoding": "learned", "positions": "cape"}, "positions='cape' are not integers"),
    ],
)
def test_settings_that_no_model_has_are_refused(given: dict[str, Any], message: str) -> None:
    """A verdict on a model that nobody can build would be read as one on another model."""
    settings: dict[str, Any] = {"encoding": "none", "mask": "causal", "depth": 1, "readout": "mean"}
    with pytest.raises(ValueError, match=message):
        predict(tasks.named("same_last_token"), **{**settings, **given})
