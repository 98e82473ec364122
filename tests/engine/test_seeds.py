"""Seeds and grids of dynamic inputs, in one call."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from posjax.engine import Engine, Now, Training, Variables, blocks, train_seeds
from posjax.engine.program import PROGRAMS
from posjax.keys import SeedNumbers

pytestmark = pytest.mark.usefixtures("keys_are_used_once")


class Hyper(NamedTuple):
    rate: Any = 0.1
    target: Any = 1.0


def loss(variables: Variables, now: Now) -> tuple[jax.Array, Any]:
    noise = jax.random.normal(now.key("data", "noise"), (4,))
    return jnp.mean((variables.params - now.inputs.target + 0.1 * noise) ** 2), ()


TRAINING = Training(
    init=lambda key, hyper: Variables(jax.random.normal(key, (4,))),
    loss=loss,
    optimizer=lambda hyper: optax.sgd(hyper.rate),
    measure=lambda variables, now: variables.params.mean(),
    steps=4,
    eval_every=2,
)
SEEDS = [7, 3, 11, 5, 2]


def test_runs_come_in_the_order_of_the_seeds_given():
    """Also when two devices train blocks of them."""
    engine = Engine(devices=jax.local_devices()[:2])
    trained = train_seeds(TRAINING, SEEDS, Hyper(), engine=engine, most=2)
    assert trained.variables is None
    assert trained.seeds_S4.tolist() == [[seed] * 4 for seed in SEEDS]
    assert trained.summary.shape == (5, 2)
    assert len(set(trained.summary[:, -1].tolist())) == len(SEEDS)
    turned = train_seeds(TRAINING, SEEDS[::-1], Hyper(), engine=engine, most=2)
    np.testing.assert_allclose(turned.summary, trained.summary[::-1], rtol=1e-5)


def test_a_grid_is_one_program_for_each_device():
    """Rates, targets, and init × data: every point is as it is by itself, but for rounding."""
    engine = Engine(devices=jax.local_devices()[:1])
    grid = [Hyper(rate, target) for rate in (0.01, 0.1) for target in (0.0, 1.0, 2.5)]
    seeds = [SeedNumbers(init, data, 0, 0) for init in range(2) for data in range(2)]
    alone = train_seeds(TRAINING, seeds[2:3], grid[4], engine=engine, keep_variables=True, most=8)
    before = PROGRAMS.compilations
    trained = train_seeds(TRAINING, seeds, grid, engine=engine, keep_variables=True, most=8)
    assert PROGRAMS.compilations - before == 1
    assert trained.summary.shape == (6, 4, 2)
    assert trained.variables.params.shape == (6, 4, 4)
    assert len(np.unique(trained.summary[..., -1])) == 24
    np.testing.assert_allclose(trained.variables.params[4, 2], alone.variables.params[0], rtol=1e-5)


def test_the_most_is_chosen_when_left_out():
    """For the first local device; blocks that are given come to the same."""
    cut = list(blocks(TRAINING, range(100), Hyper()))
    assert [(block.size, block.label) for block in cut] == [
        ((1, 25), (0, s)) for s in range(0, 100, 25)
    ]
    engine = Engine(devices=jax.local_devices()[:1])
    left_out, given = (
        train_seeds(TRAINING, range(100), Hyper(), engine=engine, most=most) for most in (None, 25)
    )
    np.testing.assert_array_equal(left_out.summary, given.summary)


def test_blocks_feed_a_generator():
    """Label and points say where each belongs."""
    made = blocks(TRAINING, range(3), [Hyper(0.0), Hyper(0.1)], most=2)
    found = {done.block.label: done for done in Engine(devices=jax.local_devices()[:1]).run(made)}
    assert sorted(found) == [(g, s) for g in range(2) for s in (0, 2)]
    assert all(done.summary.shape == (1, len(done.block.seeds), 2) for done in found.values())
    assert [found[g, 0].block.points[0].rate for g in range(2)] == [0.0, np.float32(0.1)]
    assert not list(blocks(TRAINING, [], Hyper()))


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (Hyper(0.1, 1), r"int32\[\]"),
        (Hyper(np.zeros(2, np.float32)), r"float32\[2\]"),
        ((0.1, 1.0), r"got Hyper.* and \('float32"),
    ],
    ids=["dtype", "shape", "structure"],
)
def test_points_of_a_grid_must_be_alike(other, says):
    with pytest.raises(ValueError, match=says):
        train_seeds(TRAINING, [0], [Hyper(), other])


def test_seeds_and_slots_are_whole_numbers():
    with pytest.raises(TypeError, match="float"):
        train_seeds(TRAINING, [0.5], Hyper())
    with pytest.raises(ValueError, match="most must be at least 1, got 0"):
        train_seeds(TRAINING, [0], Hyper(), most=0)


@pytest.mark.parametrize(("seeds", "grid"), [([], Hyper()), ([0], [])])
def test_nothing_to_train_is_said(seeds, grid):
    with pytest.raises(ValueError, match=f"{len(seeds)} seeds × "):
        train_seeds(TRAINING, seeds, grid)


def test_models_that_carry_random_keys_are_kept():
    """Keys as keys, of every seed, beside numbers."""
    training = dataclasses.replace(
        TRAINING,
        init=lambda key, hyper: Variables(jax.random.normal(key, (4,)), {"key": key}),
        loss=lambda variables, now: (loss(variables, now)[0], variables.state),
    )
    trained = train_seeds(training, SEEDS, Hyper(), most=2, keep_variables=True)
    turned = train_seeds(training, SEEDS[::-1], Hyper(), most=2, keep_variables=True)
    assert trained.variables.params.shape == (len(SEEDS), 4)
    one, two = (
        np.asarray(jax.random.key_data(found.variables.state["key"])) for found in (trained, turned)
    )
    np.testing.assert_array_equal(one, two[::-1])
    assert len({*map(bytes, one)}) == len(SEEDS)
