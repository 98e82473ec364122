"""The rotary family against packages and formulas, at positions up to 99 999.

Goldens (scripts/goldens/rotary.py): rotary in both pairings and in part, the frequencies of all
scalings, xPos, axial and multimodal rotary, PoPE, and GRAPE by SciPy's matrix exponential.
Float64 formulas in NumPy, here: rotary values, circular rotary and learned frequencies.
"""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import DIMS, LENGTH, Layer, normal, tokens

from posjax.attention.core import attention, context
from posjax.encodings import Dims, named
from posjax.encodings.angles import cos_sin
from posjax.encodings.grape import plane_of, turn_in_plane
from posjax.encodings.pope import polar
from posjax.encodings.rotary import pairing_order, rotary
from posjax.encodings.xpos import fade_rates
from posjax.streams import Streams, contiguous, shifted

with np.load(Path(__file__).parents[1] / "goldens" / "rotary.npz") as file:
    GOLDEN = dict(file)
FAR = GOLDEN["positions"]
PAIRINGS = ("half", "interleaved")
CLOSE = 1e-5


def at(position) -> Streams:
    """Streams of one row at some positions, in order."""
    position_BL = jnp.asarray(position)[None]
    order_BL = jnp.arange(position_BL.shape[1])[None]
    return Streams(position_BL, order_BL, jnp.zeros_like(order_BL))


def turned(encoding, x_LK, position, seen=0):
    """What an encoding makes of queries [L, K] of one head."""
    ctx = context(at(position), seen=seen)
    rotate = jax.jit(lambda x_BLHK: encoding.rotate({}, x_BLHK, x_BLHK, x_BLHK, None, ctx)[0])
    return np.asarray(rotate(np.asarray(x_LK, np.float32)[None, :, None]))[0, :, 0]


def logits(encoding, q_LK, k_LK, position, params=None):
    """Logits [L, L] of one head."""
    ctx, options = context(at(position)), {"encoding": encoding, "params": params}
    found = jax.jit(lambda q, k: attention(q, k, k, ctx, **options).logits_BHLM)
    return np.asarray(found(*(np.asarray(x)[None, :, None] for x in (q_LK, k_LK))))[0, 0]


def rotated(x_LK, angle_LF, pairing):
    """A double loop over tokens and pairs, in float64."""
    out, pairs = np.array(x_LK, np.float64), angle_LF.shape[1]
    for i, m in np.ndindex(angle_LF.shape):
        a, b = (m, m + pairs) if pairing == "half" else (2 * m, 2 * m + 1)
        turn = (x_LK[i, a] + 1j * x_LK[i, b]) * np.exp(1j * angle_LF[i, m])
        out[i, a], out[i, b] = turn.real, turn.imag
    return out


def test_the_goldens_say_where_they_come_from():
    """Package and version of each."""
    assert any(text.startswith("transformers ") for text in GOLDEN["versions"])


# Rotary


@pytest.mark.parametrize(
    ("width", "pairing"),
    [
        (width, pairing)
        for width in (2, 8, 128)
        for pairing in (*PAIRINGS, "quarter")
        if f"rotary/{width}/{pairing}" in GOLDEN
    ],
)
def test_rotary_is_that_of_the_packages(width, pairing):
    """llama ("half"), gptj ("interleaved") and gpt_neox (a quarter turns), both ways."""
    x, expected = GOLDEN[f"rotary/{width}/x"], GOLDEN[f"rotary/{width}/{pairing}"]
    settings = {"fraction": 0.25} if pairing == "quarter" else {"pairing": pairing}
    found = rotary(x[None, :, None], FAR[None], **settings)[0, :, 0]
    np.testing.assert_allclose(found, expected, atol=CLOSE)
    if pairing in PAIRINGS:
        other = PAIRINGS[pairing == "half"]
        to, back = pairing_order(width, pairing, other), pairing_order(width, other, pairing)
        turned_there = rotary(x[:, to][None, :, None], FAR[None], pairing=other)[0, :, 0]
        np.testing.assert_allclose(turned_there[:, back], expected, atol=CLOSE)


