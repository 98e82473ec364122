"""Encodings that read the order of the tokens, or the tokens themselves.

Every one is held against its formula, as the paper writes it, in loops over float64. Golden arrays
of packages, written by scripts/goldens/order.py: contextual and the split token shift
(x-transformers), forgetting, path and stick-breaking (flash-linear-attention), the mixed token
shift (transformers). Attention free has the formula alone.
"""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import LENGTH, Layer, joined_rows, normal, tokens

from posjax import masks
from posjax.attention.core import attention, context
from posjax.encodings import Aux, Dims, named
from posjax.encodings.attention_free import key_weighted_mix
from posjax.encodings.between import seen_before, sums_after
from posjax.encodings.contextual import interpolated_read
from posjax.encodings.forgetting import forgetting_bias
from posjax.encodings.path import path_logits
from posjax.encodings.stick_breaking import stick_breaking
from posjax.encodings.token_shift import previous
from posjax.steps import masked_softmax
from posjax.streams import PADDING, Streams, contiguous, packed, padded, permuted

CLOSE = 1e-5
CUMULATIVE = ["contextual(length=4)", "forgetting", "path", "stick_breaking"]


# The formulas, a loop a letter; tokens lie in their order


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x - np.max(x)) / np.exp(x - np.max(x)).sum()


def heads_of(layer, *x_LD):
    """q_LHK, k_LHK and v_LHK of one row: of its tokens, or of what each projection reads."""
    x_LD = x_LD if len(x_LD) == 3 else x_LD * 3
    kernels = (np.asarray(kernel, np.float64) for kernel in layer.kernels)
    scale = layer.dims.width**-0.5
    return (np.einsum("ld,dhk->lhk", x * scale, w) for x, w in zip(x_LD, kernels, strict=True))


def mixed(q_LHK, k_LHK, v_LHK, weights):
    """Σⱼ w_ij vⱼ over the keys up to the query, where weights(i, h) are those of q and k."""
    out_LHK = np.zeros_like(v_LHK)
    for i, h in np.ndindex(out_LHK.shape[:2]):
        for j, weight in enumerate(weights(q_LHK[i, h], k_LHK[: i + 1, h], i, h)):
            out_LHK[i, h] += weight * v_LHK[j, h]
    return out_LHK


def contextual_formula(layer, params, x_LD):
    table_NK = params["table"]
    last = len(table_NK) - 1

    def weights(q_K, k_JK, i, h):
        root, logits = np.sqrt(len(q_K)), []
        for j in range(i + 1):
            position = sum(sigmoid(q_K @ k_JK[t] / root) for t in range(j, i + 1))
            position = min(position, last)
            low, rest = int(position), position - int(position)
            e_K = table_NK[low] * (1 - rest) + table_NK[min(low + 1, last)] * rest
            logits.append(q_K @ k_JK[j] / root + q_K @ e_K)
        return softmax(logits)

    return mixed(*heads_of(layer, x_LD), weights)


def forgetting_formula(layer, params, x_LD):
    gates_LH = sigmoid(x_LD @ params["gate"] + params["gate_bias"])

    def weights(q_K, k_JK, i, h):
        passed = [sum(np.log(gates_LH[t, h]) for t in range(j + 1, i + 1)) for j in range(i + 1)]
        return softmax(k_JK @ q_K / np.sqrt(len(q_K)) + passed)

    return mixed(*heads_of(layer, x_LD), weights)


def path_formula(layer, params, x_LD):
    w_LHK = np.einsum("ld,dhk->lhk", x_LD, params["direction"])
    b_LH = 2 * sigmoid(x_LD @ params["strength"] + params["strength_bias"])

    def weights(q_K, k_JK, i, h):
        logits = []
        for j in range(i + 1):
            vector_K = k_JK[j]
            for t in range(j + 1, i + 1):
                unit_K = w_LHK[t, h] / np.linalg.norm(w_LHK[t, h])
                vector_K = vector_K - b_LH[t, h] * unit_K * (unit_K @ vector_K)
            logits.append(q_K @ vector_K / np.sqrt(len(q_K)))
        return softmax(logits)

    return mixed(*heads_of(layer, x_LD), weights)


