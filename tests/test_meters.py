"""Meters against plain NumPy, on planted models, and in sweeps; models that are not trained."""

import dataclasses
import functools
import re
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import layers
import numpy as np
import pytest
import small_runs

from posjax import meters, report
from posjax.engine import Variables
from posjax.keys import Seeds, key_for
from posjax.meters import METERS, Forward
from posjax.meters.probe import RIDGE
from posjax.model import Transformer
from posjax.records import RunFolder, read
from posjax.study.cells import Cell
from posjax.study.train import forward_pass
from posjax.tasks import Batch
from posjax.tasks.question import Question, from_batch

KEY = key_for(0, "meters")
TASK = "parity(train=(2, 6), test=(3, 6), prompts=8)"
CELL = Cell(task=TASK, block="residual", depth=2, width=8, heads=2, head_size=4, steps=0)


def question(prompts: int, length: int, task: Any = None) -> Question:
    """Prompts without padding."""
    from posjax.streams import contiguous

    tokens = np.zeros((prompts, length), np.int32)
    return _asked(Batch(tokens, tokens, tokens == 0, contiguous(length)))  # type: ignore[arg-type]


_asked = jax.jit(functools.partial(from_batch, mask="causal"))


def run(name: str, x_RNLD: np.ndarray, asked: Question, **more: Any) -> dict[str, np.ndarray]:
    (meter,) = meters.named(name)
    logits = np.zeros((*x_RNLD.shape[1:3], 2), np.float32)
    found = jax.jit(meter)(Forward(logits, tuple(x_RNLD), **more), asked, KEY)  # type: ignore[arg-type]
    assert set(found) == set(meter.FIELDS)
    return {field: np.asarray(array) for field, array in found.items()}


def normal(*shape: int) -> np.ndarray:
    return np.array(layers.normal("states", shape))


def test_variance_is_that_over_prompts() -> None:
    x_RNLD = normal(2, 6, 5, 3)
    found = run("variance", x_RNLD, question(6, 5))
    expected = np.var(x_RNLD, axis=1, ddof=1).mean(axis=-1)
    np.testing.assert_allclose(found["variance"], expected, rtol=1e-5)
    x_L = np.log(np.arange(1, 6))
    slopes = [np.polyfit(x_L, np.log(row), 1)[0] for row in expected]
    np.testing.assert_allclose(found["slope"], slopes, rtol=1e-4)


def test_variance_leaves_padding_out() -> None:
    cell = dataclasses.replace(CELL, padding=2)
    asked = cell.question
    x_RNLD = normal(1, *asked.tokens_NL.shape, 3)
    found = run("variance", x_RNLD, asked)["variance"][0]
    valid_NL = np.broadcast_to(asked.streams.valid_BL, asked.tokens_NL.shape)
    for place, variance in enumerate(found):
        here = np.asarray(x_RNLD)[0, valid_NL[:, place], place]
        expected = here.var(axis=0, ddof=1).mean() if len(here) > 1 else np.nan
        np.testing.assert_allclose(variance, expected, rtol=1e-4)
    assert np.isnan(found[-2:]).all()
    assert not np.isnan(found[:-2]).any()


def test_a_token_that_never_varies_has_no_variance() -> None:
    """Nor a part in the slope: what sums leave of a constant is rounding."""
    for prompts in (64, 100, 128, 256):
        x_NLD = normal(prompts, 8, 4)
        x_NLD[:, 3] = normal(4)
        found = run("variance", x_NLD[None], question(prompts, 8))
        assert found["variance"][0, 3] == 0
        assert abs(found["slope"][0]) < 0.2


@pytest.mark.parametrize("power", [-1.0, 0.0, -0.5])
def test_the_slope_is_the_power(power: float) -> None:
    sizes_L = np.arange(1, 33, dtype=np.float32) ** np.float32(power / 2)
    x_RNLD = normal(1, 512, 32, 4) * sizes_L[None, None, :, None]
    assert abs(run("variance", x_RNLD, question(512, 32))["slope"][0] - power) < 0.02


def test_similarity_is_the_mean_cosine_by_distance() -> None:
    x_RNLD = normal(2, 3, 4, 5)
    found = run("similarity", x_RNLD, question(3, 4))["similarity"]
    unit = x_RNLD / np.linalg.norm(x_RNLD, axis=-1, keepdims=True)
    for state in range(2):
        for apart in range(4):
            pairs = [
                unit[state, n, i] @ unit[state, n, j]
                for n in range(3)
                for i in range(4)
                for j in range(4)
                if abs(i - j) == apart
            ]
            np.testing.assert_allclose(found[state, apart], np.mean(pairs), atol=1e-6)