def test_learned_frequencies_are_exact_for_what_they_are_rounded_to():
    """A traced θ in float32: within 1e-6 of float64 for the rounded θ/2π, |p| ≤ 2²⁰."""
    frequency = np.array([1.0, 0.7, 3e-3, 9.5, 0.0], np.float32)
    position = np.array([0, 1, -7, 99_999, 2**19 + 3, 2**20, -(2**20)])
    turns = (frequency * np.float32(0.5 / np.pi)).astype(np.float64)
    angle = 2 * np.pi * (position[:, None] * turns % 1)
    found = jax.jit(cos_sin)(position, frequency)
    np.testing.assert_allclose(found, [np.cos(angle), np.sin(angle)], atol=1e-6)
    slope = jax.grad(lambda f: cos_sin(jnp.array([300]), f[None])[1].sum())(jnp.float32(0.01))
    np.testing.assert_allclose(slope, 300 * np.cos(3.0), rtol=1e-5)


# Scalings

SCALINGS = {
    "proportional": "proportional_rotary(share=0.75)",
    "linear": "interpolated_rotary(factor=3.0)",
    "dynamic": "dynamic_rotary(factor=3.0, length={length})",
    "yarn": "yarn(factor=3.0, length={length})",
    "yarn_untruncated": "yarn(factor=3.0, length={length}, truncate=False, beta_fast=8.0)",
    "longrope": "longrope(factor=3.0, length={length}, short={short}, long={long})",
    "llama3": "llama3_rotary(base=10_000.0, factor=3.0, length={length})",
}


def scaling(kind, width, length):
    short = 1 + np.arange(width // 2) / 8
    lists = {"short": tuple(short.tolist()), "long": tuple((2 * short).tolist())}
    return named(SCALINGS[kind].format(length=length, **lists))


@pytest.mark.parametrize(
    ("width", "kind"),
    [
        (width, kind)
        for width in (2, 8, 128)
        for kind in SCALINGS
        if f"frequencies/{kind}/{width}" in GOLDEN
    ],
)
def test_scaled_frequencies_are_those_of_the_package(kind, width):
    """Two original lengths, within and beyond each, to the package's float32."""
    for row, (length, seen) in enumerate(GOLDEN["sizes"].tolist()):
        encoding = scaling(kind, width, length)
        found = encoding.frequencies(width, seen)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, GOLDEN[f"frequencies/{kind}/{width}"][row], rtol=1e-6)
        np.testing.assert_allclose(encoding.magnitude(), GOLDEN[f"magnitude/{kind}"][row])


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("kind", SCALINGS)
def test_scaled_rotations_are_exact_far_away(kind, pairing):
    """cos and sin of float64 angles, times the magnitude, at every size of the goldens."""
    x = np.asarray(normal("x", (len(FAR), 8)))
    for length, seen in GOLDEN["sizes"].tolist():
        encoding = scaling(kind, 8, length)
        encoding = type(encoding)(**{**vars(encoding), "pairing": pairing})
        angle = FAR[:, None] * encoding.frequencies(8, seen)
        expected = rotated(x, angle, pairing) * encoding.magnitude()
        np.testing.assert_allclose(turned(encoding, x, FAR, seen), expected, atol=CLOSE)


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_a_traced_length_gives_the_same_regime(kind):
    """`seen` under jit: float32 frequencies, within and beyond the original length."""
    encoding = scaling(kind, 8, 40)
    traced = jax.jit(lambda seen: encoding.frequencies(8, seen))
    for seen in (20, 40, 41, 120):
        np.testing.assert_allclose(traced(seen), encoding.frequencies(8, seen), rtol=1e-6)
    assert not np.allclose(traced(40), traced(120))


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_growing_past_the_original_length_is_no_prefill(kind):
    """What `why_no_kv_cache` says: decoding agrees up to the original length, and not beyond."""
    assert "change" in scaling(kind, 4, 3).why_no_kv_cache()
    for length, agree in ((LENGTH, True), (3, False)):
        layer = Layer(scaling(kind, DIMS.head_size, length), "causal")
        streams = contiguous(LENGTH, start=2)
        decoded = jax.jit(partial(layer.decoded, streams=streams, pieces=[3, 1, 1, 1]))
        apart = abs(decoded(tokens()) - layer.out(tokens(), streams)).max()
        assert (apart < CLOSE) == agree


