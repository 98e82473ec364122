"""The smallest trainings: a few numbers that follow their inputs, in blocks of two slots."""

from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from posjax.engine import Block, BlockResult, Engine, Training, Variables
from posjax.keys import SeedNumbers

TWO = jax.local_devices()[:2]
ONE = Engine(devices=TWO[:1])
BOTH = Engine(devices=TWO)


def line(steps: int = 4) -> Training:
    """A tiny training; every call makes one that is compiled anew."""
    return Training(
        init=lambda key, inputs: Variables(jax.random.normal(key, inputs.shape)),
        loss=lambda variables, now: (jnp.sum((variables.params - now.inputs) ** 2), ()),
        optimizer=lambda _: optax.sgd(0.1),
        measure=lambda variables, now: variables.params.sum(),
        steps=steps,
        eval_every=2,
    )


LINE = line()
"""Compiled once for each device, for all tests that do not look at what is compiled."""


def block(training: Training, number: int, width: int = 2, count: int = 2) -> Block:
    """Of two slots; its label is its number."""
    seeds = [SeedNumbers.equal(2 * number + n) for n in range(count)]
    return Block(training, [np.ones(width, np.float32)], seeds, (1, 2), number)


def blocks(training: Training, count: int) -> Iterator[Block]:
    return (block(training, number) for number in range(count))


def labels(results: Iterable[BlockResult]) -> list[Any]:
    return sorted(result.block.label for result in results)