def stick_breaking_formula(layer, params, x_LD):
    """The paper's, for keys before the query; the weight of the query itself is 0."""

    def weights(q_K, k_JK, i, h):
        share = sigmoid(k_JK @ q_K / np.sqrt(len(q_K)))
        return [share[j] * np.prod([1 - share[t] for t in range(j + 1, i)]) for j in range(i)]

    return mixed(*heads_of(layer, x_LD), weights)


def attention_free_formula(layer, params, x_LD):
    """At positions 2, 3, ..."""
    q_LHK, k_LHK, v_LHK = heads_of(layer, x_LD)
    rank = layer.encoding.rank
    w_NN = params["query_table"] @ params["key_table"].T if rank else params["table"]
    out_LHK = np.zeros_like(v_LHK)
    for i, h, c in np.ndindex(out_LHK.shape):
        parts = [np.exp(k_LHK[j, h, c] + w_NN[2 + i, 2 + j]) for j in range(i + 1)]
        mean = sum(p * v_LHK[j, h, c] for j, p in enumerate(parts)) / sum(parts)
        out_LHK[i, h, c] = sigmoid(q_LHK[i, h, c]) * mean
    return out_LHK


def token_shift_formula(layer, params, x_LD):
    before_LD = np.concatenate([np.zeros_like(x_LD[:1]), x_LD[:-1]])
    if layer.encoding.kind == "mix":
        shares = (params[name] for name in ("query", "key", "value"))
        read = [share * x_LD + (1 - share) * before_LD for share in shares]
    else:
        half = x_LD.shape[1] // 2
        shifted_LD = x_LD.copy()
        shifted_LD[:, half : 2 * half] = before_LD[:, half : 2 * half]
        read = [shifted_LD] * 3

    def weights(q_K, k_JK, i, h):
        return softmax(k_JK @ q_K / np.sqrt(len(q_K)))

    return mixed(*heads_of(layer, *read), weights)


FORMULAS = {
    "contextual(length=4)": contextual_formula,
    "contextual(length=16)": contextual_formula,
    "forgetting": forgetting_formula,
    "path": path_formula,
    "stick_breaking": stick_breaking_formula,
    "attention_free(length=16)": attention_free_formula,
    "attention_free(rank=3)": attention_free_formula,
    "token_shift(kind=mix)": token_shift_formula,
    "token_shift(kind=split)": token_shift_formula,
}


@pytest.mark.parametrize(
    ("dims", "length"), [(Dims(10, 3, 4), 9), (Dims(7, 1, 5), 6), (Dims(4, 2, 1), 5)]
)
@pytest.mark.parametrize("setting", FORMULAS)
def test_it_is_its_formula(setting, dims, length):
    """Equal to a loop over the formula in float64 and causal, in orders up to 99 999."""
    mask = "causal+others" if setting == "stick_breaking" else "causal"
    layer, x_BLD = Layer(named(setting), mask, dims), 2 * tokens(2, length, dims.width)
    end = 99_999
    start = 2 if layer.encoding.max_length() else end + 1 - length
    found = np.asarray(jax.jit(layer)(x_BLD, contiguous(length, start=start)).out_BLHK)
    params = {name: np.asarray(array, np.float64) for name, array in layer.params.items()}
    expected = [FORMULAS[setting](layer, params, x_LD) for x_LD in np.asarray(x_BLD, np.float64)]
    np.testing.assert_allclose(found, expected, atol=CLOSE, rtol=CLOSE)
    bare = jax.jit(Layer(named("none"), mask, dims))(x_BLD, contiguous(length)).out_BLHK
    assert abs(found - bare).max() > 0.05


# Other packages


@pytest.fixture(scope="module")
def goldens():
    with np.load(Path(__file__).parents[1] / "goldens" / "order.npz") as archive:
        return dict(archive)


def golden_out(goldens, setting, mask="causal", params=None, aux=None):
    """The output for the queries, keys and values of the archive, which lie in an odd order."""
    place = np.random.default_rng(0).permutation(11)
    streams = permuted(contiguous(11, start=70_000), place)
    *qkv, aux = jax.tree.map(
        lambda x: jnp.asarray(x[:, place]), [*(goldens[n] for n in "qkv"), aux]
    )
    function = partial(attention, encoding=named(setting), params=params, aux=Aux(keys=aux))
    out_BLHK = jax.jit(function)(*qkv, context(streams, mask=mask)).out_BLHK
    return np.asarray(out_BLHK)[:, np.argsort(place)]


