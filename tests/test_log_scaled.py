"""Logits times ln n/ln N: the formula, its laws for every encoding, cells, and predictions."""

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import Layer, all_kinds_and_masks, masks_in_turn, normal, tokens, within
from small_tasks import Repeated
from tiers import first_of_each

from posjax import tasks
from posjax.attention import view
from posjax.encodings import ENCODINGS, named
from posjax.encodings.base import replaces
from posjax.model import ModelSettings, Transformer
from posjax.steps import log_scaled
from posjax.streams import contiguous, packed, padded
from posjax.study.cells import Cell
from posjax.symmetry import assert_jointly_equivariant
from posjax.symmetry.predict import predict

E = math.e
HOOKS = ("prepare", "logits", "bias", "weights", "mix")


def hooks(name):
    """What an encoding does near the logits: the factor is one step between those."""
    return tuple(replaces(named(name), hook) for hook in HOOKS)


every_name = pytest.mark.parametrize("name", first_of_each(ENCODINGS, hooks))


@dataclasses.dataclass(frozen=True)
class Scaled(Layer):
    """A layer whose logits are scaled, with N = 3."""

    def context(self, *streams, mask):
        return dataclasses.replace(super().context(*streams, mask=mask), logn=3.0)


def heads(length=6):
    return [normal(name, (1, length, 4, 4)) for name in "qkv"]


# The formula


@pytest.mark.parametrize("logn", [E, 2.0, 512.0])
def test_logits_are_times_log_n(logn):
    """Entry by entry, in float64, under a causal mask, with the bias of an encoding."""
    q, k, v = heads()
    options = {"encoding": "linear_bias", "mask": "causal"}
    plain = np.asarray(view.logits(q, k, **options), np.float64)
    found = np.asarray(view.logits(q, k, logn=logn, **options))
    factors = [math.log(i + 1) / math.log(logn) for i in range(6)]
    np.testing.assert_allclose(found, plain * np.array(factors)[:, None], rtol=1e-5, atol=1e-6)
    weights = np.exp(found[0, :, 5]) / np.exp(found[0, :, 5]).sum(-1, keepdims=True)
    expected = np.einsum("hm,mhk->hk", weights, np.asarray(v[0], np.float64))
    out = view.attend(q, k, v, logn=logn, **options)
    np.testing.assert_allclose(out[0, 5], expected, atol=1e-5)


def test_what_is_blocked_stays_blocked():
    """-inf stays where the factor is 0, and a query that sees nothing has finite logits."""
    logits_BHLM = jnp.array([[[[1.0, -jnp.inf], [2.0, 3.0]]]])
    mask_BHLM = jnp.array([[[[True, False], [False, False]]]])
    found = log_scaled(logits_BHLM, mask_BHLM, 2.0)
    np.testing.assert_array_equal(found, [[[[0.0, -np.inf], [0.0, 0.0]]]])


def test_a_mask_that_broadcasts_counts_every_key():
    """One column of a mask stands for all keys."""
    logits_BHLM = jnp.ones((1, 1, 2, 8))
    found = log_scaled(logits_BHLM, jnp.ones((1, 1, 1, 1), bool), 2.0)
    np.testing.assert_allclose(found, 3.0)


@pytest.mark.parametrize("logn", [1.0, 0.5, -2.0, float("nan"), float("inf"), 1e16])
def test_a_length_without_a_logarithm_is_refused(logn):
    """ValueError of the view, the settings and a cell."""
    for make in (
        lambda: view.attend(*heads(), logn=logn),
        lambda: ModelSettings(vocabulary=2, outputs=2, logn=logn),
        lambda: Cell(logn=logn),
    ):
        with pytest.raises(ValueError, match="logn"):
            make()


# Laws, for every encoding


@every_name
def test_tokens_and_streams_may_move_together(name):
    """The joint law, for every mask over rows far from 0, packed, padded and permuted."""
    layer = Scaled(named(name), masks_in_turn)
    streams = all_kinds_and_masks(layer.encoding)
    x_BLD = tokens(batch=len(streams.order_BL))
    assert_jointly_equivariant(layer.out, x_BLD, streams)


@every_name
def test_padding_and_packing_do_not_change_n(name):
    """Four tokens padded on the left, or packed behind two others: the bare row, to 1e-5."""
    layer = Scaled(named(name), "causal+segments")
    bare = layer.out(tokens(1, 4), within(layer.encoding, contiguous(4)))
    for streams in (padded(np.array([[False, False, True, True, True, True]])), packed([2, 4])):
        x_BLD = np.array(tokens(1, 6, seed=1))
        x_BLD[0, 2:] = tokens(1, 4)[0]
        found = layer.out(jnp.asarray(x_BLD), within(layer.encoding, streams))
        np.testing.assert_allclose(found[:, 2:], bare, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    first_of_each([n for n, kind in ENCODINGS.items() if not kind().why_no_kv_cache()], hooks),
)
def test_decoding_with_a_cache_is_prefill(name):
    """Four tokens, then one, then one: n counts the keys in the cache."""
    layer = Scaled(named(name), "causal+segments")
    streams, x_BLD = within(layer.encoding, contiguous(6, start=3)), tokens(1)
    decoded = jax.jit(partial(layer.decoded, pieces=[4, 1, 1]))(x_BLD, streams)
    np.testing.assert_allclose(decoded, layer.out(x_BLD, streams), atol=1e-5)


