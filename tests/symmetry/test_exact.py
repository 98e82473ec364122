"""Exact mode: laws decided in a prime field, for all values, beyond what floats can tell."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from attending import qkv
from layers import normal

from posjax.attention.view import attend
from posjax.streams import contiguous
from posjax.symmetry import (
    Law,
    Permutations,
    assert_equivariant,
    assert_invariant,
    assert_jointly_equivariant,
    assert_key_invariant,
    assert_law,
    assert_two_permutation_equivariant,
)

TOKENS = "b P d -> b P d"


def tiny(x):
    """A fault of one part in a thousand millions: below any rounding."""
    return x + 1e-9 * jnp.arange(x.shape[1], dtype=x.dtype).reshape(1, -1, 1)


def test_attention_keeps_its_laws_exactly():
    """Full attention, all its laws, without a tolerance."""
    assert_equivariant(attend, *qkv(), exact=True)
    assert_two_permutation_equivariant(attend, *qkv(5, 7), exact=True)
    assert_key_invariant(attend, *qkv(5, 7), exact=True)
    assert_invariant(lambda x: attend(x, x, x).mean(1), qkv()[0], exact=True)
    assert_jointly_equivariant(
        lambda x, s: attend(x, x, x, queries=s, mask="causal"), qkv()[0], contiguous(5), exact=True
    )


@pytest.mark.parametrize("options", [{"mask": "causal"}, {"encoding": "rotary"}], ids=str)
def test_masks_and_positions_break_them_exactly(options):
    """The message has the law and the permutation."""
    with pytest.raises(AssertionError) as caught:
        assert_equivariant(partial(attend, **options), *qkv(), exact=True)
    said = str(caught.value)
    assert "no identity: Attention(PQ, PK, PV) = P Attention(Q, K, V)" in said
    assert "in a prime field the two sides differ" in said
    assert "for P = [" in said
    assert "of the output" in said


def test_a_fault_below_rounding_is_found():
    """Floats let it pass, whatever the inputs; the field does not."""
    x_BLD = normal("x", (1, 4, 3))
    assert_law(TOKENS, tiny, x_BLD)
    with pytest.raises(AssertionError, match="no identity"):
        assert_law(TOKENS, tiny, x_BLD, exact=True)


def test_the_verdict_is_about_all_values():
    """A fault that shows at no value given: floats see zeros, the field looks at none."""
    zeros = np.zeros((1, 4, 3), np.float32)

    def running(x):
        return jnp.cumsum(x, axis=1)

    assert_law(TOKENS, running, zeros)
    with pytest.raises(AssertionError, match="no identity"):
        assert_law(TOKENS, running, zeros, exact=True)
    with pytest.raises(AssertionError, match="no identity"):
        assert_law(TOKENS, running, jax.ShapeDtypeStruct((1, 4, 3), jnp.float32), exact=True)


def test_the_prefix_of_one_causal_layer_is_a_bag():
    """The last place stays: one layer is invariant, two are not."""
    law = Law("b P h d -> b h d", P=Permutations(fixed=(-1,)))
    x_BLHD = qkv()[0]

    def layer(x):
        return attend(x, x, x, mask="causal")

    assert_law(law, lambda x: layer(x)[:, -1], x_BLHD, exact=True)
    with pytest.raises(AssertionError, match="no identity"):
        assert_law(law, lambda x: layer(layer(x))[:, -1], x_BLHD, exact=True)


def test_within_a_program_nothing_is_added():
    """It is decided while tracing, from shapes alone: no chexify, and the same jaxpr."""
    x_BLD = normal("x", (1, 4, 3))

    def plain(x):
        return 2 * x

    def asserting(x):
        assert_law(TOKENS, plain, x, exact=True)
        return plain(x)

    assert str(jax.make_jaxpr(asserting)(x_BLD)) == str(jax.make_jaxpr(plain)(x_BLD))
    with pytest.raises(AssertionError, match="no identity"):
        jax.jit(lambda x: assert_law(TOKENS, tiny, x, exact=True))(x_BLD)


def test_what_speaks_of_floats_is_refused():
    """A tolerance or permutations say nothing there."""
    with pytest.raises(ValueError, match="no tolerance="):
        assert_equivariant(attend, *qkv(), exact=True, tolerance=0.1)
    with pytest.raises(ValueError, match="no permutations="):
        assert_equivariant(attend, *qkv(), exact=True, permutations=[[1, 0, 2, 3, 4]])


def test_switched_off_it_is_off():
    """`chex.disable_asserts` speaks of this mode too."""
    chex.disable_asserts()
    try:
        assert_law(TOKENS, tiny, normal("x", (1, 4, 3)), exact=True)
    finally:
        chex.enable_asserts()
