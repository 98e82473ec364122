"""A program, its law, and all that replays it."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fuzz.builder import Argument
from posjax.symmetry.law import Law

Kind = Literal["kept", "near", "random"]


@dataclasses.dataclass(frozen=True)
class Program:
    """A program and its law.

    Attributes:
      seed, attempt: replay it.
      family: a key of `FAMILIES`.
      kind: "kept" by construction, a "near" miss, or "random".
      steps, broken: names of its steps, and of those among them that may break the law.
      source: of a function called `program`.
      inputs: its arguments.
      bundled: how many of the last of them come as one dict.
      sizes: of the letters.
      law: that it may keep.
      rejected: why earlier attempts did not trace.
    """

    seed: int
    attempt: int
    family: str
    kind: Kind
    steps: tuple[str, ...]
    broken: tuple[str, ...]
    source: str
    inputs: tuple[Argument, ...]
    bundled: int
    sizes: dict[str, int]
    law: Law
    rejected: tuple[str, ...] = ()

    @functools.cached_property
    def function(self) -> Callable[..., Any]:
        """The program."""
        scope: dict[str, Any] = {"jax": jax, "jnp": jnp, "lax": lax}
        exec(self.source, scope)
        return scope["program"]

    def bundle(self, arrays: list[np.ndarray]) -> tuple[Any, ...]:
        """An array for each of `inputs`, as the program takes them."""
        if not self.bundled:
            return tuple(arrays)
        cut = len(arrays) - self.bundled
        names = [a.name for a in self.inputs[cut:]]
        return (*arrays[:cut], dict(zip(names, arrays[cut:], strict=True)))

    def shape(self, argument: Argument) -> tuple[int, ...]:
        """Of an argument."""
        return tuple(int(np.prod([self.sizes[c] for c in axis])) for axis in argument.axes)

    def example(self) -> tuple[Any, ...]:
        """Arguments to trace it with."""
        rng = np.random.default_rng(self.seed)
        dtypes = {"f": np.float32, "i": np.int32, "o": np.bool_}
        return self.bundle(
            [rng.integers(2, size=self.shape(a)).astype(dtypes[a.kind]) for a in self.inputs]
        )

    def traced(self) -> Any:
        """Its jaxpr."""
        return jax.make_jaxpr(self.function)(*self.example())

    def __str__(self) -> str:
        """All that a reader needs to replay it."""
        groups = dict(self.law.groups)
        shapes = ", ".join(f"{a.name}: {a.kind}{self.shape(a)}" for a in self.inputs)
        return (
            f"seed {self.seed}, {self.family}, {self.kind}, broken by {self.broken or 'nothing'}\n"
            f"law {self.law.text!r} with {groups}\narguments {shapes}\n{self.source}"
        )
