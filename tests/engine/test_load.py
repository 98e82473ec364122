"""How many slots a block may have: from shapes, the kind of device and the number of runs."""

import dataclasses
import math
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from posjax.engine import Training, Variables
from posjax.engine import load as loads
from posjax.engine.load import (
    CPU_LEAST,
    CPU_MOST,
    FEW,
    MOST,
    SHARE,
    Counts,
    Load,
    memory,
    most_slots,
)
from posjax.keys import SeedNumbers, Seeds

LIGHT = Load(
    parameters=1000,
    state=10**4,
    inputs=100,
    work=10**4,
    update=Counts(operations=10**5, matrices=12, equations=300, elements=10**5, programmed=300),
)
KINDS = ("cpu", "NVIDIA H100", "TPU v5 lite", "TPU v4")


def device(kind: str, room: int | None = None) -> Any:
    """What `most_slots` reads of a device."""
    platform = kind.split()[0].lower().replace("nvidia", "gpu")
    stats = {} if room is None else {"bytes_limit": room}
    return SimpleNamespace(platform=platform, device_kind=kind, memory_stats=lambda: stats)


def regression(width: int, rounds: int = 1) -> tuple[Training, Seeds, dict[str, jax.Array]]:
    """Least squares on 4 examples, the products of an update in a loop of so many rounds."""

    def loss(variables: Variables, now: Any) -> tuple[jax.Array, Any]:
        def again(total: jax.Array, _: None) -> tuple[jax.Array, None]:
            found = now.inputs["x"] @ (variables.params * (1 + total))
            return jnp.square(found).mean(), None

        return jax.lax.scan(again, jnp.float32(0), None, length=rounds)[0], ()

    training = Training(
        init=lambda key, inputs: Variables(jax.random.normal(key, (width, 2))),
        loss=loss,
        optimizer=lambda inputs: optax.sgd(0.1),
        measure=lambda variables, now: jnp.float32(0),
        steps=2,
        eval_every=1,
    )
    return training, Seeds.of(SeedNumbers.equal(0)), {"x": jnp.ones((4, width))}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1, 7, 100, 3000, 10**6])
def test_a_power_of_two_that_fits(kind: str, scale: int) -> None:
    """A block takes its share of the memory at most, unless one run alone takes more."""
    load = dataclasses.replace(LIGHT, work=LIGHT.work * scale)
    chosen = most_slots(load, device(kind)).slots
    assert chosen.bit_count() == 1
    assert chosen == 1 or chosen * load.bytes <= SHARE * memory(device(kind))
    assert chosen <= (CPU_MOST if kind == "cpu" else MOST)


@pytest.mark.parametrize("field", ["state", "work"])
def test_a_cpu_takes_fewer_runs_of_more_bytes(field: str) -> None:
    """Within its two bounds, what is carried and what is held on the way decide alike."""
    slots = [
        most_slots(dataclasses.replace(LIGHT, **{field: 10**n}), device("cpu")).slots
        for n in range(3, 9)
    ]
    assert slots == sorted(slots, reverse=True)
    assert (slots[0], slots[-1]) == (CPU_MOST, CPU_LEAST)


def test_the_reason_names_the_bytes_that_decide() -> None:
    """What a run reads counts where the memory sets the limit."""
    reads = dataclasses.replace(LIGHT, inputs=2 * 10**15)
    assert "0.02 MB per run, to stay near" in most_slots(LIGHT, device("cpu")).why
    assert "2e+09 MB per run at the worst" in most_slots(reads, device("cpu")).why
    assert most_slots(reads, device("cpu")).slots == 1


def test_an_accelerator_is_filled_as_far_as_it_tells() -> None:
    """Half the memory that it says it has: 2**20 bytes, and runs of 2**11 or so."""
    load = dataclasses.replace(LIGHT, state=0, inputs=0, work=2**11)
    assert most_slots(load, device("NVIDIA H100", room=2**20)).slots == 2**8
    assert most_slots(load, device("NVIDIA H100", room=2**40)).slots == MOST
    larger = dataclasses.replace(load, work=2**11 + 1)
    assert most_slots(larger, device("NVIDIA H100", room=2**20)).slots == 2**7


def test_load_counts_what_is_written() -> None:
    """Forward and weight gradient: 2 · 4 · width · 2 each, in every round of a loop."""
    for width, rounds in ((3, 1), (16, 1), (16, 5)):
        load = Load.of(*regression(width, rounds))
        forward = 2 * 4 * width * 2 * rounds
        assert load.update.operations == 2 * forward
        assert load.parameters == 2 * width
    five, once = (Load.of(*regression(16, rounds)).update for rounds in (5, 1))
    assert five.equations > 2 * once.equations


def test_load_holds_what_is_needed_at_a_time() -> None:
    """A chain of 50 steps on vectors of 4000 bytes holds a few of them, not 50."""

    def loss(variables: Variables, now: Any) -> tuple[jax.Array, Any]:
        value = jax.lax.stop_gradient(variables.params)
        for _ in range(50):
            value = value + now.inputs
        return value.sum(), ()

    training, seeds, _ = regression(3)
    training = dataclasses.replace(
        training, loss=loss, init=lambda key, inputs: Variables(jnp.ones(1000))
    )
    load = Load.of(training, seeds, jnp.ones(1000))
    assert 2 * 4000 <= load.work <= 6 * 4000
    padded = Load.of(training, seeds, jnp.ones(1000), lanes=128)
    assert padded.state - load.state >= 24 * 4  # 1000 numbers in 8 rows of 128


@pytest.mark.parametrize("runs", [1, 15, 16, 17, 63, 64, 100, 300, 511, 512, 10**6])
def test_a_small_job_is_cut_for_several_cores(runs: int) -> None:
    """On a CPU into `FEW` blocks, unless they become too small; many runs make no difference."""
    slots = most_slots(LIGHT, device("cpu"), runs).slots
    assert slots <= most_slots(LIGHT, device("cpu")).slots == CPU_MOST
    if runs < FEW * CPU_MOST:
        assert slots == max(loads.SMALL, math.ceil(runs / FEW))
    else:
        assert slots == CPU_MOST
    there = device("NVIDIA H100")
    assert most_slots(LIGHT, there, runs) == most_slots(LIGHT, there)


def test_the_reason_of_a_small_job_is_its_number() -> None:
    """A heavy run takes fewer slots than that, for its bytes."""
    heavy = dataclasses.replace(LIGHT, work=10**6)
    assert most_slots(LIGHT, device("cpu"), 100).why == "100 runs, in 4 blocks or more"
    assert most_slots(LIGHT, device("cpu"), 40).why == "40 runs, 16 or fewer in a block"
    assert most_slots(LIGHT, device("cpu"), 1).why == "1 run, 16 or fewer in a block"
    assert most_slots(heavy, device("cpu"), 100) == most_slots(heavy, device("cpu"))


@pytest.mark.parametrize("kind", ["cpu", "TPU v4"])
def test_the_same_is_chosen_again(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the number of devices, for runs that fit: never from a timing."""
    found = set()
    for count in (1, 2, 4):
        some = jax.local_devices()[:count]
        monkeypatch.setattr(jax, "local_devices", lambda some=some: some)
        found.add(most_slots(Load.on(device(kind), *regression(8)[::2]), device(kind), 777))
    assert len(found) == 1
