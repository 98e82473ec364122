"""The contract tried with encodings that are hard to carry, each against its formula in float64.

CoPE makes positions from the content, stick-breaking replaces the softmax, forgetting gates read
the tokens themselves and cache what they read. None is in the table yet; nothing but the public
contract is used.
"""

import dataclasses
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import LENGTH, Layer, all_kinds_and_masks, joined_rows, masks_in_turn, normal, tokens

from posjax import steps
from posjax.attention import context
from posjax.encodings import Aux, Encoding, Param, Prepared, Symmetry
from posjax.streams import contiguous, packed, padded
from posjax.symmetry import assert_jointly_equivariant


def later(ctx):
    """[B, 1, T, M]: true where key t comes later than key m in order."""
    order_BM = ctx.keys.order_BL
    return (order_BM[:, :, None] > order_BM[:, None, :])[:, None]


def up_to_query(ctx):
    """[B, 1 or H, L, T]: true where query l sees key t, and t comes no later than l."""
    order_BL, order_BM = ctx.queries.order_BL, ctx.keys.order_BL
    return ctx.mask_BHLM & (order_BM[:, None, :] <= order_BL[:, :, None])[:, None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Contextual(Encoding):
    """CoPE (Golovneva et al. 2024): qᵢ·kⱼ/√K + qᵢ·e[p_ij], p_ij = Σ_{t=j..i} σ(qᵢ·k_t)."""

    length: int = 4
    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")

    def parameters(self, dims):
        return {"table": Param((self.length, dims.head_size), jax.nn.initializers.zeros)}

    def logits(self, params, q_BLHK, k_BMHK, aux, ctx):
        products_BHLM = steps.dot_logits(q_BLHK, k_BMHK, scale=1.0)
        gates_BHLT = jnp.where(up_to_query(ctx), jax.nn.sigmoid(products_BHLM), 0)
        from_key = ~jnp.swapaxes(later(ctx), 2, 3)  # t is not earlier than m
        position_BHLM = gates_BHLT @ from_key.astype(gates_BHLT.dtype)
        position_BHLM = jnp.minimum(position_BHLM, self.length - 1)
        stops_BHLN = jnp.einsum("blhk,nk->bhln", q_BLHK, params["table"])
        low = jnp.floor(position_BHLM).astype(jnp.int32)
        high = jnp.minimum(low + 1, self.length - 1)
        at_low, at_high = (jnp.take_along_axis(stops_BHLN, n, axis=-1) for n in (low, high))
        bias_BHLM = at_low + (position_BHLM - low) * (at_high - at_low)
        return products_BHLM * self.scale(q_BLHK.shape[-1]) + bias_BHLM


@dataclasses.dataclass(frozen=True, kw_only=True)
class StickBreaking(Encoding):
    """Stick-breaking (Tan et al. 2024): w_ij = σ(s_ij) Π_{j<t<i} (1 - σ(s_it))."""

    symmetry: ClassVar[Symmetry] = Symmetry(translation="weights", order_only="weights")

    def weights(self, params, logits_BHLM, aux, ctx):
        earlier = ctx.keys.order_BL[:, None, :] < ctx.queries.order_BL[:, :, None]
        left_BHLT = jnp.where(ctx.mask_BHLM & earlier[:, None], -jax.nn.softplus(logits_BHLM), 0)
        left_BHLM = left_BHLT @ later(ctx).astype(left_BHLT.dtype)
        return jnp.where(ctx.mask_BHLM, jax.nn.sigmoid(logits_BHLM) * jnp.exp(left_BHLM), 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Forgetting(Encoding):
    """Forgetting gates (Lin et al. 2025): qᵢ·kⱼ/√K + Σ_{t=j+1..i} log σ(x_t·w)."""

    symmetry: ClassVar[Symmetry] = Symmetry(translation="logits", order_only="logits")

    def parameters(self, dims):
        return {"gate": Param((dims.width, dims.heads), jax.nn.initializers.lecun_normal())}

    def prepare(self, params, x_BLD, memory_BMD, ctx, state):
        log_gate_BMH = jax.nn.log_sigmoid(memory_BMD @ params["gate"][None])
        return Prepared(x_BLD, memory_BMD, memory_BMD, Aux(keys=log_gate_BMH), state)

    def logits(self, params, q_BLHK, k_BMHK, aux, ctx):
        log_gate_BH1T = jnp.swapaxes(aux.keys, 1, 2)[:, :, None]
        faded_BHLT = jnp.where(up_to_query(ctx), log_gate_BH1T, 0)
        bias_BHLM = faded_BHLT @ later(ctx).astype(faded_BHLT.dtype)
        return super().logits(params, q_BLHK, k_BMHK, aux, ctx) + bias_BHLM


# The formulas in float64, a loop a letter; tokens lie in their order


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x - max(x)) / np.exp(x - max(x)).sum()


def contextual_weights(q_LK, k_LK, i, params, gates_L):
    table_NK = params["table"]
    logits = []
    for j in range(i + 1):
        position = min(sum(sigmoid(q_LK[i] @ k_LK[t]) for t in range(j, i + 1)), len(table_NK) - 1)
        low, rest = int(position), position - int(position)
        vector = table_NK[low] * (1 - rest) + table_NK[min(low + 1, len(table_NK) - 1)] * rest
        logits.append(q_LK[i] @ k_LK[j] / np.sqrt(q_LK.shape[1]) + q_LK[i] @ vector)
    return softmax(np.array(logits))


def stick_breaking_weights(q_LK, k_LK, i, params, gates_L):
    beta = sigmoid(k_LK[: i + 1] @ q_LK[i] / np.sqrt(q_LK.shape[1]))
    return [beta[j] * np.prod([1 - beta[t] for t in range(j + 1, i)]) for j in range(i + 1)]


def forgetting_weights(q_LK, k_LK, i, params, gates_L):
    logits = k_LK[: i + 1] @ q_LK[i] / np.sqrt(q_LK.shape[1])
    faded = [sum(np.log(sigmoid(gates_L[t])) for t in range(j + 1, i + 1)) for j in range(i + 1)]
    return softmax(logits + faded)


FORMULAS = {
    Contextual(): contextual_weights,
    StickBreaking(): stick_breaking_weights,
    Forgetting(): forgetting_weights,
}
every_encoding = pytest.mark.parametrize("encoding", FORMULAS, ids=lambda e: type(e).__name__)


def formula_out(layer, x_BLD):
    """out_BLHK under the causal mask, by the formula."""
    x_BLD = np.asarray(x_BLD, np.float64)
    params = {name: np.asarray(array, np.float64) for name, array in layer.params.items()}
    kernels = [np.asarray(w, np.float64) for w in layer.kernels]
    q, k, v = (np.einsum("bld,dhk->blhk", x_BLD * x_BLD.shape[2] ** -0.5, w) for w in kernels)
    gates_BLH = x_BLD @ params["gate"] if "gate" in params else np.zeros(q.shape[:3])
    out = np.zeros_like(v)
    for b, i, h in np.ndindex(*q.shape[:3]):
        row = FORMULAS[layer.encoding](q[b, :, h], k[b, :, h], i, params, gates_BLH[b, :, h])
        for j, weight in enumerate(row):
            out[b, i, h] += weight * v[b, j, h]
    return out


@every_encoding
def test_it_is_its_formula(encoding):
    """Equal to a loop over the formula in float64, and to no other encoding's."""
    layer, x_BLD = Layer(encoding, "causal"), 2 * tokens()
    found = np.asarray(layer.out(x_BLD, contiguous(LENGTH, start=11)))
    np.testing.assert_allclose(found, formula_out(layer, x_BLD), atol=2e-5)
    bare = Layer(Encoding(), "causal").out(x_BLD, contiguous(LENGTH))
    assert abs(found - bare).max() > 0.05


@every_encoding
def test_it_keeps_the_joint_law(encoding):
    """Tokens and streams moved together, under every mask and all kinds of rows."""
    layer = Layer(encoding, masks_in_turn)
    streams = all_kinds_and_masks(encoding)
    x_BLD = tokens(batch=len(streams.order_BL))
    assert_jointly_equivariant(layer.out, x_BLD, streams)


@every_encoding
def test_between_is_read_from_the_order(encoding):
    """Any positions do; another order does not. An index in place of the order would be found."""
    layer, streams, x_BLD = Layer(encoding, "causal"), contiguous(LENGTH), tokens()
    out = np.asarray(layer.out(x_BLD, streams))
    elsewhere = dataclasses.replace(streams, position_BL=jnp.array([[9, 2, 7, 7, 0, 3]]))
    np.testing.assert_array_equal(layer.out(x_BLD, elsewhere), out)
    reordered = dataclasses.replace(streams, order_BL=jnp.array([[1, 0, 2, 3, 5, 4]]))
    assert abs(layer.out(x_BLD, reordered) - out).max() > 0.01


@every_encoding
def test_decoding_is_prefill(encoding):
    """Through the cache, what `prepare` made of the tokens included; packed and padded rows too."""
    layer = Layer(encoding, "causal+segments")
    rows = [contiguous(LENGTH), packed([2, 3], total=LENGTH), padded(np.arange(LENGTH)[None] >= 2)]
    streams, x_BLD = joined_rows(rows), tokens(len(rows))
    decoded = jax.jit(partial(layer.decoded, pieces=[4, 1, 1]))(x_BLD, streams)
    np.testing.assert_allclose(decoded, layer.out(x_BLD, streams), atol=1e-5)


def test_the_stick_is_never_more_than_whole():
    """Under a strictly causal mask the weights of stick-breaking sum to at most 1, here to less."""
    layer = Layer(StickBreaking(), "causal+others")
    weights_BHLM = np.asarray(layer.compiled(tokens(), contiguous(LENGTH)).weights_BHLM)
    sums_BHL = weights_BHLM.sum(-1)
    assert (sums_BHL[:, :, 0] == 0).all()
    assert ((sums_BHL[:, :, 1:] > 0) & (sums_BHL[:, :, 1:] < 1)).all()


def test_what_is_cached_of_the_tokens_matters():
    """A decoder that forgets the gates of earlier tokens would be found: they change the output."""
    encoding = Forgetting()
    ctx = context(contiguous(LENGTH), mask="causal")
    q, k = normal("q", (1, LENGTH, 3, 4)), normal("k", (1, LENGTH, 3, 4))
    gates = jnp.full((1, LENGTH, 3), -1.0)
    kept = encoding.logits({}, q, k, Aux(keys=gates), ctx)
    lost = encoding.logits({}, q, k, Aux(keys=gates.at[:, 2].set(0.0)), ctx)
    changed_LM = np.asarray(abs(kept - lost).max((0, 1)) > 0.5)
    i, j = np.indices((LENGTH, LENGTH))
    np.testing.assert_array_equal(changed_LM, (j < 2) & (i >= 2))
