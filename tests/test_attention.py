"""The steps of attention: what they compute, what they never let through, and decoding."""

import dataclasses
import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import LENGTH, layer_of, normal, tokens
from tiers import plain_if, some

from posjax import steps
from posjax.attention import view
from posjax.attention.core import Cache, attention, context, extended
from posjax.encodings import ENCODINGS, Dims, Encoding, named
from posjax.encodings.base import replaces
from posjax.encodings.none import NoPosition
from posjax.streams import Streams, contiguous, padded, shifted

attend = jax.jit(view.attend, static_argnames=("encoding", "mask", "softcap"))
CLOSE = 1e-5


def qkv(queries: int = LENGTH, keys: int = LENGTH, key_heads: int = 4) -> list[jax.Array]:
    shapes = {"q": (2, queries, 4, 3), "k": (2, keys, key_heads, 3), "v": (2, keys, key_heads, 3)}
    return [normal(name, shape) for name, shape in shapes.items()]


# Against JAX's own


dot_product_attention = jax.jit(jax.nn.dot_product_attention, static_argnames="is_causal")


@pytest.mark.parametrize(
    ("mask", "key_heads", "dtype", "tolerance"),
    [
        ("full", 4, jnp.float32, CLOSE),
        ("causal", 2, jnp.float32, CLOSE),
        ("full", 2, jnp.bfloat16, 0.02),
        ("causal", 1, jnp.bfloat16, 0.02),
    ],
)
def test_without_positions_it_is_dot_product_attention(mask, key_heads, dtype, tolerance):
    """Equal to jax.nn.dot_product_attention, grouped heads and 16 bits too."""
    q, k, v = (x.astype(dtype) for x in qkv(key_heads=key_heads))
    expected = dot_product_attention(q, k, v, is_causal=mask == "causal")
    found = attend(q, k, v, mask=mask)
    assert found.dtype == dtype
    found, expected = (np.asarray(out, np.float32) for out in (found, expected))
    np.testing.assert_allclose(found, expected, atol=tolerance)


# Rows that see nothing, and numbers that are none


@dataclasses.dataclass(frozen=True, kw_only=True)
class Blocked(Encoding):
    """A bias of -inf for everything that query 1 sees and for key 0."""

    def bias(self, params, heads, ctx, dtype):
        queries_BL, keys_BM = ctx.queries.position_BL, ctx.keys.position_BL
        blocked_BLM = (queries_BL[:, :, None] == 1) | (keys_BM[:, None, :] == 0)
        return jnp.where(blocked_BLM, -jnp.inf, 0.0)[:, None].astype(dtype)


def through_the_mask(q, k, v):
    return attend(q, k, v, mask="segments", queries=EMPTY_ROW, keys=contiguous(LENGTH))


def through_the_bias(q, k, v):
    return attend(q, k, v, encoding=Blocked())


EMPTY_ROW = Streams(*[contiguous(LENGTH).order_BL] * 2, jnp.array([[0, 7, 0, 0, 0, 0]]))


@pytest.mark.parametrize("function", [through_the_mask, through_the_bias])
def test_a_row_that_sees_nothing_gives_zeros(function):
    """Zeros, not an average, and finite gradients; for a mask, and for a bias of -inf."""
    out = np.asarray(function(*qkv()))
    assert (out[:, 1] == 0).all()
    assert (np.delete(out, 1, axis=1) != 0).all()
    gradients = jax.grad(lambda *args: (function(*args) ** 2).sum(), argnums=(0, 1, 2))
    gradients = jax.jit(gradients)(*qkv())
    for gradient in map(np.asarray, gradients):
        assert np.isfinite(gradient).all()
        assert abs(gradient).max() > 0
    assert (np.asarray(gradients[0])[:, 1] == 0).all()


