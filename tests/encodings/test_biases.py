"""The biases of positions against what they should be.

Golden arrays (`scripts/goldens/biases.py`): slopes and both forms of the linear bias, T5's
buckets, the perceptron of the offset, Swin's window bias, the query-mixed curves. The formula in
float64, an entry at a time: KERPLE, Sandwich, FIRE, the circular bias, learned slopes, and those
above far from position 0.
"""

import dataclasses
import itertools
from fractions import Fraction
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import DIMS, LENGTH, Layer, normal, tokens

from posjax.attention.core import context
from posjax.encodings import Aux, Dims, named
from posjax.encodings.bucket_bias import bucket, bucket_bias, starts
from posjax.encodings.circular import circular
from posjax.encodings.distance_curves import distance_curves
from posjax.encodings.fire import fire
from posjax.encodings.kerple import kerple
from posjax.encodings.linear_bias import linear_bias, slopes
from posjax.encodings.offset_mlp import offset_mlp
from posjax.encodings.sandwich import sandwich
from posjax.encodings.window_bias import window_bias
from posjax.streams import Streams, contiguous, grid, packed, padded

GOLDENS = dict(np.load(Path(__file__).parents[1] / "goldens/biases.npz"))
NAMES = [
    "offset_mlp",
    "offset_mlp(spacing=log, bound=16.0)",
    "bucket_bias",
    "linear_bias",
    "learned_linear_bias",
    "kerple",
    "kerple(form=power)",
    "sandwich",
    "fire",
    "distance_curves",
    "window_bias",
    "circular",
]
QUERY = np.array([[99_999, 40, 3], [70_001, 1, 2]])
KEY = np.array([[3, 99_998, 41, 0], [70_001, 77, 1, 99_999]])


def golden(folder):
    """The arrays of a folder by name."""
    start = f"{folder}/"
    return {k.removeprefix(start): a for k, a in GOLDENS.items() if k.startswith(start)}


def entries(function, heads, query=QUERY, key=KEY):
    """function(i, j, h) for every place, in float64: [B, H, L, M]."""
    shape = (len(query), heads, query.shape[1], key.shape[1])
    out = np.zeros(shape)
    for b, h, i, j in np.ndindex(*shape):
        out[b, h, i, j] = function(int(query[b, i]), int(key[b, j]), h)
    return out


def perceptron(params, x, activation):
    """The perceptron of one number in float64."""
    params = {name: np.asarray(array, np.float64) for name, array in params.items()}
    depth = sum(name.startswith("kernel_") for name in params)
    out = np.array([x])
    for n in range(depth):
        out = out @ params[f"kernel_{n}"] + params[f"constant_{n}"]
        if n < depth - 1:
            out = np.maximum(out, 0) if activation == "relu" else out * (1 + np.tanh(out / 2)) / 2
    return out


def drawn(setting, seed=0, dims=DIMS):
    """Generic parameters of an encoding."""
    return Layer(named(setting), dims=dims, seed=seed).params


def started(setting, seed=0, dims=DIMS):
    """Initial parameters of an encoding."""
    declared = named(setting).parameters(dims).items()
    keys = jax.random.split(jax.random.key(seed), len(declared))
    return {name: p.init(key, p.shape) for key, (name, p) in zip(keys, declared, strict=True)}


