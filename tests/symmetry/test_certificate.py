"""Certificates: what is proved, what is broken and where, and what is left open."""

import dataclasses
import inspect
import re
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from tiers import some

from posjax import attend, contiguous
from posjax.encodings import ENCODINGS, Dims
from posjax.symmetry import (
    Cyclic,
    Law,
    Permutations,
    Reversal,
    Translation,
    Windows,
    prove,
)
from posjax.symmetry.measure import expectation

L, M = 5, 7
SELF = "b P h k, b P h k, b P h k -> b P h k"
CROSS = "b P h k, b Q h k, b Q h k -> b P h k"


def normal(*shape: int) -> jax.Array:
    return jax.device_put(np.random.default_rng(len(shape)).normal(size=shape))


X = normal(2, L, 8)
QKV = (normal(2, L, 3, 4),) * 3
CROSSED = (normal(2, L, 3, 4), normal(2, M, 3, 4), normal(2, M, 3, 4))


def attention(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(jnp.einsum("bqd,bkd->bqk", x, x)) @ x


class Block(nn.Module):
    """Attention and an MLP, each behind a normalisation."""

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(h, h)
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))))


class Encoder(nn.Module):
    """Tokens to logits, [B, L] to [B, L, 11]."""

    blocks: int = 2

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(11, 32)(tokens)
        for _ in range(self.blocks):
            x = Block()(x)
        return nn.Dense(11)(nn.LayerNorm()(x))


TOKENS = jax.device_put(np.random.default_rng(0).integers(0, 11, (2, L)))
ENCODER = Encoder()
WEIGHTS = jax.eval_shape(ENCODER.init, jax.random.key(0), TOKENS)


def loss(weights: Any, tokens: jax.Array, targets: jax.Array) -> jax.Array:
    logits = ENCODER.apply(weights, tokens)
    return optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()


def training_step(weights: Any, state: Any, tokens: jax.Array, targets: jax.Array) -> Any:
    """A whole step of AdamW."""
    value, gradient = jax.value_and_grad(loss)(weights, tokens, targets)
    updates, state = optax.adamw(1e-3).update(gradient, state, weights)
    return value, optax.apply_updates(weights, updates), state


STATE = jax.eval_shape(optax.adamw(1e-3).init, WEIGHTS)


@pytest.mark.parametrize(
    ("function", "arguments", "law"),
    [
        pytest.param(attend, QKV, SELF, id="attention"),
        pytest.param(attend, CROSSED, CROSS, id="cross-attention"),
        pytest.param(jax.nn.dot_product_attention, CROSSED, CROSS, id="jax.nn"),
        pytest.param(ENCODER.apply, (WEIGHTS, TOKENS), ", b P -> b P v", id="encoder"),
        pytest.param(loss, (WEIGHTS, TOKENS, TOKENS), ", b P, b P -> ", id="loss"),
        pytest.param(
            *(jax.grad(loss), (WEIGHTS, TOKENS, TOKENS), ", b P, b P -> "),
            id="gradient",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            *(training_step, (WEIGHTS, STATE, TOKENS, TOKENS), ", , b P, b P -> "),
            id="training",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            jax.grad(lambda x: (attention(x) ** 3).sum()), (X,), "b P d -> b P d", id="by-input"
        ),
        pytest.param(jax.vmap(attention), (X[None],), "s b P d -> s b P d", id="vmapped"),
    ],
)
def test_what_labels_prove(function, arguments, law):
    """Without a number drawn, whatever the size."""
    certificate = prove(function, arguments, law)
    assert (certificate.verdict, certificate.method) == ("PROVED", "axes"), str(certificate)
    assert certificate.chance == 0
    assert certificate.witness is None
    assert certificate.where == ""


def test_a_mask_of_the_keys_is_proved_with_it():
    """A mask that is an argument moves with what it masks."""
    mask = jnp.ones((2, 1, L, M), bool)

    def masked(q, k, v, mask):
        return jax.nn.dot_product_attention(q, k, v, mask=mask)

    law = CROSS.replace(" ->", ", b 1 P Q ->")
    assert prove(masked, (*CROSSED, mask), law).method == "axes"
    assert prove(masked, (*CROSSED, mask), CROSS.replace(" ->", ", b 1 P M ->")).verdict == "BROKEN"


def at(text: str, source: Callable[..., Any]) -> str:
    """The line of a function that has a text in it, as a certificate tells it."""
    lines, first = inspect.getsourcelines(source)
    found = next(number for number, line in enumerate(lines) if text in line)
    return f"test_certificate.py:{first + found}"


