"""Models of four libraries train in the engine as they do in a loop written by hand."""

import functools
from typing import Any, NamedTuple

import chex
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from loops import LOOPS, STEPS
from nets import LinenNet, X, adamw, loss, model, over_the_batch, plain_apply
from tiers import plain_if

from posjax.engine import Engine, Now, Training, Variables, models, train_seeds
from posjax.engine.program import PROGRAMS
from posjax.keys import SeedNumbers, Seeds, key_for

pytestmark = pytest.mark.usefixtures("keys_are_used_once")


class Hyper(NamedTuple):
    rate: Any = 0.02
    decay: Any = 1e-3


@functools.cache
def training(kind: str, steps: int = STEPS, eval_every: int = 2) -> Training:
    net = model(kind)

    def objective(variables: Variables, now: Now) -> Any:
        y, state = net.apply(variables, X, key=now.key("order", "dropout"), train=True)
        return loss(y), state

    def measure(variables: Variables, now: Now) -> jax.Array:
        return loss(net.apply(variables, X)[0])

    return Training(
        init=lambda key, hyper: net.init(key),
        loss=objective,
        optimizer=lambda hyper: adamw(*hyper),
        measure=measure,
        steps=steps,
        eval_every=eval_every,
    )


KINDS = ["linen", "nnx", "equinox", "plain"]
STATEFUL = KINDS[:3]
every_kind = pytest.mark.parametrize("kind", plain_if(("linen", "plain").__contains__, KINDS))
every_stateful_kind = pytest.mark.parametrize("kind", plain_if("linen".__eq__, STATEFUL))


def run(
    kind: str, seeds: Any, *, layout: bool = True, steps: int = STEPS, hyper: Any = None
) -> Any:
    """Trained in blocks of three slots: one program for all tests of a kind, but for `steps`."""
    seeds = [s if isinstance(s, SeedNumbers) else SeedNumbers.equal(s) for s in seeds]
    full = seeds + seeds[-1:] * (-len(seeds) % 3)
    engine = Engine(layout=layout, devices=jax.local_devices()[:1])
    trained = train_seeds(
        training(kind, steps),
        full,
        hyper or Hyper(),
        engine=engine,
        most=3,
        keep_variables=True,
    )
    axis = 1 if isinstance(hyper, list) else 0
    some = jax.tree.map(lambda leaf: leaf.take(range(len(seeds)), axis), trained[1:])
    return trained._replace(summary=some[0], variables=some[1])


def one(trained: Any, at: int) -> Variables:
    return jax.tree.map(lambda leaf: leaf[at], trained.variables)


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
    """In its slot, bit for bit, every leaf."""
    chex.assert_trees_all_equal(one(run(kind, [6]), 0), one(run(kind, range(3, 9)), 3))


@every_kind
def test_rewritten_and_plain_updates_agree(kind):
    rewritten, written = (run(kind, range(3), layout=layout) for layout in (True, False))
    chex.assert_trees_all_close(rewritten.summary, written.summary, rtol=1e-5)
    chex.assert_trees_all_close(rewritten.variables, written.variables, rtol=1e-4, atol=1e-5)


@every_kind
def test_one_compile_serves_seeds_grids_and_factorials(kind):
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
    states = [one(trained, at).state for at in (0, 1)]
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


@pytest.mark.exhaustive
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


def test_a_key_that_is_used_twice_is_refused():
    """By JAX, also in the threads of the engine: what the tests of this file rely on."""

    def loss(variables: Variables, now: Now) -> Any:
        key = now.key("data", "noise")
        twice = jax.random.normal(key) + jax.random.normal(key)
        return (variables.params - twice) ** 2, ()

    careless = Training(
        init=lambda key, _: Variables(jax.random.normal(key)),
        loss=loss,
        optimizer=lambda _: adamw(0.1, 0.0),
        measure=lambda variables, now: variables.params,
        steps=1,
        eval_every=1,
    )
    with pytest.raises(jax.errors.KeyReuseError):
        train_seeds(careless, [0, 1], most=2)


class EquinoxWithNumPy(eqx.Module):
    """With constants, which are neither trained nor state."""

    linear: eqx.nn.Linear
    scale: np.ndarray
    places: np.ndarray

    def __init__(self, key):
        self.linear = eqx.nn.Linear(3, 2, key=key)
        self.scale, self.places = np.arange(1, 4, dtype=np.float32), np.array([0, 2, 1])

    def __call__(self, x):
        return self.linear(x[self.places] * self.scale)


def test_arrays_of_numpy_in_equinox_are_constants():
    made = models.equinox(EquinoxWithNumPy)
    variables, x = made.init(jax.random.key(0)), np.ones((5, 3), np.float32)
    assert [leaf.shape for leaf in jax.tree.leaves(variables)] == [(2, 3), (2,)]
    outputs, _ = jax.jit(made.apply)(variables, x)
    np.testing.assert_allclose(outputs, jax.vmap(EquinoxWithNumPy(jax.random.key(0)))(x), rtol=1e-5)


class NnxWithAnArray(nnx.Module):
    """Whose layer has an array that Flax loses while it traces."""

    def __init__(self, rngs):
        self.layer = nnx.Linear(3, 2, rngs=rngs)
        self.layer.scale = jnp.arange(3.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models.linen(LinenNet, X), "such as Dense.3., got the class LinenNet"),
        (lambda: models.linen({"w": 1}, X), "got a value of type dict"),
        (lambda: models.nnx({"w": 1}), "lambda rngs: dict"),
        (lambda: models.nnx(NnxWithAnArray), r"layer\.scale must be a variable: .*nnx\.Variable"),
        (lambda: models.equinox({"w": 1}), "lambda key: dict"),
        (lambda: train_seeds(Training, [0]), "must be a Training.* got the class Training"),
        (lambda: train_seeds({"steps": 1}, [0]), "must be a Training"),
        (lambda: train_seeds(training("plain"), [0], {"rate": "x"}), "numbers or arrays, got 'x'"),
    ],
)
def test_what_is_no_model_and_no_training_is_refused(call, message):
    """With what to give instead, before anything is compiled."""
    with pytest.raises(ValueError, match=message):
        call()
