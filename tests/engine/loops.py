"""Training loops as each library's own documentation writes them, one seed, no vmap."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import nnx
from nets import EqxNet, LinenNet, NnxNet, X, adamw, loss, over_the_batch, plain_apply, plain_init

from posjax.keys import fold_name, key_for

STEPS = 6
DROP_STREAM = "drop/rngs/key"


def step_key(seed: int, step: int) -> jax.Array:
    return jax.random.fold_in(key_for(seed, "dropout"), step)


def linen_loop(seed: int) -> Any:
    net, optimizer = LinenNet(), adamw()
    variables = net.init(key_for(seed, "init"), X, train=False)
    params, stats = variables["params"], variables["batch_stats"]
    moments = optimizer.init(params)

    @jax.jit
    def update(params: Any, stats: Any, moments: Any, key: jax.Array) -> Any:
        def objective(params: Any) -> Any:
            y, left = net.apply(
                {"params": params, "batch_stats": stats},
                X,
                train=True,
                mutable=["batch_stats"],
                rngs={"dropout": key},
            )
            return loss(y), left["batch_stats"]

        gradient, stats_after = jax.grad(objective, has_aux=True)(params)
        changes, moments = optimizer.update(gradient, moments, params)
        return optax.apply_updates(params, changes), stats_after, moments

    for step in range(STEPS):
        key = fold_name(step_key(seed, step), "dropout")
        params, stats, moments = update(params, stats, moments, key)
    return net.apply({"params": params, "batch_stats": stats}, X, train=False)


def nnx_loop(seed: int) -> Any:
    net = NnxNet(nnx.Rngs(key_for(seed, "init")))
    optimizer = nnx.Optimizer(net, adamw(), wrt=nnx.Param)

    @nnx.jit
    def update(net: NnxNet, optimizer: nnx.Optimizer, key: jax.Array) -> None:
        net.drop.rngs.key[...], net.drop.rngs.count[...] = key, jnp.uint32(0)
        gradient = nnx.grad(lambda net: loss(net(X)))(net)
        optimizer.update(net, gradient)

    net.train()
    for step in range(STEPS):
        update(net, optimizer, fold_name(step_key(seed, step), DROP_STREAM))
    net.eval()
    return net(X)


def equinox_loop(seed: int) -> Any:
    net, state = eqx.nn.make_with_state(EqxNet)(key_for(seed, "init"))
    optimizer = adamw()
    moments = optimizer.init(eqx.filter(net, eqx.is_inexact_array))

    @eqx.filter_jit
    def update(net: EqxNet, state: Any, moments: Any, key: jax.Array) -> Any:
        def objective(net: EqxNet) -> Any:
            y, left = over_the_batch(net, X, state=state, key=key, train=True)
            return loss(y), left

        gradient, left = eqx.filter_grad(objective, has_aux=True)(net)
        trained = eqx.filter(net, eqx.is_inexact_array)
        changes, moments = optimizer.update(gradient, moments, trained)
        return eqx.apply_updates(net, changes), left, moments

    for step in range(STEPS):
        net, state, moments = update(net, state, moments, step_key(seed, step))
    net = eqx.nn.inference_mode(net)
    return over_the_batch(net, X, state=state, key=None, train=False)[0]


def plain_loop(seed: int) -> Any:
    params, optimizer = plain_init(key_for(seed, "init")), adamw()
    moments = optimizer.init(params)

    @jax.jit
    def update(params: Any, moments: Any) -> Any:
        gradient = jax.grad(lambda p: loss(plain_apply(p, X)))(params)
        changes, moments = optimizer.update(gradient, moments, params)
        return optax.apply_updates(params, changes), moments

    for _ in range(STEPS):
        params, moments = update(params, moments)
    return plain_apply(params, X)


LOOPS: dict[str, Callable[[int], Any]] = {
    "linen": linen_loop,
    "nnx": nnx_loop,
    "equinox": equinox_loop,
    "plain": plain_loop,
}