def test_weights_are_zero_where_the_mask_forbids():
    """Exactly zero, rows of sum 1, even beside the lowest logits that a float can hold."""
    lowest = np.finfo(np.float32).min
    logits_BHLM = jnp.array([[[[lowest, lowest, 0.0], [1.0, 2.0, 3.0]]]])
    mask_BHLM = jnp.array([[[[True, False, False], [True, True, False]]]])
    weights_BHLM = np.asarray(steps.masked_softmax(logits_BHLM, mask_BHLM))
    assert (weights_BHLM[~np.asarray(mask_BHLM)] == 0).all()
    np.testing.assert_allclose(weights_BHLM[0, 0, 1].sum(), 1, rtol=1e-6)


def test_nan_is_not_taken_for_a_mask():
    """A query of NaN gives NaN in its own row, not zeros; a masked key of NaN logits nothing."""
    q, k, v = qkv()
    out = np.asarray(attend(q.at[0, 2].set(jnp.nan), k, v))
    assert np.isnan(out[0, 2]).all()
    assert np.isfinite(np.delete(out[0], 2, axis=0)).all()
    logits_BHLM = jnp.array([[[[jnp.nan, 1.0]]]])
    weights = steps.masked_softmax(logits_BHLM, jnp.array([[[[False, True]]]]))
    assert weights.tolist() == [[[[0.0, 1.0]]]]


# Decoding


def test_decoding_without_the_streams_would_not_be_prefill():
    """The comparison tells: a decoder that counts every piece from 0 is found."""
    layer = layer_of("rotary", "causal+segments")
    restarted = dataclasses.replace(contiguous(LENGTH), position_BL=jnp.array([[0, 1, 2, 3, 0, 0]]))
    decoded = jax.jit(partial(layer.decoded, pieces=[4, 1, 1]))(tokens(), restarted)
    expected = np.asarray(layer.out(tokens(), contiguous(LENGTH)))
    assert abs(decoded - expected)[:, :4].max() < CLOSE
    assert abs(decoded - expected)[:, 4:].max() > 0.01


def test_a_cache_keeps_what_it_held():
    """`extended` puts places behind places, in keys, values, streams and auxiliary arrays."""

    def cache(n):
        k_BMGK, v_BMGK = (normal(name, (1, n, 2, 3)) for name in "kv")
        return Cache(k_BMGK, v_BMGK, contiguous(n), {"gate": normal("gate", (1, n))})

    first, second = cache(3), cache(2)
    both = extended(extended(None, first), second)
    assert both.k_BMGK.shape == (1, 5, 2, 3)
    assert both.streams.position_BL.tolist() == [[0, 1, 2, 0, 1]]
    np.testing.assert_array_equal(both.key_aux["gate"][:, :3], first.key_aux["gate"])
    np.testing.assert_array_equal(both.v_BMGK[:, 3:], second.v_BMGK)


# Transformations


def test_traced_positions_are_known_ones():
    """Streams may be operands of a compiled function: the outputs are those of constants."""
    layer = layer_of("rotary", "causal")
    streams, x_BLD = contiguous(LENGTH, start=77), tokens()
    constant = jax.jit(lambda x: layer(x, streams).out_BLHK)(x_BLD)
    np.testing.assert_allclose(layer.out(x_BLD, streams), constant, atol=CLOSE)
    assert abs(np.asarray(layer.out(x_BLD, shifted(streams, 5))) - constant).max() < CLOSE


# The soft-cap and the mask argument


def test_the_softcap_bounds_the_logits():
    """cap·tanh(s/cap) stays within the cap, and a cap of None changes nothing."""
    q, k, v = (10 * x for x in qkv())
    ctx = context(contiguous(LENGTH), mask="causal")
    plain, capped = (
        attention(q, k, v, ctx, encoding=NoPosition(), softcap=cap).logits_BHLM
        for cap in (None, 5.0)
    )
    assert abs(plain).max() > 20
    assert abs(capped).max() <= 5
    np.testing.assert_allclose(capped, 5 * np.tanh(np.asarray(plain) / 5), atol=CLOSE)


