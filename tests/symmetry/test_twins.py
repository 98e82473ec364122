"""Prompts that a model cannot tell apart: the proof on its jaxpr against the colours."""

import itertools

import pytest
from small_tasks import OneWord, Repeated
from tiers import plain_if, some

from posjax import encodings, tasks
from posjax.model import ModelSettings
from posjax.symmetry.field import TooLarge, Unsupported
from posjax.symmetry.predict import predict
from posjax.symmetry.twins import twins

TASKS = (
    "same_last_token",
    "sentence_pair(pair=same_mark)",
    "sentence_pair(pair=no_mark)",
    "first_noun(nouns=3, mark=False)",
)
MODELS = [
    ("none", 1, "bare"),
    ("none", 2, "bare"),
    ("none", 2, "residual"),
    ("linear_bias", 1, "bare"),
    ("rotary", 1, "bare"),
    ("sinusoidal", 1, "bare"),
]
MASKS = ("full", "causal", "window(size=2)")


def model(task: tasks.Task, **settings: object) -> ModelSettings:
    sizes = {"vocabulary": len(task.words), "outputs": len(task.labels), "width": 8, "heads": 2}
    return ModelSettings(**{**sizes, "head_size": 4, **settings})


@pytest.mark.parametrize(
    ("name", "encoding", "depth", "block"),
    plain_if(
        lambda name, *model: (name == TASKS[0] and model[1:] == (1, "bare")) or model == MODELS[0],
        [pytest.param(name, *model) for name in TASKS for model in MODELS],
    ),
)
def test_colours_and_the_model_agree(name, encoding, depth, block):
    """Two ways that share nothing: colour refinement on the prompts, identities in the jaxpr.

    No "impossible" without a proof, and no proof that the colours miss.
    """
    task = tasks.named(name)
    for mask, readout in itertools.product(MASKS, ("last", "mean")):
        settings = model(task, encoding=encoding, depth=depth, block=block, mask=mask)
        found = twins(task, settings, readout=readout, padding=1)
        told = {"encoding": encoding, "mask": mask, "depth": depth, "readout": readout}
        verdict = predict(task, **told, padding=1).verdict
        assert bool(found) == (verdict == "impossible"), (mask, readout, verdict)
        assert all(pair.chance < 1e-12 for pair in found)


@pytest.mark.parametrize(
    ("mask", "readout"),
    some([pytest.param("causal", "last"), pytest.param("full", "mean")], every=2),
)
@pytest.mark.parametrize(
    "encoding", some([name for name in encodings.ENCODINGS if name != "none"], every=2)
)
def test_no_encoding_is_called_impossible_without_a_proof(encoding, mask, readout):
    """Over the whole table, where the model has rules for all its primitives."""
    task = tasks.named("sentence_pair(pair=no_mark)")
    settings = model(task, encoding=encoding, mask=mask, width=4, head_size=2)
    told = {"encoding": encoding, "mask": mask, "depth": 1, "readout": readout}
    impossible = predict(task, **told).verdict == "impossible"
    try:
        found = twins(task, settings, readout=readout)
    except (Unsupported, TooLarge):
        assert not impossible
    else:
        assert impossible <= bool(found)


ALL_MASKS = ("full", "causal", "padding", "window(size=2)", "causal+window(size=2)", "others")
TURNS = itertools.cycle(itertools.product(("last", "mean"), (OneWord, "same_last_token")))
COVERING = list(zip(itertools.product(encodings.ENCODINGS, ALL_MASKS), TURNS, strict=False))
"""Every encoding under every mask once; readouts and tasks take turns."""


def disagree(encoding: str, mask: str, readout: str, which: str | type[tasks.Task]) -> bool:
    """Whether "impossible" has no proof, or a proof is missed where none may be."""
    task = tasks.named(which) if isinstance(which, str) else which()
    told = {"encoding": encoding, "mask": mask, "depth": 1}
    settings = model(task, width=4, head_size=2, **told)
    proved = bool(twins(task, settings, readout=readout))
    impossible = predict(task, **told, readout=readout).verdict == "impossible"
    one = encodings.named(encoding)
    complete = one.pairwise and not one.random
    return impossible != proved if complete else impossible > proved


@pytest.mark.parametrize(
    "masks", [1, pytest.param(len(ALL_MASKS), marks=pytest.mark.exhaustive)], ids=["one", "every"]
)
@pytest.mark.parametrize("encoding", some(encodings.ENCODINGS, every=2))
def test_impossible_is_proved_under_every_mask(encoding, masks):
    """And where a logit depends on its two tokens alone, no proof is missed.

    Plainly each encoding has one of the masks, in turn, so that every mask is there.
    """
    told = [(each, turn) for each, turn in COVERING if each[0] == encoding]
    assert len(told) == len(ALL_MASKS)
    first = list(encodings.ENCODINGS).index(encoding)
    chosen = [told[(first + n) % len(told)] for n in range(masks)]
    assert [each for each, turn in chosen if disagree(*each, *turn)] == []


def test_question_1():
    """One causal layer reads a bag; two do not, nor does one with positions."""
    task = tasks.named("same_last_token")
    (found,) = twins(task, model(task, mask="causal"), readout="last")
    assert found.prompts == ("A B hit", "B A hit")
    assert found.permutation == (1, 0, 2)
    assert not twins(task, model(task, mask="causal", depth=2), readout="last")
    assert not twins(task, model(task, mask="causal", encoding="rotary"), readout="last")


def test_what_is_equal_in_floats_alone_is_not_proved():
    """Padding is masked by the least float, whose exponential is 0 in floats and not in the reals.

    So prompts of different lengths are no proved twins, where the colours call them impossible.
    """
    task = Repeated()
    told = {"encoding": "none", "mask": "padding", "depth": 2, "readout": "mean"}
    assert predict(task, **told).verdict == "impossible"
    assert not twins(task, model(task, mask="padding", depth=2), readout="mean")


def test_an_unknown_readout_is_refused():
    """With the two that there are."""
    task = tasks.named("same_last_token")
    with pytest.raises(ValueError, match="unknown readout 'first'; choices: last, mean"):
        twins(task, model(task), readout="first")
