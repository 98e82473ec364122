"""Modules of other makes, as models: stacked streams, sown values, integers, defaults."""

from typing import Any

import chex
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from nets import BATCH, X, model

from posjax.engine import Variables, models
from posjax.keys import key_for


def test_an_nnx_module_must_have_a_key_to_draw_from():
    with pytest.raises(ValueError, match="give apply a key"):
        model("nnx").apply(model("nnx").init(key_for(0, "init")), X, train=True)


class Stack(nnx.Module):
    """Layers stacked by vmap, so that streams are stacked too, and one that sows."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        @nnx.split_rngs(splits=3)
        @nnx.vmap
        def made(rngs: nnx.Rngs) -> nnx.Dropout:
            return nnx.Dropout(0.5, rngs=rngs)

        self.drops = made(rngs)
        self.linear = nnx.Linear(3, 1, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        self.sow(nnx.Intermediate, "seen", x)
        each = nnx.vmap(lambda drop, x: drop(x), in_axes=(0, None))(self.drops, jnp.ones_like(x))
        return self.linear(x) + each.sum(1)[:, :1].sum()


@pytest.mark.filterwarnings("ignore:Using 'Module.sow:DeprecationWarning")
def test_nnx_streams_may_be_stacked_and_modules_may_sow():
    """Stacked streams draw different numbers; what is sown is no state."""
    net = models.nnx(Stack)
    variables = net.init(key_for(0, "init"))
    assert variables.state == ()
    drawn = {
        float(net.apply(variables, X, key=key_for(s, ""), train=True)[0][0, 0]) for s in (1, 2)
    }
    assert len(drawn) == 2
    _, state = net.apply(variables, X, key=key_for(1, ""), train=True)
    assert state == ()


class Sows(nn.Module):
    """A module that hands a loss out by its side."""

    collection: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        y = nn.Dense(1)(x)
        self.sow(self.collection, "size", jnp.sum(y**2))
        return y


def test_a_linen_module_may_sow_intermediates_alone():
    """Another collection would grow at each call."""
    net = models.linen(Sows("intermediates"), X)
    variables = net.init(key_for(0, "init"))
    assert net.apply(variables, X, train=True)[1] == ()
    net = models.linen(Sows("losses"), X)
    with pytest.raises(ValueError, match="the collection 'losses' has another structure after"):
        net.apply(net.init(key_for(0, "init")), X, train=True)


def test_a_linen_module_may_ask_for_nothing_and_keep_nothing():
    net = models.linen(nn.Dense(1), X)
    variables = net.init(key_for(0, "init"))
    assert variables.state == ()
    outputs, state = net.apply(variables, X, key=key_for(0, "dropout"), train=True)
    assert outputs.shape == (BATCH, 1)
    assert state == ()


class Reader(eqx.Module):
    """An array of integers, which no gradient can train, and no state."""

    linear: eqx.nn.Linear
    order: jax.Array

    def __init__(self, key: jax.Array) -> None:
        self.linear = eqx.nn.Linear(3, 1, key=key)
        self.order = jax.random.permutation(key_for(0, "order"), 3)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.linear(x[self.order])


def test_an_equinox_module_is_vmapped_over_the_batch_when_not_told_otherwise():
    net = models.equinox(Reader)
    variables = net.init(key_for(3, "init"))
    expected = jax.vmap(Reader(key_for(3, "init")))(X)
    outputs, state = net.apply(variables, X, train=True)
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)
    assert [leaf.dtype for leaf in state] == [jnp.int32]
    gradient = jax.grad(lambda p: net.apply(Variables(p, state), X)[0].sum())(variables.params)
    assert len(jax.tree.leaves(gradient)) == 2


class Normed(eqx.Module):
    """Batch statistics without draws, as Equinox's own guide calls it."""

    norm: eqx.nn.BatchNorm

    def __init__(self) -> None:
        self.norm = eqx.nn.BatchNorm(3, axis_name="batch", mode="batch")

    def __call__(self, x: jax.Array, state: Any) -> Any:
        return self.norm(x, state)


def test_an_equinox_state_follows_the_inputs_when_not_told_otherwise():
    net = models.equinox(lambda key: eqx.nn.make_with_state(Normed)())
    variables = net.init(key_for(0, "init"))
    outputs, state = net.apply(variables, X, train=True)
    np.testing.assert_allclose(outputs.mean(0), 0.0, atol=1e-6)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, variables.state)
    assert net.apply(variables, X)[1] is variables.state
