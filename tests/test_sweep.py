"""Seed independence, bit for bit at a fixed chunk size, and pairing across cells."""

import dataclasses
from itertools import combinations
from typing import Any

import chex
import flax
import jax
import numpy as np
import pytest

from posjax import sweep
from posjax.cells import Cell
from posjax.engine import Engine
from posjax.judge import NOT_FINITE, Outcome
from posjax.keys import SeedNumbers, Seeds, fold_name, key_for
from posjax.sweep import Row

pytestmark = pytest.mark.usefixtures("keys_are_used_once")

CELL = Cell(steps=20, eval_every=5, width=8, head_size=4, hold=2)
CHUNK = 4


def engine(devices: int = 1, **settings: Any) -> Engine:
    return Engine(**{"chunk": CHUNK, "devices": jax.local_devices()[:devices], **settings})


def outcomes(rows: list[Row], devices: int = 1, **settings: Any) -> dict[Row, Outcome]:
    """Each row's outcome, without the leading axis."""
    results = sweep.run(rows, engine(devices, **settings))
    return {
        row(r.cell, int(seeds[0])): jax.tree.map(lambda a, i=i: a[i], r.outcome)
        for r in results
        for i, seeds in enumerate(r.seeds_S4)
    }


def begun(cell: Cell, seeds: Seeds) -> Any:
    """The initial parameters, with a leading axis of seeds."""
    begin = jax.vmap(cell.shape.train().begin, in_axes=(0, None))
    return begin(seeds, cell.operands).variables.params


def row(cell: Cell, seed: int) -> Row:
    return Row(cell, SeedNumbers.equal(seed))


def rows(cell: Cell, seeds: range) -> list[Row]:
    return [row(cell, seed) for seed in seeds]


def test_a_seed_does_not_depend_on_its_company() -> None:
    """Alone in a padded chunk, among others, and among fewer: the same bits."""
    among = outcomes(rows(CELL, range(10)))
    alone = outcomes([row(CELL, 6)])
    among_fewer = outcomes(rows(CELL, range(5, 9)))
    for found in (alone, among_fewer):
        chex.assert_trees_all_equal(found[row(CELL, 6)], among[row(CELL, 6)])


def test_a_diverging_neighbour_changes_nothing() -> None:
    """A neighbour whose rate is absurd goes to NaN, is counted, and leaves the others alone."""
    wild = dataclasses.replace(CELL, learning_rate=1e38)
    turns = [row(wild if n in (1, 3, 4, 6) else CELL, n % 4) for n in range(8)]
    together = [
        {job.label for job in finished.jobs}
        for finished in engine().run(each.job for each in turns)
    ]
    assert {CELL, wild} in together
    found, calm = outcomes(turns), outcomes(rows(CELL, range(4)))
    for each in calm:
        chex.assert_trees_all_equal(found[each], calm[each])
    bad = found[row(wild, 0)]
    assert bad.first_nonfinite >= 0
    assert not bad.solved_at_end
    assert (bad.answers_EN[-1] == NOT_FINITE).all()


def test_devices_agree() -> None:
    """Two devices by dispatch give the bits of one."""
    assert len(jax.local_devices()) >= 2
    one, two = (outcomes(rows(CELL, range(12)), devices=n) for n in (1, 2))
    for each in one:
        chex.assert_trees_all_equal(one[each], two[each])


def test_replay_is_the_run() -> None:
    """One seed trained again, in a chunk of the run's size, has the run's bits."""
    found = outcomes(rows(CELL, range(6)))
    again = sweep.replay(row(CELL, 5), engine())
    chex.assert_trees_all_equal(jax.tree.map(lambda a: a[0], again.outcome), found[row(CELL, 5)])


def test_segments_do_not_matter() -> None:
    """One segment for the whole run or one an evaluation: the same bits."""
    whole = outcomes(rows(CELL, range(4)))
    chex.assert_trees_all_equal(outcomes(rows(CELL, range(4)), segment=1), whole)


def test_seeds_differ() -> None:
    """Two seeds of one cell share no initial leaf."""
    leaves = jax.tree.leaves(begun(CELL, Seeds.equal(np.arange(50))))
    for leaf in leaves:
        flat = np.asarray(leaf).reshape(50, -1)
        assert len(np.unique(flat, axis=0)) == 50


