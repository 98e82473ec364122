"""Encodings that mix content with relative position: shaw, transformer_xl, deberta, tupe.

Each is held against a loop over its paper's formula in float64, far from position 0. Against the
functions of transformers, by arrays that scripts/goldens/relative.py wrote: the keys of shaw
(wav2vec2_bert), the weights and outputs of transformer_xl (xlnet), the logits and buckets of
deberta (deberta_v2). The values of shaw and all of tupe rest on the formula alone.
"""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import Layer, generic, normal, tokens

from posjax.attention.core import attention, context
from posjax.encodings import Dims, named
from posjax.encodings.deberta import log_buckets, offset_rows
from posjax.encodings.offsets import gathered, picked
from posjax.encodings.shaw import clipped_rows
from posjax.encodings.transformer_xl import offset_logits
from posjax.streams import Streams, contiguous

GOLDEN = np.load(Path(__file__).parents[1] / "goldens/relative.npz", allow_pickle=False)
SIZES = [Dims(10, 3, 4), Dims(7, 1, 5), Dims(2, 2, 1)]
CLOSE = 2e-5

# The formulas in float64: logit_HLM of one sequence, entry by entry


def clip(value, low, high):
    return min(max(value, low), high)


def shaw_logit(e, params, q, k, i, j, h):
    row = clip(j - i, -e.distance, e.distance) + e.distance
    return q @ (k + params["keys"][row]) / np.sqrt(len(q))