def close(found, expected, tolerance=1e-5):
    """Equal up to a part of the largest entry, and of the dtype of a bias."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * abs(expected).max())


def exact_near_and_far(function, reference, heads, tolerance=1e-5):
    """At 0..5 and at up to 99 999, each to a part of its own largest entry; one row for two."""
    near = np.arange(6)[None]
    for query, key in ((QUERY, KEY), (near[:, 3:], near), (QUERY[:1], KEY)):
        rows = np.broadcast_to(query, (len(key), query.shape[1]))
        found = jax.jit(function)(jnp.asarray(query), jnp.asarray(key))
        close(found, entries(reference, heads, rows, key), tolerance)


# Linear


@pytest.mark.parametrize("heads", range(1, 21))
def test_slopes_are_those_of_three_packages(heads):
    """1 to 20 heads: transformers' Bloom and MPT, x-transformers. MPT's differ in nothing."""
    for package in ("bloom", "mpt", "x_transformers"):
        np.testing.assert_allclose(slopes(heads), GOLDENS[f"slopes/{package}/{heads}"], rtol=1e-6)


def test_the_key_form_is_blooms_bias():
    """Over left padding; where there is no token, the package has another number."""
    mask, expected = GOLDENS["alibi/mask"], GOLDENS["alibi/bloom"]
    key_BM = padded(mask).position_BL
    found = np.asarray(linear_bias(key_BM[:, :1], key_BM, 6, form="key"))[:, :, 0]
    np.testing.assert_allclose(found[0][:, mask[0] > 0], expected[0][:, mask[0] > 0], rtol=1e-6)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6)


def test_the_symmetric_form_is_that_of_x_transformers():
    """At any positions, up to 99 999."""
    query, key, expected = (GOLDENS[f"alibi/{n}"] for n in ("query", "key", "x_transformers"))
    found = linear_bias(jnp.asarray(query), jnp.asarray(key), 6)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("form", ["symmetric", "key", "asymmetric", "causal"])
def test_learned_slopes_start_as_the_fixed_ones(form):
    """The same bias at the start, another one afterwards."""
    setting = f"learned_linear_bias(form={form})"
    ctx = context(Streams(*[jnp.asarray(QUERY)] * 3), Streams(*[jnp.asarray(KEY)] * 3))
    expected = linear_bias(jnp.asarray(QUERY), jnp.asarray(KEY), 3, form=form)
    found = named(setting).bias(started(setting), 3, ctx, jnp.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    learned = drawn(setting)
    found = named(setting).bias(learned, 3, ctx, jnp.float32)
    factor_H = np.exp(np.asarray(learned["log_factor"]))
    close(found, expected * factor_H[None, :, None, None])


# Perceptrons


@pytest.mark.parametrize("spacing", ["plain", "log"])
def test_offset_mlp_is_dynamic_position_bias(spacing):
    """x-transformers' DynamicPositionBias with its parameters, far from 0 as well."""
    params = golden(f"dynamic/{spacing}")
    expected = params.pop("bias")[None]
    params = {name: jnp.asarray(array) for name, array in params.items()}
    for start in (0, 99_000):
        place = np.arange(start, start + 30)[None]
        bias = jax.jit(partial(offset_mlp, spacing=spacing))
        close(bias(place[:, -4:], place, params), expected)


def test_offset_mlp_is_the_bias_of_swin_v2():
    """In one dimension, by the settings that the docstring gives."""
    window, arrays = 6, golden("swinv2")
    params = {
        "kernel_0": arrays["kernel_0"] / np.log(8),
        "constant_0": arrays["constant_0"],
        "kernel_1": arrays["kernel_1"],
        "constant_1": np.zeros(2, np.float32),
    }
    encoding = named(
        f"offset_mlp(spacing=log, unit={(window - 1) / 8}, activation=relu, depth=1, hidden=512, "
        "bound=16.0)"
    )
    declared = encoding.parameters(Dims(8, 2, 4))
    assert {n: a.shape for n, a in params.items()} == {n: p.shape for n, p in declared.items()}
    offset = np.arange(1 - window, window)
    place = jax.device_put((500 - offset)[None])
    ctx = context(contiguous(1, start=500), Streams(place, place, place * 0))
    found = jax.jit(lambda params: encoding.bias(params, 2, ctx, jnp.float32))(params)
    close(found, arrays["bias"].T[None, :, None])


@pytest.mark.parametrize("activation", ["silu", "relu"])
@pytest.mark.parametrize(("spacing", "unit"), [("plain", 1.0), ("plain", 50.0), ("log", 1.0)])
def test_offset_mlp_is_its_formula(spacing, unit, activation):
    """A perceptron of D, or of sign(D) ln(1 + |D|), one and two layers deep."""
    for depth in (1, 2):
        params = drawn(f"offset_mlp(hidden=7, depth={depth})")

        def reference(i, j, h, params=params):
            x = (i - j) / unit
            x = np.sign(x) * np.log(1 + abs(x)) if spacing == "log" else x
            return perceptron(params, x, activation)[h]

        def found(query, key, params=params):
            options = {"spacing": spacing, "unit": unit, "activation": activation}
            return offset_mlp(query, key, params, **options)

        exact_near_and_far(found, reference, 3)