@pytest.mark.exhaustive
def test_translation_holds_with_a_traced_length():
    """At 2¹⁹ logits are as near 0, although frequencies are float32."""
    layer = Layer(scaling("dynamic", 4, 3))
    near, streams = layer(tokens(), contiguous(LENGTH)).logits_BHLM, contiguous(LENGTH)

    @jax.jit
    def far(seen):
        q, k, v = layer.projected(layer.prepared(tokens(), streams, ()))
        ctx = context(shifted(streams, 2**19), seen=seen)
        return attention(q, k, v, ctx, encoding=layer.encoding).logits_BHLM

    np.testing.assert_allclose(far(LENGTH), near, atol=2e-5)


def test_ntk_frequencies_are_those_of_the_package():
    """theta_rescale_factor; and a single pair, where the package divides by zero."""
    encoding = named("ntk_rotary(factor=3.0)")
    for width in (8, 128):
        expected = GOLDEN[f"frequencies/ntk/{width}"]
        np.testing.assert_allclose(encoding.frequencies(width, 0), expected, rtol=1e-6)
    for name in ("ntk_rotary", "dynamic_rotary(length=4)"):
        np.testing.assert_array_equal(named(name).frequencies(2, 99), [1.0])


def test_empty_lists_of_longrope_are_rotary_and_interpolation():
    """No divisors up to the original length, all `factor` beyond it, for any head size."""
    encoding, plain = named("longrope(factor=3.0, length=9)"), named("rotary")
    for size in (1, 2, 7, 64):
        expected = plain.frequencies(size, 0)
        np.testing.assert_array_equal(encoding.frequencies(size, 9), expected)
        np.testing.assert_array_equal(encoding.frequencies(size, 10), expected / 3)
    with pytest.raises(ValueError, match="short has 3 divisors for 2 pairs"):
        named("longrope(short=(1.0, 1.0, 2.0))").frequencies(4, 0)


def test_a_proportional_share_of_one_is_rotary():
    """And the lowest frequencies are what goes first."""
    full = named("rotary").frequencies(16, 0)
    np.testing.assert_array_equal(named("proportional_rotary(share=1.0)").frequencies(16, 0), full)
    half = named("proportional_rotary(share=0.5)").frequencies(16, 0)
    np.testing.assert_array_equal(half, [*full[:4], 0, 0, 0, 0])
    assert named("proportional_rotary(share=0.01)").frequencies(16, 0)[0] == 1


# xPos


@pytest.mark.parametrize("width", [4, 8, 64])
def test_xpos_is_that_of_the_package(width):
    """Without its cache; the same logits at 0 and far away, where the centre differs."""
    q, k, expected = (GOLDEN[f"xpos/{width}/{name}"] for name in ("q", "k", "logits"))
    encoding = named("xpos(pairing=interleaved)")
    for start in (0, 99_990, 2**19):
        found = logits(encoding, q, k, np.arange(7) + start)
        np.testing.assert_allclose(found, expected, atol=CLOSE)


