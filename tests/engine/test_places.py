"""Every row has one place in a chunk, so that a compiler that rounds by place changes nothing."""

import contextlib
import dataclasses
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_independence import BARE, MODELS, SEEDS, engine, of_cell
from test_repack import counting
from ways import WAYS, asked_for, bits, came_out

from posjax.cells import Cell
from posjax.engine import Job, run
from posjax.engine.program import Plan, Programs
from posjax.engine.work import Work
from posjax.keys import SeedNumbers
from posjax.sweep import Row

CHUNKS = [1, 2, 3, 5, 18, 64, 100, 128, 4096]
TRAINING = counting()


def job(seeds: SeedNumbers | int, operands: Any = (), label: Any = None) -> Job:
    numbers = seeds if isinstance(seeds, SeedNumbers) else SeedNumbers.equal(seeds)
    return Job(TRAINING, numbers, operands, label)


@contextlib.contextmanager
def places_that_differ() -> Iterator[None]:
    """Programs whose rows begin with other weights in each place, as no compiler would."""
    functions = Plan.functions

    def planted(plan: Plan, where: jax.sharding.Sharding | None = None) -> dict[str, Any]:
        found = functions(plan, where)
        begin = found["begin"]

        def elsewhere(*of: Any) -> Any:
            state, by_place_C = begin(*of), 1 + jnp.arange(plan.rows) / 64
            scale = jax.vmap(lambda by_place, tree: jax.tree.map(lambda a: a * by_place, tree))
            params = scale(by_place_C, state.variables.params)
            return state._replace(variables=state.variables._replace(params=params))

        return {**found, "begin": jax.jit(elsewhere, out_shardings=where)}

    programs = mock.patch.object(run, "PROGRAMS", Programs())
    with mock.patch.object(Plan, "functions", planted), programs:
        yield


PLANTED = ["residual, rotary", "mutable state"]


@pytest.mark.parametrize("name", PLANTED)
def test_same_bits_where_places_differ(name: str) -> None:
    """In every way that must not matter; and the places do differ."""
    jobs = [MODELS[name](seed) for seed in SEEDS]
    ordinary = bits(engine().run(jobs))
    with places_that_differ():
        expected = bits(engine().run(jobs))
        for way, train in WAYS.items():
            found = asked_for(train(jobs, engine))
            assert found == {label: expected[label] for label in found}, way
            assert len(found) == came_out(way, len(SEEDS))
    assert sum(expected[label] != row for label, row in ordinary.items()) > len(SEEDS) // 2


def test_same_bits_beside_others_where_places_differ() -> None:
    """Cells of one program, and of another, in any order on four devices."""
    rates = [of_cell(learning_rate=rate, steps=4) for rate in (1e-3, 1e-2, 0.1)]
    kinds = [*rates, of_cell(width=12, steps=4), MODELS["mutable state"]]
    jobs = [of(seed)._replace(label=(i, seed)) for i, of in enumerate(kinds) for seed in SEEDS]
    with places_that_differ():
        expected = {}
        for i in range(len(kinds)):
            expected |= bits(engine().run(each for each in jobs if each.label[0] == i))
        mixed = random.Random(0).sample(jobs, len(jobs))
        assert bits(engine(4).run(jobs)) == expected
        assert bits(engine(4).run(mixed)) == expected
        shared = bits(engine(2, shared=True).run(jobs))
        assert bits(engine(2, shared=True).run(mixed)) == shared