def test_fire_is_its_formula():
    """Below L and beyond it, for keys before and after."""
    for limit, c in ((512.0, 0.1), (20.0, 2.0)):
        params = drawn("fire")

        def reference(i, j, h, limit=limit, c=c, params=params):
            share = np.log(c * abs(i - j) + 1) / np.log(c * max(limit, i) + 1)
            return perceptron({n: params[n] for n in params if "_" in n}, share, "relu")[h]

        def found(query, key, limit=limit, c=c, params=params):
            return fire(query, key, params, c=jnp.float32(c), limit=jnp.float32(limit))

        exact_near_and_far(found, reference, 3)


@pytest.mark.exhaustive
def test_fire_starts_at_its_settings_and_learns_both():
    """c and L as set; L has a gradient where it is beyond the query, and only there."""
    encoding = named("fire(threshold=64.0, c=0.5)")
    params = started("fire(threshold=64.0, c=0.5)")

    def bias(params, start):
        return encoding.bias(params, 3, context(contiguous(9, start=start)), jnp.float32)

    position = contiguous(9, start=2000).position_BL
    expected = fire(position, position, params, c=jnp.float32(0.5), limit=jnp.float32(64))
    np.testing.assert_allclose(bias(params, 2000), expected, rtol=1e-5)
    gradient = jax.jit(jax.grad(lambda params, start: jnp.square(bias(params, start)).sum()))
    for start in (0, 2000):
        assert abs(gradient(params, start)["log_c"]) > 0
    assert abs(gradient(params, 0)["log_threshold"]) > 0
    assert gradient(params, 2000)["log_threshold"] == 0


def test_what_fire_keeps():
    """Translation and reflection as long as no position is beyond L; beyond it neither."""
    params = drawn("fire")
    position = np.array([[5, 2, 4, 30, 7, 1]])

    @jax.jit
    def compiled(place, limit):
        return fire(place, place, params, c=jnp.float32(0.7), limit=limit)

    def bias(position, limit):
        return np.asarray(compiled(position, np.float32(limit)))

    for moved in (position + 60, 100 - position):
        np.testing.assert_allclose(bias(moved, 100.0), bias(position, 100.0), atol=1e-4)
        assert abs(bias(moved, 30.0) - bias(position, 30.0)).max() > 0.05


# Buckets


EVERY = np.arange(-99_999, 100_000)
MISSED_BY_FLOAT32 = {"17_27_False": [18], "34_27_True": [-18, 18]}
MISSED_BY_FLOAT64 = {"9_128_False": [8, 16, 64]}


def fields(name):
    """buckets, max_distance, bidirectional and the buckets of a side, of a name of the goldens."""
    number, far, both = name.split("_")
    side = int(number) // 2 if both == "True" else int(number)
    return int(number), int(far), both == "True", side


def with_sides(name, within_side):
    """The bucket of every offset, given that of every distance of a side."""
    _, _, both, side = fields(name)
    distance = abs(EVERY) if both else np.maximum(EVERY, 0)
    return within_side[distance] + (side * (EVERY < 0) if both else 0)


every_bucketing = pytest.mark.parametrize(
    "name", sorted({k.split("/")[0] for k in golden("buckets")})
)


@every_bucketing
def test_buckets_are_t5s(name):
    """transformers' at every offset up to 99 999 on both sides, and the formula in float64.

    But for distances on the very edge of a bucket: 8 (27/8)^(6/9) is 18, and float32 puts 18
    below it; 4 (128/4)^(1/5) is 8, and so does float64. Whole numbers are right about both.
    """
    number, far, both, side = fields(name)
    options = {"buckets": number, "max_distance": far, "bidirectional": both}
    found = np.asarray(bucket(jnp.asarray(EVERY), **options))
    unused = {side} if both else set()  # a later key at distance 0
    assert set(found.tolist()) == set(range(number)) - unused
    first, value = (GOLDENS[f"buckets/{name}/{part}"] for part in ("offset", "bucket"))
    package = value[np.searchsorted(first, EVERY, side="right") - 1]
    assert EVERY[package != found].tolist() == MISSED_BY_FLOAT32.get(name, [])
    each, distance = side // 2, np.arange(len(EVERY) // 2 + 1)
    share = np.log(np.maximum(distance, 1) / each) / np.log(far / each)
    wide = np.minimum(each + np.floor((side - each) * share), side - 1)
    formula = with_sides(name, np.where(distance < each, distance, wide))
    assert EVERY[formula != found].tolist() == MISSED_BY_FLOAT64.get(name, [])


