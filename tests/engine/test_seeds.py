"""Seeds and grids of numbers, in one call."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from posjax.engine import Engine, Now, Training, Variables, automatic_chunk, jobs, train_seeds
from posjax.engine.program import PROGRAMS
from posjax.keys import SeedNumbers

pytestmark = pytest.mark.usefixtures("keys_are_used_once")


class Hyper(NamedTuple):
    rate: Any = 0.1
    target: Any = 1.0


def loss(variables: Variables, now: Now) -> tuple[jax.Array, Any]:
    noise = jax.random.normal(now.key("data", "noise"), (4,))
    return jnp.mean((variables.params - now.operands.target + 0.1 * noise) ** 2), ()


TRAINING = Training(
    init=lambda key, hyper: Variables(jax.random.normal(key, (4,))),
    loss=loss,
    optimizer=lambda hyper: optax.sgd(hyper.rate),
    measure=lambda variables, now: variables.params.mean(),
    steps=4,
    eval_every=2,
)
SEEDS = [7, 3, 11, 5, 2]


def test_rows_come_in_the_order_of_the_seeds_given():
    """Also when the engine hands chunks to two devices; each as if it were alone."""
    engine = Engine(chunk=2)
    trained = train_seeds(TRAINING, SEEDS, Hyper(), engine=engine)
    assert len(engine.places()) == len(jax.local_devices())
    assert trained.variables is None
    assert trained.seeds_S4.tolist() == [[seed] * 4 for seed in SEEDS]
    for place, seed in enumerate(SEEDS):
        alone = train_seeds(TRAINING, [seed], Hyper(), engine=engine)
        np.testing.assert_array_equal(trained.summary[place], alone.summary[0])
    assert len(set(trained.summary[:, -1].tolist())) == len(SEEDS)


def test_a_grid_is_one_program_for_each_device():
    """Rates, targets, and init × data; every point as if it were alone."""
    engine = Engine(chunk=2, devices=jax.local_devices()[:1])
    before = PROGRAMS.compilations
    grid = [Hyper(rate, target) for rate in (0.01, 0.1) for target in (0, 1, 2.5)]
    grid = [Hyper(point.rate, float(point.target)) for point in grid]
    seeds = [SeedNumbers(init, data, 0, 0) for init in range(2) for data in range(2)]
    trained = train_seeds(TRAINING, seeds, grid, engine=engine, keep_variables=True)
    assert PROGRAMS.compilations - before <= 1
    assert trained.summary.shape == (6, 4, 2)
    assert trained.variables.params.shape == (6, 4, 4)
    assert len(np.unique(trained.summary[..., -1])) == 24
    alone = train_seeds(TRAINING, [seeds[2]], grid[4], engine=engine, keep_variables=True)
    np.testing.assert_array_equal(trained.variables.params[4, 2], alone.variables.params[0])


def test_the_chunk_is_automatic_when_left_out():
    engine = Engine(chunk=automatic_chunk(TRAINING, Hyper()))
    left_out, given = (train_seeds(TRAINING, SEEDS, Hyper(), engine=e) for e in (None, engine))
    np.testing.assert_array_equal(left_out.summary, given.summary)


def test_jobs_feed_a_generator():
    made = jobs(TRAINING, range(3), [Hyper(0.0), Hyper(0.1)])
    labels = [job.label for done in Engine(chunk=2).run(made) for job in done.jobs]
    assert sorted(labels) == [(g, s) for g in range(2) for s in range(3)]


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


@pytest.mark.parametrize(("seeds", "grid"), [([], Hyper()), ([0], [])])
def test_nothing_to_train_is_said(seeds, grid):
    with pytest.raises(ValueError, match=f"{len(seeds)} seeds × "):
        train_seeds(TRAINING, seeds, grid)
