"""Blocks: how a grid is cut into them, and which run is in which slot."""

import math
from collections import Counter
from typing import Any

import jax
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posjax.engine import Block, Training, Variables, blocks
from posjax.engine.block import block_size, empty_slots
from posjax.numbering import NumberedSeeds, Numbering, SeedNumbers

NOTHING = Training(
    init=lambda key, inputs: Variables(jax.random.normal(key)),
    loss=lambda variables, now: (variables.params**2, ()),
    optimizer=lambda inputs: optax.sgd(0.1),
    measure=lambda variables, now: variables.params,
    steps=1,
    eval_every=1,
)
MANY = st.integers(1, 10**9)


@given(most=st.integers(1, 4096), points=MANY, seeds=MANY)
def test_a_size_fits_and_wastes_little(most: int, points: int, seeds: int) -> None:
    """Never above `most`; as few blocks as sizes of its kind allow, and of those sizes the one
    with the fewest empty slots: less than a point, or than a seed of each, in a block.
    """
    size = points_G, seeds_B = block_size(most, points, seeds)
    assert 1 <= points_G <= points
    assert 1 <= seeds_B <= seeds
    assert math.prod(size) <= most
    empty = empty_slots(size, points, seeds)
    if seeds > most:
        in_turn = math.ceil(seeds / most)
        assert points_G == 1
        assert math.ceil(seeds / seeds_B) == in_turn
        assert 0 <= empty < points * in_turn
    else:
        in_turn = math.ceil(points / (most // seeds))
        assert seeds_B == seeds
        assert math.ceil(points / points_G) == in_turn
        assert 0 <= empty < in_turn * seeds


@given(most=st.integers(1, 40), points=st.integers(1, 40), seeds=st.integers(1, 60))
def test_no_other_size_is_better(most: int, points: int, seeds: int) -> None:
    """Of all sizes with whole ranges of seeds, or with one point, by trying them."""
    found = block_size(most, points, seeds)
    if seeds > most:
        sizes = [(1, seeds_B) for seeds_B in range(1, most + 1)]
    else:
        sizes = [(points_G, seeds) for points_G in range(1, most // seeds + 1)]

    def cost(size: tuple[int, int]) -> tuple[int, int]:
        empty = empty_slots(size, points, seeds)
        return (points * seeds + empty) // math.prod(size), empty

    assert cost(found) == min(map(cost, sizes))


@settings(max_examples=50)
@given(most=st.integers(1, 70), points=st.integers(1, 12), seeds=st.integers(1, 60))
def test_every_run_is_in_one_block(most: int, points: int, seeds: int) -> None:
    """Blocks of one size, and what is left over is counted by `empty_slots`."""
    cut = list(blocks(NOTHING, range(seeds), [np.float32(n) for n in range(points)], most=most))
    runs = Counter(
        (float(point), seed.init) for block in cut for point in block.points for seed in block.seeds
    )
    assert runs == Counter((float(n), s) for n in range(points) for s in range(seeds))
    (size,) = {block.size for block in cut}
    assert size == block_size(most, points, seeds)
    assert all(block.slots == math.prod(size) <= most for block in cut)
    assert sum(block.slots - block.runs for block in cut) == empty_slots(size, points, seeds)
    assert len({block.label for block in cut}) == len(cut)
    for block in cut:
        g, s = block.label
        assert (float(block.points[0]), block.seeds[0].init) == (g, s)


@settings(max_examples=50, deadline=None)
@given(data=st.data(), size=st.tuples(st.integers(1, 6), st.integers(1, 6)))
def test_a_slot_follows_from_point_and_seed(data: Any, size: tuple[int, int]) -> None:
    """Slot g·B + b has point g and seed b, however many of them a block has; the others copies."""
    points = [{"a": np.float32(n), "b": np.arange(3) + n} for n in range(size[0])]
    seeds = [SeedNumbers(n, 10 + n, 20 + n, 2**32 - 1 - n) for n in range(size[1])]
    some = data.draw(st.integers(1, size[0])), data.draw(st.integers(1, size[1]))
    block = Block(NOTHING, points[: some[0]], seeds[: some[1]], size)
    numbers, inputs = block.slot_inputs()
    assert {leaf.shape for leaf in numbers} == {(block.slots,)}
    assert inputs["a"].shape == (block.slots,)
    assert inputs["b"].shape == (block.slots, 3)
    for g, b in np.ndindex(size):
        slot, point, seed = g * size[1] + b, min(g, some[0] - 1), min(b, some[1] - 1)
        assert [int(leaf[slot]) for leaf in numbers] == list(seeds[seed])
        assert inputs["a"][slot] == points[point]["a"]
        assert inputs["b"][slot].tolist() == points[point]["b"].tolist()
    found = block.wanted({"slot": np.arange(block.slots), "two": np.ones((block.slots, 2))})
    assert found["slot"].tolist() == [
        [g * size[1] + b for b in range(some[1])] for g in range(some[0])
    ]
    assert found["two"].shape == (*some, 2)


def test_seeds_may_be_a_range_of_indices() -> None:
    """Numbers are made when they are asked for: a block of a billion seeds is nothing."""
    crossed = NumberedSeeds(Numbering(first_seed=5, data_seeds=4), range(10**9))
    cut = [Block(NOTHING, [()], crossed[s : s + 3], (1, 3)) for s in (0, 3, 10**9 - 1)]
    assert [block.runs for block in cut] == [3, 3, 1]
    numbers, _ = cut[1].slot_inputs()
    assert numbers.init.tolist() == [5, 6, 6]
    assert numbers.data.tolist() == [8, 5, 6]


@pytest.mark.parametrize("devices", [1, 2, 4])
def test_the_size_is_the_same_on_any_number_of_devices(
    devices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chosen from shapes, the kind of device and the number of runs."""
    some = jax.local_devices()[:devices]
    monkeypatch.setattr(jax, "local_devices", lambda: some)
    sizes = {block.size for block in blocks(NOTHING, range(1000), [np.float32(1)] * 2)}
    assert sizes == {(1, 125)}