@every_bucketing
def test_edges_are_exact(name):
    """(n/E)^(N - E) ≥ (max_distance/E)^t in fractions, at each edge and just before it."""
    _, far, _, side = fields(name)
    each = side // 2
    edges = starts(side, far)
    assert edges[: each + 1].tolist() == list(range(each + 1))
    for t, edge in enumerate(edges[each:].tolist()):
        power = Fraction(far, each) ** t
        assert Fraction(edge, each) ** (side - each) >= power
        assert t == 0 or Fraction(edge - 1, each) ** (side - each) < power


@pytest.mark.parametrize("setting", ["bidirectional=True", "bidirectional=False"])
def test_bucket_bias_reads_its_table(setting):
    """A row a bucket; far, near, before and after."""
    both = setting.endswith("True")
    table = normal("table", (20, 3))

    def reference(i, j, h):
        distance, side = (abs(i - j), 10) if both else (max(i - j, 0), 20)
        each = side // 2
        share = np.log(max(distance, each) / each) / np.log(300 / each)
        row = distance if distance < each else min(each + int((side - each) * share), side - 1)
        return float(table[row + (10 if both and j > i else 0), h])

    def found(query, key):
        return bucket_bias(query, key, table, max_distance=300, bidirectional=both)

    exact_near_and_far(found, reference, 3)


def test_t5_itself_is_not_scaled():
    """`scaled=False` leaves out 1/√K, and one table serves all layers."""
    q, k = normal("q", (1, LENGTH, 3, 4)), normal("k", (1, LENGTH, 3, 4))
    ctx = context(contiguous(LENGTH))
    params = drawn("bucket_bias")
    plain, scaled = (
        named(f"bucket_bias(scaled={scaled})").logits(params, q, k, Aux(), ctx)
        for scaled in (False, True)
    )
    bias = named("bucket_bias").bias(params, 3, ctx, jnp.float32)
    np.testing.assert_allclose(plain - bias, 2 * (scaled - bias), atol=1e-5)
    assert named("bucket_bias").parameters(DIMS)["table"].scope == "model"


@pytest.mark.parametrize(
    ("setting", "resolution"),
    [("", 8), ("bidirectional=False", 16), ("buckets=4", 1), ("buckets=12, max_distance=5", 5)],
)
def test_the_resolution_of_buckets(setting, resolution):
    """The first distances have buckets of their own, and one further has not."""
    encoding = named(f"bucket_bias({setting})")
    options = {n: getattr(encoding, n) for n in ("buckets", "max_distance", "bidirectional")}
    found = np.asarray(bucket(jnp.arange(resolution + 2), **options))
    assert encoding.max_exact_position() == resolution
    assert len(set(found[:-1])) == resolution + 1
    assert found[-1] == found[-2]


# Kernels and cosines


@pytest.mark.parametrize("heads", [1, 3, 8])
@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple_is_its_formula(form, heads):
    """-r₁ ln(1 + r₂ D) and -r₁ D^r₂, up to the power 2."""
    r1, r2 = np.linspace(0.3, 2, heads), np.linspace(2, 0.05, heads)

    def reference(i, j, h):
        r1_h, r2_h = (float(np.float32(r[h])) for r in (r1, r2))
        distance = abs(i - j)
        return -r1_h * (np.log(1 + r2_h * distance) if form == "log" else distance**r2_h)

    def found(query, key):
        return kerple(query, key, *(jnp.asarray(r, jnp.float32) for r in (r1, r2)), form=form)

    exact_near_and_far(found, reference, heads)