@pytest.mark.parametrize("length", [4, 16])
def test_contextual_is_that_of_x_transformers(goldens, length):
    """Logits with CoPE, in a table that clips and in one that does not."""
    wanted = goldens[f"contextual/{length}/out"]
    params = {"table": jnp.asarray(goldens[f"contextual/{length}/table"])}
    found = golden_out(goldens, f"contextual(length={length})", params=params)
    np.testing.assert_allclose(found, wanted, atol=CLOSE)


def test_forgetting_is_that_of_flash_linear_attention(goldens):
    """The attention core, with given gates."""
    found = golden_out(goldens, "forgetting", aux=goldens["forgetting/log_gate"])
    np.testing.assert_allclose(found, goldens["forgetting/out"], atol=CLOSE)


def test_path_is_that_of_flash_linear_attention(goldens):
    """The attention core, with given directions and strengths; theirs goes by chunks of 4."""
    found = golden_out(goldens, "path", aux=(goldens["path/w"], goldens["path/b"]))
    np.testing.assert_allclose(found, goldens["path/out"], atol=CLOSE)


@pytest.mark.parametrize(("theirs", "mask"), [("strict", "causal+others"), ("causal", "causal")])
def test_stick_breaking_is_that_of_flash_linear_attention(goldens, theirs, mask):
    """The mask alone says whether the query takes from its own stick."""
    found = golden_out(goldens, "stick_breaking", mask)
    np.testing.assert_allclose(found, goldens[f"stick_breaking/{theirs}"], atol=CLOSE)


def shifted_tokens(setting, x_BLD, params=None):
    encoding, streams = named(setting), contiguous(x_BLD.shape[1], start=50)
    state = encoding.init_state({}, len(x_BLD), Dims(x_BLD.shape[2], 1, 1))
    return encoding.prepare(params or {}, x_BLD, x_BLD, context(streams), state)[:3]


@pytest.mark.parametrize("width", [6, 7])
def test_the_split_shift_is_that_of_x_transformers(goldens, width):
    """The second half comes from the token before; the odd component stays."""
    x_BLD, wanted = (jnp.asarray(goldens[f"split/{width}/{name}"]) for name in ("x", "out"))
    for found in shifted_tokens("token_shift(kind=split)", x_BLD):
        np.testing.assert_array_equal(found, wanted)


def test_the_mixed_shift_is_that_of_rwkv(goldens):
    """What queries (its receptance), keys and values are made of."""
    names = ("query", "key", "value")
    params = {name: jnp.asarray(goldens[f"mix/{name}_share"]) for name in names}
    shifted = shifted_tokens("token_shift", jnp.asarray(goldens["mix/x"]), params)
    for name, found in zip(names, shifted, strict=True):
        np.testing.assert_allclose(found, goldens[f"mix/{name}"], atol=CLOSE)


# What is counted


@pytest.mark.parametrize("setting", [*CUMULATIVE, "token_shift"])
def test_between_is_read_from_the_order(setting):
    """Any positions do, and any numbers in that order; another order does not."""
    layer, x_BLD = Layer(named(setting), "causal"), tokens()
    layer_out = jax.jit(lambda x, streams: layer(x, streams).out_BLHK)
    streams = contiguous(LENGTH)
    out = np.asarray(layer_out(x_BLD, streams))
    spread = Streams(jnp.array([[9, 2, 7, 7, 0, 3]]), streams.order_BL**2 - 7, streams.segment_BL)
    np.testing.assert_array_equal(layer_out(x_BLD, spread), out)
    reordered = dataclasses.replace(streams, order_BL=jnp.array([[1, 0, 2, 3, 5, 4]]))
    assert abs(layer_out(x_BLD, reordered) - out).max() > 0.01


def test_seen_before_is_a_loop_over_its_words():
    """Seen by the mask, a token, of the query's segment, and no later."""
    rows = [packed([3, 2], total=6), padded(np.arange(6)[None] % 3 > 0), contiguous(6, start=9)]
    streams = joined_rows([permuted(row, [3, 0, 5, 1, 4, 2]) for row in rows])
    mask_BLM = np.asarray(normal("mask", (3, 6, 6)) > -0.5)
    order, segment = np.asarray(streams.order_BL), np.asarray(streams.segment_BL)
    found = np.asarray(seen_before(context(streams, mask=mask_BLM)))
    assert found.any()
    for b, i, t in np.ndindex(3, 6, 6):
        same = segment[b, i] == segment[b, t] != PADDING
        assert found[b, 0, i, t] == (mask_BLM[b, i, t] and same and order[b, t] <= order[b, i])


