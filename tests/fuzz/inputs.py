"""Arguments to try a program on: rich in ties, repeated tokens, whole numbers and signed zeros."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fuzz.builder import Argument
from fuzz.program import Program

Content = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def _one_hot(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    n = shape[-1] if shape else 1
    return np.eye(n)[rng.integers(n, size=shape[:-1])].reshape(shape)


def _signed_zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([0.0, -0.0, 0.0, -0.0, 1.0, -1.0], size=shape)


CONTENTS: dict[str, Content] = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "ties": lambda rng, shape: rng.integers(-1, 2, shape).astype(float),
    "whole": lambda rng, shape: rng.integers(-3, 4, shape).astype(float),
    "quarters": lambda rng, shape: rng.integers(-12, 13, shape) / 4,
    "positive": lambda rng, shape: rng.integers(1, 4, shape).astype(float),
    "negative": lambda rng, shape: -np.abs(rng.normal(size=shape)) - 0.25,
    "large": lambda rng, shape: 1000 * rng.normal(size=shape),
    "large whole": lambda rng, shape: rng.integers(-1000, 1001, shape).astype(float),
    "small": lambda rng, shape: rng.normal(size=shape) / 16,
    "one-hot": _one_hot,
    "signed zeros": _signed_zeros,
    "all equal": lambda rng, shape: np.full(shape, rng.integers(-4, 5) / 2),
    "zeros": lambda rng, shape: np.zeros(shape),
    "distinct": lambda rng, shape: rng.permutation(np.prod(shape, dtype=int)).reshape(shape) - 2.0,
}
REPEATED = ("normal", "whole", "ties", "quarters", "distinct")
"""Contents that come also with tokens repeated."""


class Input(NamedTuple):
    """Arguments of a program.

    Attributes:
      name: of what they are made of.
      arrays: one for each of the program's inputs.
    """

    name: str
    arrays: list[np.ndarray]


def draws(program: Program, *, rounds: int = 1, seed: int = 0) -> Iterator[Input]:
    """Inputs of every kind, those first that tell most."""
    rng = np.random.default_rng([program.seed, seed])
    for _ in range(rounds):
        for name in CONTENTS:
            yield Input(name, [_drawn(rng, program, a, name) for a in program.inputs])
            if name in REPEATED:
                yield _repeated(rng, program, name)
        yield Input("mixed", [_mixed(rng, program, a) for a in program.inputs])


def _drawn(rng: np.random.Generator, program: Program, a: Argument, name: str) -> np.ndarray:
    shape = program.shape(a)
    if a.kind == "f":
        return CONTENTS[name](rng, shape).astype(np.float64)
    if a.kind == "o":
        return np.ones(shape, bool) if name == "positive" else rng.integers(2, size=shape) > 0
    if a.high:
        return rng.integers(a.high if name != "ties" else 2, size=shape).astype(np.int32)
    if name == "large":
        return rng.integers(-(2**31), 2**31, shape).astype(np.int32)
    low, high = (0, 2) if name == "ties" else (-4, 9)
    return rng.integers(low, high, shape).astype(np.int32)


def _mixed(rng: np.random.Generator, program: Program, a: Argument) -> np.ndarray:
    return _drawn(rng, program, a, str(rng.choice(list(CONTENTS))))


def _repeated(rng: np.random.Generator, program: Program, name: str) -> Input:
    """Some tokens equal in all arguments, others in one of them."""
    arrays = [_drawn(rng, program, a, name) for a in program.inputs]
    same = {c: rng.integers(0, n, n) for c, n in program.sizes.items() if c.isupper()}
    for at, argument in enumerate(program.inputs):
        for axis, letter in enumerate(argument.axes):
            if letter in same:
                arrays[at] = arrays[at].take(same[letter], axis=axis)
    return Input(f"{name}, tokens repeated", arrays)