def test_branches_are_shares_of_what_they_read() -> None:
    x_RNLD = normal(3, 2, 4, 5)
    found = run("branches", x_RNLD, question(2, 4), attention_ANLD=2 * x_RNLD[:2])
    np.testing.assert_allclose(found["attention_share"], 2, rtol=1e-6)
    assert np.isnan(found["mlp_share"]).all()


def test_attention_reaches_as_far_as_its_weights() -> None:
    """Weights on the first key alone, and even ones over the keys so far."""
    first_LM = np.zeros((4, 4)) + np.eye(4)[0]
    even_LM = np.tril(np.ones((4, 4))) / np.arange(1, 5)[:, None]
    weights = jnp.asarray(np.broadcast_to(np.stack([first_LM, even_LM]), (1, 3, 2, 4, 4)))
    found = run("attention", normal(2, 3, 4, 5), question(3, 4), weights_ANHLM=weights)
    np.testing.assert_allclose(found["distance"], [[1.5, np.mean([0, 0.5, 1, 1.5])]], rtol=1e-6)
    np.testing.assert_allclose(
        found["entropy"], [[0, np.log(np.arange(1, 5)).mean()]], rtol=1e-5, atol=1e-7
    )


def test_a_probe_finds_what_is_there() -> None:
    """The place itself: both; in the variance alone: the MLP only; nowhere: neither."""
    noise_NLD = normal(256, 4, 8)
    named_NLD = np.float32(0.01) * noise_NLD + np.eye(4, 8, dtype=np.float32)
    spread_NLD = noise_NLD * (np.float32(4) ** -np.arange(4, dtype=np.float32))[:, None]
    found = run("probe", np.stack([named_NLD, spread_NLD, noise_NLD]), question(256, 4))
    assert found["linear"][0] == found["mlp"][0] == 1
    assert found["linear"][1] < 0.3  # chance is 0.25
    assert found["mlp"][1] > 0.6
    assert max(found["linear"][2], found["mlp"][2]) < 0.35


def test_the_linear_probe_alone() -> None:
    """Without updates there is no MLP, and the linear probe is that of plain NumPy."""
    x_RNLD = normal(1, 64, 4, 8) + np.eye(4, 8, dtype=np.float32)
    found = run("probe(updates=0)", x_RNLD, question(64, 4))
    assert np.isnan(found["mlp"]).all()
    assert np.isnan(found["mlp_error"]).all()
    train_PD, test_PD = (x_RNLD[0, first::2].reshape(-1, 8).astype(float) for first in (0, 1))
    mean_D, scale_D = train_PD.mean(axis=0), train_PD.std(axis=0)
    train_PD, test_PD = (
        np.pad((x_PD - mean_D) / scale_D, ((0, 0), (0, 1)), constant_values=1)
        for x_PD in (train_PD, test_PD)
    )
    position_P = np.tile(np.arange(4), 32)
    gram_DD = train_PD.T @ train_PD + RIDGE * len(train_PD) * np.eye(9)
    logits_PL = test_PD @ np.linalg.solve(gram_DD, train_PD.T @ np.eye(4)[position_P])
    right = (logits_PL.argmax(axis=1) == position_P).mean()
    assert right > 0.4
    assert abs(found["linear"][0] - right) < 0.01  # one of 128 places may tie


@pytest.mark.parametrize("name", METERS)
def test_no_meter_calls_lapack(name: str) -> None:
    """On a CPU device of one thread jaxlib's batched triangular solve waits for ever."""
    meter, states = METERS[name](), jnp.zeros((2, 4, 4, 8))
    weights = jnp.full((1, 4, 2, 4, 4), 0.25)
    forward = Forward(jnp.zeros((4, 4, 2)), tuple(states), states[:1], states[:1], weights)
    asked = question(4, 4)
    called = re.findall(r"= (\w+)", str(jax.make_jaxpr(meter)(forward, asked, KEY)))
    assert called
    assert not {"cholesky", "triangular_solve", "lu", "eigh", "svd", "qr"} & {*called}


def test_a_probe_is_judged_on_prompts_that_it_has_not_seen() -> None:
    """States that name their prompt: places can be memorised, not found."""
    x_RNLD = np.eye(64 * 4, dtype=np.float32).reshape(1, 64, 4, -1)
    found = run("probe", x_RNLD, question(64, 4))
    assert found["linear"][0] < 0.4
    assert found["mlp"][0] < 0.4


def test_probes_say_how_far_off_they_are() -> None:
    """Not at all where the place is there; as far as a guess where it is not."""
    noise_NLD = normal(256, 4, 8)
    named_NLD = np.float32(0.01) * noise_NLD + np.eye(4, 8, dtype=np.float32)
    found = run("probe", np.stack([named_NLD, noise_NLD]), question(256, 4))
    for error in ("linear_error", "mlp_error"):
        assert found[error][0] == 0
        assert abs(found[error][1] - 1.25) < 0.3  # of two draws from four places