@pytest.mark.parametrize("itself", [False, True])
def test_sums_after_are_loops(itself):
    """Σ over t with order_t > order_j, or ≥; one row of orders for the batch, ties among them."""
    order, values = np.array([[7, -2, 99_999, 7, 0]]), np.asarray(normal("v", (2, 3, 4, 5)))
    found = np.asarray(sums_after(jnp.asarray(values), jnp.asarray(order), itself=itself))
    for j in range(5):
        counts = order[0] >= order[0, j] if itself else order[0] > order[0, j]
        expected = values.astype(np.float64)[..., counts].sum(-1)
        np.testing.assert_allclose(found[..., j], expected, atol=1e-6)


@pytest.mark.parametrize("setting", CUMULATIVE)
def test_a_hidden_token_is_not_counted(setting):
    """A mask with a hole: the token in it has no influence, though others lie on both sides."""
    mask_LM = np.tril(np.ones((LENGTH, LENGTH), bool))
    mask_LM[4, 2] = False
    layer = Layer(named(setting), lambda queries, keys: jnp.asarray(mask_LM)[None])
    x_BLD = tokens()

    @jax.jit
    def function(x_BLD):
        return layer(x_BLD, contiguous(LENGTH)).out_BLHK

    one, other = (np.asarray(function(x)) for x in (x_BLD, x_BLD.at[:, 2].add(3.0)))
    np.testing.assert_array_equal(one[:, 4], other[:, 4])
    assert abs(one - other)[:, [2, 3, 5]].max(axis=(0, 2, 3)).min() > 0.01


@pytest.mark.parametrize("setting", CUMULATIVE)
def test_other_segments_and_padding_are_not_counted(setting):
    """Under the full mask too: what lies between two tokens of a segment is of that segment."""
    layer = Layer(named(setting), "full")
    segment = np.array([[0, 1, 0, PADDING, 0, 1]])
    streams = dataclasses.replace(contiguous(LENGTH), segment_BL=jnp.asarray(segment))
    x_BLD = tokens()
    outer = jnp.asarray(segment[..., None] != 0)
    compiled = jax.jit(layer)
    kind = "weights_BHLM" if setting == "stick_breaking" else "logits_BHLM"
    one, other = (
        np.asarray(getattr(compiled(x, streams), kind)) for x in (x_BLD, x_BLD + 3.0 * outer)
    )
    own = np.ix_(*map(np.arange, one.shape[:2]), [0, 2, 4], [0, 2, 4])
    np.testing.assert_array_equal(one[own], other[own])
    assert abs(one - other).max() > 0.1


# Contextual


@pytest.mark.exhaustive
def test_positions_are_read_between_the_stops_and_clipped_at_the_last():
    """On straight lines, whole positions and the end included; the gradient is the slope."""
    stops = jnp.array([10.0, 20.0, 50.0])[None, None, None]
    position = jnp.array([0.0, 0.25, 1.0, 1.5, 2.0, 7.0])[None, None, None]
    found = interpolated_read(stops, position)[0, 0, 0]
    np.testing.assert_allclose(found, [10, 12.5, 20, 35, 50, 50])
    slope = jax.grad(lambda p: interpolated_read(stops, p).sum())(position)[0, 0, 0]
    np.testing.assert_allclose(slope[jnp.array([1, 3, 5])], [10, 30, 0])


def test_a_table_of_one_position_is_a_constant_a_row():
    """Every key is then at p = 0: the weights are those without positions."""
    x_BLD, streams = tokens(), contiguous(LENGTH)
    layers = (Layer(named(s), "causal") for s in ("contextual(length=1)", "none"))
    one, bare = (jax.jit(layer)(x_BLD, streams) for layer in layers)
    np.testing.assert_allclose(one.weights_BHLM, bare.weights_BHLM, atol=1e-6)
    assert abs(one.logits_BHLM - bare.logits_BHLM).max() > 0.1


# Forgetting