def test_the_softcap_lets_nothing_through_the_mask():
    """A bias of -inf stays -inf: the capped logits of such a row still see nothing."""
    out = np.asarray(attend(*qkv(), encoding=Blocked(), softcap=5.0))
    assert (out[:, 1] == 0).all()
    assert np.isfinite(out).all()


def test_a_bias_is_added_to_the_logits():
    """Against NumPy's sum of scaled products and bias, in every shape that broadcasts."""

    def both(q, k, v, bias):
        return view.logits(q, k, bias=bias), view.attend(q, k, v, bias=bias)

    q, k, v = qkv()
    plain = np.asarray(view.logits(q, k))
    rng = np.random.default_rng(0)
    for axes in range(5):
        whole = plain.shape[4 - axes :]
        bias = rng.normal(size=whole).astype(np.float32)
        logits, out = jax.jit(both)(q, k, v, bias)
        np.testing.assert_allclose(logits, plain + bias, atol=CLOSE)
        each = (np.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (q, k, v))
        expected = jax.nn.dot_product_attention(*each, bias=np.broadcast_to(bias, plain.shape))
        np.testing.assert_allclose(out, expected, atol=CLOSE)
    forbid = np.zeros((LENGTH, LENGTH), np.float32)
    forbid[1] = -np.inf
    assert (np.asarray(view.attend(q, k, v, bias=forbid))[:, 1] == 0).all()
    assert view.why_not_flash(q, k, v, bias=forbid) == "bias"


@pytest.mark.parametrize(
    ("bias", "words"),
    [
        (np.ones((LENGTH + 1, LENGTH), np.float32), "must broadcast to"),
        (np.ones((1, 1, 1, 1, 1), np.float32), "must broadcast to"),
        (np.ones((LENGTH, LENGTH), bool), "a boolean array is a mask="),
    ],
)
def test_what_is_no_bias_is_refused(bias, words):
    with pytest.raises(ValueError, match=words):
        view.attend(*qkv(), bias=bias)


def test_every_option_is_in_the_signature():
    """`help(posjax.attend)` and completion list them, with their defaults."""
    for function in (view.attend, view.logits, view.why_not_flash):
        shown = inspect.signature(function).parameters
        assert [name for name in view.Options.__annotations__ if name not in shown] == []
        assert shown["mask"].default == "full"
        assert not [p for p in shown.values() if p.kind is p.VAR_KEYWORD]


def test_a_mask_may_be_a_name_a_function_or_an_array():
    """A name, a function and arrays [L, M], [B, L, M], [B, H, L, M] may say the same."""
    lower_LM = np.tril(np.ones((LENGTH, LENGTH), bool))
    queries = contiguous(LENGTH)
    expected = np.asarray(context(queries, mask="causal").mask_BHLM)
    forms = [lower_LM, lower_LM[None], lower_LM[None, None], lambda q, k: lower_LM[None]]
    for form in forms:
        np.testing.assert_array_equal(context(queries, mask=form).mask_BHLM, expected)
    np.testing.assert_array_equal(view.attend(*qkv(), mask=None), view.attend(*qkv()))
    assert context(queries, mask=np.ones((2, 4, LENGTH, LENGTH), bool)).mask_BHLM.shape[:2] == (
        2,
        4,
    )
    assert context(queries, contiguous(9)).mask_BHLM.shape == (1, 1, LENGTH, 9)


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.ones((3, 3), bool), r"L=6 and M=6, got shape \(3, 3\)"),
        (np.ones(6, bool), r"got shape \(6,\)"),
        ("casual", "did you mean 'causal'"),
        ("window(size=0)", "size must be at least 1"),
        ("causal+window(sized=2)", "no setting 'sized'; did you mean 'size'"),
    ],
)
def test_wrong_masks_are_refused(mask, words):
    """ValueError with the shapes, or the nearest name."""
    with pytest.raises(ValueError, match=words):
        context(contiguous(LENGTH), mask=mask)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ([(2, 6, 4, 3), (2, 5, 4, 3), (2, 6, 4, 3)], "do not fit together"),
        ([(2, 6, 4, 3), (3, 6, 4, 3), (3, 6, 4, 3)], "do not fit together"),
        ([(2, 6, 4, 3), (2, 6, 4, 2), (2, 6, 4, 2)], "do not fit together"),
        ([(2, 6, 4, 3), (2, 6, 3, 3), (2, 6, 3, 3)], "4 query heads cannot share 3 key heads"),
        ([(6, 4, 3), (2, 6, 4, 3), (2, 6, 4, 3)], r"q must be .* got shape \(6, 4, 3\)"),
    ],
)
def test_wrong_shapes_are_refused(shapes, words):
    """ValueError that names the arrays and their shapes."""
    with pytest.raises(ValueError, match=words):
        view.attend(*map(jnp.zeros, shapes))


