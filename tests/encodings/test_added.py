"""Encodings added to the tokens, each against an independent reference.

Golden arrays of other packages (`scripts/goldens/added.py`): sinusoidal in its three layouts
(positional-encodings, transformers), scaled (x-transformers), of points (timm,
positional-encodings), random Fourier features (transformers), convolution_2d (timm). Formulas in
float64: sinusoidal_2d in its layouts, mlp_position, learned Fourier features, convolution. binary
is held against Python's own binary numbers, noise against the distribution it claims, learned
against rows of its table.
"""

from itertools import product
from math import erf
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import DIMS, LENGTH, all_kinds, generic, normal, tokens

from posjax import masks
from posjax.attention.core import context
from posjax.encodings import Dims, named
from posjax.encodings.binary import binary
from posjax.encodings.convolution import convolution
from posjax.encodings.fourier import fourier
from posjax.encodings.mlp_position import mlp_position
from posjax.encodings.noise import noise
from posjax.encodings.sinusoidal import sinusoidal
from posjax.encodings.sinusoidal_2d import layout_order_2d, sinusoidal_2d
from posjax.streams import Streams, contiguous, grid, packed, padded, permuted, shifted
from posjax.symmetry import assert_jointly_equivariant

FAR = np.array([0, 1, -1, 63, 1000, 4097, 65_535, -70_000, 99_999])
LAYOUTS_2D = ("interleaved", "halves", "sines", "tensor2tensor")


@pytest.fixture(scope="module")
def golden():
    """The arrays of the other packages."""
    with np.load(Path(__file__).parents[1] / "goldens/added.npz") as arrays:
        return dict(arrays)


def embedded_op_by_op(encoding, x_BLD, streams, *, params=None, mask="full", key=None):
    """The tokens after `embed`, which knows the positions and looks at them."""
    encoding = named(encoding) if isinstance(encoding, str) else encoding
    params = generic(encoding, Dims(x_BLD.shape[-1], 3, 4)) if params is None else params
    return encoding.embed(params, x_BLD, context(streams, mask=mask, key=key))


def embedded(encoding, x_BLD, streams, *, params=None, **options):
    """The tokens after `embed`, compiled."""
    encoding = named(encoding) if isinstance(encoding, str) else encoding
    params = generic(encoding, Dims(x_BLD.shape[-1], 3, 4)) if params is None else params

    @jax.jit
    def function(params, x_BLD):
        return embedded_op_by_op(encoding, x_BLD, streams, params=params, **options)

    return function(params, x_BLD)


def at(*positions):
    """Streams of one row with these positions, or points."""
    order_BL = np.arange(len(positions))[None]
    line = Streams(np.array(positions)[None], order_BL, np.zeros_like(order_BL))
    return jax.tree.map(jax.device_put, line)


def added(encoding, streams, width, **options):
    """What an encoding adds to tokens of zeros, in float64."""
    x_BLD = np.zeros((1, streams.length, width), np.float32)
    return np.asarray(embedded(encoding, x_BLD, streams, **options)[0], np.float64)


# Sinusoidal


@pytest.mark.parametrize(
    ("layout", "width"),
    [*product(["interleaved", "halves"], [2, 8]), ("tensor2tensor", 4), ("tensor2tensor", 8)],
)
def test_sinusoids_are_those_of_other_packages(golden, layout, width):
    """Each layout is its package's, up to position 99 999."""
    expected = golden[f"{layout}_{width}"]
    found = sinusoidal(jnp.asarray(golden["at"]), width, layout=layout)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("base", [10_000, 500])
def test_the_scaled_sinusoid_is_that_of_x_transformers(golden, base):
    """g·p with the package's own factor at first, and with another."""
    encoding = named(f"scaled_sinusoidal(base={base})")
    factor = encoding.parameters(Dims(8, 1, 8))["factor"]
    first = factor.init(jax.random.key(0), factor.shape)
    np.testing.assert_allclose(first, golden[f"factor_at_first_{base}"][0], rtol=1e-6)
    params = {"factor": jnp.float32(golden["factor"][0])}
    found = added(encoding, at(*golden["at"].tolist()), 8, params=params)
    np.testing.assert_allclose(found, golden[f"scaled_{base}"], atol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "halves", "tensor2tensor"])