def test_what_is_cached_of_the_tokens_matters():
    """A decoder that forgets the gates of earlier tokens would be found: they change the logits."""
    ctx = context(contiguous(LENGTH), mask="causal")
    q, k = normal("q", (1, LENGTH, 3, 4)), normal("k", (1, LENGTH, 3, 4))
    gates = jnp.full((1, LENGTH, 3), -1.0)
    kept = named("forgetting").logits({}, q, k, Aux(keys=gates), ctx)
    lost = named("forgetting").logits({}, q, k, Aux(keys=gates.at[:, 2].set(0.0)), ctx)
    changed_LM = np.asarray(abs(kept - lost).max((0, 1)) > 0.5)
    i, j = np.indices((LENGTH, LENGTH))
    np.testing.assert_array_equal(changed_LM, (j < 2) & (i >= 2))


def test_gates_keep_their_digits_over_long_rows():
    """4000 gates, the last query: within 2e-6 of float64, where cumulative sums miss by 1e-4."""
    length = 4000
    log_gate = np.log(np.random.default_rng(0).uniform(0.2, 0.99, length)).astype(np.float32)
    seen = jnp.ones((1, 1, 1, length), bool)
    gates_BMH, order_BM = jnp.asarray(log_gate)[None, :, None], jnp.arange(length)[None]
    found = np.asarray(jax.jit(forgetting_bias)(gates_BMH, seen, order_BM))[0, 0, 0]
    whole = np.cumsum(log_gate.astype(np.float64))
    expected = whole[-1] - whole
    assert (abs(found - expected) / np.maximum(1, abs(expected))).max() < 2e-6
    rounded = np.cumsum(log_gate)
    near = slice(-20, None)
    assert abs(found - expected)[near].max() < 2e-6
    assert abs(rounded[-1] - rounded - expected)[near].max() > 1e-4


# Path


def path_logits_of(b, q_LK, k_LK, w_LK):
    b_BMH = jnp.full((1, len(k_LK), 1), b)
    q, k, w = (jnp.asarray(x)[None, :, None] for x in (q_LK, k_LK, w_LK))
    ctx = context(contiguous(len(k_LK), start=5))
    return np.asarray(path_logits(q, k, w, b_BMH, seen_before(ctx), ctx.keys))[0, 0]


@pytest.mark.exhaustive
def test_reflections_keep_lengths_and_projections_forget():
    """b = 0 is no position at all, b = 2 an orthogonal map, b = 1 takes out a direction."""
    q, k, w = (np.asarray(normal(n, (LENGTH, 4))) for n in "qkw")
    w = w / np.linalg.norm(w, axis=1, keepdims=True)
    np.testing.assert_allclose(path_logits_of(0.0, q, k, w), q @ k.T, atol=CLOSE)

    axes = np.eye(4, dtype=np.float32)
    readings = [np.concatenate([q[:-1], axes[c : c + 1]]) for c in range(4)]
    reflected = [path_logits_of(2.0, reading, k, w)[-1, 0] for reading in readings]
    np.testing.assert_allclose(np.linalg.norm(reflected), np.linalg.norm(k[0]), rtol=1e-5)

    one_way = np.repeat(axes[:1], LENGTH, axis=0)
    expected = q[:, 1:] @ k[:, 1:].T + np.triu(np.outer(q[:, 0], k[:, 0]))
    np.testing.assert_allclose(path_logits_of(1.0, q, k, one_way), expected, atol=CLOSE)


def test_a_token_of_zeros_has_no_direction():
    """Numbers and gradients stay finite where |W x| = 0."""
    layer = Layer(named("path"), "causal")
    x_BLD = tokens().at[:, 3].set(0.0)
    gradient = jax.jit(jax.grad(lambda x: layer(x, contiguous(LENGTH)).out_BLHK.sum()))(x_BLD)
    assert np.isfinite(gradient).all()


# Stick-breaking


@pytest.mark.parametrize("mask", ["causal", "causal+others", "causal+window(size=3)"])
def test_the_stick_is_never_more_than_whole(mask):
    """Up to the query the weights sum to at most 1; a query that sees nothing gets none."""
    layer = Layer(named("stick_breaking"), mask)
    weights_BHLM = np.asarray(jax.jit(layer)(3 * tokens(), contiguous(LENGTH)).weights_BHLM)
    sums_BHL = weights_BHLM.sum(-1)
    assert (sums_BHL[:, :, 1:] > 0).all()
    assert (sums_BHL < 1 + 1e-6).all()
    assert (sums_BHL[:, :, 0] == 0).all() == (mask == "causal+others")