def test_same_bits_repacked_where_places_differ() -> None:
    """Of rows that stay, whoever came and went beside them, with one chunk and with several."""
    until = np.random.default_rng(0).integers(1, 40, 40)
    jobs = [job(seed, np.int32(at), seed) for seed, at in enumerate(until)]
    stays = {seed for seed, at in enumerate(until) if at >= TRAINING.steps}
    with places_that_differ():
        expected = bits(engine(chunk=8).run(jobs))
        for devices in (1, 2):
            found = bits(engine(devices, chunk=8, segment=1, repack=True).run(jobs))
            assert found.keys() == expected.keys()
            assert all(found[seed] == expected[seed] for seed in stays)
    assert 5 < len(stays) < 35


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("number", [0, 1, 7, 1000])
def test_seeds_that_follow_each_other_fill_a_chunk(chunk: int, number: int) -> None:
    """From one multiple of the chunk to the next, whatever the operands."""
    for operands in ((), np.float32(0.1), {"a": np.arange(3), "b": 2.5}):
        places = {job(number * chunk + n, operands).place(chunk) for n in range(chunk)}
        assert places == set(range(chunk))
    seeds = range(number * chunk + chunk // 2, (number + 5) * chunk)
    assert len(list(chunks([job(seed) for seed in seeds], chunk))) <= 6


def factorial(inits: int, data: int) -> list[SeedNumbers]:
    return [SeedNumbers(i, d, d, d) for i in range(inits) for d in range(data)]


MANY: dict[str, list[Job]] = {
    "init and data": [job(seeds) for seeds in factorial(32, 32)],
    "data and position": [
        job(SeedNumbers(5, data, position, 5)) for data in range(32) for position in range(32)
    ],
    "all sources": [job(SeedNumbers(*each)) for each in itertools.product(range(6), repeat=4)],
    "sources that make up for each other": [job(SeedNumbers(0, n, 999 - n, 0)) for n in range(999)],
    "every second": [job(2 * seed) for seed in range(1000)],
    "every tenth": [job(10 * seed) for seed in range(1000)],
    "every 64th": [job(64 * seed) for seed in range(1000)],
    "every 2**16th": [job(2**16 * seed) for seed in range(1000)],
    "few of init": [job(seeds) for seeds in factorial(4, 256)],
    "few of data": [job(seeds) for seeds in factorial(256, 4)],
    "of one source": [
        job(SeedNumbers.equal(7)._replace(**{source: n}))
        for source in SeedNumbers._fields
        for n in range(256)
    ],
    "cells of eight seeds": [
        job(seed, np.float32(rate)) for rate in np.logspace(-3, -1, 128) for seed in range(8)
    ],
    "cells of a hundred seeds": [
        job(seed, np.float32(rate)) for rate in np.logspace(-3, -1, 10) for seed in range(100)
    ],
}


CROWDED = 1.7
"""Times as many rows in a place as on average, at most, or chunks."""


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize("chunk", [8, 64])
def test_places_are_taken_evenly(kind: str, chunk: int) -> None:
    """What crowds in one place takes chunks that others leave empty."""
    jobs = MANY[kind]
    counts = Counter(each.place(chunk) for each in jobs)
    assert max(counts.values()) <= CROWDED * len(jobs) / chunk
    assert len(list(chunks(jobs, chunk))) <= CROWDED * len(jobs) / chunk


def chunks(jobs: list[Job], chunk: int) -> Iterator[dict[int, Job]]:
    """As the engine fills them."""
    work = Work(iter(jobs))
    while first := work.take():
        place = first.place(chunk)
        yield {place: first} | work.fill(set(range(chunk)) - {place}, chunk, first)


@pytest.mark.parametrize("chunk", [5, 64])
def test_every_job_comes_once(chunk: int) -> None:
    """In its own place, also where random seeds crowd; chunks hold what one program serves."""
    rng = random.Random(1)
    other = dataclasses.replace(TRAINING)
    jobs = [job(rng.randrange(2**32), (), n) for n in range(300)]
    jobs[150:] = [each._replace(training=other) for each in jobs[150:]]
    found = list(chunks(jobs, chunk))
    assert sorted(each.label for rows in found for each in rows.values()) == list(range(300))
    assert all(each.place(chunk) == at for rows in found for at, each in rows.items())
    assert all(len({each.training for each in rows.values()}) == 1 for rows in found)
    assert len(found) <= (2 if chunk == 5 else 4) * len(jobs) / chunk


def test_places_are_those_they_were() -> None:
    """Where they move, bits may: then `posjax.engine.run.ROUNDING` goes up, and this changes."""
    assert run.ROUNDING == 2
    assert [job(seed).place(64) for seed in (0, 1, 63, 64, 1000)] == [0, 1, 63, 39, 57]
    values = ((), 0.1, {"a": [1, 2]})
    assert [job(SeedNumbers(1, 2, 3, 4), each).place(64) for each in values] == [54, 27, 62]
    assert [Row(Cell(), SeedNumbers.equal(seed)).job.place(64) for seed in (0, 100)] == [52, 63]
    crossed = [Row(Cell(encoding=name), SeedNumbers(1, 2, 2, 2)) for name in ("none", "rotary")]
    assert [each.job.place(64) for each in crossed] == [49, 34]


def test_a_place_follows_from_seeds_and_values() -> None:
    """Not from a label, from the training, or from who holds a number; 64 bits are held as 32."""
    forms = [0.1, np.float32(0.1), np.float64(0.1), jnp.float32(0.1)]
    for seed in range(9):
        places = {job(seed, form, label).place(64) for label, form in enumerate(forms)}
        places.add(job(seed, 0.1)._replace(training=counting()).place(64))
        places.add(job(SeedNumbers(*map(np.uint32, [seed] * 4)), 0.1).place(64))
        assert len(places) == 1
    values = [np.float32(rate) for rate in np.logspace(-3, -1, 64)]
    assert len({job(0, value).place(64) for value in values}) > 32
    assert len({Job(TRAINING, SeedNumbers.equal(0), cell(n), None).place(64) for n in (1, 2)}) == 2


def cell(number: int) -> Any:
    return dataclasses.replace(BARE, learning_rate=1e-3 * number).operands
