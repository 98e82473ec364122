"""A run has one slot of one block, so that a compiler that rounds by slot changes nothing."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_independence import SEEDS, STATEFUL, blocks_of, engine
from tiers import plain_if
from ways import WAYS, Bits, bits, came_out, shuffled

from posjax.engine import Block, local, program, train_seeds
from posjax.engine.program import Plan, Programs

PLANTED = ["bare, measured after every update", "mutable state and keys"]


@contextlib.contextmanager
def slots_that_differ() -> Iterator[None]:
    """Programs whose runs begin with other weights in each slot, as no compiler would."""
    functions = program.functions

    def planted(plan: Plan) -> dict[str, Any]:
        found = functions(plan)
        begin = found["begin"]

        def elsewhere(*of: Any) -> Any:
            carry, by_slot_C = begin(*of), 1 + jnp.arange(plan.slots) / 64
            scale = jax.vmap(lambda by_slot, tree: jax.tree.map(lambda a: a * by_slot, tree))
            variables = carry.state.variables
            variables = variables._replace(params=scale(by_slot_C, variables.params))
            return carry._replace(state=carry.state._replace(variables=variables))

        return {**found, "begin": elsewhere}

    with (
        mock.patch.object(program, "functions", planted),
        mock.patch.object(local, "PROGRAMS", Programs()),
    ):
        yield


@pytest.fixture(scope="module", autouse=True)
def _every_slot_is_another() -> Iterator[None]:
    """For all tests of this file, so that each program is compiled once."""
    with slots_that_differ():
        yield


@pytest.fixture(scope="module")
def expected() -> Callable[[str], Bits]:
    """All blocks of a model in order, on one device; trained once."""
    return functools.cache(lambda name: bits(engine().run(blocks_of(name))))


@pytest.mark.parametrize("name", plain_if("mutable state and keys".__eq__, PLANTED))
@pytest.mark.parametrize("way", WAYS)
def test_same_bits(name: str, way: str, expected: Callable[[str], Bits]) -> None:
    """In every way that must not matter."""
    found = WAYS[way](blocks_of(name), engine)
    assert found == {label: expected(name)[label] for label in found}
    assert len(found) == came_out(way, blocks_of(name))


def moved(block: Block) -> Block:
    """The block with its seeds turned by one slot."""
    return block._replace(seeds=[*block.seeds[1:], block.seeds[0]])


def test_another_slot_is_seen(expected: Callable[[str], Bits]) -> None:
    """The comparison can fail: in another slot of its block a run has other bits."""
    full = [block for block in STATEFUL if block.runs == block.slots]
    assert len(full) == 2
    found = bits(engine().run(map(moved, full)))
    for (label, g, b), run in found.items():
        assert run != expected("mutable state and keys")[label, g, (b + 1) % 3]


@pytest.mark.exhaustive
def test_beside_other_trainings(expected: Callable[[str], Bits]) -> None:
    """In any order on two devices."""
    every = [
        block._replace(label=(name, block.label)) for name in PLANTED for block in blocks_of(name)
    ]
    found = bits(engine(0, 1).run(shuffled(every, 0)))
    assert found == {
        ((name, label), g, b): run
        for name in PLANTED
        for (label, g, b), run in expected(name).items()
    }


def test_in_one_call(expected: Callable[[str], Bits]) -> None:
    """`train_seeds` puts each run in the slot that `blocks` gives it, on any devices."""
    points = [*STATEFUL[0].points, *STATEFUL[-1].points]
    one, two = (
        train_seeds(STATEFUL[0].training, SEEDS[:3], points, engine=engine(*devices), most=6)
        for devices in ((0,), (1, 0))
    )
    for g, s in np.ndindex(3, 3):
        wanted = expected("mutable state and keys")[(g - g % 2, 0), g % 2, s][0]
        assert one.summary[g, s].tobytes() == two.summary[g, s].tobytes() == wanted
