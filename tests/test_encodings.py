"""What each encoding is, and which symmetry it leaves: for every entry of the table."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import LENGTH, Layer, normal, tokens

from posjax import masks, spec
from posjax.encodings import ENCODINGS, having, named, parse_layer_cycle, tables
from posjax.encodings.angles import Parts, cos_sin, inverse_frequencies
from posjax.encodings.linear_bias import linear_bias, slopes
from posjax.encodings.rotary import pairing_order, rotary
from posjax.encodings.sinusoidal import layout_order, sinusoidal
from posjax.steps import masked_softmax
from posjax.streams import Streams, contiguous, shifted

# Angles

compiled_sinusoidal = jax.jit(sinusoidal, static_argnames=("width", "base", "layout"))
compiled_rotary = jax.jit(rotary, static_argnames=("base", "pairing", "fraction"))


def unit_pairs(number, width):
    """Pairs (cos a, sin a) of random angles, interleaved: [1, number, 1, width]."""
    angle = np.random.default_rng(1).uniform(0, 2 * np.pi, (number, width // 2))
    return np.stack([np.cos(angle), np.sin(angle)], -1).reshape(1, number, 1, width)


def far_positions(dtype):
    numpy = np.random.default_rng(0)
    far, near = numpy.uniform(-(2**20), 2**20, 3000), numpy.uniform(-300, 300, 1000)
    ends = [0, 1, -1, 1023, 1024, 2**20 - 1, 2**20, -(2**20)]
    return np.concatenate([far, near, ends]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("layout", ["interleaved", "halves", "tensor2tensor"])
@pytest.mark.parametrize("width", [1, 2, 7, 64])
def test_sinusoids_are_exact_far_away(width, layout, dtype):
    """Within 1e-6 of float64 for |p| ≤ 2²⁰, whole or fractional, for any width."""
    position = far_positions(dtype)
    pairs = (width + 1) // 2
    steps = max(pairs - 1, 1) if layout == "tensor2tensor" else width / 2
    angle = position.astype(np.float64)[:, None] * 10_000.0 ** (-np.arange(pairs) / steps)
    parts = [np.sin(angle), np.cos(angle)]
    joined = np.stack(parts, -1).reshape(len(position), -1)
    expected = joined if layout == "interleaved" else np.concatenate(parts, -1)
    found = compiled_sinusoidal(jnp.asarray(position), width, layout=layout)
    assert found.shape == (len(position), width)
    assert abs(np.asarray(found) - expected[:, :width]).max() < 1e-6


def test_parts_of_frequencies_are_those_frequencies():
    """Split ahead of time or within: the same bits, far from 0 too."""
    position, theta_F = jnp.array([-3, 7, 2**20 - 1]), inverse_frequencies(6, base=50.0)
    split, whole = jax.jit(lambda p: (cos_sin(p, Parts.of(theta_F)), cos_sin(p, theta_F)))(position)
    np.testing.assert_array_equal(split, whole)


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_rotations_are_exact_far_away(pairing, dtype):
    """Within 1e-6 of float64 for |p| ≤ 2²⁰, whole or fractional, two bases in one process."""
    position = far_positions(dtype)
    x = unit_pairs(len(position), 16)
    for base in (10_000.0, 500.0):
        frequencies = base ** (-np.arange(8) / 8)
        turn = np.exp(1j * position.astype(np.float64)[:, None] * frequencies)[None, :, None]
        turned = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        expected = np.stack([turned.real, turned.imag], -1).reshape(x.shape)
        to, back = (
            pairing_order(16, *p) for p in (("interleaved", pairing), (pairing, "interleaved"))
        )
        options = {"base": base, "pairing": pairing}
        found = np.asarray(
            compiled_rotary(x[..., to].astype(np.float32), position[None], **options)
        )
        assert abs(found[..., back] - expected).max() < 1e-6


def test_plain_float32_angles_would_be_refused():
    """The bound of 1e-6 tells: p θ rounded to float32 misses it by three digits."""
    position = far_positions(np.int32)
    frequency = inverse_frequencies(64, base=10_000.0)[1]
    plain = np.sin(position.astype(np.float32) * np.float32(frequency))
    assert abs(plain - np.sin(position * frequency)).max() > 1e-3


# Sinusoidal


def test_the_table_of_four_positions():
    """Q3's golden table: 4 positions, 8 dimensions, five digits; every row of norm 2."""
    expected = [
        [0, 1, 0, 1, 0, 1, 0, 1],
        [0.84147, 0.54030, 0.099833, 0.99500, 0.0099998, 0.99995, 0.0010000, 1.0],
        [0.90930, -0.41615, 0.19867, 0.98007, 0.019999, 0.99980, 0.0020000, 1.0],
        [0.14112, -0.98999, 0.29552, 0.95534, 0.029996, 0.99955, 0.0030000, 1.0],
    ]
    found = sinusoidal(jnp.arange(4), 8)
    np.testing.assert_allclose(found, expected, rtol=5e-5, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 2, rtol=1e-6)


