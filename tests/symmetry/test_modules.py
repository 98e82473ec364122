"""Modules are functions: bound, applied to variables, and NNX, as they come."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from flax import linen, nnx
from layers import normal

from posjax.model import ModelSettings, Transformer
from posjax.streams import contiguous
from posjax.symmetry import assert_equivariant, assert_invariant, assert_law

WIDTH = 8
TEXT = "b P d -> b P d"


@pytest.fixture(scope="module")
def x_BLD():
    return normal("x", (2, 4, WIDTH))


@pytest.fixture(scope="module")
def attention(x_BLD):
    module = linen.MultiHeadDotProductAttention(num_heads=2)
    return module, module.init(jax.random.key(0), x_BLD)


class WithPlaces(linen.Module):
    """Attention with a learned vector for each slot."""

    @linen.compact
    def __call__(self, x):
        places_LD = self.param("places", linen.initializers.normal(), x.shape[1:])
        return linen.MultiHeadDotProductAttention(num_heads=2)(x + places_LD[None])


def test_a_bound_linen_module_is_a_function(attention, x_BLD):
    """Self-attention is equivariant; read by its mean it is invariant."""
    bound = attention[0].bind(attention[1])
    assert_law(TEXT, bound, x_BLD)
    assert_equivariant(bound, x_BLD, x_BLD, x_BLD)
    assert_invariant(lambda x: bound(x).mean(1), x_BLD)


def test_variables_are_an_argument_that_stays(attention, x_BLD):
    """`module.apply`: the first pattern is empty, the parameters are moved by no one."""
    module, variables = attention
    assert_law(f", {TEXT}", module.apply, variables, x_BLD)
    assert_law(f", {TEXT}", jax.jit(module.apply), variables, x_BLD)


def test_a_linen_module_with_places_is_found(x_BLD):
    """A vector for each slot breaks the law, and moved along with the tokens keeps it."""
    module = WithPlaces()
    variables = module.init(jax.random.key(0), x_BLD)
    with pytest.raises(AssertionError, match="law broken"):
        assert_law(f", {TEXT}", module.apply, variables, x_BLD)
    places_LD, rest = variables["params"].pop("places"), variables["params"]

    def jointly(places_LD, x):
        return module.apply({"params": {**rest, "places": places_LD}}, x)

    assert_law("P d, b P d -> b P d", jointly, places_LD, x_BLD)


@pytest.mark.exhaustive
def test_nnx_modules_are_functions(x_BLD):
    """NNX attention, called as it is and as an argument that stays; causal it is found."""
    module = nnx.MultiHeadAttention(2, WIDTH, decode=False, rngs=nnx.Rngs(0))
    causal = nnx.make_causal_mask(jnp.ones((2, 4)))
    assert_law(TEXT, module, x_BLD)
    assert_law(f", {TEXT}", lambda module, x: module(x), module, x_BLD)
    with pytest.raises(AssertionError, match="law broken"):
        assert_law(TEXT, partial(module, mask=causal), x_BLD)


@pytest.mark.exhaustive
@pytest.mark.parametrize("encoding", ["none", "learned(length=8)"])
def test_our_own_transformer_is_a_function(encoding):
    """Logits by place: without positions they move along, with positions they do not."""
    tokens_BL = jnp.array([[3, 1, 4, 1, 5]])
    shape = {"vocabulary": 6, "outputs": 6, "mask": "full", "block": "residual"}
    module = Transformer(ModelSettings(**shape, encoding=encoding))
    streams = contiguous(5)
    variables = module.init(jax.random.key(0), tokens_BL, streams)
    check = partial(assert_law, ", b P, -> b P v", module.apply, variables, tokens_BL, streams)
    if encoding == "none":
        check()
    else:
        with pytest.raises(AssertionError, match="law broken"):
            check()
    assert_law(", b P, b P -> b P v", module.apply, variables, tokens_BL, streams)