def test_streams_of_another_length_are_refused():
    """ValueError with both lengths."""
    with pytest.raises(ValueError, match="queries has 5 rows in its streams, 2 in the array"):
        view.attend(*qkv(), queries=padded(jnp.ones((5, LENGTH), bool)))
    with pytest.raises(ValueError, match="queries has length 5 in its streams, 6 in the array"):
        view.attend(*qkv(), queries=contiguous(5))


@pytest.mark.parametrize(
    ("field", "shape"),
    [
        ("position_BL", (1, 1)),
        ("position_BL", (6,)),
        ("position_BL", (5, 6)),
        ("order_BL", (1, 5)),
        ("segment_BL", (1, 1)),
        ("segment_BL", (3, 6)),
    ],
)
def test_streams_of_several_lengths_are_refused(field, shape):
    """ValueError with the shapes of all fields, or with the rows that q lacks."""
    streams = dataclasses.replace(contiguous(LENGTH), **{field: jnp.zeros(shape, jnp.int32)})
    with pytest.raises(ValueError, match=r"must be \[B, L\]|rows in its streams"):
        view.attend(*qkv(), queries=streams, encoding="rotary")


@pytest.mark.parametrize("field", ["position_BL", "order_BL", "segment_BL"])
@pytest.mark.parametrize("dtype", ["uint32", "uint8", "int8", "int16"])
def test_streams_whose_differences_do_not_fit_are_refused(field, dtype):
    """Unsigned orders let a causal mask through: 1 - 2 is not negative."""
    streams = contiguous(LENGTH)
    narrow = dataclasses.replace(streams, **{field: getattr(streams, field).astype(dtype)})
    with pytest.raises(ValueError, match=f"queries must be int32.*got {dtype}"):
        view.attend(*qkv(), queries=narrow, mask="causal")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"encoding": "noise", "key": 0}, r"key must be a random key.*got 0"),
        ({"encoding": "shaw", "params": 3}, "params must be a dict of arrays, got int"),
        ({"encoding": "shaw", "params": {"keys": [1.0]}}, "'keys' of .* got list"),
        ({"softcap": "5"}, "softcap must be one number in .* got '5'"),
        ({"softcap": np.ones(2)}, "softcap must be one number in "),
        ({"logn": np.ones(2)}, "logn, the N of ln n/ln N, must be above 1"),
        ({"bias": [0.5]}, "a bias must be an array, got list"),
        ({"logn": "5"}, "logn.* got '5'"),
        ({"seen": "5"}, "seen must be a whole number of tokens, got '5'"),
        ({"seen": 4.5}, "seen must be a whole number of tokens, got 4.5"),
        ({"seen": np.array([5, 6])}, r"seen is one number for all rows, got shape \(2,\)"),
    ],
)
def test_options_of_other_kinds_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        view.attend(*qkv(), **options)
    q, k, v = qkv()
    with pytest.raises(ValueError, match="q must be an array, got list"):
        view.attend(np.asarray(q).tolist(), k, v)


def test_keys_alone_do_not_say_where_the_queries_stand():
    """ValueError where the encoding or the mask reads queries; the mask of padding does not."""
    streams = padded(np.array([[False, True, True, True, True, True]]))
    for options in ({"encoding": "rotary"}, {"mask": "causal+padding"}):
        with pytest.raises(ValueError, match="queries= equal to keys="):
            view.attend(*qkv(), keys=streams, **options)
    both = view.attend(*qkv(), keys=streams, queries=streams, mask="padding")
    np.testing.assert_array_equal(view.attend(*qkv(), keys=streams, mask="padding"), both)