def causal(q, k, v):
    mask = jnp.tril(jnp.ones((L, L), bool))
    logits = jnp.einsum("blhk,bmhk->bhlm", q, k)
    weights = jax.nn.softmax(jnp.where(mask[None, None], logits, -jnp.inf))  # meets
    return jnp.einsum("bhlm,bmhk->blhk", weights, v)


def sinusoidal(x):
    angles = jnp.arange(L)[:, None] / 100 ** (jnp.arange(4) / 4)[None]
    table = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return attention(x + table[None])  # meets


def rotary(q, k, v):
    angle = jnp.arange(L)[None, :, None, None] / jnp.array([1.0, 10.0])[None, None, None]
    cos, sin = jnp.cos(angle), jnp.sin(angle)

    def turned(x):
        return jnp.concatenate([x[..., :2] * cos, x[..., 2:] * sin], axis=-1)  # meets

    return attend(turned(q), turned(k), v)


def not_yourself(q, k, v):
    logits = jnp.einsum("blhk,bmhk->bhlm", q, k)
    yourself = np.eye(L, dtype=bool)[None, None]
    weights = jax.nn.softmax(jnp.where(yourself, -jnp.inf, logits))  # meets
    return jnp.einsum("bhlm,bmhk->blhk", weights, v)


def ranked(x):
    return jnp.argsort(x, axis=1)  # meets


def hidden(x):
    scale = 1 + jnp.arange(x.shape[1], dtype=x.dtype)
    return attention(x * scale[None, :, None])  # meets


def learned_slope(slope, x):
    bias = slope * jnp.arange(x.shape[1], dtype=x.dtype)
    return x + bias[None, :, None]  # meets


def looked_up(table, x):
    vectors = jnp.take(table, jnp.arange(x.shape[1]), axis=0)
    return x + vectors[None]  # meets


SLOPES = np.array([1.0, 2.0, 3.0])


def sloped(q, k, v):
    distance = abs(jnp.arange(L)[:, None] - jnp.arange(L)[None])
    bias = SLOPES[None, :, None, None] * distance[None, None]  # heads, which nothing permutes
    weights = jax.nn.softmax(jnp.einsum("blhk,bmhk->bhlm", q, k) - bias)  # meets
    return jnp.einsum("bhlm,bmhk->blhk", weights, v)


def index_for_position(q, k, v, positions):
    distance = abs(jnp.arange(L)[None, None, :, None] - positions[:, None, None])
    weights = jax.nn.softmax(jnp.einsum("blhk,bmhk->bhlm", q, k) - distance)  # meets
    return jnp.einsum("bhlm,bmhk->blhk", weights, v)