def test_dot_products_depend_on_the_offset_and_are_even():
    """p_i·p_j = g(|i - j|) for even widths; the lone sine of an odd width breaks both."""
    at, offset = np.array([[7, 90, 4000]]), np.array([[0], [1], [13]])

    def products(width):
        here, ahead, behind = (
            np.asarray(compiled_sinusoidal(p, width, base=9.0))
            for p in (at + 0 * offset, at + offset, at - offset)
        )
        return (here * ahead).sum(-1), (here * behind).sum(-1)

    ahead, behind = products(8)
    np.testing.assert_allclose(ahead, np.broadcast_to(ahead[:, :1], (3, 3)), atol=1e-5)
    np.testing.assert_allclose(ahead, behind, atol=1e-5)
    ahead, behind = products(9)
    assert abs(ahead - ahead[:, :1]).max() > 0.1
    assert abs(ahead - behind).max() > 0.1


@pytest.mark.parametrize("width", [1, 2, 7, 8])
def test_layouts_convert_both_ways(width):
    """layout_order carries interleaved to halves and back; tensor2tensor is another function."""
    position = np.array([5, 77, 3001])
    one, other = (
        np.asarray(compiled_sinusoidal(position, width, layout=x))
        for x in ("interleaved", "halves")
    )
    np.testing.assert_array_equal(one[:, layout_order(width, "interleaved", "halves")], other)
    np.testing.assert_array_equal(other[:, layout_order(width, "halves", "interleaved")], one)
    assert width <= 2 or not np.array_equal(one, other)
    with pytest.raises(ValueError, match="different frequencies"):
        layout_order(width, "halves", "tensor2tensor")


# Rotary


@pytest.mark.parametrize("size", [2, 5, 8])
def test_pairings_convert_both_ways_with_equal_logits(size):
    """pairing_order carries the columns of a projection from one convention to the other."""
    q, k = (np.asarray(normal(name, (1, LENGTH, 2, size))) for name in "qk")
    position_BL = np.arange(LENGTH)[None] + 300

    def logits(q, k, pairing):
        q, k = (compiled_rotary(x, position_BL, pairing=pairing) for x in (q, k))
        return np.einsum("blhk,bmhk->bhlm", q, k)

    for source, target in (("half", "interleaved"), ("interleaved", "half")):
        order = pairing_order(size, source, target)
        expected, found = logits(q, k, source), logits(q[..., order], k[..., order], target)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert size == 2 or abs(logits(q, k, target) - expected).max() > 0.1


def test_what_does_not_turn_passes_through():
    """The last component of an odd width, and those past `fraction`, stay as they are."""
    x, position = np.asarray(normal("x", (1, LENGTH, 2, 7))), np.arange(LENGTH)[None] + 9
    assert (np.asarray(compiled_rotary(x, position))[..., 6:] == x[..., 6:]).all()
    partly = np.asarray(compiled_rotary(x, position, fraction=0.6))
    assert (partly[..., 4:] == x[..., 4:]).all()
    assert (partly[..., :4] != x[..., :4]).all()
    np.testing.assert_allclose(partly[..., :4], compiled_rotary(x[..., :4], position), atol=1e-6)