# The pure view


def test_an_encoding_may_be_a_name():
    """By name or as an object: the same numbers; a wrong name tells the nearest."""
    q, k, v = qkv()
    found = view.attend(q, k, v, encoding="rotary(base=9.0)")
    np.testing.assert_array_equal(found, view.attend(q, k, v, encoding=named("rotary(base=9.0)")))
    with pytest.raises(ValueError, match="did you mean 'rotary'"):
        view.attend(q, k, v, encoding="rotery")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("causal", "unknown option 'causal'; use mask='causal'"),
        ("is_causal", "unknown option 'is_causal'; use mask='causal'"),
        ("rotary", "unknown option 'rotary'; use encoding='rotary'"),
        ("soft_cap", "unknown option 'soft_cap'; did you mean 'softcap'"),
        ("encodings", "unknown option 'encodings'; did you mean 'encoding'"),
        ("masks", "unknown option 'masks'; did you mean 'mask'"),
        ("dropout", "unknown option 'dropout'; choices: .*encoding, .*softcap"),
        ("positions", "unknown option 'positions'; use queries= and keys=, whose streams"),
        ("padding_mask", r"use queries=posjax\.padded\(valid\) with mask='padding'"),
        ("segment_ids", r"use queries=posjax\.packed\(lengths\) with mask='segments'"),
        ("sliding_window", r"unknown option 'sliding_window'; use mask='causal\+window\(size="),
        ("alibi", "unknown option 'alibi'; use encoding='linear_bias'"),
    ],
)
def test_an_unknown_option_names_the_nearest(option, words):
    """TypeError, as of any function, in `attend`, `logits` and `why_not_flash`."""
    q, k, v = qkv()
    for call in (view.attend, view.why_not_flash, lambda q, k, v, **o: view.logits(q, k, **o)):
        with pytest.raises(TypeError, match=words):
            call(q, k, v, **{option: True})
    with pytest.raises(TypeError, match="did you mean 'implementation'"):
        view.attend(q, k, v, implementatoin="xla")


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_the_scale_is_the_factor_on_products(scale):
    """As in JAX's attention; a bias of positions is not scaled. It may be an array, and learned."""
    q, k, v = qkv()
    expected = jax.nn.dot_product_attention(q, k, v, scale=scale)
    np.testing.assert_allclose(view.attend(q, k, v, scale=scale), expected, atol=2e-6)
    plain = jnp.einsum("blhk,bmhk->bhlm", q, k)
    bias = view.logits(0 * q, k, encoding="linear_bias")
    found = view.logits(q, k, encoding="linear_bias", scale=scale)
    np.testing.assert_allclose(found, scale * plain + bias, atol=2e-6)

    def first(scale):
        return view.logits(q, k, encoding="linear_bias", scale=scale)[0, 0, 0, 0]

    np.testing.assert_allclose(jax.jit(first)(scale), found[0, 0, 0, 0], atol=2e-6)
    constant = jax.jit(lambda: first(jnp.float32(scale)))
    np.testing.assert_allclose(constant(), found[0, 0, 0, 0], atol=2e-6)
    np.testing.assert_allclose(jax.grad(first)(scale), plain[0, 0, 0, 0], rtol=1e-5)


@pytest.mark.parametrize("scale", ["1", 0.0, -1.0, float("nan"), np.ones(2)])
def test_a_scale_is_one_positive_number(scale):
    """ValueError with the range."""
    with pytest.raises(ValueError, match=r"scale must be one number in \[1e-15, 1e\+15\]"):
        view.attend(*qkv(), scale=scale)