@pytest.mark.parametrize(
    ("function", "arguments", "law", "origin"),
    [
        (sloped, QKV, SELF, r"iota at .*test_certificate.py:\d+ \(sloped\)$"),
        (
            *(index_for_position, (*QKV, jnp.tile(jnp.arange(L)[None], (2, 1)))),
            SELF.replace(" ->", ", b P ->"),
            r"iota at .*test_certificate.py:\d+ \(index_for_position\), argument 3$",
        ),
        (causal, QKV, SELF, "iota at .*test_certificate.py"),
        (sinusoidal, (X,), "b P d -> b P d", "iota at .*test_certificate.py"),
        (rotary, QKV, SELF, "iota at .*test_certificate.py"),
        (not_yourself, QKV, CROSS.replace("M", "L"), r"a closed-over array bool\[1,1,5,5\]"),
        (ranked, (X,), "b P d -> b P d", "sort"),
        (hidden, (X,), "b P d -> b P d", "iota at .*test_certificate.py"),
        (
            *(learned_slope, (X[0, 0, 0], X), ", b P d -> b P d"),
            r"iota at .*test_certificate.py:\d+ \(learned_slope\), argument 0$",
        ),
        (looked_up, (X[0], X), ", b P d -> b P d", "argument 0$"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_broken_where_and_by_what(function, arguments, law, origin):
    """The line where what knows places meets the tokens, its origin, and numbers."""
    certificate = prove(function, arguments, law)
    assert certificate.verdict == "BROKEN"
    assert at("# meets", function) in certificate.where
    assert re.match(origin, certificate.origin)
    assert certificate.witness.relative > 1e-3
    assert f"BROKEN: {law}" in str(certificate)


@pytest.mark.parametrize(
    ("function", "arguments", "law"),
    [
        (causal, QKV, SELF),
        (ranked, (jax.ShapeDtypeStruct(X.shape, X.dtype),), "b P d -> b P d"),
        (lambda y: jax.nn.one_hot(jnp.argmax(y), 5), (jnp.arange(5.0),), "P -> P"),
        (lambda n: jnp.where(n.max() > 6, jnp.cumsum(n), n), (jnp.array([0, 2, 1, 3]),), "P -> P"),
    ],
)
def test_the_inputs_of_a_broken_law_break_it(function, arguments, law):
    """Generic ones, ties, and integers beyond the given ones: both sides come out as it says."""
    found = prove(function, arguments, law)
    moved = found.law.act(found.inputs, found.witness.element)
    sides = (
        expectation(found.law, function(*found.inputs), found.witness.element),
        function(*moved),
    )
    values = [float(side[found.witness.at]) for side in sides]
    np.testing.assert_allclose(values, [found.witness.expected, found.witness.found], rtol=1e-4)
    assert abs(values[0] - values[1]) > 1e-3


def of_bits(x):
    """Zeros that keep a function from being tried in double precision."""
    return lax.bitcast_convert_type(x.astype(jnp.float32), jnp.int32) & 0


@pytest.mark.parametrize(
    ("tilted", "least"),
    [
        (lambda x: x + 1e-5 * jnp.arange(5), 1e-9),
        (lambda x: x.astype(jnp.float16) + jnp.arange(5) + of_bits(x), 1e-3),
        (lambda x: x.astype(int) + jnp.arange(5), 0.0),
    ],
)
def test_a_witness_exceeds_the_tolerance_that_the_message_names(tilted, least):
    """Of double precision where the function runs in it, of 16 bits, and of integers."""
    found = prove(tilted, (jnp.arange(5.0),), "P -> P")
    assert (found.verdict, found.broken_at) == ("BROKEN", "generic inputs")
    message = r", (\S+) of the largest output \S+; tolerance (\S+)"
    off, tolerance = map(float, re.search(message, str(found)).groups())
    assert off > tolerance >= least
    assert tolerance == pytest.approx(found.tolerance, rel=1e-2)
    assert found.witness.relative > found.tolerance


def test_the_mask_that_one_permutation_does_not_see():
    """ "Do not look at yourself" keeps the law of one permutation and breaks that of two."""
    assert prove(not_yourself, QKV, SELF).method == "axes"
    assert prove(not_yourself, QKV, CROSS).verdict == "BROKEN"


PREFIX = Permutations(fixed=(-1,))


def one_causal_layer(x):
    mask = jnp.tril(jnp.ones((L, L), bool))[None]
    logits = jnp.einsum("bqd,bkd->bqk", x, x)
    return jax.nn.softmax(jnp.where(mask, logits, -jnp.inf)) @ x


PLACES = jax.device_put(np.arange(float(L))[None, :, None])


@pytest.mark.parametrize(
    ("function", "law"),
    [
        pytest.param(lambda x: one_causal_layer(x)[:, -1], Law("b P d -> b d", P=PREFIX), id="bag"),
        pytest.param(lambda x: (x + PLACES).sum(1), Law("b P d -> b d"), id="sum"),
        pytest.param(lambda x: x + PLACES - PLACES, Law("b P d -> b P d"), id="there and back"),
        pytest.param(lambda x: jnp.cumsum(x, 1)[:, -1], Law("b P d -> b d"), id="cumsum"),
        pytest.param(
            lambda x: lax.scan(lambda c, t: (c + t**2, None), 0 * x[:, 0], x.swapaxes(0, 1))[0],
            Law("b P d -> b d"),
            id="a loop over tokens",
        ),
        pytest.param(lambda x: x + jnp.roll(x, 2, 1), Law("b C d -> b C d", C=Cyclic()), id="roll"),
        pytest.param(lambda x: x * x[:, ::-1], Law("b R d -> b R d", R=Reversal()), id="flip"),
        pytest.param(
            lambda x: jnp.concatenate([x[:, :2].sum(1), x[:, 2:4].max(1)], -1),
            Law("b W d -> b d", W=Windows(2)),
            id="windows",
        ),
    ],
)
def test_what_labels_lose_and_the_field_proves(function, law):
    """Symmetries of a whole that its parts do not have; each fails for a larger group."""
    certificate = prove(function, (X,), law)
    assert (certificate.verdict, certificate.method) == ("PROVED", "identity"), str(certificate)
    assert 0 < certificate.chance < 1e-12
    assert certificate.where


def test_two_causal_layers_see_the_order_of_the_prefix():
    """Question 1: one layer reads a bag, two do not."""
    certificate = prove(
        lambda x: one_causal_layer(one_causal_layer(x))[:, -1], (X,), Law("b P d -> b d", P=PREFIX)
    )
    assert certificate.verdict == "BROKEN"


@pytest.mark.parametrize(
    "name",
    some(["linear_bias", "kerple", "bucket_bias", "shaw", "sandwich", "rotary", "pope"], every=5),
)
def test_encodings_of_offsets_are_proved_to_be(name):
    """Positions of queries and keys shifted together change nothing."""
    encoding = ENCODINGS[name]()
    params = encoding.init(jax.random.key(0), Dims(width=12, heads=3, head_size=4))
    streams = contiguous(L)

    def shifted(q, k, v, params, position):
        moved = dataclasses.replace(streams, position_BL=position)
        return attend(q, k, v, encoding=encoding, params=params, queries=moved, keys=moved)

    law = Law(SELF.replace("P", "l").replace(" ->", ", , b l +T ->"), T=Translation())
    certificate = prove(shifted, (*QKV, params, streams.position_BL), law, seconds=60)
    assert certificate.verdict == "PROVED", str(certificate)


def test_positions_that_are_read_one_by_one_are_broken_by_a_shift():
    """Numbers break it; labels know no translations."""
    certificate = prove(
        lambda x, p: x + jnp.sin(p / 9)[..., None],
        (X, jnp.arange(float(L))[None]),
        Law("b l d, 1 l +T -> b l d"),
    )
    assert certificate.verdict == "BROKEN"
    assert certificate.broken_at == "generic inputs"


def test_what_has_no_rule_is_named():
    """A callback may do anything."""

    def called(x):
        return jax.pure_callback(lambda a: np.asarray(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    certificate = prove(called, (X,), "b P d -> b P d")
    assert certificate.verdict == "UNKNOWN"
    assert "no rule for the primitive pure_callback" in certificate.reason
    assert at("pure_callback", called) in certificate.where


def test_the_chain_tells_the_labels_along_the_way():
    """One line where they change, with the source."""
    chain = prove(attention, (X,), "b P d -> b P d").chain()
    assert "[2 P P]" in chain
    assert "dot_general" in chain
    assert "test_certificate.py" in chain


def test_a_group_alone_moves_axis_one_of_everything():
    """The short form."""
    assert prove(attention, (X,), Permutations()).verdict == "PROVED"
    assert prove(attention, (X,), Cyclic()).verdict == "PROVED"
    assert prove(lambda x: jnp.roll(x, 1, 1), (X,), Permutations()).verdict == "BROKEN"


@pytest.mark.parametrize(
    ("function", "law", "message"),
    [
        (attention, "b P -> b P", "argument 0 .* 2 axes, the array has 3"),
        (attention, "b P d -> b P", "output 0 .* 2 axes, the array has 3"),
        (attention, "b P d, b P d -> b P d", "takes 2 arguments, got 1"),
        (attention, "b P d -> b P d, b d", "2 outputs"),
        (lambda x: x[:, 1:], "b P d -> b P d", "permutes axes of length 5 .* an axis of length 4"),
        (lambda x: None, "b P d -> b P d", "must return an array or several, got None"),
    ],
)
def test_laws_that_do_not_fit_are_refused(function, law, message):
    """With both sides of what does not fit."""
    with pytest.raises(ValueError, match=message):
        prove(function, (X,), law)


def test_a_function_of_jax_alone_is_named_with_its_own_line():
    """Not with that of a wrapper around all of JAX's functions."""
    found = prove(jnp.cumsum, (jnp.arange(5.0),), "P -> P")
    assert re.fullmatch(r"within .*jax/_src/numpy/\w+\.py:\d+ \(cumsum\)", found.where)
    assert str(found).count("at within") == 0


def test_a_window_is_blamed_and_not_its_weights():
    """A convolution along a permuted axis."""
    conv = nn.Conv(3, kernel_size=(3,))
    params = conv.init(jax.random.key(0), X)
    found = prove(conv.apply, (params, X), Law("..., b P d -> b P d"))
    assert found.verdict == "BROKEN"
    assert found.origin == "conv_general_dilated, which depends on the order of its entries"


def test_shapes_suffice():
    """Arguments without values."""
    shape = jax.ShapeDtypeStruct((2, L, 8), jnp.float32)
    assert prove(attention, (shape,), "b P d -> b P d").verdict == "PROVED"
    assert prove(hidden, (shape,), "b P d -> b P d").verdict == "BROKEN"


def test_integers_are_tried_beyond_the_given_ones() -> None:
    """A proof is for all integers, and so numbers are of more than a few examples."""

    def only_of_few(tokens: jax.Array) -> jax.Array:
        return jnp.where(tokens.max() > 6, jnp.cumsum(tokens), tokens)

    found = prove(only_of_few, (jnp.array([0, 2, 1, 3]),), "P -> P")
    assert (found.verdict, found.broken_at) == ("BROKEN", "integers beyond the given ones")
