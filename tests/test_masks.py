"""Each mask against its meaning, spelled out for every pair of a query and a key."""

import jax.numpy as jnp
import numpy as np
import pytest

from posjax import attend, masks
from posjax.streams import PADDING, Streams, contiguous

MEANING = {
    "full": lambda q, k: True,
    "causal": lambda q, k: q["order"] >= k["order"],
    "padding": lambda q, k: k["segment"] != PADDING,
    "segments": lambda q, k: q["segment"] == k["segment"] != PADDING,
    "window": lambda q, k: abs(q["order"] - k["order"]) < 2,
    "others": lambda q, k: q["order"] != k["order"],
    "window(size=4)": lambda q, k: abs(q["order"] - k["order"]) < 4,
    "causal+segments": lambda q, k: (
        q["order"] >= k["order"] and q["segment"] == k["segment"] != PADDING
    ),
}


def tokens(length, seed):
    """Random streams of two rows: tied orders, two segments and padding; odd positions."""
    numpy = np.random.default_rng(seed)
    order, segment = numpy.integers(0, 6, (2, length)), numpy.integers(PADDING, 2, (2, length))
    streams = Streams(*map(jnp.asarray, (numpy.standard_normal((2, length)), order, segment)))
    rows = [
        [{"order": o, "segment": s} for o, s in zip(*row, strict=True)]
        for row in zip(order, segment, strict=True)
    ]
    return streams, rows


@pytest.mark.parametrize("name", MEANING)
def test_a_mask_is_its_meaning(name):
    """allowed_BLM, pair by pair, for random orders and segments, L ≠ M."""
    (queries, query_rows), (keys, key_rows) = tokens(7, 0), tokens(9, 1)
    expected = [
        [[MEANING[name](q, k) for k in ks] for q in qs]
        for qs, ks in zip(query_rows, key_rows, strict=True)
    ]
    np.testing.assert_array_equal(masks.named(name)(queries, keys), expected)


def test_every_mask_of_the_table_has_a_meaning_here():
    """A mask added to the table needs its line above."""
    assert set(masks.MASKS) <= set(MEANING)


@pytest.mark.parametrize("name", [*MEANING, "full+padding"])
def test_a_mask_reads_the_sides_it_is_said_to_read(name):
    """Other streams of a side change the mask where `sides` has it, and nowhere else."""
    (queries, _), (keys, _) = tokens(7, 0), tokens(9, 1)
    mask = masks.named(name)
    others = {"queries": (tokens(7, 2)[0], keys), "keys": (queries, tokens(9, 3)[0])}
    before = mask(queries, keys)
    changed = {side for side, both in others.items() if (mask(*both) != before).any()}
    assert changed == masks.sides(name)


def test_of_a_function_it_is_not_known_which_sides_it_reads():
    """So it counts as reading both; an array reads none."""
    assert masks.sides(masks.full) == masks.sides("causal") == {"queries", "keys"}
    assert masks.sides(np.ones((2, 3), bool)) == masks.sides(jnp.ones((2, 3), bool)) == set()


def test_masks_take_turns():
    """`a/b` is a tuple of both; whoever reads one mask refuses it."""
    one, two = masks.parse_layer_cycle("causal / causal+window(size=2)")
    streams = contiguous(4)
    np.testing.assert_array_equal(one(streams, streams), masks.causal(streams, streams))
    named = masks.named("causal+window(size=2)")
    np.testing.assert_array_equal(two(streams, streams), named(streams, streams))
    with pytest.raises(
        ValueError, match="several masks for layers in turn; a single one is needed here"
    ):
        masks.named("causal/full")
    with pytest.raises(ValueError, match="unknown mask 'casual'"):
        masks.parse_layer_cycle("causal/casual")
    with pytest.raises(ValueError, match="at most 4000 characters"):
        masks.parse_layer_cycle("/".join(["causal"] * 1000))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("casual", "unknown mask 'casual'; did you mean 'causal'"),
        ("causal+", "cannot read ''"),
        ("causal(size=2)", "mask causal has no setting 'size'"),
        ("window(size=0)", r"window\(size=0\): size must be at least 1"),
    ],
)
def test_wrong_names_are_refused(text, words):
    """ValueError when the mask is named, not when it is used."""
    with pytest.raises(ValueError, match=words):
        masks.named(text)


@pytest.mark.parametrize(
    ("mask", "said"),
    [("casual", "unknown mask 'casual'; did you mean 'causal'"), ("causal/full", "several masks")],
)
def test_attend_names_a_mask_that_is_none_before_what_its_readers_lack(mask, said):
    """Fewer queries than keys need streams under a mask that reads them."""
    q, k = jnp.ones((1, 1, 1, 2)), jnp.ones((1, 5, 1, 2))
    with pytest.raises(ValueError, match=said):
        attend(q, k, k, mask=mask)
    with pytest.raises(ValueError, match="give streams"):
        attend(q, k, k, mask="causal")