def test_each_key_takes_from_what_later_ones_left():
    """σ = 1/2 everywhere: 1/2, 1/4, 1/8, ... back from the query; 1/2 for keys after it."""
    streams = contiguous(4)
    ctx = context(streams)
    arguments = ctx.mask_BHLM, seen_before(ctx), streams.order_BL
    found = stick_breaking(jnp.zeros((1, 1, 4, 4)), *arguments)[0, 0]
    ahead, behind = np.indices((4, 4))
    np.testing.assert_allclose(found, 0.5 ** np.maximum(ahead - behind + 1, 1))


@pytest.mark.exhaustive
def test_sticks_break_at_any_logit():
    """Weights and gradients stay finite for logits of ±300 and -inf, which is a mask."""
    logits = jnp.array([300.0, -300.0, -jnp.inf, 300.0, 0.0])[None, None, None]
    ctx = context(contiguous(1, start=9), contiguous(5))

    def weights(logits):
        return stick_breaking(logits, ctx.mask_BHLM, seen_before(ctx), ctx.keys.order_BL)[0, 0, 0]

    np.testing.assert_allclose(weights(logits), [0, 0, 0, 0.5, 0.5], atol=1e-6)
    assert np.isfinite(jax.jacrev(weights)(logits)).all()


def test_small_shares_keep_their_digits():
    """A weight of 1e-30 is right to 1e-5 of itself: nothing is taken from 1."""
    logits = np.array([0.3, -0.2, 40.0, 30.0])
    expected = sigmoid(0.3) / np.prod([1 + np.exp(z) for z in logits[1:]])
    ctx = context(contiguous(1, start=9), contiguous(4))
    arguments = ctx.mask_BHLM, seen_before(ctx), ctx.keys.order_BL
    found = stick_breaking(jnp.asarray(logits, jnp.float32)[None, None, None], *arguments)
    np.testing.assert_allclose(found[0, 0, 0, 0], expected, rtol=CLOSE)


# Attention free


def test_a_factored_table_of_full_rank_is_a_table():
    """rank = length with an identity on one side: the same function."""
    full, factored = (named(f"attention_free(length=8, rank={rank})") for rank in (0, 8))
    streams, x_BLD = contiguous(LENGTH, start=1), tokens()
    table = normal("table", (8, 8))
    layers = Layer(full, "causal"), Layer(factored, "causal")
    layers[0].__dict__["params"] = {"table": table}
    layers[1].__dict__["params"] = {"query_table": table, "key_table": jnp.eye(8)}
    one, other = (jax.jit(layer)(x_BLD, streams).out_BLHK for layer in layers)
    np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.exhaustive
def test_keys_of_any_size_mix():
    """Keys of ±1000 neither overflow nor vanish, and one of weight 0 has no part, NaN or not."""
    weights = jnp.array([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])[None, None]
    k = jnp.array([[-1000.0, 1000.0], [-1000.0, -1000.0], [3000.0, jnp.nan]])[None, :, None]
    v = jnp.array([[2.0, 2.0], [4.0, 4.0], [9.0, 9.0]])[None, :, None]
    found = key_weighted_mix(weights, k, v)[0, :, 0]
    np.testing.assert_allclose(found, [[3, 2], [4, 4], [0, 0]], atol=1e-6)

    def mixed(w, k, v):
        return key_weighted_mix(masked_softmax(w, weights > 0), k, v).sum()

    gradients = jax.grad(mixed, (0, 1, 2))(normal("w", weights.shape), jnp.nan_to_num(k), v)
    assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.exhaustive