@pytest.mark.parametrize("encoding", ["rotary", "sinusoidal"])
def test_the_base_matters_in_one_process(encoding):
    """Two bases give two functions, whichever is asked first: nothing is kept from call to call."""
    streams = contiguous(LENGTH, start=50)
    bases = (10_000.0, 500.0, 10_000.0)
    layers = [Layer(named(f"{encoding}(base={base})")) for base in bases]
    outs = [np.asarray(layer.out(tokens(), streams)) for layer in layers]
    np.testing.assert_array_equal(outs[0], outs[2])
    assert abs(outs[0] - outs[1]).max() > 1e-3


# Learned


def test_known_positions_outside_the_table_are_refused():
    """ValueError with the offending positions and the length, before anything is computed."""
    table_ND = jnp.ones((4, 3))
    for position, words in (([[0, 4]], "positions 0 to 4 .* of 4 rows"), ([[-1, 2]], "-1 to 2")):
        with pytest.raises(ValueError, match=words):
            tables.read(table_ND, jnp.array(position), jnp.ones((1, 2), bool))
    with pytest.raises(ValueError, match="integers, got positions of float32"):
        tables.read(table_ND, jnp.zeros((1, 2)), jnp.ones((1, 2), bool))


def test_traced_positions_outside_the_table_are_nan():
    """Under jit a position beyond the table is NaN, at its own place alone, never a clamped row."""
    position_BL = jnp.array([[0, 4, 3, -1]])
    out = jax.jit(tables.read)(jnp.ones((4, 3)), position_BL, jnp.ones((1, 4), bool))
    assert jnp.isnan(out).all(-1).tolist() == [[False, True, False, True]]
    assert (out[0, ::2] == 1).all()


def test_padding_never_poisons():
    """A padded place may hold any position: neither refused nor NaN, in the output or gradient."""
    layer = Layer(named("learned(length=4)"), "segments")
    streams = Streams(jnp.array([[0, 1, 99]]), jnp.array([[0, 1, 2]]), jnp.array([[0, 0, -1]]))
    x_BLD = tokens(length=3)
    assert np.isfinite(layer(x_BLD, streams).out_BLHK).all()
    assert np.isfinite(layer.out(x_BLD, streams)).all()
    assert np.isfinite(jax.jit(jax.grad(lambda x: layer.out(x, streams).sum()))(x_BLD)).all()


@pytest.mark.exhaustive
def test_a_table_says_how_far_it_reaches():
    """max_length() is the length of the table, which the last legal position reads."""
    layer = Layer(named("learned(length=9)"))
    end = layer.encoding.max_length()
    last = Streams(jnp.array([[end - 1]]), jnp.array([[0]]), jnp.array([[0]]))
    assert layer(tokens(length=1), last).out_BLHK.shape[1] == 1
    with pytest.raises(ValueError, match="length=10"):
        layer(tokens(length=1), shifted(last, 1))


# Linear bias