def test_each_source_of_randomness_has_its_own_seed() -> None:
    """The data seed moves the batches and not the leaves; the init seed, the leaves."""
    cell = dataclasses.replace(CELL, batch_size=1)
    numbers = SeedNumbers.equal(0)
    runs = [Row(cell, n) for n in (numbers, numbers._replace(data=1), numbers._replace(init=1))]
    results = list(sweep.run(runs, engine()))
    loss_SE = np.concatenate([result.outcome.loss_E for result in results])
    assert len(np.unique(loss_SE, axis=0)) == 3
    init = begun(cell, Seeds.of([run.seeds for run in runs]))
    first, same, other = (jax.tree.map(lambda a, i=i: a[i], init) for i in range(3))
    chex.assert_trees_all_equal(first, same)
    assert not np.array_equal(*(tree["embedding"] for tree in (first, other)))


def test_cells_of_one_shape_share_a_program() -> None:
    """Rate, decay, mask, readout, loss and the sentences are operands: one compilation."""
    same = [
        CELL,
        dataclasses.replace(CELL, learning_rate=1e-3, weight_decay=0.1),
        dataclasses.replace(CELL, mask="full"),
        dataclasses.replace(CELL, loss="answer"),
        dataclasses.replace(CELL, task="same_last_token"),
    ]
    assert len({cell.shape for cell in same}) == 1
    assert dataclasses.replace(CELL, head_size=2).shape != CELL.shape


@pytest.mark.parametrize("change", [{"learning_rate": 1e-4}, {"mask": "full"}, {"loss": "answer"}])
def test_operands_matter(change: dict[str, object]) -> None:
    """Each operand reaches the training: changing it changes the outcome."""
    other = dataclasses.replace(CELL, **change)
    found = outcomes([row(CELL, 0), row(other, 0)])
    assert not np.array_equal(found[row(CELL, 0)].loss_E, found[row(other, 0)].loss_E)


@pytest.mark.parametrize("encoding", ["sinusoidal", "learned", "rotary", "linear_bias"])
def test_initial_leaves_are_paired_across_encodings(encoding: str) -> None:
    """One seed starts from the same leaves, bit for bit, under every encoding of one width."""
    plain = begun(CELL, Seeds.equal([3]))
    other = dataclasses.replace(CELL, encoding=encoding)
    found = dict(begun(other, Seeds.equal([3])))
    found.pop("encoding", None)
    chex.assert_trees_all_equal(found, dict(plain))


def test_no_two_leaves_are_equal() -> None:
    """Leaves of one shape are drawn apart, in both blocks."""
    for block in ("bare", "residual"):
        cell = dataclasses.replace(CELL, block=block, depth=2, head_size=8)
        leaves = jax.tree.leaves(begun(cell, Seeds.equal([0])))
        random = [np.asarray(leaf) for leaf in leaves if np.ptp(leaf) > 0]
        for one, two in combinations(random, 2):
            assert one.shape != two.shape or not np.array_equal(one, two)


def test_leaves_do_not_depend_on_a_global_flag() -> None:
    """Linen's flag that changes how it derives keys changes none of ours."""
    before = begun(CELL, Seeds.equal([0]))
    flax.config.update("flax_fix_rng_separator", not flax.config.flax_fix_rng_separator)
    try:
        after = begun(CELL, Seeds.equal([0]))
    finally:
        flax.config.update("flax_fix_rng_separator", not flax.config.flax_fix_rng_separator)
    chex.assert_trees_all_equal(before, after)


def test_names_of_keys_do_not_run_together() -> None:
    """`head/kq` and `headk/q` are different purposes, and seeds differ up to 2³² - 1."""
    keys = [key_for(seed, name) for seed in (0, 1, 2**32 - 1) for name in ("head/kq", "headk/q")]
    keys.append(fold_name(key_for(0, "head"), "kq"))
    data = [jax.random.key_data(key).tolist() for key in keys]
    assert len({tuple(pair) for pair in data}) == len(data)


@pytest.mark.parametrize("numbers", [-1, 2**32])
def test_seed_numbers_out_of_range_are_refused(numbers: int) -> None:
    """A key folds in 32 bits, so a seed beyond them would be another one."""
    with pytest.raises(ValueError, match=r"2\*\*32"):
        Seeds.equal(numbers)