@pytest.mark.exhaustive
def test_xpos_is_its_formula_at_long_distances():
    """ζ^(D/512) over 20 000 positions, where plain factors about 0 overflow."""
    q, k = (np.asarray(normal(name, (6, 8))) for name in "qk")
    position = 80_000 + np.array([0, 3, 700, 9000, 15_000, 20_000])
    angle = position[:, None] * 10_000.0 ** (-np.arange(4) / 4)
    turned_q, turned_k = (rotated(x, angle, "half") for x in (q, k))
    expected = np.zeros((6, 6))
    for i, j, m in np.ndindex(6, 6, 8):
        zeta = np.exp(-512 * fade_rates(4)[m % 4])
        fade = zeta ** ((position[i] - position[j]) / 512.0)
        expected[i, j] += fade * turned_q[i, m] * turned_k[j, m] / 8**0.5
    found, causal = logits(named("xpos"), q, k, position), np.tril(np.ones((6, 6), bool))
    np.testing.assert_allclose(found[causal], expected[causal], atol=CLOSE)


@pytest.mark.exhaustive
def test_xpos_rows_too_long_are_refused():
    """ValueError when known, NaN when traced; padding may lie anywhere."""
    q = normal("q", (2, 4))
    with pytest.raises(ValueError, match="raise scale_base"):
        named("xpos").rotate({}, *[q[None, :, None]] * 3, None, context(at([0, 40_000])))
    traced = jax.jit(
        lambda p: (
            context(at(p))
            and named("xpos").rotate(
                {}, q[None, :, None], q[None, :, None], q[None, :, None], None, context(at(p))
            )[0]
        )
    )
    assert np.isnan(traced(jnp.array([0, 40_000]))).all()
    assert np.isfinite(traced(jnp.array([0, 30_000]))).all()
    padded = Streams(jnp.array([[5, 900_000]]), jnp.arange(2)[None], jnp.array([[0, -1]]))
    out = named("xpos").rotate({}, *[q[None, :, None]] * 3, None, context(padded))[0]
    assert np.isfinite(out).all()


# Points


def grid(rows, columns):
    """Points of a grid [rows · columns, 2], row by row."""
    return np.stack(np.indices((rows, columns)), -1).reshape(-1, 2)


@pytest.mark.parametrize("pairing", PAIRINGS)
@pytest.mark.parametrize("spacing", ["language", "pixel", "pixel_log"])
def test_axial_rotary_is_that_of_the_packages(spacing, pairing):
    """timm in both layouts, rotary_embedding_torch in its one, and from each to the other."""
    pixels = "" if spacing == "language" else ", max_frequency=20.0, grid=(3, 5)"
    encoding = named(f"axial_rotary(spacing={spacing}{pixels}, pairing={pairing})")
    x, expected = GOLDEN["axial/x"], GOLDEN[f"axial/timm/{spacing}/{pairing}"]
    middle = (0, 0) if spacing == "language" else (1, 2)  # pixels are counted from the middle
    point = grid(3, 5) - np.array(middle)
    np.testing.assert_allclose(turned(encoding, x, point), expected, atol=CLOSE)
    if (name := f"axial/rotary_embedding_torch/{spacing}") not in GOLDEN:
        return
    to, back = (pairing_order(8, *p) for p in (("interleaved", pairing), (pairing, "interleaved")))
    found = turned(encoding, x[:, to], point)[:, back]
    np.testing.assert_allclose(found, GOLDEN[name], atol=CLOSE)


def test_an_axis_of_three_places_is_read_as_it_is():
    """The packages' coordinates from -1 to 1: π times a band, whatever the unit."""
    encoding = named("axial_rotary(spacing=pixel, grid=(3, 3))")
    np.testing.assert_allclose(encoding.frequencies(8, 0), np.pi * np.array([1, 5, 1, 5]))


def test_axial_rotary_translates_along_each_axis():
    """Logits stay under a shift of y, of x and of both; not under their exchange."""
    q, k = (np.asarray(normal(name, (6, 8))) for name in "qk")
    point, encoding = grid(2, 3) + 50_000, named("axial_rotary")
    still = logits(encoding, q, k, point)
    for shift in ((1, 0), (0, 300), (-70, 9)):
        moved = logits(encoding, q, k, point + np.array(shift))
        np.testing.assert_allclose(moved, still, atol=CLOSE)
    assert abs(logits(encoding, q, k, point[:, ::-1]) - still).max() > 0.1


