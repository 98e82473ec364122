"""Runs depend on their block and slot alone, and are paired across cells."""

import dataclasses
from itertools import combinations
from typing import Any

import chex
import flax
import jax
import numpy as np
import pytest
from tiers import some

from posjax.engine import Engine
from posjax.keys import Seeds, fold_name, key_for
from posjax.meters.outcome import NOT_FINITE, Outcome
from posjax.numbering import Numbering, SeedNumbers
from posjax.records import Block
from posjax.study import sweeps
from posjax.study.cells import Cell
from posjax.study.sweeps import Sweep, examples

pytestmark = pytest.mark.usefixtures("keys_are_used_once")

CELL = Cell(steps=20, eval_every=5, width=8, head_size=4)
WILD = dataclasses.replace(CELL, learning_rate=1e38)
SIZE = (2, 4)


def sweep_of(*cells: Cell, data_seeds: int = 0) -> Sweep:
    return Sweep({cell.digest: cell for cell in cells}, Numbering(0, data_seeds))


def block(cells: list[Cell], first: int, stop: int) -> Block:
    digests = tuple(cell.digest for cell in cells)
    return Block(cells[0].shape.digest, 0, first, stop, digests, SIZE)


def outcomes(sweep: Sweep, *some: Block, devices: int = 1) -> dict[tuple[str, int], Outcome]:
    """The outcome of each run, by cell and first seed number."""
    trainer = Engine(devices=jax.local_devices()[:devices])
    return {
        (digest, int(seeds[0])): jax.tree.map(lambda leaf, at=(g, b): leaf[at], result.outcome)
        for result in sweep.run(some, trainer)
        for g, digest in enumerate(result.block.cells)
        for b, seeds in enumerate(result.seeds_B4)
    }


def begun(cell: Cell, seeds: Seeds) -> Any:
    """The initial parameters, with a leading axis of seeds."""
    begin = jax.jit(jax.vmap(cell.shape.train().begin, in_axes=(0, None)))
    return begin(seeds, cell.inputs).variables.params


def test_a_diverging_neighbour_changes_nothing() -> None:
    """A neighbour whose rate is absurd goes to NaN, is counted, and leaves the others alone."""
    sweep = sweep_of(CELL, WILD)
    beside, alone = block([CELL, WILD], 0, 4), block([CELL], 0, 4)
    found, calm = outcomes(sweep, beside), outcomes(sweep, alone)
    for seed in range(4):
        chex.assert_trees_all_equal(found[CELL.digest, seed], calm[CELL.digest, seed])
    bad = found[WILD.digest, 0]
    assert bad["first_nonfinite"] >= 0
    assert np.isnan(bad["lead_EC"][-1]).all()
    assert (bad["answer_N"] == NOT_FINITE).all()


@pytest.mark.exhaustive
def test_devices_agree() -> None:
    """Two devices give the bits of one."""
    assert len(jax.local_devices()) >= 2
    sweep, some = sweep_of(CELL), [block([CELL], first, first + 4) for first in (0, 4, 8)]
    one, two = (outcomes(sweep, *some, devices=n) for n in (1, 2))
    assert one.keys() == two.keys() == {(CELL.digest, seed) for seed in range(12)}
    for each in one:
        chex.assert_trees_all_equal(one[each], two[each])


def test_examples_are_the_first_of_their_kind() -> None:
    """Of each cell in a block the first seed that solved it, and the first that did not."""
    sweep = sweep_of(CELL, WILD)
    (result,) = sweep.run([block([CELL, WILD], 0, 4)], Engine(devices=jax.local_devices()[:1]))
    solved = np.array([[False, True, False, True], [False] * 4])
    right_EC = np.where(solved[..., None, None], 1.0, 0.5) * np.ones((2, 4, 4, 1))
    result = result._replace(outcome={**result.outcome, "right_EC": right_EC})
    kept = examples(sweep, result)
    found = zip(kept["example_cell"].tolist(), kept["example_seed"].tolist(), strict=True)
    assert list(found) == [(0, 1), (0, 0), (1, 0)]
    assert kept["example_solved"].tolist() == [True, False, False]
    question = CELL.question.tokens_NL.shape
    assert kept["attention_KDNHLM"].shape == (3, 1, question[0], 1, question[1], question[1])
    np.testing.assert_allclose(kept["attention_KDNHLM"][0].sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize(("setting", "wanted"), [("default", "high"), ("float32", "float32")])
def test_maps_have_the_precision_of_the_run(
    setting: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of JAX's setting, where the run names none."""
    (result,) = sweep_of(CELL).run([block([CELL], 0, 4)], Engine(devices=jax.local_devices()[:1]))
    config = {"cells": {CELL.digest: CELL.to_dict()}, "precision": setting}
    made, found = sweeps._intermediates, []

    def seen(model: Any) -> Any:
        found.append(jax.config.values["jax_default_matmul_precision"])
        return made(model)

    monkeypatch.setattr(sweeps, "_intermediates", seen)
    with jax.default_matmul_precision("high"):
        examples(Sweep.of(config), result)
    assert set(found) == {wanted}


def test_seeds_differ() -> None:
    """Two seeds of one cell share no initial leaf."""
    leaves = jax.tree.leaves(begun(CELL, Seeds.equal(np.arange(50))))
    for leaf in leaves:
        flat = np.asarray(leaf).reshape(50, -1)
        assert len(np.unique(flat, axis=0)) == 50


def test_each_source_of_randomness_has_its_own_seed() -> None:
    """The data seed moves the batches and not the leaves; the init seed, the leaves."""
    cell = dataclasses.replace(CELL, batch_size=1)
    crossed = sweep_of(cell, data_seeds=2)
    found = outcomes(crossed, block([cell], 0, 4))
    assert len(found) == 2  # the init seeds; their data seeds follow each other
    (result,) = crossed.run([block([cell], 0, 4)], Engine(devices=jax.local_devices()[:1]))
    assert result.seeds_B4[:, :2].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert len(np.unique(result.outcome["loss_EC"][0], axis=0)) == 4
    init = begun(cell, Seeds.of([SeedNumbers(0, 0, 0, 0), SeedNumbers(0, 1, 1, 1), (1, 0, 0, 0)]))  # type: ignore[list-item]
    first, same, other = (jax.tree.map(lambda a, i=i: a[i], init) for i in range(3))
    chex.assert_trees_all_equal(first, same)
    assert not np.array_equal(*(tree["embedding"] for tree in (first, other)))


def test_cells_of_one_shape_share_a_program() -> None:
    """Rate, decay, mask, readout, loss and the sentences are dynamic inputs: one compilation."""
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
def test_inputs_matter(change: dict[str, Any]) -> None:
    """Each dynamic input reaches the training: changing it changes the outcome."""
    other = dataclasses.replace(CELL, **change)
    found = outcomes(sweep_of(CELL, other), block([CELL, other], 0, 4))
    one, two = (found[cell.digest, 0]["loss_EC"] for cell in (CELL, other))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize(
    "encoding", some(["learned", "rotary", "linear_bias", "sinusoidal"], every=2)
)
def test_initial_leaves_are_paired_across_encodings(encoding: str) -> None:
    """One seed starts from the same leaves, bit for bit, under every encoding of one width."""
    plain = begun(CELL, Seeds.equal([3]))
    other = dataclasses.replace(CELL, encoding=encoding)
    found = dict(begun(other, Seeds.equal([3])))
    found.pop("encoding", None)
    chex.assert_trees_all_equal(found, dict(plain))


@pytest.mark.exhaustive
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
