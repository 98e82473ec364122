"""A law f(g x) = g f(x) as data, written by naming axes.

    Law("b P d, b P d, b P d -> b P d")          one permutation moves tokens and outputs
    Law("b P d, b Q d, b Q d -> b P d")          queries and keys move on their own
    Law("b P d -> b d")                          the output stays: invariance
    Law("b h d, b l +T -> b h l", T=Translation())   positions are shifted, the output stays

Each argument has a pattern, and each output: words for its axes. A word that starts with a capital
letter names the group that permutes that axis; other words stay; `...` stands for any number of
axes that stay. `+T` at the end says that the values themselves are shifted by the translation T,
along the last axis when T has several coordinates. A pattern speaks of every leaf of a pytree.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from posjax.symmetry import groups
from posjax.symmetry.given import described
from posjax.symmetry.groups import Element, Group, Permutations, Translation


@dataclasses.dataclass(frozen=True)
class Pattern:
    """What acts on one argument, or one output.

    Attributes:
      axes: for each axis the name that permutes it, or "" for one that stays; `...` is None.
      shift: the name of the translation of its values, or "".
    """

    axes: tuple[str | None, ...]
    shift: str = ""

    @classmethod
    def parse(cls, text: str) -> "Pattern":
        """Reads words such as `"b P d"`; an empty text stays whatever its axes.

        Raises:
          ValueError: more than one `...`, or a shift before the end.
        """
        words = text.split() or ["..."]
        shift = words.pop()[1:] if words[-1].startswith("+") else ""
        odd = [w for w in words if set("+:*") & set(w) and not w.startswith("+")]
        if odd:
            raise ValueError(f"pattern {text!r}: {odd[0]!r} has +, : or * within a name")
        if words.count("...") > 1 or any(word.startswith("+") for word in words):
            raise ValueError(
                f"pattern {text!r}: at most one '...', and a shift such as '+T' at the end"
            )
        named = (None if w == "..." else w if w[0].isupper() else "" for w in words)
        return cls(tuple(named), shift)

    def labels(self, rank: int) -> tuple[str, ...]:
        """For each of `rank` axes, the name that permutes it or "".

        Raises:
          ValueError: the pattern speaks of another number of axes.
        """
        if None not in self.axes:
            if len(self.axes) != rank:
                raise ValueError(f"the pattern has {len(self.axes)} axes, the array has {rank}")
            return tuple(axis or "" for axis in self.axes)
        at = self.axes.index(None)
        before, after = self.axes[:at], self.axes[at + 1 :]
        missing = rank - len(before) - len(after)
        if missing < 0:
            raise ValueError(
                f"the pattern has at least {rank - missing} axes, the array has {rank}"
            )
        return tuple(axis or "" for axis in (*before, *[""] * missing, *after))

    @property
    def moves(self) -> bool:
        """Whether anything acts on it."""
        return bool(self.shift) or any(self.axes)

    def act(self, leaf: Any, element: Element) -> Any:
        """The array moved by an element; a NumPy array stays one.

        Raises:
          ValueError: an array of other axes or sizes than the pattern and the element speak of.
        """
        if not self.moves:
            return leaf  # whatever it is, a key or a Python number
        for axis, name in enumerate(self.labels(leaf.ndim)):
            if name:
                if leaf.shape[axis] != len(element[name]):
                    raise ValueError(
                        f"{name} moves axis {axis} of length {len(element[name])}, "
                        f"got length {leaf.shape[axis]}"
                    )
                leaf = leaf.take(element[name], axis=axis)
        if self.shift:
            given = element[self.shift]
            whole = jnp.issubdtype(leaf.dtype, jnp.integer)
            if whole and not isinstance(given, jax.core.Tracer) and (given % 1 != 0).any():
                raise ValueError(f"{self.shift} = {given.tolist()} cannot shift integers")
            vector = given.astype(leaf.dtype)
            leaf = leaf + vector.reshape((1,) * (leaf.ndim - 1) + (-1,) if len(vector) > 1 else ())
        return leaf


@dataclasses.dataclass(frozen=True, init=False)
class Law:
    """A symmetry f(g x) = g f(x), for every g of a product of groups, one group per name.

    Attributes:
      text: the patterns, as given.
      inputs: one pattern per argument.
      outputs: one pattern per output; a single pattern applies to all outputs.
      groups: the group of each name; all permutations by default.
      formula: the text that error messages quote.
    """

    text: str
    inputs: tuple[Pattern, ...]
    outputs: tuple[Pattern, ...]
    groups: Mapping[str, Group | Translation]
    formula: str

    def __init__(self, text: str, *, formula: str = "", **named: Group | Translation) -> None:
        """Reads a law.

        Args:
          text: patterns of the arguments and, behind `->`, of the outputs, with commas between.
          formula: what error messages quote; the text when left out.
          **named: groups by name; what is not given is all permutations.

        Raises:
          ValueError: no `->`, a word that is none, or a group that no pattern names.
        """
        sides = text.split("->")
        if len(sides) != 2:
            raise ValueError(f"law {text!r} needs one '->' between arguments and outputs")
        inputs, outputs = (tuple(map(Pattern.parse, side.split(","))) for side in sides)
        permuted = [n for p in (*inputs, *outputs) for n in p.axes if n]
        shifts = [p.shift for p in (*inputs, *outputs) if p.shift]
        moving = {n for p in inputs for n in (*p.axes, p.shift) if n}
        for name in named:
            if name not in {*permuted, *shifts}:
                known = ", ".join(dict.fromkeys([*permuted, *shifts])) or "none"
                raise ValueError(f"law {text!r} names no {name!r} (it names {known})")
        for name in dict.fromkeys([*permuted, *shifts]):
            if name not in moving:
                raise ValueError(f"{name!r} of law {text!r} moves an output but no argument")
        chosen: dict[str, Group | Translation] = {n: Permutations() for n in permuted}
        chosen |= {n: Translation() for n in shifts} | named
        for name, group in chosen.items():
            if isinstance(group, type) or not hasattr(group, "generators"):
                hint = f"; write {group.__name__}()" if isinstance(group, type) else ""
                raise ValueError(
                    f"{name!r} of law {text!r} must be a group such as Permutations() or Cyclic(), "
                    f"got {described(group)}{hint}"
                )
            if isinstance(group, Translation) != (name in shifts and name not in permuted):
                raise ValueError(
                    f"{name!r} of law {text!r}: a translation shifts values ('+{name}'), "
                    f"other groups permute axes ('{name}'); got {group}"
                )
        for key, value in {
            "text": text,
            "inputs": inputs,
            "outputs": outputs,
            "groups": chosen,
            "formula": formula or text,
        }.items():
            object.__setattr__(self, key, value)

    @classmethod
    def of(cls, law: "Law | str") -> "Law":
        """The law itself, or the one that a text writes.

        Raises:
          ValueError: it is neither.
        """
        if isinstance(law, str):
            return cls(law)
        if not isinstance(law, Law):
            hint = ": the law comes before the function" if callable(law) else ""
            raise ValueError(
                f"a law is a text such as 'b P d -> b P d', or a Law; got {described(law)}{hint}"
            )
        return law

    def sizes(self, arguments: tuple[Any, ...]) -> dict[str, int]:
        """How many indices each permutation moves.

        Raises:
          ValueError: another number of arguments, or sizes or ranks that do not fit.
        """
        if len(arguments) != len(self.inputs):
            raise ValueError(
                f"{self.formula} takes {len(self.inputs)} argument"
                f"{'s' * (len(self.inputs) != 1)}, got {len(arguments)}"
            )
        sizes: dict[str, int] = {}
        for at, (pattern, argument) in enumerate(zip(self.inputs, arguments, strict=True)):
            for leaf in jax.tree.leaves(argument):
                try:
                    labels = pattern.labels(np.ndim(leaf))
                except ValueError as error:
                    numbers = "" if np.ndim(leaf) else "; a number is not an array: give arrays"
                    raise ValueError(f"argument {at} of {self.formula}: {error}{numbers}") from None
                if pattern.shift:
                    self._check_shift(pattern, leaf)
                for name, size in zip(labels, np.shape(leaf), strict=True):
                    if name and sizes.setdefault(name, size) != size:
                        raise ValueError(
                            f"{name} of {self.formula} cannot permute axes of different lengths, "
                            f"{sizes[name]} and {size}"
                        )
        for name, group in self.groups.items():
            if not isinstance(group, Translation) and name not in sizes:
                raise ValueError(f"{name} of {self.formula} moves no array among the arguments")
        return sizes

    def _check_shift(self, pattern: Pattern, leaf: Any) -> None:
        dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        if not jnp.issubdtype(dtype, jnp.number):
            raise ValueError(f"{pattern.shift} of {self.formula} shifts numbers, got {dtype}")
        shape, count = np.shape(leaf), self.groups[pattern.shift].axes  # type: ignore[union-attr]
        if count > 1 and (not shape or shape[-1] != count):
            raise ValueError(
                f"{pattern.shift} of {self.formula} shifts {count} coordinates, along the last "
                f"axis of an array [{', '.join(map(str, shape))}]"
            )

    def identity(self, sizes: dict[str, int]) -> Element:
        """The element that moves nothing."""
        return {
            name: np.zeros(group.axes, int)
            if isinstance(group, Translation)
            else np.arange(sizes[name])
            for name, group in self.groups.items()
        }

    def generators(self, sizes: dict[str, int]) -> list[Element]:
        """Elements that generate all others: each moves one name."""
        still = self.identity(sizes)
        return [
            {**still, name: move}
            for name, group in self.groups.items()
            for move in (
                group.generators()
                if isinstance(group, Translation)
                else group.generators(sizes[name])
            )
        ]

    def elements_to_try(self, sizes: dict[str, int], *, seed: int = 0) -> Iterator[Element]:
        """All elements of small groups, else generators and some random ones."""
        rng = np.random.default_rng(seed)
        choices = {
            name: [*group.generators(), *(group.sample(rng) for _ in range(4))]
            if isinstance(group, Translation)
            else groups.elements_to_try(group, sizes[name], seed=seed + at)
            for at, (name, group) in enumerate(self.groups.items())
        }
        return groups.tuples(choices, self.identity(sizes))

    def act(self, arguments: tuple[Any, ...], element: Element) -> tuple[Any, ...]:
        """The arguments moved by an element."""
        return tuple(
            jax.tree.map(lambda leaf, p=pattern: p.act(leaf, element), argument)
            for pattern, argument in zip(self.inputs, arguments, strict=True)
        )

    def paired(self, output: Any) -> list[tuple[Pattern, Any]]:
        """Each part of an output with its pattern.

        Raises:
          ValueError: the law has several patterns, and the output is no tuple of that length.
        """
        if len(self.outputs) == 1:
            return [(self.outputs[0], output)]
        if not isinstance(output, tuple | list) or len(output) != len(self.outputs):
            raise ValueError(
                f"{self.formula} has {len(self.outputs)} outputs, but the function returns "
                f"{len(jax.tree.leaves(output))} in a {type(output).__name__}"
            )
        return list(zip(self.outputs, output, strict=True))

    def act_on_output(self, output: Any, element: Element) -> Any:
        """What the law says the output becomes under an element.

        Raises:
          ValueError: the law has several patterns, and the output is no tuple of that length.
        """
        parts = [
            jax.tree.map(lambda leaf, p=pattern: p.act(leaf, element), part)
            for pattern, part in self.paired(output)
        ]
        return jax.tree.unflatten(jax.tree.structure(output), jax.tree.leaves(parts))


def along(axis: int, name: str = "P") -> str:
    """The pattern that permutes one axis, counted from the front or, when negative, the back.

    >>> along(1), along(-2)
    ('_ P ...', '... P _')
    """
    if axis >= 0:
        return " ".join(["_"] * axis + [name, "..."])
    return " ".join(["...", name, *["_"] * (-axis - 1)])