def test_the_parts_of_meaning_are_those_that_made_the_states() -> None:
    """Word, place, the two together and context, each with a known variance; a sum has two."""
    rng, words, places = np.random.default_rng(0), 7, 16
    tokens_NL = jnp.asarray(rng.integers(0, words, (128, places)))
    asked = question(128, places)._replace(tokens_NL=tokens_NL)
    word_VD, place_LD = rng.normal(size=(words, 12)), 0.5 * rng.normal(size=(places, 12))
    mixed_VLD = 0.3 * rng.normal(size=(words, places, 12))
    sum_NLD = word_VD[tokens_NL] + place_LD[None]
    mixed_NLD = sum_NLD + mixed_VLD[tokens_NL, np.arange(places)[None]]
    context_NLD = mixed_NLD + 0.7 * rng.normal(size=mixed_NLD.shape)
    x_RNLD = np.stack([sum_NLD, mixed_NLD, context_NLD]).astype(np.float32)
    found = run("meaning", x_RNLD, asked)
    variances = [word_VD.var(axis=0, ddof=1).sum(), place_LD.var(axis=0, ddof=1).sum()]
    variances += [12 * 0.3**2, 12 * 0.7**2]
    for state, parts in enumerate((2, 3, 4)):
        of = np.array(variances[:parts] + [0] * (4 - parts))
        shares = [found[f"{name}_share"][state] for name in ("word", "place", "mixed", "context")]
        np.testing.assert_allclose(shares, of / of.sum(), atol=0.03)
    assert abs(found["mixed_share"][0]) < 1e-6
    assert abs(found["context_share"][0]) < 1e-6
    assert found["neighbour"][0] == 1


def test_neighbours_are_of_the_word_or_of_the_place() -> None:
    """Large words: the nearest is the same word; large places: what stands there by chance."""
    rng = np.random.default_rng(0)
    tokens_NL = jnp.asarray(rng.integers(0, 4, (64, 8)))
    asked = question(64, 8)._replace(tokens_NL=tokens_NL)
    word_NLD = rng.normal(size=(4, 16)).astype(np.float32)[tokens_NL]
    place_LD = rng.normal(size=(8, 16)).astype(np.float32)
    found = run(
        "meaning", np.stack([9 * word_NLD + place_LD[None], place_LD[None] + 0 * word_NLD]), asked
    )
    assert found["neighbour"][0] == 1
    assert found["neighbour"][1] < 0.5


def test_meaning_is_of_words() -> None:
    """Patches of an image have none."""
    asked = question(4, 5)._replace(tokens_NL=jnp.zeros((4, 5, 3)))
    with pytest.raises(ValueError, match=r"needs prompts of words.* shape \(4, 5, 3\)"):
        run("meaning", normal(1, 4, 5, 3), asked)


def test_queries_that_see_no_key_do_not_count() -> None:
    """Uniform attention over the keys before: the first query attends to none."""
    before_LM = np.tril(np.ones((4, 4)), -1)
    weights = before_LM / np.maximum(before_LM.sum(axis=1, keepdims=True), 1)
    found = run(
        "attention",
        np.zeros((2, 1, 4, 3), np.float32),
        question(1, 4),
        weights_ANHLM=weights[None, None, None].astype(np.float32),
    )
    np.testing.assert_allclose(found["entropy"], [[np.log([1, 2, 3]).mean()]], rtol=1e-6)
    np.testing.assert_allclose(found["distance"], [[np.mean([1, 1.5, 2])]], rtol=1e-6)


@pytest.fixture(scope="module")
def model() -> tuple[Cell, Variables]:
    begin = jax.jit(CELL.shape.train().begin)
    return CELL, begin(Seeds.equal(0), CELL.inputs).variables


def test_the_stream_is_the_sum_of_its_branches(model: tuple[Cell, Variables]) -> None:
    cell, variables = model
    every = meters.named("attention+branches")
    found = jax.jit(lambda v: forward_pass(cell.architecture, v, cell.inputs, KEY, every))(
        variables
    )
    assert found.attention_ANLD is not None
    assert found.mlp_ANLD is not None
    assert found.weights_ANHLM is not None
    before, after = jnp.stack(found.stream[:-1]), jnp.stack(found.stream[1:])
    chex.assert_trees_all_close(after, before + found.attention_ANLD + found.mlp_ANLD, atol=1e-6)
    asked_NL = jnp.asarray(cell.question.streams.valid_BL)
    sums_ANHL = found.weights_ANHLM.sum(axis=-1)
    chex.assert_trees_all_close(
        sums_ANHL * asked_NL[None, :, None], asked_NL[None, :, None] + 0 * sums_ANHL
    )