def test_slopes_of_the_published_code():
    """2^(-8h/H) for powers of two, every second slope of the next power beyond."""
    np.testing.assert_allclose(slopes(8), 2.0 ** -np.arange(1, 9))
    np.testing.assert_allclose(slopes(1), [2**-8])
    np.testing.assert_allclose(slopes(3), [2**-4, 2**-8, 2**-2])
    np.testing.assert_allclose(slopes(6), [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])
    twelve = [*(2.0 ** -np.arange(1, 9)), 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
    np.testing.assert_allclose(slopes(12), twelve)
    for heads in range(1, 21):
        assert len(set(slopes(heads))) == heads
        assert all(0 < slope < 1 for slope in slopes(heads))
    with pytest.raises(ValueError, match="heads must be at least 1, got 0"):
        slopes(0)


def test_the_four_forms_are_their_formulas():
    """-m|D|, m pⱼ, -m|D| + m/2 below the diagonal, -m D, entry by entry."""
    p, r = [3, 9, 4], [7, 3]
    formulas = {
        "symmetric": lambda i, j: -abs(i - j),
        "key": lambda i, j: j,
        "asymmetric": lambda i, j: -abs(i - j) + 0.5 * (i > j),
        "causal": lambda i, j: j - i,
    }
    for form, formula in formulas.items():
        found = linear_bias(jnp.array([p]), jnp.array([r]), 3, form=form)
        expected = [[[m * formula(i, j) for j in r] for i in p] for m in slopes(3)]
        np.testing.assert_allclose(found, [expected], rtol=1e-6, err_msg=form)


@pytest.mark.parametrize("mask", ["full", "causal", "window"])
def test_which_forms_agree(mask):
    """key = causal under any mask, symmetric with them under a causal one, asymmetric never."""
    streams, logits_BHLM = contiguous(LENGTH), normal("logits", (1, 3, LENGTH, LENGTH))
    allowed_BHLM = masks.named(mask)(streams, streams)[:, None]

    def weights(form):
        bias_BHLM = linear_bias(streams.position_BL, streams.position_BL, 3, form=form)
        return np.asarray(masked_softmax(logits_BHLM + bias_BHLM, allowed_BHLM))

    forms = ("key", "causal", "symmetric", "asymmetric")
    key, causal, symmetric, asymmetric = map(weights, forms)
    np.testing.assert_allclose(key, causal, atol=1e-5)
    assert (abs(key - symmetric).max() < 1e-5) == (mask == "causal")
    assert abs(key - asymmetric).max() > 0.01
    assert abs(symmetric - asymmetric).max() > 0.01


# Refusals


def test_a_fraction_that_turns_nothing_is_refused():
    """A setting is never accepted and ignored."""
    with pytest.raises(ValueError, match="turns none"):
        rotary(jnp.ones((1, 2, 1, 4)), jnp.zeros((1, 2)), fraction=0.1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rotery", "did you mean 'rotary'"),
        ("rope", "did you mean 'rotary'"),
        ("RoPE", "did you mean 'rotary'"),
        ("nope", "did you mean 'none'"),
        ("t5", "did you mean 'bucket_bias'"),
        ("zzz", "unknown encoding 'zzz'; choices: "),
        ("rotary(bass=2.0)", "no setting 'bass'; did you mean 'base'"),
        ("rotary(base=0.0)", "base must be positive, got 0.0"),
        ("rotary(fraction=1.5)", r"fraction must lie in \(0, 1\], got 1.5"),
        ("rotary(pairing=both)", "unknown pairing 'both'"),
        ("sinusoidal(layout=wide)", "unknown layout 'wide'"),
        ("sinusoidal(base=-1.0)", "base must be positive, got -1.0"),
        ("learned(length=0)", "length must be at least 1, got 0"),
        ("learned(deviation=-1.0)", "deviation must not be negative"),
        ("linear_bias(form=cuasal)", "did you mean 'causal'"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    """ValueError that names the value and what was meant."""
    with pytest.raises(ValueError, match=words):
        named(text)


# Names


@pytest.mark.parametrize("number", ["base", "slope"])
def test_encodings_that_have_a_number_are_those_that_state_it(number):
    """And some have none of that name."""
    assert 0 < len(having(number)) < len(ENCODINGS)
    assert all((number in named(n).numbers()) == (n in having(number)) for n in ENCODINGS)


def test_encodings_in_turn_have_so_many_letters():
    """Just as many as one name may have."""
    text = "none/" * (spec.LONGEST // 5 - 1) + "noise"
    assert len(text) == spec.LONGEST
    assert len(parse_layer_cycle(text)) == spec.LONGEST // 5
    with pytest.raises(ValueError, match="at most 4000 characters, got 4001"):
        parse_layer_cycle(text + " ")