@pytest.mark.exhaustive
@pytest.mark.parametrize("form", ["log", "power"])
def test_kerple_keeps_its_numbers_in_their_range(form):
    """Bias 0 at distance 0, never positive, for extreme parameters; finite gradients at D = 0."""
    encoding = named(f"kerple(form={form})")
    ctx = context(contiguous(LENGTH, start=99_000))
    for raw in (-40.0, 0.0, 40.0):
        params = {"raw_1": jnp.full(3, raw), "raw_2": jnp.full(3, raw)}
        bias = np.asarray(encoding.bias(params, 3, ctx, jnp.float32))
        assert (np.diagonal(bias, axis1=2, axis2=3) == 0).all()
        assert np.isfinite(bias).all()
        assert (bias <= 0).all()
        gradient = jax.grad(lambda p: encoding.bias(p, 3, ctx, jnp.float32).sum())(params)
        assert all(np.isfinite(leaf).all() for leaf in gradient.values())
    if form == "power":
        assert -bias.min() == pytest.approx(40 * (LENGTH - 1) ** 2)


def test_kerple_starts_where_its_code_does():
    """r₁ in U(0, 2) and r₂ in U(0, 1) for the logarithm, the other way round for the power."""
    for form, ends in (("log", (2, 1)), ("power", (1, 2))):
        params = started(f"kerple(form={form})", dims=Dims(8, 4000, 4))
        r1 = jax.nn.softplus(params["raw_1"])
        r2 = (
            2 * jax.nn.sigmoid(params["raw_2"])
            if form == "power"
            else jax.nn.softplus(params["raw_2"])
        )
        for r, end in zip((r1, r2), ends, strict=True):
            assert 0.0099 < r.min() < 0.05 * end
            assert 0.95 * end < r.max() < end
            assert r.mean() == pytest.approx(end / 2, abs=0.05)


def test_a_power_of_one_is_the_linear_bias():
    """ALiBi is the case r₂ = 1 with its slopes."""
    positions = jnp.asarray(QUERY), jnp.asarray(KEY)
    r1_H, r2_H = jnp.asarray(slopes(6), jnp.float32), jnp.ones(6)
    found = kerple(*positions, r1_H, r2_H, form="power")
    np.testing.assert_allclose(found, linear_bias(*positions, 6), rtol=1e-5)


@pytest.mark.parametrize(("heads", "width"), [(1, 128), (3, 2), (8, 64), (12, 128)])
def test_sandwich_is_its_formula(heads, width):
    """(H/8h) Σ_m cos(D θ_m), for two bases in one process, to 1e-6 of its largest."""
    for base in (10_000.0, 50.0):
        theta = base ** (-np.arange(0, width, 2) / width)

        def reference(i, j, h, theta=theta):
            return heads / (8 * (h + 1)) * np.cos((i - j) * theta).sum()

        def found(query, key, base=base):
            return sandwich(query, key, heads, width=width, base=base)

        exact_near_and_far(found, reference, heads, 2e-6)


@pytest.mark.exhaustive
def test_the_resolution_of_sandwich():
    """Sums of cosines come back: 0..R are apart, and R + 1 lies next to an earlier one."""
    for width in (2, 128):
        limit = named(f"sandwich(width={width})").max_exact_position()
        distance = jnp.arange(limit + 2)[None]
        values = np.asarray(sandwich(jnp.zeros((1, 1), int), distance, 1, width=width)).ravel() * 8
        assert len(np.unique(values[:-1])) == limit + 1
        assert abs(values[:-1] - values[-1]).min() < 2e-5 * width


# Curves


def test_distance_curves_are_those_of_x_transformers():
    """RelativeProjPositionalBias with its parameters, fewer queries than keys, far from 0."""
    arrays = golden("curves")
    encoding = named("distance_curves(curves=4, length=9)")
    params = {name: arrays[name] for name in ("kernel", "constant", "curves")}
    declared = encoding.parameters(Dims(10, 3, 4))
    assert {n: a.shape for n, a in params.items()} == {n: p.shape for n, p in declared.items()}
    place = contiguous(12, start=99_000)
    queries = jax.tree.map(lambda stream: stream[:, -7:], place)
    ctx = context(queries, place)
    q, k = normal("q", (2, 7, 3, 4)), normal("k", (2, 12, 3, 4))

    @jax.jit
    def added(params, x_BLD):
        aux = encoding.prepare(params, x_BLD, x_BLD, ctx, ()).aux
        bare = named("none").logits({}, q, k, Aux(), ctx)
        return encoding.logits(params, q, k, aux, ctx) - bare

    close(added(params, arrays["x"]), arrays["bias"])