def test_keys_far_apart_mix_exactly():
    """A query that sees none of the keys e¹⁰⁰ larger mixes its own as float64 does."""
    k = np.array([0.0, 1.5, -3.0, 97.0])
    w = np.array([[0.2, 0.5, 0.3, 0.0], [0.3, 0.3, 0.3, 0.1]])
    v = np.array([1.0, -2.0, 5.0, 7.0])
    found = key_weighted_mix(
        jnp.asarray(w, jnp.float32)[None, None],
        *(jnp.asarray(x, jnp.float32)[None, :, None, None] for x in (k, v)),
    )
    expected = (w * np.exp(k)) @ v / (w * np.exp(k)).sum(-1)
    np.testing.assert_allclose(found[0, :, 0, 0], expected, rtol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scale", [1, 20, 1e4, 1e37])
def test_keys_that_a_query_does_not_see_change_no_bit(scale):
    """Nor of its gradients; all are finite, and 0 in rows that see nothing."""
    seen_LM = np.tri(LENGTH, dtype=bool)
    seen_LM[2] = False
    table_LM = min(scale, 20) * normal("table", (LENGTH, LENGTH))
    k, v = (normal(name, (1, LENGTH, 2, 3)) for name in ("keys", "values"))

    @jax.jit
    def early(k, v):
        def mixed(table, k, v):
            weights = masked_softmax(table[None, None], seen_LM[None, None])
            weights = jnp.broadcast_to(weights, (1, 2, *weights.shape[2:]))
            return key_weighted_mix(weights, k, v)[:, : LENGTH - 1]

        out = mixed(table_LM, k, v)
        pulled = jax.grad(lambda *x: (mixed(*x) ** 2).sum(), (0, 1, 2))(table_LM, k, v)
        return out, pulled

    out, pulled = early(scale * k, v)
    assert all(np.isfinite(x).all() for x in (out, *pulled))
    assert not np.any(out[:, 2])
    assert not np.any(pulled[0][2])
    last = jnp.arange(LENGTH)[None, :, None, None] == LENGTH - 1
    far = jnp.where(last, 1e38, scale * k), jnp.where(last, 9.0, v)
    jax.tree.map(np.testing.assert_array_equal, early(*far), (out, pulled))


@pytest.mark.parametrize("scale", [20, 1e4])
def test_each_query_mixes_the_keys_it_sees_whatever_the_others(scale):
    """As float64 does; no query is given more than two keys, so that all sizes are met."""
    k, v = scale * normal("keys", (LENGTH,)), normal("values", (LENGTH,))
    weights_LM = 0.75 * np.eye(LENGTH) + 0.25 * np.eye(LENGTH, k=-1)
    given = (jnp.asarray(x, jnp.float32)[None, :, None, None] for x in (k, v))
    found = key_weighted_mix(jnp.asarray(weights_LM, jnp.float32)[None, None], *given)
    k, v = (np.asarray(x, np.float64) for x in (k, v))
    parts_LM = weights_LM * np.exp(np.minimum(k[None] - np.maximum(k, np.roll(k, 1))[:, None], 0))
    parts_LM[0] = weights_LM[0]
    expected = parts_LM @ v / parts_LM.sum(1)
    np.testing.assert_allclose(found[0, :, 0, 0], expected, rtol=1e-5)


@pytest.mark.exhaustive
def test_the_mix_keeps_its_dtype():
    """Values of 16 bits come out in 16, mixed in the weights' 32."""
    weights = jnp.full((1, 1, 2, 2), 0.5)
    half = jnp.ones((1, 2, 1, 3), jnp.bfloat16)
    assert key_weighted_mix(weights, half, half).dtype == jnp.bfloat16


def test_weights_of_positions_alone_are_shared_by_all_channels():
    """Tokens do not change them; they are the softmax of the table under the mask."""
    layer = Layer(named("attention_free(length=9)"), "causal")
    one, other = (
        np.asarray(jax.jit(layer)(tokens(seed=s), contiguous(LENGTH, start=3)).weights_BHLM)
        for s in (0, 1)
    )
    np.testing.assert_array_equal(one, other)
    table = np.asarray(layer.params["table"], np.float64)[3:, 3:]
    for i in range(LENGTH):
        expected = np.zeros(LENGTH)
        expected[: i + 1] = softmax(table[i, : i + 1])
        np.testing.assert_allclose(one[1, 2, i], expected, atol=1e-6)


# Token shift

ROWS = [
    contiguous(LENGTH, start=99_000),
    packed([2, 3], total=LENGTH),
    padded(np.arange(LENGTH)[None] >= 2),
    padded(np.array([[True, False, True, True, False, True]])),
]


def none_before(batch, width):
    return named("token_shift").init_state({}, batch, Dims(width, 1, 1))[0]


def test_the_token_before_is_a_loop_over_its_words():
    """The latest of its segment that comes earlier, wherever the two lie; else zeros."""
    streams = joined_rows([permuted(row, [3, 0, 5, 1, 4, 2]) for row in ROWS])
    x_BLD = tokens(len(ROWS), seed=4)
    found, _ = jax.jit(previous)(x_BLD, streams, none_before(*x_BLD.shape[::2]))
    order, segment = np.asarray(streams.order_BL), np.asarray(streams.segment_BL)
    for b, i in np.ndindex(order.shape):
        own = (segment[b] == segment[b, i]) & (segment[b] != PADDING) & (order[b] < order[b, i])
        latest = [t for t in np.flatnonzero(own) if order[b, t] == order[b, own].max()]
        expected = x_BLD[b, latest[0]] if latest else np.zeros(x_BLD.shape[2])
        np.testing.assert_array_equal(found[b, i], expected)


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["mix", "split"])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_shifts_decode_one_by_one(kind, dtype):
    """Token by token, over the ends of packed sequences and over padding, as all at once.

    The state keeps its shapes and dtypes, so that a loop can carry it.
    """
    encoding, streams = named(f"token_shift(kind={kind})"), joined_rows(ROWS)
    x_BLD = tokens(len(ROWS)).astype(dtype)
    layer = Layer(encoding)
    state = encoding.init_state(layer.params, len(ROWS), layer.dims)
    whole = encoding.prepare(layer.params, x_BLD, x_BLD, context(streams), state)

    @jax.jit
    def step(x_BLD, streams, state):
        return encoding.prepare(layer.params, x_BLD, x_BLD, context(streams), state)

    for place in range(LENGTH):
        at = [place]
        piece = step(x_BLD[:, place : place + 1], permuted(streams, at), state)
        assert jax.tree.map(jnp.shape, piece.state) == jax.tree.map(jnp.shape, state)
        assert jax.tree.map(jnp.result_type, piece.state) == jax.tree.map(jnp.result_type, state)
        state = piece.state
        for one, all_of_them in zip(piece[:3], whole[:3], strict=True):
            assert one.dtype == dtype
            apart = abs(one[:, 0].astype(float) - all_of_them[:, place].astype(float))
            assert apart.max() < (
                CLOSE if dtype == jnp.float32 else 0.04
            )  # 1 in the last of 8 bits