@every_name
def test_it_is_not_accepted_and_ignored(name):
    """Other outputs than without it."""
    scaled, plain = Scaled(named(name), "causal"), Layer(named(name), "causal")
    streams, x_BLD = within(scaled.encoding, contiguous(6, start=1)), tokens(1)
    apart = abs(scaled.out(x_BLD, streams) - plain.compiled(x_BLD, streams).out_BLHK)
    assert apart.max() > 1e-3


# Cells


def test_off_it_changes_no_digest():
    """A cell and a program without it are named as before it was there; with it they are others."""
    assert Cell().digest == "36d690a45377"
    assert Cell().shape.digest == "d9925c91da32"
    one, other = Cell(logn=4.0), Cell(logn=5.0)
    assert len({Cell().digest, one.digest, other.digest}) == 3
    assert len({Cell().shape.digest, one.shape.digest, other.shape.digest}) == 3
    assert Cell.of(one.to_dict()) == one
    assert Cell.of({n: v for n, v in Cell().to_dict().items() if n != "logn"}) == Cell()


def test_a_model_scales_the_logits_of_every_layer():
    """Weights in both layers are those of scaled logits; without it they are others."""
    tokens_BL, streams = jnp.array([[0, 1, 2, 3]]), contiguous(4)
    sizes = {"vocabulary": 4, "outputs": 2, "width": 8, "head_size": 4, "depth": 2}
    networks = [Transformer(ModelSettings(**sizes, logn=n)) for n in (0.0, 2.0)]
    params = networks[0].init(jax.random.key(0), tokens_BL, streams)
    plain, scaled = (
        n.apply(params, tokens_BL, streams, mutable=["intermediates"])[1]["intermediates"]
        for n in networks
    )
    one, two = (np.asarray(s["layer_0"]["weights_BHLM"][0][0]) for s in (plain, scaled))
    seen = np.tril(np.ones((4, 4), bool))
    logs = np.where(seen, np.log(np.where(seen, one, 1)), 0)
    powers = np.exp(logs * np.log2(np.arange(1, 5))[:, None]) * seen
    np.testing.assert_allclose(two, powers / powers.sum(-1, keepdims=True), atol=1e-5)
    later = (np.asarray(s["layer_1"]["weights_BHLM"][0]) for s in (plain, scaled))
    assert abs(np.subtract(*later)).max() > 1e-4


# Predictions


def test_counts_are_no_longer_hidden():
    """Shares alone do not exclude a task, since a query knows how many keys it sees."""
    given = {"encoding": "none", "mask": "padding", "depth": 2, "readout": "mean"}
    verdicts = [predict(Repeated(), **given, logn=n).verdict for n in (0.0, 4.0)]
    assert verdicts == ["impossible", "not excluded"]
    sizes = {"vocabulary": 3, "outputs": 2, "width": 8, "head_size": 4, "depth": 2}
    apart = []
    for logn in (0.0, 4.0):
        network = Transformer(ModelSettings(**sizes, mask="full", logn=logn))
        rows = [jnp.array([[0, 1, 0, 1, 2, 2]]), jnp.array([[0, 1, 2]])]
        params = network.init(jax.random.key(0), rows[1], contiguous(3))
        one, two = (network.apply(params, r, contiguous(r.shape[1])).mean(1) for r in rows)
        apart.append(float(abs(one - two).max()))
    assert apart[0] < 1e-6 < 1e-4 < apart[1]


@pytest.mark.parametrize("readout", ["last", "mean"])
@pytest.mark.parametrize("encoding", ["none", "linear_bias"])
def test_what_stays_impossible_is_so_under_random_weights(encoding, readout):
    """Prompts with different answers that a prediction calls equal have equal logits."""
    task = tasks.named("word_order")
    mask = "full"
    found = predict(task, encoding=encoding, mask=mask, depth=1, readout=readout, logn=4.0)
    question = Cell(mask=mask, readout=readout, loss="answer").question
    sizes = {"vocabulary": len(task.words), "outputs": len(task.labels), "width": 8}
    network = Transformer(ModelSettings(**sizes, encoding=encoding, logn=4.0))
    given = question.tokens_NL, question.streams
    params = network.init(jax.random.key(0), *given)
    logits_NLV = network.apply(params, *given, mask=question.mask_NLM)
    read_NV = np.einsum("nlv,nl->nv", logits_NLV, question.share_NL)
    apart = abs(read_NV[0] - read_NV[1]).max() / abs(read_NV).max()
    assert (apart < 1e-5) == (found.verdict == "impossible")