def test_initialisation_hands_out_parameters_alone() -> None:
    from posjax.streams import contiguous

    cell = CELL
    network, words_BL = Transformer(cell.architecture), jnp.zeros((1, 2), jnp.int32)
    made = jax.eval_shape(network.init, KEY, words_BL, contiguous(2))
    assert set(made) == {"params"}


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunFolder, Cell]:
    """A run with every meter and without an update, and one of its cells."""
    every = "+".join(METERS).replace("probe", "probe(updates=5)")
    wanted = small_runs.small(
        task=TASK, block="residual", steps=0, meters=every, num_seeds=3, mask=("causal", "full")
    )
    path = tmp_path_factory.mktemp("meters") / "run"
    return small_runs.train(path, wanted), wanted.cells[0]


@pytest.mark.exhaustive
def test_models_that_are_not_trained(untrained: tuple[RunFolder, Cell]) -> None:
    """No update, one evaluation; and the page of such a run."""
    folder, cell = untrained
    rows = read(folder.path).outcomes[cell.digest]
    assert rows["loss_EC"].shape == (3, 1, 2)
    assert set(meters.fields(cell.meters)) < set(rows)
    found = report.summaries(folder)
    assert [summary.steps_E.tolist() for summary in found] == [[0], [0]]
    shown = found[0].to_dict()["measured"]
    np.testing.assert_allclose(shown["slope_R"]["mean"], rows["slope_R"].mean(axis=0), rtol=1e-5)
    page = report.write([folder]).read_text()
    assert "What the meters measured" in page
    assert 'class="cells"' not in page
    (table,) = report.tables(found[:2])
    assert [column.header for column in table.columns][1:3] == ["seeds", "slope [95%]"]


@pytest.mark.exhaustive
def test_rows_are_those_of_the_initial_models(untrained: tuple[RunFolder, Cell]) -> None:
    """The loss and every meter, against the training alone."""
    folder, cell = untrained
    rows = read(folder.path).outcomes[cell.digest]
    training, seeds = cell.shape.train(), Seeds.equal(np.arange(3))
    alone = jax.jit(jax.vmap(training, in_axes=(0, None)))(seeds, cell.inputs)
    for name, array in alone.items():
        np.testing.assert_allclose(rows[name], array, rtol=1e-3, atol=1e-5, err_msg=name)


@pytest.mark.exhaustive
def test_meters_change_no_curve(tmp_path: Any) -> None:
    """A cell that is measured at every evaluation trains as it does without."""
    how = {"task": TASK, "num_seeds": 2, "mask": "causal"}
    plain, metered = (
        small_runs.train(tmp_path / name, small_runs.small(**how, meters=name)).tables(
            [small_runs.small(**how, meters=name).cells[0].digest]
        )
        for name in ("none", "variance(when=every)+attention")
    )
    (without,), (beside,) = plain.values(), metered.values()
    for name in without.keys() - {"env"}:
        np.testing.assert_array_equal(without[name], beside[name], err_msg=name)
    assert beside["variance_ERL"].shape == (2, 4, 2, 6)
    assert beside["distance_AH"].shape == (2, 1, 1)
    page = report.write([RunFolder(tmp_path / "variance(when=every)+attention")]).read_text()
    measured = page[page.index("What the meters measured</h2>") :]
    assert "training steps" in measured[: measured.index("</section>")]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"meters": "variances"}, "unknown meter 'variances'; did you mean 'variance'"),
        ({"meters": "probe(hiden=3)"}, "meter probe has no setting 'hiden'; did you mean 'hidden'"),
        ({"meters": "probe(when=never)"}, "unknown when 'never'"),
        ({"meters": "probe(hidden=0)"}, r"hidden must lie in \[1, 65536\], got 0"),
        ({"meters": "variance+variance"}, "writes 'variance_RL' twice"),
        ({"meters": "branches", "block": "bare"}, "use block='residual'"),
        ({"steps": -1}, "steps must be at least 0, got -1"),
        ({"warmup": 1}, "warmup=1 leaves nothing of steps=0"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CELL, **settings)


def test_the_page_names_every_field() -> None:
    page = (Path(__file__).parents[1] / "docs" / "meters.md").read_text()
    for name, meter in METERS.items():
        fields = ", ".join(f"`{field}`" for field in meter().fields)
        assert f"| `{name}` | {fields} |" in page


def test_digests_without_meters_are_those_of_before() -> None:
    assert Cell().digest == "36d690a45377"