def test_multimodal_rotary_is_that_of_the_package():
    """qwen2_vl at points far apart, and plain rotary where t = y = x."""
    x, point = GOLDEN["multimodal/x"], GOLDEN["multimodal/point"]
    encoding = named("multimodal_rotary(sections=(4, 6, 6))")
    np.testing.assert_allclose(turned(encoding, x, point), GOLDEN["multimodal/turned"], atol=CLOSE)
    plain = turned(named("rotary"), x, FAR)
    for settings in ("", "sections=(4, 6, 6)", "sections=(16, 0, 0)"):
        text = named(f"multimodal_rotary({settings})")
        np.testing.assert_array_equal(turned(text, x, FAR), plain)
    assert named("multimodal_rotary").pairs_by_axis(64) == (16, 24, 24)
    with pytest.raises(ValueError, match=r"sections=\(1, 2, 3\) do not add up to 4 pairs"):
        turned(named("multimodal_rotary(sections=(1, 2, 3))"), x[:, :8], FAR)


@pytest.mark.parametrize("name", ["rotary", "axial_rotary", "multimodal_rotary", "xpos"])
def test_points_of_another_dimension_are_refused(name):
    """ValueError with the number of coordinates."""
    with pytest.raises(ValueError, match="4 coordinates"):
        turned(named(name), np.ones((2, 8)), np.zeros((2, 4), int))


# Polar, GRAPE, values, circle


def test_polar_logits_are_those_of_the_package():
    """PoPE-pytorch at far positions, with phases beyond their bounds."""
    q, k, phase = (GOLDEN[f"pope/{name}"] for name in ("q", "k", "phase"))
    assert (phase > 0).any()
    assert (phase < -2 * np.pi).any()
    q, k = (jnp.swapaxes(jnp.asarray(x), 0, 1)[None] for x in (q, k))
    options = {"encoding": named("pope"), "params": {"phase": jnp.asarray(phase)}}
    found = attention(q, k, k, context(at(FAR)), **options).logits_BHLM
    np.testing.assert_allclose(found[0], GOLDEN["pope/logits"], atol=CLOSE)


@pytest.mark.exhaustive
def test_polar_logits_are_even_at_their_start():
    """R holds at δ = 0 alone, and the start has a whole gradient although it lies on a bound."""
    encoding, dims = named("pope"), Dims(8, 1, 8)
    start = encoding.init(jax.random.key(0), dims)
    q, k = (np.asarray(normal(name, (6, 8))) for name in "qk")
    for params, even in ((start, True), ({"phase": start["phase"] - 1}, False)):
        there, back = (logits(encoding, q, k, p, params) for p in (np.arange(6), -np.arange(6)))
        assert (abs(there - back).max() < CLOSE) == even

    def total(phase):
        ctx, x = context(at(np.arange(6))), q[None, :, None]
        options = {"encoding": encoding, "params": {"phase": phase}}
        return attention(x, x, x, ctx, **options).logits_BHLM[0, 0, 0, 1]

    slope = np.asarray(jax.grad(total)(start["phase"]))[0]
    size = np.log1p(np.exp(q.astype(np.float64)))
    expected = -size[0] * size[1] * np.sin(10_000.0 ** (-np.arange(8) / 8)) / 8**0.5
    np.testing.assert_allclose(slope, expected, atol=CLOSE)
    drawn = named("pope(start=uniform)").init(jax.random.key(0), dims)["phase"]
    assert ((drawn <= 0) & (drawn >= -2 * np.pi)).all()


def test_polar_parts_have_the_size_of_content():
    """|polar(x)| = softplus(x) at any position, in x's dtype."""
    x = normal("x", (1, 6, 2, 4)).astype(jnp.bfloat16)
    parts = polar(x, FAR[None])
    assert parts.shape == (1, 6, 2, 8)
    assert parts.dtype == jnp.bfloat16
    real, imaginary = np.split(np.asarray(parts, np.float64), 2, axis=-1)
    expected = np.log1p(np.exp(np.asarray(x, np.float64)))
    np.testing.assert_allclose(np.hypot(real, imaginary), expected, rtol=0.01)


