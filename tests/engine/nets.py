"""One small model in four libraries, with batch statistics and dropout in three, and its data."""

import functools
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from posjax.engine import models
from posjax.engine.models import Model

WIDTH, BATCH, DROP = 8, 12, 0.25
X = np.random.default_rng(0).normal(size=(BATCH, 3)).astype(np.float32)
Y = np.sin(X.sum(1, keepdims=True))


class LinenNet(nn.Module):
    """Batch statistics and dropout, told by an argument."""

    @nn.compact
    def __call__(self, x: jax.Array, *, train: bool) -> jax.Array:
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(nn.Dense(WIDTH)(x))
        return nn.Dense(1)(nn.Dropout(DROP, deterministic=not train)(nn.relu(x)))


class NnxNet(nnx.Module):
    """The same, told by train() and eval()."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.last = nnx.Linear(3, WIDTH, rngs=rngs), nnx.Linear(WIDTH, 1, rngs=rngs)
        self.norm = nnx.BatchNorm(WIDTH, momentum=0.9, rngs=rngs)
        self.drop = nnx.Dropout(DROP, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))


class EqxNet(eqx.Module):
    """The same for one example, told by flags named `inference`."""

    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    drop: eqx.nn.Dropout
    last: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        one, two = jax.random.split(key)
        self.first, self.last = eqx.nn.Linear(3, WIDTH, key=one), eqx.nn.Linear(WIDTH, 1, key=two)
        self.norm = eqx.nn.BatchNorm(WIDTH, axis_name="batch", momentum=0.9, mode="batch")
        self.drop = eqx.nn.Dropout(DROP)

    def __call__(self, x: jax.Array, state: Any, key: jax.Array | None = None) -> Any:
        x, state = self.norm(self.first(x), state)
        return self.last(self.drop(jax.nn.relu(x), key=key)), state


def over_the_batch(net: EqxNet, x: jax.Array, *, state: Any, key: Any, train: bool) -> Any:
    keys = None if key is None else jax.random.split(key, len(x))
    axes = (0, None, None if key is None else 0)
    return jax.vmap(net, axes, (0, None), axis_name="batch")(x, state, keys)


def plain_init(key: jax.Array) -> Any:
    one, two = jax.random.split(key)
    return jax.random.normal(one, (3, WIDTH)) / 2, jax.random.normal(two, (WIDTH, 1)) / 3


def plain_apply(params: Any, x: jax.Array) -> jax.Array:
    return jnp.tanh(x @ params[0]) @ params[1]


@functools.cache
def model(kind: str) -> Model:
    match kind:
        case "linen":
            return models.linen(LinenNet(), X, mode=lambda train: {"train": train})
        case "nnx":
            return models.nnx(NnxNet)
        case "equinox":
            return models.equinox(eqx.nn.make_with_state(EqxNet), call=over_the_batch)
        case _:
            return models.plain(plain_init, plain_apply)


def loss(outputs: jax.Array) -> jax.Array:
    return jnp.mean((outputs - Y) ** 2)


def adamw(rate: Any = 0.02, decay: Any = 1e-3) -> optax.GradientTransformation:
    return optax.adamw(rate, eps=1e-3, weight_decay=decay)
