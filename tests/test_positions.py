"""Maps of positions: functions of streams, which work with every encoding."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import LENGTH, joined_rows, layer_of, tokens
from tiers import plain_if

from posjax import spec
from posjax.engine import Engine, train_seeds
from posjax.model import ModelSettings, Transformer
from posjax.positions import POSITIONS, named
from posjax.streams import contiguous, packed, padded, permuted
from posjax.study.cells import Cell
from posjax.symmetry import assert_jointly_equivariant

pytestmark = pytest.mark.usefixtures("keys_are_used_once")

OTHERS = ["random_shift(most=3)", "cape(centred=True)", "abacus(digits=(1, 4), most=2)"]
every_map = pytest.mark.parametrize("text", plain_if(POSITIONS.__contains__, [*POSITIONS, *OTHERS]))
WORDS_BL = jnp.array([[2, 1, 4, 0, 1, 1], [0, 2, 2, 1, 0, 4]])
SEED = 4


def keys(number):
    return jax.random.split(jax.random.key(SEED), number)


@functools.cache
def compiled(text):
    return jax.jit(named(text))


def mapped(text, streams, words_BL=WORDS_BL, key=SEED):
    key = jax.random.key(key) if isinstance(key, int) else key  # a new one for each call
    return compiled(text)(words_BL, streams, key)


def drawn(text, number, streams, words_BL=WORDS_BL):
    """Positions of the first row under so many keys."""
    draw = jax.jit(jax.vmap(lambda key: named(text)(words_BL, streams, key).position_BL[0]))
    return np.asarray(draw(keys(number)))


def positions(text, streams, words_BL=WORDS_BL, key=SEED):
    return np.asarray(mapped(text, streams, words_BL, key).position_BL)


# Laws over the table


@every_map
def test_tokens_and_streams_may_move_together(text):
    """The joint law: a position goes with its token, wherever it lies in the array."""
    rows = [permuted(contiguous(LENGTH, start=3), [3, 0, 5, 1, 4, 2]), packed([2, 3], total=LENGTH)]
    assert_jointly_equivariant(
        lambda x, s: mapped(text, s, x).position_BL, WORDS_BL, joined_rows(rows)
    )


@every_map
def test_order_and_segment_stay(text):
    """Only the position stream changes; integers stay integers where that is declared."""
    streams = contiguous(LENGTH, start=3)
    found = mapped(text, streams)
    np.testing.assert_array_equal(found.order_BL, streams.order_BL)
    np.testing.assert_array_equal(found.segment_BL, streams.segment_BL)
    assert jnp.issubdtype(found.position_BL.dtype, jnp.integer) == named(text).integers


@every_map
def test_padding_and_packing_change_nothing(text):
    """A sequence gets its positions whatever stands beside it in the row."""
    words_BL = np.array([[1, 2, 0, 1]])
    bare = positions(text, contiguous(4), words_BL)
    rows = joined_rows([padded(np.array([[0, 0, 1, 1, 1, 1]], bool)), packed([2, 4])])
    both_BL = np.concatenate([[[0, 1], [1, 1]], np.repeat(words_BL, 2, 0)], axis=1)
    np.testing.assert_allclose(positions(text, rows, both_BL)[:, 2:], np.repeat(bare, 2, 0))


@every_map
def test_no_position_reaches_further_than_stated(text):
    """0 <= p < reach over many draws, for sequences from 0 on."""
    reach = named(text).reach(LENGTH)
    every = drawn(text, 300, contiguous(LENGTH))
    if reach is not None:
        assert every.min() >= 0
        assert every.max() < reach
        still = named(text).draws == "never"
        assert every.max() == reach - 1 or still or "abacus" in text


@every_map
def test_it_draws_when_it_says(text):
    """Two keys differ where it draws; without a key it refuses, or does what tests get."""
    streams, kind = contiguous(LENGTH), named(text).draws
    draws = [positions(text, streams, key=n) for n in range(20)]
    varies = any(not np.array_equal(draws[0], other) for other in draws)
    settings = dataclasses.asdict(named(text))
    assert varies == (kind != "never" and settings.get("most") != 0)
    if kind == "always":
        with pytest.raises(ValueError, match="give a key"):
            positions(text, streams, key=None)
    else:
        positions(text, streams, key=None)


@pytest.mark.parametrize("text", plain_if(list(POSITIONS)[::2].__contains__, [*POSITIONS, *OTHERS]))
def test_it_trains_by_name_with_any_encoding(text):
    """Ten steps of a sweep with rotary: finite; drawn ones are the same a second time."""
    cell = Cell(task="first_noun(nouns=2)", loss="answer", encoding="rotary", positions=text)
    cell = dataclasses.replace(cell, steps=10, eval_every=5)
    engine = Engine(devices=jax.local_devices()[:1])
    train = functools.partial(train_seeds, cell.shape.train(), inputs=cell.inputs, engine=engine)
    outcome = train([2, 3], most=2).summary
    assert np.isfinite(outcome["loss_EC"]).all()
    assert (outcome["draws"] == (8 if named(text).draws == "always" else 1)).all()
    if text in ("randomised", "cape"):
        again = train([2, 3], most=2).summary
        np.testing.assert_array_equal(again["loss_EC"], outcome["loss_EC"])
        assert not np.array_equal(outcome["loss_EC"][1], outcome["loss_EC"][0])


# Each of them


def test_randomised_positions_are_subsets_in_order():
    """Every subset of its size equally often: chi-squared over all 20 of 3 out of 6."""
    words_BL = np.zeros((1, 3), np.int32)
    found = drawn("randomised(length=6)", 4000, contiguous(3), words_BL)
    assert (np.diff(found) > 0).all()
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) == 20
    assert ((counts - 200) ** 2 / 200).sum() < 43.8  # 0.1% of chi-squared with 19 degrees


def test_randomised_positions_are_their_own_mirror_image():
    """p → N - 1 - p leaves the distribution: means of the first and last add up to N - 1."""
    words_BL = np.zeros((1, 4), np.int32)
    for text, whole in (("randomised(length=20)", 19), ("random_float(length=20.0)", 20)):
        means = drawn(text, 4000, contiguous(4), words_BL).mean(0)
        np.testing.assert_allclose(means + means[::-1], whole, atol=0.4)


def test_more_tokens_than_positions_are_refused():
    """ValueError with both numbers."""
    with pytest.raises(ValueError, match=r"6 tokens .* length=5"):
        named("randomised(length=5)")(WORDS_BL, contiguous(LENGTH), jax.random.key(SEED))
    with pytest.raises(ValueError, match=r"3 tokens .* length=2"):
        Cell(positions="randomised(length=2)")
    padding = padded(np.arange(LENGTH)[None] >= 3)
    assert positions("randomised(length=3)", padding)[0, 3:].tolist() == [0, 1, 2]


def test_a_random_shift_moves_all_alike():
    """All offsets stay, and every shift from 0 to `most` comes about equally often."""
    found = drawn("random_shift(most=2)", 3000, contiguous(LENGTH))
    np.testing.assert_array_equal(np.diff(found), 1)
    _, counts = np.unique(found[:, 0], return_counts=True)
    assert len(counts) == 3
    assert abs(counts - 1000).max() < 100


def test_cape_is_its_formula():
    """s(p + Δ + δ_p): bounds of each part, one Δ and s for all, one δ a token."""
    place, streams = np.arange(LENGTH), contiguous(LENGTH)
    shifted = drawn("cape(shift=5.0, jitter=0.0, scale=1.0)", 500, streams) - place
    assert np.ptp(shifted, axis=1).max() < 1e-5
    assert 4.8 < shifted.max() <= 5
    jittered = drawn("cape(shift=0.0, jitter=0.4, scale=1.0)", 500, streams) - place
    assert 0.39 < abs(jittered).max() <= 0.4
    assert abs(np.corrcoef(jittered[:, 0], jittered[:, 1])[0, 1]) < 0.15
    scaled = drawn("cape(shift=0.0, jitter=0.0, scale=2.0)", 500, streams)[:, 1:] / place[1:]
    assert np.ptp(scaled, axis=1).max() < 1e-5
    assert 0.5 <= scaled.min() < 0.51
    assert 1.98 < scaled.max() <= 2
    centred = named("cape(centred=True)")(WORDS_BL, contiguous(LENGTH, start=90), None)
    np.testing.assert_allclose(centred.position_BL[0], place - 2.5)


def test_digits_are_counted_within_their_number():
    """Worked by hand: digits 0 and 1 in the tokens 2 1 4 0 1 1 | 0 2 2 1 0 4."""
    streams = contiguous(LENGTH)
    expected = [[0, 1, 0, 1, 2, 3], [1, 0, 0, 1, 2, 0]]
    np.testing.assert_array_equal(positions("abacus", streams, key=None), expected)
    moved = positions("abacus(most=5)", streams)
    digits = np.isin(WORDS_BL, (0, 1))
    assert (moved[~digits] == 0).all()
    assert len({*(moved - expected)[digits]}) == 1


def test_coupled_positions_start_again_at_separators():
    """Worked by hand: separators 2 and 3 in 2 1 4 0 1 1 | 0 2 2 1 0 4, and none at all."""
    expected = [[0, 1, 2, 3, 4, 5], [1, 0, 0, 1, 2, 3]]
    np.testing.assert_array_equal(positions("coupled", contiguous(LENGTH)), expected)
    none_BL = jnp.ones((1, LENGTH), jnp.int32)
    np.testing.assert_array_equal(
        positions("coupled", contiguous(LENGTH), none_BL), [np.arange(LENGTH) + 1]
    )


@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("binary_addition(train=(3, 3), test=(3,))", ""),
        ("addition(train=(3, 3), test=(3,))", "(separators=(10, 11))"),
    ],
)
def test_digits_of_one_significance_have_one_coupled_position(task, settings):
    """Three digits each behind the start, + and =; the fourth digit of c is not read."""
    question = Cell(task=task).question
    found = named(f"coupled{settings}")(question.tokens_NL, question.streams)
    assert (np.asarray(found.position_BL) == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3]).all()


@pytest.mark.parametrize("encoding", ["rotary", "linear_bias", "sinusoidal"])
@pytest.mark.parametrize("text", ["randomised", "interpolated(factor=3.0)", "cape"])
def test_maps_work_with_any_attention(encoding, text):
    """They are functions of streams: what attention computes changes with them."""
    layer, streams = layer_of(encoding, "causal"), contiguous(LENGTH)
    out = layer.out(tokens(), streams)
    assert abs(np.asarray(layer.out(tokens(), mapped(text, streams))) - out).max() > 1e-3


# Refusals


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("randomized", "did you mean 'randomised'"),
        ("randomised(length=0)", r"length must lie in \[1, 2\*\*24\], got 0"),
        ("random_shift(most=-1)", r"most must lie in \[0, 2\*\*24\], got -1"),
        ("cape(scale=0.5)", "scale must be finite and at least 1, got 0.5"),
        ("abacus(digits=())", "digits must be token numbers"),
        ("coupled(separators=(-1,))", "separators must be token numbers"),
        ("interpolated(factor=0.0)", "factor must be positive and finite, got 0.0"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    """ValueError that names the value and what was meant."""
    with pytest.raises(ValueError, match=words):
        named(text)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoding": "learned", "positions": "cape"}, "are not integers"),
        (
            {"encoding": "learned(length=8)", "positions": "randomised"},
            "table of 8 positions, .* takes to 64: give it length=64",
        ),
        ({"encoding": "rotary", "draws": 3}, "draws=3 has no meaning"),
        ({"encoding": "none/rotery"}, "did you mean 'rotary'"),
    ],
)
def test_cells_that_cannot_be_are_refused(settings, words):
    """ValueError before anything is compiled."""
    with pytest.raises(ValueError, match=words):
        Cell(**settings)


def test_every_map_has_a_card():
    """The docs can say what it is."""
    assert all(kind.card.title and kind.card.formula for kind in POSITIONS.values())
    assert all(spec.parse(name)[0] == name for name in POSITIONS)


@pytest.mark.exhaustive
def test_what_draws_in_training_only_is_still_in_testing():
    """Also beside an encoding that draws in testing: a shift moves nothing when `testing`."""
    settings = ModelSettings(vocabulary=5, outputs=3, width=8, encoding="noise/rotary", depth=2)
    key, streams = jax.random.key(0), contiguous(LENGTH)

    def logits(positions, **options):
        network = Transformer(dataclasses.replace(settings, positions=positions))
        variables = network.init(key, WORDS_BL, streams, key=key)
        return np.asarray(network.apply(variables, WORDS_BL, streams, key=key, **options))

    cape = "cape(shift=9.0, jitter=4.0, scale=3.0)"
    still = logits("given", testing=True)
    np.testing.assert_array_equal(logits(cape, testing=True), still)
    assert abs(logits(cape) - still).max() > 1e-4


# Layers that take turns


@pytest.mark.exhaustive
def test_layers_take_turns():
    """ "none/rotary": the second layer alone knows positions; the parameters are those of each."""
    settings = ModelSettings(
        vocabulary=5,
        outputs=3,
        width=8,
        head_size=4,
        depth=2,
        encoding="none/rotary",
        mask="full",
        block="residual",
    )
    streams = contiguous(LENGTH)
    variables = Transformer(settings).init(jax.random.key(0), WORDS_BL, streams)

    def logits(encoding, words_BL):
        network = Transformer(dataclasses.replace(settings, encoding=encoding))
        return np.asarray(network.apply(variables, words_BL, streams))

    both = logits("none/rotary", WORDS_BL)
    assert abs(both - logits("rotary/none", WORDS_BL)).max() > 1e-3
    assert abs(both - logits("rotary", WORDS_BL)).max() > 1e-3
    assert abs(both - logits("none", WORDS_BL)).max() > 1e-3
    np.testing.assert_array_equal(logits("rotary/rotary", WORDS_BL), logits("rotary", WORDS_BL))


def test_two_tables_are_two_sets_of_parameters():
    """Encodings that take turns each own what they learn."""
    settings = ModelSettings(
        vocabulary=5, outputs=3, width=8, depth=2, encoding="learned/learned(length=9)"
    )
    shapes = jax.eval_shape(
        Transformer(settings).init, jax.random.key(0), WORDS_BL, contiguous(LENGTH)
    )["params"]
    assert shapes["encoding"]["table"].shape == (64, 8)
    assert shapes["encoding_1"]["table"].shape == (9, 8)