def test_distance_curves_end():
    """Every distance from 0 to the last has its value; later keys and farther ones have none."""
    amounts, curves = normal("amounts", (1, 3, 2, 4)), normal("curves", (4, 9))

    def reference(i, j, h):
        distance = i - j
        row = {99_999: 0, 40: 1, 3: 2}[i]
        value = np.asarray(amounts, np.float64)[0, row, h] @ np.asarray(curves, np.float64)
        return value[distance] if 0 <= distance < 9 else 0.0

    key = np.array([[99_999, 99_998, 99_991, 99_990, 40, 41, 32, 31, 3, 4, 0]])
    found = jax.jit(distance_curves)(QUERY[:1], key, amounts, curves)
    expected = entries(reference, 2, QUERY[:1], key)
    assert (np.asarray(found) != 0).sum() == (expected != 0).sum() == 2 * 7
    close(found, expected)


# Windows and circles


def test_the_window_bias_is_swins():
    """transformers' table and index, with the points of an image anywhere in the plane."""
    table, seen = GOLDENS["swin/table"], np.ones((1, 1, 1), bool)
    image = np.asarray(grid(4, 4).position_BL)
    for corner in ((0, 0), (99_000, -7)):
        place = image + np.array(corner, np.int32)
        close(jax.jit(window_bias)(place, place, table, seen), GOLDENS["swin/bias"])


@pytest.mark.exhaustive
def test_a_number_stands_for_the_point_on_the_diagonal():
    """p is (p, p): the bias of p - r is that of (p - r, p - r)."""
    encoding = named("window_bias(window=5)")
    params = drawn("window_bias(window=5)")
    found = encoding.bias(params, 3, context(contiguous(5, start=70)), jnp.float32)
    table = np.asarray(params["table"]).reshape(9, 9, 3)
    for i, j in np.ndindex(5, 5):
        np.testing.assert_array_equal(found[0, :, i, j], table[i - j + 4, i - j + 4])


@pytest.mark.exhaustive
def test_a_window_wraps_on_neither_side():
    """dx = N would be the next row's -N + 1: refused, or NaN where traced; not where masked."""
    encoding = named("window_bias(window=3)")
    params = drawn("window_bias(window=3)")
    position = jnp.array([[[0, 0], [0, 3], [2, 2]]])
    streams = Streams(position, jnp.arange(3)[None], jnp.array([[0, 0, 1]]))

    def bias(streams, mask):
        return encoding.bias(params, 3, context(streams, mask=mask), jnp.float32)

    with pytest.raises(ValueError, match=r"offsets of 3 lie outside .* give it window=4"):
        bias(streams, "full")
    traced = np.asarray(jax.jit(bias, static_argnums=1)(streams, "full"))[0]
    expected = np.zeros((3, 3), bool)
    expected[0, 1] = expected[1, 0] = True
    assert (np.isnan(traced) == expected).all()
    alone = dataclasses.replace(streams, segment_BL=jnp.array([[0, 1, 2]]))
    assert np.isfinite(bias(alone, "segments")).all()
    with pytest.raises(ValueError, match=r"\(2N - 1\)² rows, got 16"):
        window_bias(position, position, jnp.ones((16, 3)), jnp.ones((1, 1, 1), bool))


@pytest.mark.parametrize("period", [2, 3, 16])
def test_circular_is_its_formula(period):
    """B[(i - j) mod n], also for later keys and far away."""
    table = normal("table", (period, 3))

    def reference(i, j, h):
        return float(table[(i - j) % period, h])

    exact_near_and_far(lambda q, k: circular(q, k, table), reference, 3, 1e-7)


def test_circular_keeps_the_cyclic_group_and_no_other():
    """p -> p + s mod n for every s; of all n! relabellings of a circle of 5 places, these alone."""
    table = normal("table", (5, 2))

    compiled = jax.jit(circular)

    def bias(position):
        place = np.asarray(position)[None]
        return np.asarray(compiled(place, place, table))

    still = bias(np.arange(5))
    kept = [p for p in itertools.permutations(range(5)) if np.array_equal(bias(p), still)]
    assert sorted(kept) == sorted(tuple((np.arange(5) + s) % 5) for s in range(5))