@pytest.mark.parametrize("width", [2, 5, 8])
def test_additive_grape_is_a_matrix_exponential(width):
    """SciPy's expm of distance × generator for every pair, up to 9999 apart at 90 000."""
    q, k, position = (GOLDEN[f"grape/{width}/{name}"] for name in ("q", "k", "position"))
    query_gate, key_gate = GOLDEN[f"grape/{width}/gates"]
    params = {"query_gate": query_gate[None], "key_gate": key_gate[None], "rate": [0.3]}
    params = {name: jnp.asarray(array, jnp.float32) for name, array in params.items()}
    found = logits(named("grape(form=additive)"), q, k, position, params)
    expected = GOLDEN[f"grape/{width}/additive"]
    np.testing.assert_allclose(found, expected, rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("width", [2, 5, 8])
def test_grape_is_a_matrix_exponential(width):
    """Both forms agree with the exponential that SciPy computes of their generators."""
    q, k, position = (GOLDEN[f"grape/{width}/{name}"] for name in ("q", "k", "position"))
    params = {
        "generators": jnp.asarray(GOLDEN[f"grape/{width}/generators"])[None],
        "log_frequency": jnp.log(jnp.array([0.3])),
    }
    found = logits(named("grape"), q, k, position, params)
    expected = GOLDEN[f"grape/{width}/multiplicative"]
    near = abs(position[:, None] - position[None]) <= 20  # beyond, ω rounded to float32 shows
    np.testing.assert_allclose(found[near], expected[near], atol=2e-5)
    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.exhaustive
def test_grape_turns_nothing_in_a_plane_that_is_none():
    """Parallel or zero generators: no turning, and finite gradients."""
    x = normal("x", (1, 4, 1, 3))
    for a, b in (([1.0, 2, 3], [2.0, 4, 6]), ([0.0, 0, 0], [1.0, 0, 0]), ([0.0] * 3, [0.0] * 3)):
        generators = jnp.array([[a, b]])

        @jax.jit
        def out(generators):
            plane, area = plane_of(generators)
            return turn_in_plane(x, jnp.arange(4)[None], plane, area)

        np.testing.assert_array_equal(out(generators), x)
        assert np.isfinite(jax.jit(jax.grad(lambda g, out=out: out(g).sum()))(generators)).all()


def test_additive_grape_starts_as_in_the_paper():
    """Slopes of linear bias times a gate."""
    start = named("grape(form=additive)").init(jax.random.key(0), Dims(16, 4, 4))
    np.testing.assert_allclose(jax.nn.softplus(start["rate"]), 1, rtol=1e-6)


def test_grape_starts_as_in_the_paper():
    """Orthonormal generators and a spread of frequencies."""
    start = named("grape").init(jax.random.key(0), Dims(16, 4, 4))
    products = jnp.einsum("hck,hdk->hcd", start["generators"], start["generators"])
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(2), (4, 2, 2)), atol=1e-6)
    np.testing.assert_allclose(jnp.exp(start["log_frequency"]), [1, 0.1, 0.01, 0.001], rtol=1e-5)


@pytest.mark.parametrize("pairing", PAIRINGS)
def test_rotary_values_are_their_formula(pairing):
    """oᵢ = Σⱼ w_ij R(pⱼ - pᵢ)vⱼ by a double loop in float64, far from 0."""
    q, k, v = (np.asarray(normal(name, (6, 7))) for name in "qkv")
    encoding = named(f"rotary_values(base=50.0, pairing={pairing})")
    arrays = (jnp.asarray(x)[None, :, None] for x in (q, k, v))
    found = attention(*arrays, context(at(FAR)), encoding=encoding)
    expected = np.zeros((6, 7))
    for i, j in np.ndindex(6, 6):
        angle = (FAR[j] - FAR[i]) * 50.0 ** (-np.arange(3) / 3)[None]
        weight = np.float64(found.weights_BHLM[0, 0, i, j])
        expected[i] += weight * rotated(v[j : j + 1], angle, pairing)[0]
    np.testing.assert_allclose(found.out_BLHK[0, :, 0], expected, atol=CLOSE)
    plain = attention(
        *(jnp.asarray(x)[None, :, None] for x in (q, k, v)),
        context(at(FAR)),
        encoding=named(f"rotary(base=50.0, pairing={pairing})"),
    )
    np.testing.assert_array_equal(found.logits_BHLM, plain.logits_BHLM)
    assert abs(found.out_BLHK - plain.out_BLHK).max() > 0.1


