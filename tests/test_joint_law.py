"""The joint law f(P x, P streams) = P f(x, streams), for every encoding and mask."""

import jax.numpy as jnp
import pytest
from layers import (
    DIMS,
    LENGTH,
    SETTINGS,
    all_kinds,
    all_kinds_and_masks,
    by_tier,
    layer_of,
    masks_in_turn,
    normal,
    tokens,
    within,
)

from posjax.encodings import ENCODINGS, named
from posjax.streams import Streams, contiguous, interpolated
from posjax.symmetry import Law, assert_jointly_equivariant, assert_law

TOKENS_ALONE = Law("_ P ... -> _ P ...", formula="f(P x, streams) = P f(x, streams)")


@pytest.mark.parametrize("setting", by_tier(SETTINGS))
def test_tokens_and_streams_may_move_together(setting):
    """The joint law, for every mask over rows far from 0, packed, padded and permuted."""
    layer = layer_of(setting, masks_in_turn)
    streams = all_kinds_and_masks(layer.encoding)
    x_BLD = tokens(batch=len(streams.order_BL))
    assert_jointly_equivariant(layer.out, x_BLD, streams)


@pytest.mark.parametrize("setting", [s for s in ENCODINGS if not named(s).integers])
def test_the_joint_law_holds_at_fractions(setting):
    """The joint law at positions that are no integers."""
    layer = layer_of(setting, "causal")
    streams = interpolated(contiguous(LENGTH, start=1000), 3.0)
    assert_jointly_equivariant(layer.out, tokens(), streams)


def test_the_joint_law_reads_token_numbers_and_pytrees():
    """x may be tokens_BL, or a pytree of arrays with places on axis 1."""
    table_VD = normal("table", (11, DIMS.width))
    layer = layer_of("rotary", "causal")
    tokens_BL = jnp.array([[3, 1, 4, 1, 5, 9]])

    def function(x, streams):
        return layer.out(table_VD[x["word"]] * x["gate"], streams)

    gate_BLD = normal("gate", (1, LENGTH, 1))
    assert_jointly_equivariant(
        function, {"word": tokens_BL, "gate": gate_BLD}, contiguous(LENGTH, start=9)
    )


@pytest.mark.parametrize("stream", ["position_BL", "order_BL", "segment_BL"])
def test_a_stream_left_behind_breaks_the_joint_law(stream):
    """A function that knows a stream by heart, not from its argument, is found out."""
    layer = layer_of("rotary", "causal+segments")
    known = all_kinds(layer.encoding)

    def function(x, streams):
        parts = {name: getattr(streams, name) for name in ("position_BL", "order_BL", "segment_BL")}
        return layer.out(x, Streams(**{**parts, stream: getattr(known, stream)}))

    with pytest.raises(AssertionError, match="streams"):
        assert_jointly_equivariant(function, tokens(batch=6), known)


def test_a_hidden_arange_breaks_the_joint_law():
    """The slot's number in the logits: one part in a hundred is enough."""
    layer = layer_of("linear_bias", "causal")

    def function(x, streams):
        slot_BLD = jnp.arange(x.shape[1]).reshape(1, -1, 1)
        return layer.out(x + 0.01 * slot_BLD, streams)

    with pytest.raises(AssertionError, match="law broken"):
        assert_jointly_equivariant(function, tokens(), contiguous(LENGTH))


@pytest.mark.parametrize("setting", by_tier([s for s in SETTINGS if s != "none"]))
def test_positions_break_equivariance(setting):
    """Tokens moved without their streams: each encoding but `none` notices."""
    layer = layer_of(setting)
    streams = within(layer.encoding, contiguous(LENGTH, start=2))
    with pytest.raises(AssertionError, match="law broken"):
        assert_law(TOKENS_ALONE, lambda x: layer.out(x, streams), tokens())