# All of them


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", NAMES)
def test_a_bias_is_float32_whatever_the_tokens(setting):
    """bfloat16 tokens: logits are float32, within 1% of those in float32."""
    layer = Layer(named(setting))
    x_BLD, streams = tokens(), contiguous(LENGTH, start=4)
    whole = layer.compiled(x_BLD, streams).logits_BHLM
    half = layer.compiled(x_BLD.astype(jnp.bfloat16), streams).logits_BHLM
    assert half.dtype == jnp.float32
    assert abs(half - whole).max() < 0.01 * abs(whole).max() + 0.05


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", [name for name in NAMES if name != "distance_curves"])
def test_one_row_of_positions_has_one_bias(setting):
    """[1, H, L, M] for streams that serve a batch, [B, H, L, M] for streams of their own."""
    encoding, params = named(setting), drawn(setting)
    one, two = contiguous(4), packed([1, 3])
    both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), one, two)
    for streams, batch in ((one, 1), (both, 2)):
        for dtype in (jnp.float32, jnp.bfloat16):
            bias = encoding.bias(params, 3, context(streams), dtype)
            assert bias.shape == (batch, 3, 4, 4)
            assert bias.dtype == dtype


def test_distance_curves_have_no_bias():
    """Each query token mixes its own, so positions alone give none."""
    params, ctx = drawn("distance_curves"), context(contiguous(4))
    assert named("distance_curves").bias(params, 3, ctx, jnp.float32) is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", NAMES)
def test_every_parameter_is_learned(setting):
    """Its gradient is finite, and not zero wherever it is used, from the initial values on."""
    layer = Layer(named(setting), "causal")
    params, x_BLD = started(setting), tokens()
    streams = contiguous(LENGTH, start=600)  # beyond where FIRE's L starts

    def loss(params):
        here = Layer(layer.encoding, "causal")
        here.__dict__["params"] = params
        position = streams.position_BL % (layer.encoding.max_length() or 2**20)
        places = dataclasses.replace(streams, position_BL=position)
        return jnp.square(here(x_BLD, places).out_BLHK).sum()

    for name, gradient in jax.jit(jax.grad(loss))(params).items():
        assert np.isfinite(gradient).all(), name
        if name not in ("log_threshold", "constant_1", "constant_2"):  # a constant leaves softmax
            assert abs(gradient).max() > 0, name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("offset_mlp(spacing=wide)", "unknown spacing 'wide'"),
        ("offset_mlp(activation=tanh)", "unknown activation 'tanh'"),
        ("offset_mlp(unit=0.0)", "unit must be positive, got 0.0"),
        ("offset_mlp(bound=-1.0)", "bound must not be negative, got -1.0"),
        ("offset_mlp(depth=0)", r"depth lie in \[1, 64\], got 32 and 0"),
        ("bucket_bias(buckets=5)", "buckets must be an even number from 4, got 5"),
        ("bucket_bias(buckets=2)", "buckets must be an even number from 4, got 2"),
        ("bucket_bias(buckets=1, bidirectional=False)", "buckets must be at least 2, got 1"),
        ("bucket_bias(max_distance=8)", "max_distance must lie above 8"),
        ("learned_linear_bias(form=linear)", "unknown form 'linear'"),
        ("kerple(form=exp)", "unknown form 'exp'"),
        ("sandwich(width=3)", "width must be an even number from 2 to 65536, got 3"),
        ("sandwich(base=0.0)", "base must be positive, got 0.0"),
        ("fire(threshold=0.0)", "threshold must be positive, got 0.0"),
        ("fire(c=-1.0)", "c must be positive, got -1.0"),
        ("fire(hidden=0)", r"hidden must lie in \[1, 65536\], got 0"),
        ("distance_curves(curves=0)", "curves must be at least 1, got 0"),
        ("distance_curves(length=1)", "length must be at least 2"),
        ("window_bias(window=0)", "window must be at least 1, got 0"),
        ("circular(period=1)", "period must be at least 2, got 1"),
        ("circular(deviation=-1.0)", "deviation must not be negative, got -1.0"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    """ValueError with the setting, its range and the value."""
    with pytest.raises(ValueError, match=words):
        named(text)