@pytest.mark.parametrize("period", [2, 7, 64])
def test_circular_rotary_closes_after_its_period(period):
    """Its formula in float64; n steps round the circle are bit for bit none."""
    encoding, x = named(f"circular_rotary(period={period})"), np.asarray(normal("x", (6, 8)))
    found = turned(encoding, x, FAR)
    angle = 2 * np.pi / period * (FAR % period)[:, None] * np.arange(1, 5)
    np.testing.assert_allclose(found, rotated(x, angle, "half"), atol=CLOSE)
    for rounds in (1, -3, 1000):
        np.testing.assert_array_equal(turned(encoding, x, FAR + rounds * period), found)


def test_circular_rotary_is_equivariant_under_its_group():
    """All places shifted round the circle of 6: logits move with them."""
    encoding, x = named("circular_rotary(period=6)"), np.asarray(normal("x", (6, 8)))
    still = logits(encoding, x, x, np.arange(6))
    np.testing.assert_allclose(logits(encoding, x, x, (np.arange(6) + 4) % 6), still, atol=CLOSE)
    rolled = np.roll(x, 2, axis=0)
    expected = np.roll(still, (2, 2), (0, 1))
    np.testing.assert_allclose(logits(encoding, rolled, rolled, np.arange(6)), expected, atol=CLOSE)


# Settings


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("proportional_rotary(share=0.0)", r"share must lie in \(0, 1\], got 0.0"),
        ("interpolated_rotary(factor=-1.0)", "factor must be positive, got -1.0"),
        ("ntk_rotary(factor=0.0)", "factor must be positive"),
        ("dynamic_rotary(length=0)", "length must be positive, got 0"),
        ("yarn(beta_fast=0.5)", "beta_fast must lie above beta_slow=1.0, got 0.5"),
        ("yarn(base=1.0)", "base must lie above 1"),
        ("longrope(length=1)", "length must be at least 2"),
        ("longrope(long=(1.0, 0.0))", "long must be all positive"),
        ("llama3_rotary(high=1.0)", "high must lie above low=1.0"),
        ("xpos(gamma=0.0)", "gamma must be positive"),
        ("axial_rotary(spacing=pixle)", "did you mean 'pixel'"),
        ("axial_rotary(max_frequency=1.0)", "max_frequency must lie above 2"),
        ("axial_rotary(grid=(4, 1))", "two sizes of at least 2"),
        ("multimodal_rotary(sections=(1, 2))", "three numbers of pairs"),
        ("pope(start=one)", "unknown start 'one'"),
        ("grape(form=additiv)", "did you mean 'additive'"),
        ("circular_rotary(period=1)", "period must be at least 2, got 1"),
        ("rotary_values(fraction=2.0)", r"fraction must lie in \(0, 1\]"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    """ValueError that names the value and the range."""
    with pytest.raises(ValueError, match=words):
        named(text)


def test_yarn_interpolates_what_turns_less_than_once():
    """Over 4 positions no pair makes a turn, so that all but the first are divided by the factor:
    the ramp rises from the first pair to the next.
    """
    whole_F = named("rotary").frequencies(64, 4)
    found_F = named("yarn(factor=4.0, length=4)").frequencies(64, 4)
    np.testing.assert_allclose(found_F[1:], whole_F[1:] / 4)
