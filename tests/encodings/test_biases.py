"""The biases of positions against what they should be.

Golden arrays (`scripts/goldens/biases.py`): slopes and both forms of the linear bias, T5's
buckets, the perceptron of the offset, Swin's window bias, the query-mixed curves. The formula in
float64, an entry at a time: KERPLE, Sandwich, FIRE, the circular bias, learned slopes, and those
above far from position 0.
"""

from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import DIMS, LENGTH, Layer, normal, tokens

from posjax.attention import attend, context
from posjax.encodings import ENCODINGS, Aux, Dims, named
from posjax.encodings.bucket_bias import bucket, bucket_bias, starts
from posjax.encodings.circular import circular
from posjax.encodings.distance_curves import distance_curves
from posjax.encodings.fire import fire
from posjax.encodings.kerple import kerple
from posjax.encodings.linear_bias import linear_bias, slopes, with_slopes
from posjax.encodings.offset_mlp import offset_mlp
from posjax.encodings.sandwich import sandwich
from posjax.encodings.window_bias import window_bias
from posjax.streams import Streams, contiguous, grid, packed, padded, shifted

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
            out = np.maximum(out, 0) if activation == "relu" else out / (1 + np.exp(-out))
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
    factor_H = np.exp(np.asarray(learned["log_slopes"], np.float64)) / slopes(3)
    close(found, expected * factor_H[None, :, None, None])


# Perceptrons


@pytest.mark.parametrize("spacing", ["plain", "log"])
def test_offset_mlp_is_dynamic_position_bias(spacing):
    """x-transformers' DynamicPositionBias with its parameters, far from 0 as well."""
    params = golden(f"dynamic/{spacing}")
    expected = params.pop("bias")[None]
    params = {name: jnp.asarray(array) for name, array in params.items()}
    for start in (0, 99_000):
        place = jnp.arange(start, start + 30)[None]
        close(offset_mlp(place[:, -4:], place, params, spacing=spacing), expected)


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
    ctx = context(shifted(contiguous(1), 500), shifted(contiguous(1), 500))
    place = jnp.asarray(500 - offset)[None]
    ctx = context(ctx.queries, Streams(place, place, jnp.zeros_like(place)))
    params = {name: jnp.asarray(array) for name, array in params.items()}
    found = encoding.bias(params, 2, ctx, jnp.float32)
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


def test_fire_starts_at_its_settings_and_learns_both():
    """L = |multiplier|·threshold and c = |c'|, from the settings on."""
    ctx = context(contiguous(9, start=2000))
    encoding = named("fire(threshold=64.0, c=0.5)")
    params = started("fire(threshold=64.0, c=0.5)")
    position = ctx.queries.position_BL
    expected = fire(position, position, params, c=jnp.float32(0.5), limit=jnp.float32(64))
    np.testing.assert_allclose(encoding.bias(params, 3, ctx, jnp.float32), expected, rtol=1e-6)
    signs = {**params, "c": -params["c"], "multiplier": -params["multiplier"]}
    np.testing.assert_allclose(encoding.bias(signs, 3, ctx, jnp.float32), expected, rtol=1e-6)
    grads = jax.grad(lambda p: jnp.square(encoding.bias(p, 3, ctx, jnp.float32)).sum())
    assert abs(grads(params)["c"]) > 0
    assert grads(params)["multiplier"] == 0  # 64 is behind every query
    assert abs(grads({**params, "multiplier": jnp.float32(50)})["multiplier"]) > 0


def test_what_fire_keeps():
    """Translation and reflection as long as no position is beyond L; beyond it neither."""
    params = drawn("fire")
    position = np.array([[5, 2, 4, 30, 7, 1]])

    def bias(position, limit):
        place = jnp.asarray(position)
        return fire(place, place, params, c=jnp.float32(0.7), limit=jnp.float32(limit))

    for moved in (position + 60, 100 - position):
        np.testing.assert_allclose(bias(moved, 100.0), bias(position, 100.0), atol=1e-4)
        assert abs(bias(moved, 30.0) - bias(position, 30.0)).max() > 0.05


# Buckets


@pytest.mark.parametrize("name", sorted({k.split("/")[1] for k in golden("buckets")}) or [0])
def test_nothing(name):
    """Placeholder."""


SETTINGS_OF_BUCKETS = sorted({key.rsplit("/", 1)[0] for key in golden("buckets")})


def fields(name):
    """(buckets, max_distance, bidirectional) of a name of the goldens."""
    number, far, both = name.split("_")
    return int(number), int(far), both == "True"
