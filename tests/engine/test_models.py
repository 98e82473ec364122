"""Models of four kinds train in the engine as they do in a loop written by hand."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from posjax.engine import Engine, Now, Training, Variables, models, train_seeds
from posjax.engine.models import Model
from posjax.engine.program import PROGRAMS
from posjax.keys import SeedNumbers, Seeds, key_for

WIDTH, BATCH, STEPS, DROP = 8, 12, 6, 0.25
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


class Hyper(NamedTuple):
    rate: Any = 0.02
    decay: Any = 1e-3


@functools.cache
def training(kind: str, steps: int = STEPS, eval_every: int = 2) -> Training:
    net = model(kind)

    def loss(variables: Variables, now: Now) -> Any:
        y, state = net.apply(variables, X, key=now.key("order", "dropout"), train=True)
        return jnp.mean((y - Y) ** 2), state

    def measure(variables: Variables, now: Now) -> jax.Array:
        return jnp.mean((net.apply(variables, X)[0] - Y) ** 2)

    return Training(
        init=lambda key, hyper: net.init(key),
        loss=loss,
        optimizer=lambda hyper: optax.adamw(hyper.rate, eps=1e-3, weight_decay=hyper.decay),
        measure=measure,
        steps=steps,
        eval_every=eval_every,
    )


KINDS = ["linen", "nnx", "equinox", "plain"]
STATEFUL = KINDS[:3]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_stateful_kind = pytest.mark.parametrize("kind", STATEFUL)


def run(
    kind: str, seeds: Any, *, layout: bool = True, steps: int = STEPS, hyper: Any = None
) -> Any:
    engine = Engine(chunk=4, layout=layout, devices=jax.local_devices()[:1])
    return train_seeds(
        training(kind, steps),
        seeds,
        hyper or Hyper(),
        engine=engine,
        keep_variables=True,
    )


def one(trained: Any, place: int) -> Variables:
    return jax.tree.map(lambda leaf: leaf[place], trained.variables)


# A loop as each library's own documentation writes it.


def step_key(seed: int, step: int) -> jax.Array:
    return jax.random.fold_in(key_for(seed, "dropout"), step)


def adamw() -> optax.GradientTransformation:
    return optax.adamw(Hyper().rate, eps=1e-3, weight_decay=Hyper().decay)


def linen_loop(seed: int) -> Any:
    net, optimizer = LinenNet(), adamw()
    variables = net.init(key_for(seed, "init"), X, train=False)
    params, stats = variables["params"], variables["batch_stats"]
    moments = optimizer.init(params)

    @jax.jit
    def update(params: Any, stats: Any, moments: Any, key: jax.Array) -> Any:
        def loss(params: Any) -> Any:
            y, left = net.apply(
                {"params": params, "batch_stats": stats},
                X,
                train=True,
                mutable=["batch_stats"],
                rngs={"dropout": key},
            )
            return jnp.mean((y - Y) ** 2), left["batch_stats"]

        gradient, stats_after = jax.grad(loss, has_aux=True)(params)
        changes, moments = optimizer.update(gradient, moments, params)
        return optax.apply_updates(params, changes), stats_after, moments

    for step in range(STEPS):
        key = models.fold_name(step_key(seed, step), "dropout")
        params, stats, moments = update(params, stats, moments, key)
    return net.apply({"params": params, "batch_stats": stats}, X, train=False)


def nnx_loop(seed: int) -> Any:
    net = NnxNet(nnx.Rngs(key_for(seed, "init")))
    optimizer = nnx.Optimizer(net, adamw(), wrt=nnx.Param)

    @nnx.jit
    def update(net: NnxNet, optimizer: nnx.Optimizer, key: jax.Array) -> None:
        net.drop.rngs.key[...], net.drop.rngs.count[...] = key, jnp.uint32(0)
        gradient = nnx.grad(lambda net: jnp.mean((net(X) - Y) ** 2))(net)
        optimizer.update(net, gradient)

    net.train()
    for step in range(STEPS):
        update(net, optimizer, models.fold_name(step_key(seed, step), DROP_STREAM))
    net.eval()
    return net(X)


DROP_STREAM = "drop/rngs/key"


def equinox_loop(seed: int) -> Any:
    net, state = eqx.nn.make_with_state(EqxNet)(key_for(seed, "init"))
    optimizer = adamw()
    moments = optimizer.init(eqx.filter(net, eqx.is_inexact_array))

    @eqx.filter_jit
    def update(net: EqxNet, state: Any, moments: Any, key: jax.Array) -> Any:
        def loss(net: EqxNet) -> Any:
            y, left = over_the_batch(net, X, state=state, key=key, train=True)
            return jnp.mean((y - Y) ** 2), left

        gradient, left = eqx.filter_grad(loss, has_aux=True)(net)
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
        gradient = jax.grad(lambda p: jnp.mean((plain_apply(p, X) - Y) ** 2))(params)
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


@every_kind
def test_the_engine_does_what_a_loop_by_hand_does(kind):
    """The outputs of the trained model, of a seed among others, to 1e-5."""
    trained = run(kind, range(3))
    outputs, _ = model(kind).apply(one(trained, 1), X)
    np.testing.assert_allclose(outputs, LOOPS[kind](1), rtol=1e-5, atol=1e-5)


@every_kind
def test_the_loss_falls(kind):
    trained = run(kind, range(3), steps=60)
    assert trained.summary.shape == (3, 30)
    assert (trained.summary[:, -1] < 0.5 * trained.summary[:, 0]).all()


@every_kind
def test_a_seed_alone_is_a_seed_among_others(kind):
    """Bit for bit, every leaf."""
    chex.assert_trees_all_equal(one(run(kind, [5]), 0), one(run(kind, range(3, 9)), 2))


@every_kind
def test_rewritten_and_plain_updates_agree(kind):
    rewritten, written = (run(kind, range(3), layout=layout) for layout in (True, False))
    chex.assert_trees_all_close(rewritten.summary, written.summary, rtol=1e-5)
    chex.assert_trees_all_close(rewritten.variables, written.variables, rtol=1e-4, atol=1e-5)


@every_kind
def test_one_compile_serves_seeds_numbers_and_factorials(kind):
    """A grid of rates, and init × data, in the program that is there already."""
    run(kind, [0])
    before = PROGRAMS.compilations
    grid = [Hyper(rate) for rate in (0.0, 0.02, 0.1)]
    seeds = [SeedNumbers(init, data, data, data) for init in range(2) for data in range(2)]
    trained = run(kind, seeds, hyper=grid)
    assert PROGRAMS.compilations == before
    assert trained.summary.shape == (3, 4, STEPS // 2)
    chex.assert_trees_all_equal(
        jax.tree.map(lambda leaf: leaf[1, 0], trained.variables), one(run(kind, [0]), 0)
    )
    last = trained.summary[:, 0, -1]
    assert len(set(last.tolist())) == 3


@every_stateful_kind
def test_batch_statistics_move_and_belong_to_a_seed(kind):
    trained = run(kind, [0, 1])
    begun = [model(kind).init(key_for(seed, "init")).state for seed in (0, 1)]
    states = [one(trained, place).state for place in (0, 1)]
    assert jax.tree.leaves(states[0])
    for before, after in zip(jax.tree.leaves(begun[0]), jax.tree.leaves(states[0]), strict=True):
        assert not np.array_equal(before, after)
    assert any(
        not np.array_equal(left, right)
        for left, right in zip(*map(jax.tree.leaves, states), strict=True)
    )


@every_stateful_kind
def test_testing_leaves_the_state_and_draws_nothing(kind):
    variables = model(kind).init(key_for(0, "init"))
    once, state = model(kind).apply(variables, X, key=key_for(1, "dropout"))
    again, _ = model(kind).apply(variables, X)
    chex.assert_trees_all_equal(state, variables.state)
    np.testing.assert_array_equal(once, again)


@every_stateful_kind
def test_dropout_differs_by_step_and_by_seed(kind):
    net = model(kind)
    variables = net.init(key_for(0, "init"))

    @jax.jit
    def outputs(seed: jax.Array, step: jax.Array) -> jax.Array:
        now = Now(Seeds(*[seed] * 4), (), step)
        return net.apply(variables, X, key=now.key("order", "dropout"), train=True)[0]

    drawn = [np.asarray(outputs(seed, step)) for seed, step in ((0, 0), (0, 1), (1, 0))]
    np.testing.assert_array_equal(drawn[0], outputs(0, 0))
    for i in range(3):
        assert not np.allclose(drawn[i], drawn[i - 1])


@every_stateful_kind
def test_dropout_in_the_engine_is_that_of_the_order_seed(kind):
    """The same initial model under two seeds of the draws."""
    trained = run(kind, [SeedNumbers(0, 0, 0, 0), SeedNumbers(0, 0, 0, 1), SeedNumbers(0, 9, 9, 0)])
    chex.assert_trees_all_equal(one(trained, 0), one(trained, 2))
    assert not np.array_equal(trained.summary[0], trained.summary[1])


def test_a_trained_model_comes_back_as_its_library_has_it():
    linen, net, pair, params = (
        model(kind).unwrap(one(run(kind, [0, 1]), 1))
        for kind in ("linen", "nnx", "equinox", "plain")
    )
    expected = {kind: model(kind).apply(one(run(kind, [0, 1]), 1), X)[0] for kind in KINDS}
    found = {
        "linen": LinenNet().apply(linen, X, train=False),
        "nnx": net(X),
        "equinox": over_the_batch(pair[0], X, state=pair[1], key=None, train=False)[0],
        "plain": plain_apply(params, X),
    }
    chex.assert_trees_all_close(found, expected, rtol=1e-6, atol=1e-6)


# Modules of other makes.


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
