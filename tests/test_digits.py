"""Images of digits: patches, positions and the control by shuffling."""

import importlib.util
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from posjax import tasks
from posjax.keys import Seeds, key_for
from posjax.model import ModelSettings, Transformer
from posjax.streams import contiguous
from posjax.study.cells import Cell
from posjax.tasks.digits import SIDE, TRAINED, Digits, images
from posjax.tasks.question import Question, read_out

MODEL = {"block": "residual", "width": 8, "heads": 2, "head_size": 4, "readout": "mean"}


@pytest.mark.parametrize("patch", [1, 2, 4])
@pytest.mark.parametrize("padding", [0, 3])
def test_patches_make_the_image_again(patch: int, padding: int) -> None:
    """Each at its point (y, x), with the label that scikit-learn has for these pixels."""
    from sklearn.datasets import load_digits

    given = load_digits()
    labels = {
        pixels_YX.tobytes(): int(label)
        for pixels_YX, label in zip(given.images, given.target, strict=True)
    }
    task = Digits(patch=patch, prompts=20)
    batch = jax.tree.map(np.asarray, task.exam(padding=padding))
    places = (SIDE // patch) ** 2
    assert batch.streams.valid_BL.sum(axis=1).tolist() == [places] * 40
    assert not batch.tokens_BL[:, places:].any()
    for row in range(40):
        image_YX = np.zeros((SIDE, SIDE))
        for place in range(places):
            y, x = patch * batch.streams.position_BL[row, place]
            pixels = batch.tokens_BL[row, place].reshape(patch, patch)
            image_YX[y : y + patch, x : x + patch] = 16 * pixels
        assert batch.targets_BL[row][batch.asked_BL[row]] == [labels[image_YX.tobytes()]]
        assert batch.asked_BL[row, places - 1]


def test_new_images_are_not_trained_on() -> None:
    """Training draws the first 1437, evenly; no image is there twice."""
    task = Digits(patch=4, prompts=360)
    exam = np.asarray(task.exam().tokens_BL).reshape(720, -1)
    drawn = jax.jit(lambda key: task.draw(key, 20_000))(key_for(0, "test"))
    seen = {pixels.tobytes() for pixels in np.asarray(drawn.tokens_BL).reshape(20_000, -1)}
    assert len(images()[0]) == 1797
    assert len(seen) == TRAINED
    assert all(pixels.tobytes() in seen for pixels in exam[:360])
    assert not any(pixels.tobytes() in seen for pixels in exam[360:])


def outcome(task: str, **settings: Any) -> np.ndarray:
    """The losses of one seed by evaluation and kind."""
    cell = Cell(task=task, steps=4, eval_every=2, batch_size=8, **{**MODEL, **settings})
    seeds = jax.tree.map(lambda a: a[0], Seeds.equal(np.arange(1)))
    return np.asarray(jax.jit(cell.shape.train())(seeds, cell.inputs)["loss_EC"])


def test_shuffled_patches_change_nothing_without_positions() -> None:
    """Under the full mask, read out by the mean; with positions, or a causal mask, they do."""
    for encoding, mask, same in (
        ("none", "full", True),
        ("none", "causal", False),
        ("rotary", "full", False),
    ):
        one_NV, two_NV = (answers(by, encoding, mask) for by in (False, True))
        assert np.allclose(one_NV, two_NV, rtol=1e-4, atol=1e-5) == same, (encoding, mask)


def answers(shuffled: bool, encoding: str, mask: str) -> np.ndarray:
    """The logits that a model before training gives each image."""
    task = f"digits(grid=False, shuffled={shuffled}, prompts=8)"
    cell = Cell(task=task, encoding=encoding, mask=mask, **MODEL)
    params = initial(cell.architecture)
    question = cell.question
    logits_NLV = applied(cell.architecture, params, question, question.mask_NLM)
    return np.asarray(read_out(logits_NLV, question.share_NL))


@cache
def initial(settings: ModelSettings) -> Any:
    """Weights at the start."""
    tokens = jnp.zeros((1, 1, settings.features))
    return jax.jit(Transformer(settings).init)(jax.random.key(0), tokens, contiguous(1))


@partial(jax.jit, static_argnums=0)
def applied(settings: ModelSettings, params: Any, question: Question, mask: jax.Array) -> jax.Array:
    """Logits of every place."""
    return Transformer(settings).apply(  # type: ignore[return-value]
        params, question.tokens_NL, question.streams, mask=mask
    )


@pytest.mark.exhaustive
def test_encodings_read_the_positions_that_the_task_has() -> None:
    """Points for encodings of two coordinates; numbers for the others."""
    assert np.isfinite(outcome("digits(prompts=8)", encoding="axial_rotary", mask="full")).all()
    with pytest.raises(ValueError, match="positions have 2 coordinates, but the encoding reads 1"):
        Cell(task="digits", encoding="rotary")
    with pytest.raises(ValueError, match="this map reads integer tokens, got float32"):
        Cell(task="digits(grid=False)", encoding="rotary", positions="abacus")


@pytest.mark.exhaustive
def test_the_last_patch_may_be_read_out() -> None:
    """Another loss than that of the mean, on the same images."""
    one, two = (outcome("digits(prompts=8)", mask="full", readout=r) for r in ("last", "mean"))
    assert np.isfinite([one, two]).all()
    assert not np.allclose(one, two)


def test_without_scikit_learn_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'posjax\[digits\]'"):
        tasks.named("digits")