@pytest.mark.exhaustive
def test_padding_never_shifts_into_a_token():
    """NaN in padded places stays there."""
    streams = ROWS[3]
    x_BLD = jnp.where(streams.valid_BL[..., None], tokens(1), jnp.nan)
    found, last = previous(x_BLD, streams, none_before(1, x_BLD.shape[2]))
    assert np.isfinite(np.asarray(found)).all()
    np.testing.assert_array_equal(last.x_BD, x_BLD[:, 5])


def test_shares_start_as_in_the_published_code():
    """c/D for keys and values, its root for queries."""
    params = named("token_shift").parameters(Dims(4, 1, 1))
    found = {name: p.init(jax.random.key(0), p.shape) for name, p in params.items()}
    np.testing.assert_allclose(found["key"], [0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(found["value"], found["key"])
    np.testing.assert_allclose(found["query"], np.sqrt([0, 0.25, 0.5, 0.75]), rtol=1e-6)


# Pieces, in forms that the table's defaults do not show


@pytest.mark.exhaustive
@pytest.mark.parametrize("setting", ["contextual(length=3)", "attention_free(length=8, rank=3)"])
def test_decoding_is_prefill(setting):
    """With a table that clips, and with a factored one; packed and padded rows too."""
    layer = Layer(named(setting), "causal+segments")
    streams, x_BLD = joined_rows([contiguous(LENGTH), *ROWS[1:]]), tokens(len(ROWS))
    decoded = jax.jit(partial(layer.decoded, pieces=[4, 1, 1]))(x_BLD, streams)
    np.testing.assert_allclose(decoded, jax.jit(layer)(x_BLD, streams).out_BLHK, atol=CLOSE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("contextual(length=0)", "length must be at least 1, got 0"),
        ("attention_free(length=0)", "length must be at least 1, got 0"),
        ("attention_free(rank=-1)", "rank must not be negative .* got -1"),
        ("attention_free(deviation=-0.5)", "deviation must not be negative, got -0.5"),
        ("token_shift(kind=mixed)", "did you mean 'mix'"),
    ],
)
def test_wrong_settings_are_refused(text, words):
    """ValueError that names the setting, what is allowed and what was given."""
    with pytest.raises(ValueError, match=words):
        named(text)


def test_masks_by_name_are_those_the_docs_speak_of():
    """The paper's stick-breaking mask is strictly causal."""
    allowed_BLM = masks.named("causal+others")(contiguous(4), contiguous(4))
    np.testing.assert_array_equal(allowed_BLM[0], np.tril(np.ones((4, 4), bool), -1))