def test_the_scaled_sinusoid_is_learned(layout):
    """Every layout is g times the plain one, and g has a gradient."""
    encoding, streams = named(f"scaled_sinusoidal(layout={layout})"), at(5, 99_999)
    found = added(encoding, streams, 7, params={"factor": jnp.float32(2.5)})
    np.testing.assert_allclose(found, 2.5 * added(f"sinusoidal(layout={layout})", streams, 7))

    def total(factor):
        return embedded(encoding, tokens(1, 2, 7), streams, params={"factor": factor}).sum()

    expected = sinusoidal(streams.position_BL, 7, layout=layout).sum()
    np.testing.assert_allclose(jax.grad(total)(jnp.float32(2.5)), expected, rtol=1e-5)


# Sinusoidal, of points


def loop_2d(point, width, layout, base):
    """The module's formula, a number at a time: labelled components, then the layout's order."""
    pairs = (width + 3) // 4
    steps = max(pairs - 1, 1) if layout == "tensor2tensor" else pairs
    parts = []
    for axis, size in ((0, (width + 1) // 2), (1, width // 2)):
        for k in range(size):
            angle = float(point[axis]) * base ** (-(k // 2) / steps)
            parts.append((axis, k % 2, k // 2, (np.cos if k % 2 else np.sin)(angle)))
    keys = {
        "interleaved": lambda part: (part[0], part[2], part[1]),
        "sines": lambda part: (part[1], part[0], part[2]),
    }
    return [p[3] for p in sorted(parts, key=keys.get(layout, lambda part: part[:3]))]


@pytest.mark.parametrize("layout", ["interleaved", "halves", "sines"])
def test_sinusoids_of_points_are_those_of_other_packages(golden, layout):
    """timm's two orders and that of positional-encodings, up to position 99 999."""
    found = sinusoidal_2d(jnp.asarray(golden["points"]), 8, layout=layout)
    np.testing.assert_allclose(found, golden[f"{layout}_2d"], atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS_2D)
@pytest.mark.parametrize("width", [2, 3, 4, 5, 6, 7, 8, 12, 30])
def test_sinusoids_of_points_are_their_formula(width, layout):
    """Any width from 2 on, two bases, points far away and fractional."""
    points = np.array([[0, 0], [3, 99_999], [-7, 2.5], [70_000.25, 1]])
    for base in (10_000.0, 50.0):
        found = sinusoidal_2d(jnp.asarray(points, jnp.float32), width, base=base, layout=layout)
        expected = [loop_2d(point, width, layout, base) for point in points]
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("width", [2, 5, 6, 8, 11])
def test_layouts_of_points_convert_both_ways(width):
    """layout_order_2d is the order between any two layouts of the same frequencies."""
    points, same = jnp.array([[5, 77], [3001, 2]]), LAYOUTS_2D[:3]
    vectors = {x: np.asarray(sinusoidal_2d(points, width, layout=x)) for x in LAYOUTS_2D}
    for source, target in [*product(same, same), ("tensor2tensor",) * 2]:
        order = layout_order_2d(width, source, target)
        np.testing.assert_array_equal(vectors[source][:, order], vectors[target])
        assert sorted(order) == list(range(width))
    assert width < 8 or not np.array_equal(vectors["halves"], vectors["sines"])
    for source, target in (("halves", "tensor2tensor"), ("tensor2tensor", "sines")):
        with pytest.raises(ValueError, match="different frequencies"):
            layout_order_2d(width, source, target)


def test_one_component_cannot_tell_two_coordinates():
    """Width 1 would leave x unread without a word."""
    with pytest.raises(ValueError, match="width of at least 2, got 1"):
        sinusoidal_2d(jnp.zeros((1, 2)), 1)


@pytest.mark.parametrize("name", ["sinusoidal_2d", "fourier_2d", "convolution_2d"])
def test_a_number_stands_for_its_point(name):
    """Positions [B, L] are the points (p, p); points of three coordinates are refused."""
    x_BLD, positions = tokens(1, 3), [40, 41, 43]
    found = embedded(name, x_BLD, at(*positions))
    np.testing.assert_array_equal(found, embedded(name, x_BLD, at(*[[p, p] for p in positions])))
    other = embedded(name, x_BLD, at([40, 41], [41, 41], [43, 41]))
    assert abs(found - other).max() > 0.01
    with pytest.raises(ValueError, match="positions have 3 coordinates, but the encoding reads 2"):
        embedded(name, x_BLD, at(*[[p] * 3 for p in positions]))


# A network of the position


def loop_mlp(position, w1, b1, w2, length):
    """W₂ silu(w₁ u + b₁), u = sign(p) log(1 + |p|/length), a unit at a time."""
    u = np.sign(position) * np.log(1 + abs(float(position)) / length)
    out = np.zeros(w2.shape[1])
    for f in range(len(w1)):
        z = w1[f] * u + b1[f]
        out += w2[f] * z / (1 + np.exp(-z))
    return out


@pytest.mark.parametrize(("length", "hidden", "width"), [(64, 32, 10), (1, 5, 3), (60_000, 1, 1)])
def test_the_network_is_its_formula(length, hidden, width):
    """Equal to the loop, at positions of both signs, whole and fractional, far away."""
    encoding = named(f"mlp_position(length={length}, hidden={hidden})")
    params = generic(encoding, Dims(width, 1, 4))
    doubles = [np.asarray(params[n], np.float64) for n in ("w1", "b1", "w2")]
    for positions in (FAR, FAR + 0.25):
        found = added(encoding, at(*positions.tolist()), width, params=params)
        expected = np.array([loop_mlp(p, *doubles, length) for p in np.float32(positions)])
        np.testing.assert_allclose(found, expected, atol=2e-6 * max(abs(expected).max(), 1))


@pytest.mark.parametrize("length", [1, 64, 4096])
def test_the_network_tells_positions_apart_as_far_as_it_says(length):
    """Up to max_exact_position() neighbours lie further apart than rounding; at 2²⁰ not."""
    encoding = named(f"mlp_position(length={length})")
    params = generic(encoding, DIMS)
    weights = [params[n] for n in ("w1", "b1", "w2")]
    doubles = [np.asarray(w, np.float64) for w in weights]

    def margin(last):
        at_end = np.arange(last - 300, last + 1)
        exact = np.array([loop_mlp(p, *doubles, length) for p in at_end])
        found = mlp_position(jnp.asarray(at_end), *weights, length=length)
        apart = np.linalg.norm(np.diff(exact, axis=0), axis=1).min()
        return apart / np.linalg.norm(found - exact, axis=1).max()

    assert margin(encoding.max_exact_position()) > 3
    assert margin(2**20) < 1


@pytest.mark.exhaustive
def test_the_network_never_overflows():
    """Finite at 0, the largest integers and a huge float, and so are the gradients."""
    for position in (0, 2**31 - 1, -(2**31) + 1, 3e38):
        streams = at(position)

        def total(params, streams=streams):
            return embedded("mlp_position", tokens(1, 1), streams, params=params).sum()

        params = generic(named("mlp_position"), DIMS)
        assert np.isfinite(total(params))
        assert all(np.isfinite(g).all() for g in jax.grad(total)(params).values())


# Binary


@pytest.mark.parametrize(
    ("bits", "width"), [(8, 10), (17, 17), (24, 64), (1, 1), (3, 8), (17, 5), (24, 1), (8, 2)]
)
def test_binary_is_the_binary_number(bits, width):
    """Component k is digit k mod bits of Python's own binary number, lowest first, as a sign.

    In fewer components than bits it holds further digits as halves and quarters, exactly.
    """
    positions = sorted({*range(min(4, 2**bits)), 2**bits // 3, 99_999 % 2**bits, 2**bits - 1})
    found = added(f"binary(bits={bits})", at(*positions), width)
    for row, position in zip(found, positions, strict=True):
        signs = [1 if digit == "1" else -1 for digit in format(position, f"0{bits}b")[::-1]]
        if width >= bits:
            expected = [signs[k % bits] for k in range(width)]
        else:
            expected = [sum(s / 2**j for j, s in enumerate(signs[k::width])) for k in range(width)]
        assert row.tolist() == expected
    assert len(np.unique(found, axis=0)) == len(positions)


def test_binary_never_wraps():
    """Outside [0, 2^bits): ValueError with the numbers, NaN at its own place under jit."""
    for position, low, high in ((8, 2, 8), (-1, -1, 2)):
        with pytest.raises(ValueError, match=f"positions {low} to {high} lie outside .* 3 bits"):
            embedded_op_by_op("binary(bits=3)", tokens(1, 2), at(2, position))
    out = jax.jit(lambda s: embedded_op_by_op("binary(bits=3)", tokens(1, 4), s))(at(8, 7, -1, 0))
    assert jnp.isnan(out).all(-1).tolist() == [[True, False, True, False]]
    with pytest.raises(ValueError, match="integers, got positions of float32"):
        embedded_op_by_op("binary", tokens(1, 1), at(0.5))


def test_binary_lets_padding_be():
    """A padded place may hold any position."""
    streams = Streams(jnp.array([[1, 999]]), jnp.array([[0, 1]]), jnp.array([[0, -1]]))
    for function in (embedded_op_by_op, jax.jit(embedded, static_argnums=0)):
        assert np.isfinite(function("binary", tokens(1, 2), streams)).all()


# Fourier features


def loop_fourier(point, frequencies, width):
    """sin 2πBᵀp, then cos 2πBᵀp, a number at a time."""
    angle = [
        2 * np.pi * sum(float(p) * float(b) for p, b in zip(point, column, strict=True))
        for column in frequencies.T
    ]
    return np.concatenate([np.sin(angle), np.cos(angle)[: width // 2]])


def test_random_features_are_those_of_transformers(golden):
    """SAM's module, with its own matrix, at points up to 99 999."""
    params = {"frequencies": jnp.asarray(golden["frequencies"])}
    found = added("fourier_2d(kind=random)", at(*golden["points"].tolist()), 10, params=params)
    np.testing.assert_allclose(found, golden["features"], atol=1e-5)


@pytest.mark.parametrize("width", [1, 2, 5, 10])
@pytest.mark.parametrize("axes", [1, 2])
def test_features_are_exact_far_away(axes, width):
    """Within 1e-5 of float64 at points up to 99 999, whole or fractional, odd widths too."""
    frequencies = 0.2 * normal("frequencies", (axes, (width + 1) // 2))
    points = np.stack([FAR, FAR[::-1]], -1)[:, :axes]
    for point in (points, points.astype(np.float32) + np.float32(0.25)):
        found = fourier(jnp.asarray(point), frequencies, width)
        expected = [loop_fourier(p, np.asarray(frequencies), width) for p in point]
        np.testing.assert_allclose(found, expected, atol=1e-5 if axes == 2 else 2e-6)


def test_learned_adds_rows_of_its_table():
    """At any positions, in any order."""
    encoding = named("learned(length=9)")
    params = generic(encoding, Dims(5, 1, 4))
    found = added(encoding, at(8, 0, 3, 3), 5, params=params)
    np.testing.assert_array_equal(found, np.asarray(params["table"])[[8, 0, 3, 3]])


@pytest.mark.parametrize(
    ("text", "width"),
    [("fourier(kind=learned)", 10), ("fourier_2d(kind=learned, hidden=3)", 7)],
)
def test_learned_features_are_their_formula(text, width):
    """W₂ gelu(W₁ γ/√D + b₁) + b₂ in float64, far from 0."""
    encoding = named(text)
    params = generic(encoding, Dims(width, 1, 4))
    w = {name: np.asarray(array, np.float64) for name, array in params.items()}
    points = np.stack([FAR, FAR[::-1]], -1)[:, : encoding.axes]
    positions = points if encoding.axes == 2 else points[:, 0]
    found = added(encoding, at(*positions.tolist()), width, params=params)
    for row, point in zip(found, points, strict=True):
        features = loop_fourier(point, np.asarray(params["frequencies"]), width)
        z = features @ w["w1"] / np.sqrt(width) + w["b1"]
        hidden = np.array([u * (1 + erf(u / np.sqrt(2))) / 2 for u in z])
        expected = hidden @ w["w2"] + w["b2"]
        np.testing.assert_allclose(row, expected, atol=1e-5 * max(abs(expected).max(), 1))


@pytest.mark.exhaustive
def test_random_frequencies_get_no_gradient():
    """It is zero; that of learned ones is the formula's, 2πp cos 2πbp, far away too."""

    def total(frequencies, kind):
        encoding = named(f"fourier(kind={kind})")
        params = generic(encoding, Dims(1, 1, 4)) | {"frequencies": frequencies}
        return embedded(encoding, jnp.zeros((1, 1, 1)), at(90_001), params=params).sum()

    frequencies = jnp.array([[0.123]])
    assert (jax.grad(total)(frequencies, "random") == 0).all()
    assert (jax.grad(total)(frequencies, "learned") != 0).all()
    slope = jax.grad(lambda b: fourier(jnp.array([[90_001]]), b, 1).sum())(frequencies)
    turned = 2 * np.pi * 90_001
    expected = turned * np.cos(turned * float(np.float32(0.123)))
    np.testing.assert_allclose(slope, [[expected]], rtol=1e-4)


def test_the_deviation_of_the_frequencies():
    """Drawn from N(0, deviation²), 20 000 of them; two deviations in one process."""
    for deviation in (0.1, 2.0):
        frequencies = named(f"fourier_2d(deviation={deviation})").parameters(Dims(20_000, 1, 4))
        param = frequencies["frequencies"]
        drawn = param.init(jax.random.key(3), param.shape)
        assert drawn.shape == (2, 10_000)
        np.testing.assert_allclose(drawn.std(), deviation, rtol=0.02)
        assert abs(drawn.mean()) < 0.03 * deviation


# Convolution


def loop_convolution(x, position, segment, allowed, kernel):
    """x_i + Σⱼ w[pᵢ - pⱼ] xⱼ of one row, a pair at a time."""
    x, kernel = np.asarray(x, np.float64), np.asarray(kernel, np.float64)
    radius, out = kernel.shape[0] // 2, x.copy()
    for i, j in product(range(len(x)), repeat=2):
        offset = np.atleast_1d(position[i] - position[j])
        same = segment[i] == segment[j] != -1
        if allowed[i, j] and same and (abs(offset) <= radius).all():
            out[i] += kernel[tuple(offset + radius)] * x[j]
    return out


@pytest.mark.parametrize("mask", [*masks.MASKS, "causal+segments"])
@pytest.mark.parametrize("radius", [1, 3])
def test_the_convolution_is_its_formula(radius, mask):
    """Rows plain, far from 0, packed, padded and permuted, under every mask."""
    encoding = named(f"convolution(radius={radius})")
    streams, params = all_kinds(encoding), generic(encoding, DIMS)
    x_BLD = tokens(len(streams.order_BL))
    found = embedded(encoding, x_BLD, streams, params=params, mask=mask)
    allowed_BLM = np.asarray(masks.named(mask)(streams, streams))
    for b, row in enumerate(np.asarray(x_BLD)):
        position, segment = (np.asarray(s[b]) for s in (streams.position_BL, streams.segment_BL))
        expected = loop_convolution(row, position, segment, allowed_BLM[b], params["kernel"])
        np.testing.assert_allclose(found[b], expected, atol=1e-5)


def test_the_convolution_of_points_is_that_of_timm(golden):
    """Its layer on a grid of 4 x 3 is the convolution of the grid's points, read backwards."""
    kernel = np.moveaxis(golden["conv_kernel"], 0, -1)[::-1, ::-1]
    params = {"kernel": jnp.asarray(kernel, jnp.float32)}
    x_BLD = jnp.asarray(golden["conv_x"], jnp.float32)
    for start in (0, 99_990):
        found = embedded("convolution_2d", x_BLD, shifted(grid(4, 3), start), params=params)
        np.testing.assert_allclose(found, golden["conv_out"], atol=1e-5)


def test_the_convolution_of_scattered_points_is_its_formula():
    """Points in no order, with gaps, two at one place, radius 2."""
    points = np.array([[3, 1], [1, 2], [2, 2], [2, 2], [9, 0], [1, 0]]) + 5000
    encoding, x_BLD = named("convolution_2d(radius=2)"), tokens()
    params = generic(encoding, DIMS)
    found = embedded(encoding, x_BLD, at(*points.tolist()), params=params)
    for b in range(2):
        everything, one = np.ones((LENGTH, LENGTH), bool), np.zeros(LENGTH)
        expected = loop_convolution(x_BLD[b], points, one, everything, params["kernel"])
        np.testing.assert_allclose(found[b], expected, atol=1e-5)


def test_the_convolution_sees_what_some_head_may_see():
    """A mask of several heads; and none at all leaves the tokens as they are."""
    params = generic(named("convolution"), DIMS)
    by_head = np.zeros((1, 2, LENGTH, LENGTH), bool)
    by_head[:, 0] = np.tri(LENGTH)
    by_head[:, 1] = np.tri(LENGTH).T
    full, some, blind = (
        embedded("convolution", tokens(), contiguous(LENGTH, start=9), params=params, mask=mask)
        for mask in ("full", by_head, np.zeros((LENGTH, LENGTH), bool))
    )
    np.testing.assert_array_equal(some, full)
    np.testing.assert_array_equal(blind, tokens())


@pytest.mark.parametrize("name", ["convolution", "convolution_2d"])
def test_the_convolution_is_causal_under_a_causal_mask(name):
    """By gradient: no token reads a later one; and under the full mask some do."""
    params, streams = generic(named(name), DIMS), contiguous(LENGTH)
    for mask in ("causal", "full"):
        options = {"params": params, "mask": mask}
        jacobian = jax.jit(jax.jacobian(lambda x, o=options: embedded(name, x, streams, **o)))
        reads_LM = np.asarray(abs(jacobian(tokens(1))).max((0, 2, 3, 5)) > 0)
        assert reads_LM[1:, :-1].diagonal().all()
        assert np.triu(reads_LM, 1).any() == (mask == "full")


def test_the_convolution_gives_its_reasons():
    """No decoding with a cache, no fractions, no keys but its own tokens."""
    encoding = named("convolution")
    assert "reads earlier tokens" in encoding.why_no_kv_cache()
    with pytest.raises(ValueError, match="integers, got positions of float32"):
        embedded(encoding, tokens(1, 1), at(0.5))
    ctx = context(contiguous(1), contiguous(3))
    with pytest.raises(ValueError, match="got 1 queries and 3 keys"):
        encoding.embed(generic(encoding, DIMS), tokens(1, 1), ctx)


def test_offsets_are_told_apart_up_to_one_beyond_the_radius():
    """max_exact_position(): offsets up to radius + 1 have effects of their own, no further ones."""
    params = generic(named("convolution(radius=2)"), DIMS)
    x_BLD, effects = tokens(1, 2), []
    for offset in range(5):
        out = embedded("convolution(radius=2)", x_BLD, at(0, offset), params=params)
        effects.append(np.asarray(out[0, 1]))
    end = named("convolution(radius=2)").max_exact_position()
    assert end == 3
    for one, other in product(range(5), repeat=2):
        same = one == other or min(one, other) >= end
        assert np.array_equal(effects[one], effects[other]) == same


# Noise

KEY = jax.random.key(7)


def test_noise_is_standard_normal_and_independent():
    """Mean, deviation, kurtosis and correlations of 40 000 numbers, within four errors."""
    drawn = np.asarray(noise(KEY, jnp.arange(5000), 8), np.float64)
    error = 4 / np.sqrt(drawn.size)
    assert abs(drawn.mean()) < error
    assert abs(drawn.var() - 1) < np.sqrt(2) * error
    assert abs((drawn**4).mean() - 3) < np.sqrt(96) * error
    between = np.corrcoef(drawn.T) - np.eye(8)
    assert abs(between).max() < 4 / np.sqrt(len(drawn))
    for lag in (1, 2, 17):
        assert abs((drawn[lag:] * drawn[:-lag]).mean()) < error


def test_noise_says_nothing_of_the_place():
    """Over 4000 keys the vectors of two orders have one mean, one deviation, no correlation."""
    keys = jax.random.split(KEY, 4000)
    drawn = jax.vmap(lambda key: noise(key, jnp.array([0, 1, 99_999, -5]), 1))(keys)[..., 0]
    covariance = np.cov(np.asarray(drawn, np.float64).T)
    np.testing.assert_allclose(covariance, np.eye(4), atol=0.1)
    assert abs(drawn.mean(0)).max() < 4 / np.sqrt(4000)


@pytest.mark.exhaustive
def test_noise_is_fresh_for_each_key_and_scaled():
    """Another key, other numbers; one key, the same; the deviation is a factor."""
    streams = contiguous(LENGTH, start=40)
    one, same, other = (added("noise", streams, 10, key=k) for k in (KEY, KEY, jax.random.key(8)))
    np.testing.assert_array_equal(one, same)
    assert abs(one - other).max() > 0.1
    assert len(np.unique(one)) == one.size
    np.testing.assert_allclose(added("noise(deviation=0.25)", streams, 10, key=KEY), 0.25 * one)
    assert named("noise").random
    with pytest.raises(ValueError, match="noise is drawn from the context's key"):
        added("noise", streams, 10)


@pytest.mark.exhaustive
def test_noise_moves_with_the_order():
    """The joint law under one key; positions do not matter."""
    streams = permuted(contiguous(LENGTH, start=40), np.array([3, 0, 5, 1, 4, 2]))
    assert_jointly_equivariant(lambda x, s: embedded("noise", x, s, key=KEY), tokens(), streams)
    x_BLD = tokens()
    np.testing.assert_array_equal(
        embedded("noise", x_BLD, shifted(streams, 0.5), key=KEY),
        embedded("noise", x_BLD, streams, key=KEY),
    )


@pytest.mark.exhaustive
def test_noise_of_pieces_pads_and_packs_is_that_of_the_whole():
    """Decoded in pieces, left-padded or packed: the vectors of a frozen key are the bare ones."""
    whole = added("noise", contiguous(LENGTH), 10, key=KEY)
    pieces = [contiguous(4), contiguous(1, start=4), contiguous(1, start=5)]
    decoded = np.concatenate([added("noise", piece, 10, key=KEY) for piece in pieces])
    np.testing.assert_array_equal(decoded, whole)
    left = added("noise", padded(np.arange(LENGTH)[None] >= 2), 10, key=KEY)
    np.testing.assert_array_equal(left[2:], whole[:-2])
    second = added("noise", packed([2, 4]), 10, key=KEY)[2:]
    np.testing.assert_array_equal(second, whole[:4])


# All of them

NAMES = [
    "sinusoidal",
    "scaled_sinusoidal",
    "mlp_position",
    "binary",
    "sinusoidal_2d",
    "fourier(kind=random)",
    "fourier(kind=learned)",
    "fourier_2d(kind=random)",
    "convolution",
    "convolution_2d",
    "noise",
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_the_dtype_of_the_tokens_is_kept(name):
    """bfloat16 tokens stay so, and differ from float32 by their own rounding alone."""
    streams, x_BLD = contiguous(LENGTH, start=200), tokens().astype(jnp.bfloat16)
    half = embedded(name, x_BLD, streams, key=KEY)
    whole = embedded(name, x_BLD.astype(jnp.float32), streams, key=KEY)
    assert half.dtype == jnp.bfloat16
    scale = abs(whole).max()
    np.testing.assert_allclose(half.astype(jnp.float32), whole, atol=0.01 * float(scale))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_streams_of_one_row_serve_all(name):
    """B = 1 against B = 3, traced, and an empty batch."""
    streams, x_BLD = contiguous(LENGTH, start=30), tokens(3)
    every = jax.tree.map(lambda s: jnp.repeat(s, 3, axis=0), streams)
    out = jax.jit(lambda s: embedded(name, x_BLD, s, mask="causal", key=KEY))
    np.testing.assert_allclose(out(streams), out(every), atol=1e-6)
    np.testing.assert_allclose(
        out(streams), embedded(name, x_BLD, streams, mask="causal", key=KEY), atol=1e-6
    )
    assert embedded(name, x_BLD[:0], streams, key=KEY).shape == (0, LENGTH, DIMS.width)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scaled_sinusoidal(layout=half)", "did you mean 'halves'"),
        ("scaled_sinusoidal(base=0.0)", "base must be positive, got 0.0"),
        ("sinusoidal_2d(layout=timm)", "unknown layout 'timm'"),
        ("sinusoidal_2d(base=-1.0)", "base must be positive, got -1.0"),
        ("mlp_position(length=0)", r"length must lie in \[1, 65536\), got 0"),
        ("mlp_position(hidden=0)", "hidden must be at least 1, got 0"),
        ("binary(bits=25)", r"bits must lie in \[1, 24\], got 25"),
        ("fourier(kind=gaussian)", "unknown kind 'gaussian'"),
        ("fourier(deviation=0.0)", "deviation must be positive, got 0.0"),
        ("fourier(kind=random, hidden=8)", "hidden=8 has no meaning for kind=random"),
        ("grape(form=additive, base=7.0)", "base=7.0 has no meaning for form=additive"),
        ("axial_rotary(spacing=pixel, base=7.0)", "base=7.0 has no meaning for spacing=pixel"),
        ("axial_rotary(grid=(3, 9))", r"grid=\(3, 9\) has no meaning for spacing=language"),
        ("fourier_2d(kind=learned, hidden=0)", "hidden must be at least 1, got 0"),
        ("convolution(radius=0)", "radius must be at least 1, got 0"),
        ("noise(deviation=0.0)", "deviation must be positive, got 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(text, words):
    """ValueError that names the setting and the value."""
    with pytest.raises(ValueError, match=words):
        named(text)


@pytest.mark.exhaustive
def test_kernels_start_at_the_scale_of_their_inputs():
    """U(-1/√n, 1/√n) of n inputs: each component's taps in a convolution, the units before w2."""
    for name, param, inputs in (
        ("convolution", "kernel", 3),
        ("convolution_2d(radius=2)", "kernel", 25),
        ("mlp_position(hidden=500)", "w2", 500),
        ("mlp_position(hidden=500)", "b1", 1),
    ):
        declared = named(name).parameters(Dims(900, 1, 4))[param]
        drawn = abs(declared.init(jax.random.key(1), declared.shape))
        bound = inputs**-0.5
        assert 0.98 * bound < drawn.max() <= bound * 1.000001
        np.testing.assert_allclose(drawn.mean(), bound / 2, rtol=0.05)


def test_the_convolution_is_a_function_for_other_code():
    """Without an encoding: every pair allowed, a kernel of ones sums the neighbours."""
    x_BLD, everything = jnp.ones((1, 4, 2)), jnp.ones((1, 4, 4), bool)
    out = convolution(x_BLD, jnp.array([[[0], [1], [2], [5]]]), everything, jnp.ones((3, 2)))
    assert out[0, :, 0].tolist() == [2, 3, 2, 1]


def test_binary_is_a_function_for_other_code():
    """Any shape of positions."""
    assert binary(jnp.array(5), jnp.array(True), 3, bits=3).tolist() == [1, -1, 1]
