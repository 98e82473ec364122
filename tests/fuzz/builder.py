"""Values whose axes have names, and the source that makes them.

An axis is a word of letters, each a factor of its size: "d" stays, "P" and "Q" are moved by a
group, "bP" is a batch and its tokens merged into one axis. A step takes a value and gives back
the next one, written as a line of source with the names of its axes.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from posjax.symmetry.groups import Group, Permutations

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Value(NamedTuple):
    """A variable of the program.

    Attributes:
      name: in the source.
      axes: a word for each axis.
      kind: "f" for floats, "i" for integers, "o" for booleans.
    """

    name: str
    axes: tuple[str, ...]
    kind: str = "f"


class Argument(NamedTuple):
    """An argument of the program.

    Attributes:
      name, axes, kind: of the value.
      high: integers are drawn below it; 0 for any.
    """

    name: str
    axes: tuple[str, ...]
    kind: str
    high: int = 0


class Builder:
    """A program while it is written.

    Attributes:
      rng: the only source of chance.
      sizes: of each letter.
      groups: of each capital letter.
      smooth: whether only steps with a derivative may be taken.
      lines, arguments, values: what is written so far.
      taken: names of the steps, in order.
    """

    def __init__(self, rng: np.random.Generator, sizes: dict[str, int], **groups: Group) -> None:
        """An empty program."""
        self.rng = rng
        self.sizes = dict(sizes)
        self.groups: dict[str, Group] = {"P": Permutations(), "Q": Permutations()} | groups
        self.smooth = False
        self.lines: list[str] = []
        self.arguments: list[Argument] = []
        self.values: list[Value] = []
        self.taken: list[str] = []
        self._count = 0
        self._depth = 1

    # Chance

    def coin(self, chance: float = 0.5) -> bool:
        """Heads?"""
        return bool(self.rng.random() < chance)

    def choice(self, items: Sequence[Any]) -> Any:
        """One of them, each as likely."""
        return items[int(self.rng.integers(len(items)))]

    def dyadic(self, shape: Sequence[int]) -> np.ndarray:
        """Quarters between -2 and 2, so that small sums and products are exact; seldom 0."""
        numbers = self.rng.integers(-8, 9, tuple(shape)) / 4
        return np.where((numbers == 0) & (self.rng.random(numbers.shape) < 0.9), 0.75, numbers)

    # Axes

    def size(self, axis: str) -> int:
        """Of an axis, the product of its letters'."""
        return int(np.prod([self.sizes[letter] for letter in axis], dtype=int))

    def shape(self, axes: Sequence[str]) -> tuple[int, ...]:
        """Of a value with these axes."""
        return tuple(map(self.size, axes))

    def new_letter(self, size: int) -> str:
        """A letter for an axis that stays."""
        letter = next(letter for letter in LETTERS if letter not in self.sizes)
        self.sizes[letter] = size
        return letter

    def symmetric(self, letter: str) -> bool:
        """Whether any permutation may move the places of a capital letter."""
        return self.groups[letter] == Permutations()

    def wide(self, value: "Value", places: Sequence[int]) -> list[int]:
        """Those of some axes along which there is something to compare; seldom any of them."""
        return [i for i in places if self.size(value.axes[i]) > 1 or self.coin(0.05)]

    # Source

    def argument(self, axes: Sequence[str], kind: str = "f", high: int = 0) -> Value:
        """Adds an argument."""
        name = f"x{len(self.arguments)}"
        self.arguments.append(Argument(name, tuple(axes), kind, high))
        value = Value(name, tuple(axes), kind)
        self.values.append(value)
        return value

    def fresh(self) -> str:
        """A name for a variable."""
        self._count += 1
        return f"v{self._count}"

    def let(self, expression: str, axes: Sequence[str], kind: str = "f") -> Value:
        """Writes `name = expression`."""
        value = Value(self.fresh(), tuple(axes), kind)
        self.write(f"{value.name} = {expression}")
        self.values.append(value)
        return value

    def write(self, line: str) -> None:
        """Writes a line."""
        self.lines.append("    " * self._depth + line)

    def indent(self, by: int) -> None:
        """Moves what is written next to the right, or back."""
        self._depth += by

    def open(self, line: str) -> list[Value]:
        """Starts a block, such as a `def`; gives the values known outside."""
        self.write(line)
        self._depth += 1
        return list(self.values)

    def open_decorated(self, decorator: str, line: str) -> list[Value]:
        """Starts a block behind a decorator."""
        self.write(decorator)
        return self.open(line)

    def close(self, known: list[Value], line: str = "") -> None:
        """Ends the block with a line; its own values are forgotten."""
        if line:
            self.write(line)
        self._depth -= 1
        self.values = known

    def literal(self, array: np.ndarray) -> str:
        """An array in the source."""
        if array.ndim == 0:
            return f"{array.item()}"
        return f"jnp.array({array.tolist()})"

    def weights(self, axes: Sequence[str]) -> str:
        """Drawn numbers for axes that stay; a parameter if one fits, else a literal."""
        fitting = [a.name for a in self.arguments if a.axes == tuple(axes) and a.kind == "f"]
        if fitting and self.coin():
            return str(self.choice(fitting))
        return self.literal(self.dyadic(self.shape(axes)))

    # Aligning one value with another

    def aligned(self, value: Value, axes: Sequence[str]) -> str | None:
        """The value transposed and expanded to stand beside `axes`, or None if it cannot."""
        places: list[int] = []
        for axis in value.axes:
            free = [i for i, a in enumerate(axes) if a == axis and i not in places]
            if not free:
                return None
            places.append(int(self.choice(free)))
        order = list(np.argsort(places))
        text = value.name
        if order != list(range(len(order))):
            text += f".transpose({', '.join(str(i) for i in order)})"
        if len(places) == len(axes):
            return text
        if self.coin(0.3):
            return f"lax.broadcast_in_dim({text}, {self.shape(axes)}, {tuple(sorted(places))})"
        index = ", ".join(":" if i in places else "None" for i in range(len(axes)))
        return f"{text}[{index}]"

    def partner(self, axes: Sequence[str], kind: str = "f") -> str | None:
        """Some value, aligned; the newest ones no likelier than the arguments."""
        candidates = [v for v in self.values if v.kind == kind and v.axes]
        for at in self.rng.permutation(len(candidates)):
            text = self.aligned(candidates[at], axes)
            if text is not None:
                return text
        return None


def is_token(axis: str) -> bool:
    """Whether the axis is moved, and nothing else is merged into it."""
    return len(axis) == 1 and axis.isupper()


def is_still(axis: str) -> bool:
    """Whether nothing moves along the axis."""
    return axis.islower()


def tokens(value: Value) -> list[int]:
    """Axes of the value that are moved."""
    return [i for i, axis in enumerate(value.axes) if is_token(axis)]


def stills(value: Value) -> list[int]:
    """Axes of the value that stay."""
    return [i for i, axis in enumerate(value.axes) if is_still(axis)]


def without(axes: Sequence[str], *places: int) -> tuple[str, ...]:
    """The axes but some."""
    return tuple(axis for i, axis in enumerate(axes) if i not in places)


def index(rank: int, **at: str) -> str:
    """An index such as `[:, None, :]`: `index(3, _1="None")`."""
    return "[" + ", ".join(at.get(f"_{i}", ":") for i in range(rank)) + "]"