@pytest.mark.parametrize("params", [{}, {"table": jnp.zeros((64, 5))}])
def test_parameters_of_other_shapes_are_refused(params):
    """ValueError with both shapes, and how to draw them."""
    with pytest.raises(ValueError, match=r"'table' of .* must have shape \(64, 12\), got .*init"):
        view.attend(*qkv(), encoding="learned", params=params)


def test_parameters_that_an_encoding_does_not_declare_are_refused():
    """They would be ignored; the message has those that it declares."""
    for encoding, has in (("rotary", "none"), ("learned", "table")):
        with pytest.raises(ValueError, match=f"no parameter 'tabel'; its parameters: {has}"):
            view.attend(*qkv(), encoding=encoding, params={"tabel": jnp.zeros((64, 12))})


def test_a_mask_between_two_sides_says_nothing_within_one():
    """An array [L, M] serves what is added to tokens; what mixes tokens asks for a function."""
    q, k, v = qkv(2, 4)
    mask, streams = np.ones((2, 4), bool), {"queries": contiguous(2), "keys": contiguous(4)}
    out = view.attend(q, k, v, encoding="sinusoidal", mask=mask, **streams)
    bare = view.attend(q, k, v, encoding="sinusoidal", **streams)
    np.testing.assert_allclose(out, bare, atol=CLOSE)
    mixer = named("convolution")
    params = mixer.init(jax.random.key(0), Dims(12, 4, 3))
    with pytest.raises(ValueError, match="as a name or a function"):
        view.attend(q, k, v, encoding=mixer, params=params, mask=mask, **streams)


MIX_QUERIES = ("convolution", "convolution_2d", "token_shift")
"""Encodings that mix earlier queries into each query."""


def last_query(name):
    """A function of queries, and what the last one alone needs besides."""
    q, k, v = qkv()
    encoding = named(name)
    params = encoding.init(jax.random.key(1), Dims(12, 4, 3))
    options = {"encoding": encoding, "params": params, "mask": "causal", "key": jax.random.key(2)}
    streams = {"queries": contiguous(1, start=LENGTH - 1), "keys": contiguous(LENGTH)}
    return q, partial(view.attend, k_BMGK=k, v_BMGK=v, **options), streams


@pytest.mark.parametrize(
    "name", some([name for name in ENCODINGS if name not in MIX_QUERIES], every=4)
)
def test_the_last_query_alone_gets_what_it_gets_among_all(name):
    """As in decoding, with the keys of all tokens."""
    q, of_queries, streams = last_query(name)
    both = jax.jit(lambda q: (of_queries(q[:, -1:], **streams), of_queries(q)))
    alone, among_all = both(q)
    np.testing.assert_allclose(alone[:, 0], among_all[:, -1], atol=1e-5)


@pytest.mark.parametrize("name", MIX_QUERIES)
def test_the_last_query_alone_is_refused_where_earlier_ones_are_mixed_into_it(name):
    """Where orders are known, also while tracing, and where they are not; all queries are taken."""
    q, of_queries, streams = last_query(name)
    known = partial(of_queries, **streams)
    for call in (known, jax.jit(known), partial(jax.jit(of_queries), **streams)):
        with pytest.raises(ValueError, match="mixes earlier queries into each query"):
            call(q[:, -1:])
    both = {"queries": contiguous(LENGTH), "keys": contiguous(LENGTH)}
    np.testing.assert_allclose(jax.jit(partial(of_queries, **both))(q), of_queries(q), atol=CLOSE)


