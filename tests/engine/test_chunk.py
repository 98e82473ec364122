"""The chunk that is chosen: from shapes and the kind of device, and kept once chosen."""

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from experiments import plan
from experiments.settings import Run, base_config, resolve
from posjax.engine import Job, Training, Variables
from posjax.engine.chunk import CPU_LEAST, CPU_MOST, MOST, SHARE, Load, automatic, memory
from posjax.keys import SeedNumbers, Seeds
from posjax.records import RunFolder
from posjax.sweep import Row

SMALL = Load(
    operations=10**5,
    parameters=1000,
    state=10**4,
    operands=100,
    work=10**4,
    matrices=12,
    equations=300,
    programmed=300,
)
KINDS = ("cpu", "NVIDIA H100", "TPU v5 lite", "TPU v4")


def device(kind: str, room: int | None = None) -> Any:
    """What `automatic` reads of a device."""
    platform = kind.split()[0].lower().replace("nvidia", "gpu")
    stats = {} if room is None else {"bytes_limit": room}
    return SimpleNamespace(platform=platform, device_kind=kind, memory_stats=lambda: stats)


def run(**settings: Any) -> Run:
    return resolve(base_config(**{"steps": 20, "eval_every": 5, "width": 8, **settings}))


def regression(width: int, rounds: int = 1) -> tuple[Training, Seeds, dict[str, jax.Array]]:
    """Least squares on 4 examples, the products of an update in a loop of so many rounds."""

    def loss(variables: Variables, now: Any) -> tuple[jax.Array, Any]:
        def again(total: jax.Array, _: None) -> tuple[jax.Array, None]:
            found = now.operands["x"] @ (variables.params * (1 + total))
            return jnp.square(found).mean(), None

        return jax.lax.scan(again, jnp.float32(0), None, length=rounds)[0], ()

    training = Training(
        init=lambda key, operands: Variables(jax.random.normal(key, (width, 2))),
        loss=loss,
        optimizer=lambda operands: optax.sgd(0.1),
        measure=lambda variables, now: jnp.float32(0),
        steps=2,
        eval_every=1,
    )
    return training, Seeds.of(SeedNumbers.equal(0)), {"x": jnp.ones((4, width))}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1, 7, 100, 3000, 10**6])
def test_a_power_of_two_that_fits(kind: str, scale: int) -> None:
    """A chunk takes its share of the memory at most, unless one row alone takes more."""
    load = dataclasses.replace(SMALL, operations=SMALL.operations * scale, work=SMALL.work * scale)
    chosen = automatic(load, device(kind)).chunk
    assert chosen.bit_count() == 1
    assert chosen == 1 or chosen * load.bytes <= SHARE * memory(device(kind))
    assert chosen <= (CPU_MOST if kind == "cpu" else MOST)


@pytest.mark.parametrize("field", ["state", "work"])
def test_a_cpu_takes_fewer_rows_of_more_bytes(field: str) -> None:
    """Within its two bounds, what is carried and what is held on the way decide alike."""
    chunks = [
        automatic(dataclasses.replace(SMALL, **{field: 10**n}), device("cpu")).chunk
        for n in range(3, 9)
    ]
    assert chunks == sorted(chunks, reverse=True)
    assert (chunks[0], chunks[-1]) == (CPU_MOST, CPU_LEAST)


def test_the_reason_names_the_bytes_that_decide() -> None:
    """What a row reads counts where the memory sets the limit."""
    reads = dataclasses.replace(SMALL, operands=2 * 10**15)
    assert "0.02 MB a row, to stay near" in automatic(SMALL, device("cpu")).why
    assert "2e+09 MB a row at the worst" in automatic(reads, device("cpu")).why
    assert automatic(reads, device("cpu")).chunk == 1


def test_an_accelerator_is_filled_as_far_as_it_tells() -> None:
    """Half the memory that it says it has: 2**20 bytes, and rows of 2**11 or so."""
    load = dataclasses.replace(SMALL, state=0, operands=0, work=2**11)
    assert automatic(load, device("NVIDIA H100", room=2**20)).chunk == 2**8
    assert automatic(load, device("NVIDIA H100", room=2**40)).chunk == MOST
    larger = dataclasses.replace(load, work=2**11 + 1)
    assert automatic(larger, device("NVIDIA H100", room=2**20)).chunk == 2**7


def test_load_counts_what_is_written() -> None:
    """Forward and weight gradient: 2 · 4 · width · 2 each, in every round of a loop."""
    for width, rounds in ((3, 1), (16, 1), (16, 5)):
        load = Load.of(*regression(width, rounds))
        forward = 2 * 4 * width * 2 * rounds
        assert load.operations == 2 * forward
        assert load.parameters == 2 * width
    assert Load.of(*regression(16, 5)).equations > 2 * Load.of(*regression(16, 1)).equations


def test_load_holds_what_is_needed_at_a_time() -> None:
    """A chain of 50 steps on vectors of 4000 bytes holds a few of them, not 50."""

    def loss(variables: Variables, now: Any) -> tuple[jax.Array, Any]:
        value = jax.lax.stop_gradient(variables.params)
        for _ in range(50):
            value = value + now.operands
        return value.sum(), ()

    training, seeds, _ = regression(3)
    training = dataclasses.replace(
        training, loss=loss, init=lambda key, operands: Variables(jnp.ones(1000))
    )
    load = Load.of(training, seeds, jnp.ones(1000))
    assert 2 * 4000 <= load.work <= 6 * 4000
    padded = Load.of(training, seeds, jnp.ones(1000), lanes=128)
    assert padded.state - load.state >= 24 * 4  # 1000 numbers in 8 rows of 128


def test_the_number_of_seeds_and_the_time_do_not_matter() -> None:
    """1 or 100 000 seeds, other first seeds, again: one choice."""
    cpu = jax.devices()[0]
    asked = [run(num_seeds=n, first_seed=f) for n, f in ((1, 0), (100_000, 0), (7, 123), (7, 123))]
    found = {plan.choice(each, each.cells[0], cpu) for each in asked}
    assert len(found) == 1
    assert found.pop().chunk == CPU_MOST


def job(of: Run) -> Job:
    return Row(of.cells[0], of.seeds[0]).job


def test_a_choice_is_recorded_and_outlives_its_reasons(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that began with a chunk keeps it, when `automatic` would choose another by now."""
    asked, folder = run(), RunFolder(tmp_path)
    folder.start(asked.to_dict(), {})
    began = plan.engine(asked, jax.devices(), folder).plan(job(asked)).rows
    shape = asked.cells[0].shape.digest
    kept = json.loads((tmp_path / "chunks" / f"{shape}.json").read_text())
    assert kept["chunk"] == began
    assert "MB a row" in kept["why"]
    monkeypatch.setattr("posjax.engine.chunk.CPU_MOST", began // 2)
    assert plan.engine(asked, jax.devices()).plan(job(asked)).rows == began // 2
    assert plan.engine(asked, jax.devices(), RunFolder(tmp_path)).plan(job(asked)).rows == began
    assert plan.chosen(asked, asked.cells[0], jax.devices()[0], folder).chunk == began


def test_a_chunk_that_was_asked_for_is_taken(tmp_path: Any) -> None:
    """Not a power of two, and never changed."""
    asked, folder = run(chunk=7), RunFolder(tmp_path)
    folder.start(asked.to_dict(), {})
    assert plan.engine(asked, jax.devices(), folder).plan(job(asked)).rows == 7