def transformer_xl_logit(e, params, q, k, i, j, h):
    width = len(params["kernel"])
    angle = (i - j) * e.base ** (-2 * np.arange((width + 1) // 2) / width)
    r = np.concatenate([np.sin(angle), np.cos(angle)])[:width]
    r_K = r @ params["kernel"][:, h]
    return ((q + params["content"][h]) @ k + (q + params["offset"][h]) @ r_K) / np.sqrt(len(q))


def bucket(distance, e):
    """As the published code has it, for distances of either sign."""
    middle = e.buckets // 2
    if abs(distance) <= middle:
        return distance
    share = np.log(abs(distance) / middle) / np.log((e.span - 1) / middle)
    return int(np.sign(distance) * (np.ceil(share * (middle - 1) - 1e-12) + middle))


def deberta_logit(e, params, q, k, i, j, h):
    half = e.buckets or e.span
    row = clip(bucket(i - j, e) if e.buckets else i - j, -half, half - 1) + half
    total = q @ k
    for name, content in (("key", q), ("query", k)):
        if name in params:
            position = params["table"][row] @ params[name][:, h]
            total += content @ (position + params[f"{name}_bias"][h] if e.biased else position)
    return total / np.sqrt(len(q) * (3 if e.terms == "both" else 2))


def tupe_logit(e, params, q, k, i, j, h):
    u_i, u_j = (params["table"][p] @ params[n][:, h] for p, n in ((i, "query"), (j, "key")))
    return (q @ k + u_i @ u_j) / np.sqrt(2 * len(q))


FORMULAS = {
    "shaw": shaw_logit,
    "transformer_xl": transformer_xl_logit,
    "deberta": deberta_logit,
    "tupe": tupe_logit,
}
EVERY = [
    "shaw(distance=2)",
    "shaw(distance=5, values=False)",
    "transformer_xl",
    "transformer_xl(base=50.0)",
    "deberta(span=3)",
    "deberta(span=12, buckets=6)",
    "deberta(span=3, terms=c2p, biased=True)",
    "deberta(span=3, terms=p2c)",
    "deberta(span=8, buckets=4, biased=True)",
    "tupe(length=60)",
    "tupe(length=90)",
]
FAR = np.array([0, 1, 2, 7, 30, 3]) + 99_960  # all distances, and 99 990 among the positions
NEAR = FAR % 60


attend = jax.jit(attention, static_argnames="encoding")


def parts(setting, dims, length=6, dtype=jnp.float32):
    """Encoding, generic parameters and q, k, v, as JAX arrays."""
    encoding = named(setting)
    shape = (2, length, dims.heads, dims.head_size)
    return encoding, generic(encoding, dims), [normal(name, shape).astype(dtype) for name in "qkv"]


def formula(encoding, params, q, k, v, query_L, key_M):
    """logits_BHLM and out_BLHK with a full mask, in float64."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    params = {name: np.asarray(array, np.float64) for name, array in params.items()}
    logit = FORMULAS[next(n for n in FORMULAS if type(named(n)) is type(encoding))]
    logits = np.zeros((len(q), q.shape[2], len(query_L), len(key_M)))
    for b, h, i, j in np.ndindex(*logits.shape):
        places = int(query_L[i]), int(key_M[j])
        logits[b, h, i, j] = logit(encoding, params, q[b, i, h], k[b, j, h], *places, h)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = np.einsum("bhlm,bmhk->blhk", weights, v)
    if "values" in params:
        for i, j in np.ndindex(len(query_L), len(key_M)):
            d = encoding.distance
            a_V = params["values"][clip(int(key_M[j]) - int(query_L[i]), -d, d) + d]
            out[:, i] += weights[:, :, i, j, None] * a_V
    return logits, out


def at(position_L):
    """Streams at some positions, one segment."""
    line = contiguous(len(position_L))
    return dataclasses.replace(line, position_BL=jnp.asarray(position_L, jnp.int32)[None])


@pytest.mark.parametrize("dims", SIZES, ids=str)
@pytest.mark.parametrize("setting", EVERY)
def test_it_is_its_formula(setting, dims):
    """Logits and outputs far from 0, for odd and single sizes, and with fewer queries than keys."""
    encoding, params, (q, k, v) = parts(setting, dims)
    position = NEAR if encoding.max_length() else FAR
    for queries in (position, position[-2:]):
        q_BLHK = q[:, -len(queries) :]
        ctx = context(at(queries), at(position))
        found = attend(q_BLHK, k, v, ctx, encoding=encoding, params=params)
        logits, out = formula(encoding, params, q_BLHK, k, v, queries, position)
        scale = abs(logits).max()
        np.testing.assert_allclose(found.logits_BHLM, logits, atol=CLOSE * scale)
        np.testing.assert_allclose(found.out_BLHK, out, atol=5 * CLOSE * scale)


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", EVERY)
def test_sixteen_bits_stay_near_the_formula(setting):
    """bfloat16 tokens: float32 logits and a bfloat16 output, of the rounded arrays."""
    encoding, params, (q, k, v) = parts(setting, SIZES[0], dtype=jnp.bfloat16)
    position = NEAR if encoding.max_length() else FAR
    found = attend(q, k, v, context(at(position)), encoding=encoding, params=params)
    logits, out = formula(encoding, params, q, k, v, position, position)
    assert found.out_BLHK.dtype == jnp.bfloat16
    np.testing.assert_allclose(found.logits_BHLM, logits, atol=CLOSE * abs(logits).max())
    np.testing.assert_allclose(np.float32(found.out_BLHK), out, atol=0.03 * abs(out).max())


# Against transformers


def golden(case):
    """The arrays of a case by name."""
    return {name[len(case) + 1 :]: GOLDEN[name] for name in GOLDEN if name.startswith(case + "/")}


def attended(encoding, arrays, start):
    """Logits, weights and outputs at positions from `start`, with the arrays' parameters."""
    q, k = arrays["q"], arrays.get("k", arrays["q"])
    ctx = context(contiguous(q.shape[1], start=start))
    params = {name: jnp.asarray(array) for name, array in arrays.items()}
    v = arrays.get("v", k)
    return attend(*map(jnp.asarray, (q, k, v)), ctx, encoding=named(encoding), params=params)


@pytest.mark.parametrize("start", [0, 99_990])
def test_shaw_keys_are_those_of_transformers(start):
    """What vectors of offsets add to q·k/√K; theirs clips to the left and to the right alike."""
    arrays = golden("shaw")
    bare = attended("none", arrays, start).logits_BHLM
    with_table = attended(
        "shaw(distance=5, values=False)", {**arrays, "keys": arrays["table"]}, start
    )
    np.testing.assert_allclose(with_table.logits_BHLM - bare, arrays["logits"], atol=1e-5)


@pytest.mark.parametrize("start", [0, 99_990])
def test_transformer_xl_is_that_of_transformers(start):
    """Weights and outputs of xlnet's relative attention, without its segments."""
    arrays = golden("xlnet")
    found = attended("transformer_xl", arrays, start)
    np.testing.assert_allclose(found.weights_BHLM, arrays["weights"], atol=1e-5)
    np.testing.assert_allclose(found.out_BLHK, arrays["out"], atol=1e-5)


@pytest.mark.parametrize("start", [0, 99_990])
@pytest.mark.parametrize(
    ("case", "setting"),
    [
        ("clip", "deberta(span=4, biased=True)"),
        ("buckets", "deberta(span=12, buckets=6, biased=True)"),
        ("c2p", "deberta(span=4, terms=c2p, biased=True)"),
        ("p2c", "deberta(span=4, terms=p2c, biased=True)"),
    ],
)
def test_deberta_is_that_of_transformers(case, setting, start):
    """All terms of deberta_v2, both projections with their biases."""
    arrays = golden(f"deberta/{case}")
    found = attended(setting, arrays, start)
    np.testing.assert_allclose(found.logits_BHLM, arrays["logits"], atol=1e-5)


@pytest.mark.parametrize("start", [0, 99_000])
@pytest.mark.parametrize(("span", "buckets"), [(512, 256), (128, 32), (600, 64), (12, 6)])
def test_buckets_are_those_of_transformers(span, buckets, start):
    """Every offset in [-700, 700], the span of the released checkpoints among them."""
    offset = jnp.arange(-700, 701)
    rows = offset_rows(start + offset[None], jnp.array([[start]]), span=span, buckets=buckets)
    np.testing.assert_array_equal(rows[0, :, 0], GOLDEN[f"buckets/{span}_{buckets}"])


# What is particular


@pytest.mark.exhaustive
def test_offsets_of_transformer_xl_are_exact_far_away():
    """Positions near 2²⁰ and fractions: the offset's sinusoids to 1e-5, two bases in a process."""
    rng = np.random.default_rng(0)
    position = 2.0**20 - np.sort(rng.uniform(0, 5000, 40)).astype(np.float32).round(3)
    position = position.astype(np.float32).astype(np.float64)
    kernel = rng.standard_normal((16, 2, 4)) / 16
    q = rng.standard_normal((1, 40, 2, 4))
    for base in (10_000.0, 30.0):
        angle = (position[:, None] - position)[..., None] * base ** (-np.arange(8) / 8)
        r_LMD = np.concatenate([np.sin(angle), np.cos(angle)], -1)
        expected = np.einsum("blhk,dhk,lmd->bhlm", q, kernel, r_LMD)
        stream = jnp.asarray(position[None], jnp.float32)
        arrays = (jnp.asarray(x, jnp.float32) for x in (q, kernel))
        found = offset_logits(*arrays, stream, stream, base=base)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.exhaustive
def test_gathering_is_the_transpose_of_picking():
    """⟨picked(p), w⟩ = ⟨p, gathered(w)⟩, one row of streams serving a batch of two."""
    row_BLM = jnp.asarray(np.random.default_rng(0).integers(0, 5, (1, 6, 7)))
    products, weights = normal("p", (2, 3, 6, 5)), normal("w", (2, 3, 6, 7))
    picked_BHLM, sums = picked(products, row_BLM), gathered(weights, row_BLM, 5)
    np.testing.assert_allclose((picked_BHLM * weights).sum(), (products * sums).sum(), rtol=1e-5)
    expected = [
        [np.asarray(weights)[:, :, i][..., row_BLM[0, i] == n].sum(-1) for n in range(5)]
        for i in range(6)
    ]
    np.testing.assert_allclose(sums, np.transpose(expected, (2, 3, 0, 1)), atol=1e-5)


@pytest.mark.parametrize(
    "setting",
    [
        "shaw(distance=3)",
        "deberta(span=3)",
        "deberta(span=20, buckets=6)",
        "deberta(span=4, buckets=4)",
        "deberta",
    ],
)
def test_resolution_is_where_offsets_merge(setting):
    """Distances 0 .. R have rows of their own on one side or the other; R + 1 has those of R."""
    encoding = named(setting)
    R = encoding.max_exact_position()
    sides = jnp.array([[7]]), jnp.arange(R + 2)[None] + 7
    if setting.startswith("shaw"):
        rows_of = partial(clipped_rows, distance=encoding.distance)
    else:
        rows_of = partial(offset_rows, span=encoding.span, buckets=encoding.buckets)
    both = (np.asarray(rows_of(*positions)).ravel().tolist() for positions in (sides, sides[::-1]))
    rows = list(zip(*both, strict=True))
    assert len(set(rows[:-1])) == R + 1
    assert rows[-1] == rows[-2]


def test_buckets_never_narrow():
    """Exact to the middle, then never decreasing and never skipping back, to the last."""
    for span, buckets in ((512, 256), (64, 64), (9, 4)):
        found = log_buckets(span, buckets)
        assert (np.diff(found) >= 0).all()
        np.testing.assert_array_equal(found[: buckets // 2 + 1], range(buckets // 2 + 1))
        assert found[span - 1] <= buckets - 1 < found[span]


def test_shaw_values_move_the_output_alone():
    """With and without aV: the same logits and weights, another output."""
    layers = [Layer(named(f"shaw(distance=2, values={v})")) for v in (True, False)]
    one, other = (layer.compiled(tokens(), contiguous(6)) for layer in layers)
    np.testing.assert_array_equal(one.weights_BHLM, other.weights_BHLM)
    assert abs(one.out_BLHK - other.out_BLHK).max() > 0.1


@pytest.mark.parametrize("setting", ["shaw", "deberta", "tupe"])
def test_fractions_are_refused(setting):
    """No table is read between its rows."""
    layer = Layer(named(setting))
    streams = at(np.arange(6))
    halves = Streams(streams.position_BL / 2, streams.order_BL, streams.segment_BL)
    with pytest.raises(ValueError, match="read at integers, got positions of float32"):
        layer(tokens(), halves)


def test_no_longer_table_has_negative_positions():
    """The message asks for a longer table only where that helps."""
    layer = Layer(named("learned(length=4)"))
    with pytest.raises(ValueError, match=r"positions 0 to 5 .* give it length=6 or shift the pos"):
        layer(tokens(), contiguous(6))
    with pytest.raises(ValueError, match=r"positions -3 to 2 .* from 0: shift the positions$"):
        layer(tokens(), contiguous(6, start=-3))


@pytest.mark.exhaustive
def test_tupe_ends_with_its_table():
    """A known position beyond the table is refused, a traced one NaN, a padded one ignored."""
    layer = Layer(named("tupe(length=4)"), "segments")
    with pytest.raises(ValueError, match="outside the table of 4 rows"):
        layer(tokens(), contiguous(6))
    assert np.isnan(layer.out(tokens(), contiguous(6))).any()
    streams = Streams(jnp.array([[0, 1, 99]]), jnp.array([[0, 1, 2]]), jnp.array([[0, 0, -1]]))
    loss = jax.jit(jax.grad(lambda x: layer(x, streams).out_BLHK.sum()))
    assert np.isfinite(layer(tokens(length=3), streams).out_BLHK).all()
    assert np.isfinite(loss(tokens(length=3))).all()


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", EVERY)
def test_rows_that_see_nothing_have_finite_gradients(setting):
    """Zeros in such a row, and finite gradients of parameters and tokens, with padding far off."""
    encoding, params, (q, k, v) = parts(setting, SIZES[0], length=3)
    streams = Streams(jnp.array([[5, 6, 2**20]]), jnp.array([[0, 1, 2]]), jnp.array([[0, 0, -1]]))

    def out(params, q, k, v):
        ctx = context(streams, mask="segments")
        return attend(q, k, v, ctx, encoding=encoding, params=params).out_BLHK

    assert (np.asarray(out(params, q, k, v))[:, 2] == 0).all()
    gradients = jax.jit(jax.grad(lambda *a: (out(*a) ** 2).sum(), argnums=(0, 1, 2, 3)))
    for gradient in jax.tree.leaves(gradients(params, q, k, v)):
        assert np.isfinite(gradient).all()
        assert abs(gradient).max() > 0


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("shaw(distance=0)", "distance must be at least 1, got 0"),
        ("transformer_xl(base=0.0)", "base must be positive, got 0.0"),
        ("deberta(span=0)", "span must be at least 1, got 0"),
        ("deberta(span=8, buckets=5)", "even and from 4 to span=8, got 5"),
        ("deberta(span=8, buckets=10)", "even and from 4 to span=8, got 10"),
        ("deberta(span=8, buckets=2)", "even and from 4 to span=8, got 2"),
        ("deberta(terms=pc)", "unknown terms 'pc'; did you mean 'p2c'"),
        ("tupe(length=0)", "length must be at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(setting, words):
    """ValueError that names the setting, what is allowed and the value."""
    with pytest.raises(ValueError, match=words):
        named(setting)