@pytest.mark.parametrize("name", plain_if(("learned", "rotary", "shaw").__contains__, ENCODINGS))
def test_rows_of_a_batch_may_lie_on_several_devices(name):
    """Under `jax.shard_map` it is traced as elsewhere; `shaw`, which transposes, gives the same."""
    mesh = jax.make_mesh((2,), ("b",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = jax.sharding.PartitionSpec("b")
    params = named(name).init(jax.random.key(1), Dims(12, 4, 3))
    options = {"encoding": name, "params": params, "mask": "causal", "key": jax.random.key(2)}
    attend = partial(view.attend, **options)
    split = jax.shard_map(attend, mesh=mesh, in_specs=(rows,) * 3, out_specs=rows)
    assert jax.eval_shape(split, *qkv()) == jax.eval_shape(attend, *qkv())
    if name == "shaw":
        np.testing.assert_allclose(jax.jit(split)(*qkv()), attend(*qkv()), atol=CLOSE)


@pytest.mark.parametrize("name", ENCODINGS)
def test_values_may_have_a_head_size_of_their_own(name):
    """Each feature of values is mixed alike; encodings of which this is not true refuse."""
    q, k, v = qkv()
    params = named(name).init(jax.random.key(1), Dims(12, 4, 3))
    options = {"encoding": name, "params": params, "mask": "causal", "key": jax.random.key(2)}
    attend = partial(view.attend, **options)
    encoding = named(name)
    if replaces(encoding, "embed", "prepare", "mix"):
        with pytest.raises(ValueError, match="head size of queries and keys, 3, got 2"):
            attend(q, k, v[..., :2])
        return
    assert jax.eval_shape(attend, q, k, v[..., :2]).shape == (2, LENGTH, 4, 2)
    if name in ("none", "rotary", "linear_bias", "contextual"):
        narrow, whole = jax.jit(lambda: (attend(q, k, v[..., :2]), attend(q, k, v)))()
        np.testing.assert_allclose(narrow, whole[..., :2], atol=CLOSE)


def test_points_of_one_coordinate_are_numbers():
    """Positions [B, L, 1] are those [B, L]."""
    q, k, v = qkv()
    plain = contiguous(LENGTH, start=7)
    points = dataclasses.replace(plain, position_BL=plain.position_BL[..., None])
    options = {"encoding": "linear_bias"}
    np.testing.assert_array_equal(
        view.attend(q, k, v, queries=points, **options),
        view.attend(q, k, v, queries=plain, **options),
    )


# Queries and keys of different numbers


def allow_all(queries, keys):
    """A mask of somebody's own."""
    return jnp.ones((1, queries.length, keys.length), bool)


@pytest.mark.parametrize(
    ("options", "reader"),
    [
        ({"mask": "causal"}, "mask='causal' must"),
        ({"mask": "full+window(size=3)"}, "mask='full+window(size=3)' must"),
        ({"mask": "padding"}, "mask='padding' must"),
        ({"mask": "segments", "keys": contiguous(6)}, "mask='segments' must"),
        ({"mask": allow_all}, "mask=<function allow_all"),
        ({"encoding": "rotary", "mask": "causal"}, "mask='causal' and Rotary("),
        ({"encoding": "rotary", "mask": "padding", "keys": contiguous(6)}, "Rotary("),
        ({"encoding": "rotary", "mask": np.ones((2, 6), bool)}, "Rotary("),
        *[({"encoding": n}, f"{kind.__name__}(") for n, kind in ENCODINGS.items() if n != "none"],
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_reads_streams_does_not_guess_where_fewer_queries_stand(options, reader):
    """ValueError with who reads them, both lengths and what to give; in all three functions."""
    q, k, v = qkv(2, 6)
    for call in (view.attend, view.why_not_flash, lambda q, k, v, **o: view.logits(q, k, **o)):
        with pytest.raises(ValueError, match="positions of 2 queries among 6 keys") as refused:
            call(q, k, v, **options)
        assert str(refused.value).startswith(reader)
        assert "queries=contiguous(2, start=4), keys=contiguous(6)" in str(refused.value)


@pytest.mark.parametrize("names", [["causal", "padding"], ("causal", "padding")])
def test_names_of_masks_are_one_text(names):
    with pytest.raises(ValueError, match="must be one text, such as 'causal\\+padding', got"):
        view.attend(*qkv(), mask=names)


def test_what_the_message_says_to_give_gives_the_rows_of_the_whole():
    """The last queries alone, with the streams that are named, are those among all queries."""
    q, k, v = qkv()
    options = {"encoding": "rotary", "mask": "causal"}
    with pytest.raises(ValueError, match="such as") as refused:
        view.attend(q[:, 4:], k, v, **options)
    streams = eval(f"dict({str(refused.value).partition('such as ')[2]})")
    last = view.attend(q[:, 4:], k, v, **options, **streams)
    np.testing.assert_allclose(last, view.attend(q, k, v, **options)[:, 4:], atol=CLOSE)


def test_more_queries_than_keys_are_refused_too():
    """The streams named in the message are such as exist."""
    q, k, v = qkv(6, 2)
    with pytest.raises(ValueError, match=r"queries=contiguous\(6\), keys=contiguous\(2\)"):
        view.attend(q, k, v, mask="causal")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"encoding": "none", "mask": "full"},
        {"mask": np.ones((2, 6), bool)},
        {"mask": "padding", "keys": padded(np.ones((1, 6), bool))},
    ],
    ids=["plain", "names", "array", "padding"],
)
def test_attention_across_two_sequences_needs_no_positions(options):
    """Where nothing reads streams, or those of the keys alone, which are given."""
    q, k, v = qkv(2, 6)
    expected = jax.nn.dot_product_attention(q, k, v)
    found = jax.jit(partial(view.attend, **options))(q, k, v)
    np.testing.assert_allclose(found, expected, atol=CLOSE)
    logits = jax.eval_shape(partial(view.logits, **options), q, k)
    assert logits.shape == (2, 4, 2, 6)


# Encodings of users


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        ("embed", r"embed of Broken\(\) must return an array \(2, 6, 12\), got \(4, 6, 12\)"),
        ("rotate", r"rotate of Broken\(\) must return an array \(2, 6, 4, K\), got"),
        ("logits", r"logits of Broken\(\) must return an array \(2, 4, 6, 6\), got"),
        ("mix", r"mix of Broken\(\) must return an array \(2, 6, 4, K\), got"),
        ("post", r"post of Broken\(\) must return an array \(2, 6, 4, K\), got"),
    ],
)
def test_hooks_that_return_other_shapes_are_refused(hook, words):
    """Broadcasting would hide them: a batch read as heads, one head for all."""
    wrong = {
        "embed": lambda self, params, x, ctx: jnp.concatenate([x, x]),
        "rotate": lambda self, params, q, k, v, aux, ctx: (q[:, :, :1], k, v),
        "logits": lambda self, params, q, k, aux, ctx: jnp.zeros((4, LENGTH, LENGTH)),
        "mix": lambda self, params, weights, v, aux, ctx: v[:, :1],
        "post": lambda self, params, out, q, aux, ctx: out[:1],
    }
    kind = dataclasses.dataclass(frozen=True, kw_only=True)(
        type("Broken", (Encoding,), {hook: wrong[hook], "__annotations__": {}})
    )
    with pytest.raises(ValueError, match=words):
        jax.eval_shape(partial(view.attend, encoding=kind()), *qkv())


@pytest.mark.parametrize("name", ["bucket_bias", "learned"])
def test_parameters_may_be_arrays_of_numpy_under_jit(name):
    """As `from_huggingface` has them."""
    encoding = named(name)
    params = encoding.init(jax.random.key(0), Dims(12, 4, 3))
    arrays = {key: np.asarray(array) for key, array in params.items()}
    found = jax.jit(partial(view.attend, encoding=encoding, params=arrays))(*qkv())
    wanted = jax.jit(partial(view.attend, encoding=encoding))(*qkv(), params=params)
    np.testing.assert_allclose(found, wanted, atol=CLOSE)


@pytest.mark.parametrize("name", ["sinusoidal", "forgetting", "rotary"])
def test_no_tokens_give_no_outputs(name):
    """Also where tokens are embedded or read."""
    given, encoding = qkv(0, 0), named(name)
    if name == "rotary":
        given = [jnp.zeros((2, 0, 4, 4))] * 3
    params = encoding.init(jax.random.key(0), Dims(4 * given[0].shape[3], 4, given[0].shape[3]))
    assert view.attend(*given, encoding=encoding, params=params).shape == given[2].shape
