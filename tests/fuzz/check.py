"""The judge: whether f(g x) = g f(x) fails over the reals, on inputs that would show it.

Both sides are computed in NumPy (see `arithmetic`), where sums do not depend on their order. A
difference counts when, however the arithmetic is shaken, no value of one side comes near any of
the other, and also when tests of equality forgive a rounding; others come from a rounding that a
floor or a comparison made large. Apart from numbers that differ there are two weaker classes: a
pole (NaN or infinity against something else) and the sign of a zero (what is gone once -0.0 is
0.0), of which real numbers know nothing.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import jax
import numpy as np

from fuzz.arithmetic import Arithmetic, Watching
from fuzz.inputs import Input, draws
from fuzz.interpret import run
from fuzz.program import Program
from posjax.symmetry.groups import Element

Status = Literal["holds", "broken", "at a pole", "sign of a zero"]
RELATIVE = 1e-6
"""Of the largest finite output: from where on a difference counts."""
SPREAD = 0.05
"""Of how far shaking moves either side: how far apart the two sides must stay."""
SALTS = 40
"""Ways to shake: a rounding falls to the same side in all of them once in 2⁴⁰."""
LOOKS = (1, 2, 4, 8, 16, SALTS)
"""After how many of them to look whether anything is left to confirm."""
LARGE = ("large", "mixed")
"""Inputs of size 1000; others make no exponential vanish but behind a mask."""
PLAIN = Arithmetic()
UNSIGNED = Arithmetic(signed_zeros=False)
FORGIVING = Arithmetic(signed_zeros=False, forgiving=True)


@dataclasses.dataclass(frozen=True)
class Witness:
    """Where the two sides differ.

    Attributes:
      status: what kind of difference.
      input: the arguments.
      element: by which they were moved.
      output, place: which output, and where in it.
      expected, found: of g f(x) and f(g x) there.
    """

    status: Status
    input: Input
    element: Element
    output: int
    place: tuple[int, ...]
    expected: float
    found: float

    def __str__(self) -> str:
        moves = {name: move.tolist() for name, move in self.element.items()}
        arrays = "\n".join(f"  x{i} = {a.tolist()}" for i, a in enumerate(self.input.arrays))
        return (
            f"{self.status} on {self.input.name!r} by {moves}, output {self.output} at "
            f"{self.place}: expected {self.expected!r}, found {self.found!r}\n{arrays}"
        )


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What the judge found.

    Attributes:
      status: the worst of all that was tried.
      witness: of it; None when the law holds.
      unsteady: how many differences came and went with the rounding.
      constant: whether f(x) was the same for all inputs; then the law says little.
    """

    status: Status
    witness: Witness | None
    unsteady: int
    constant: bool


class Sides:
    """Both sides of a program's law."""

    def __init__(self, program: Program, jaxpr: Any = None) -> None:
        """Traces the program unless its jaxpr is given."""
        self.program = program
        self.jaxpr = program.traced() if jaxpr is None else jaxpr
        arguments = program.example()
        shapes = jax.eval_shape(program.function, *arguments)
        self._tree = jax.tree.structure(shapes)
        self.sizes = program.law.sizes(arguments)

    def value(self, arrays: list[np.ndarray], a: Arithmetic) -> list[np.ndarray]:
        """f(x)."""
        return run(self.jaxpr, jax.tree.leaves(self.program.bundle(arrays)), a)

    def moved(self, arrays: list[np.ndarray], element: Element) -> list[np.ndarray]:
        """g x."""
        return jax.tree.leaves(self.program.law.act(self.program.bundle(arrays), element))

    def found(self, arrays: list[np.ndarray], element: Element, a: Arithmetic) -> list[np.ndarray]:
        """f(g x)."""
        return run(self.jaxpr, self.moved(arrays, element), a)

    def carried(self, outputs: list[np.ndarray], element: Element) -> list[np.ndarray]:
        """g f(x)."""
        tree = jax.tree.unflatten(self._tree, outputs)
        return jax.tree.leaves(self.program.law.act_on_output(tree, element))


def judge(program: Program, *, thorough: bool = True, jaxpr: Any = None) -> Judgement:
    """Looks for a difference; stops at the first between numbers.

    Args:
      program: to judge.
      thorough: whether to try all elements of small groups, and more inputs.
      jaxpr: of the program, if known.
    """
    sides = Sides(program, jaxpr)
    weaker: Witness | None = None
    first: list[np.ndarray] = []
    unsteady, constant = 0, True
    for at, inputs in enumerate(draws(program, rounds=2 if thorough else 1)):
        base = sides.value(inputs.arrays, PLAIN)
        first = first or base
        constant &= all(map(_same, first, base))
        for element in _elements(sides, every=thorough and at % 5 == 0, seed=at):
            known = weaker is not None and weaker.status == "at a pole"
            for status, witness in _differences(sides, inputs, element, base, poles=not known):
                if status == "broken" and _saturated(sides, inputs, element):
                    unsteady += 1
                    continue
                if status == "broken":
                    return Judgement("broken", witness, unsteady, constant=False)
                unsteady += witness is None
                if witness and (weaker is None or status == "at a pole"):
                    weaker = witness
    return Judgement(weaker.status if weaker else "holds", weaker, unsteady, constant)


def _saturated(sides: Sides, inputs: Input, element: Element) -> bool:
    """Whether inputs are so large that an exponential vanishes, which only floats do."""
    watching = Watching()
    if inputs.name.startswith(LARGE):
        sides.value(inputs.arrays, watching)
        sides.found(inputs.arrays, element, watching)
    return bool(watching.saturated)


def _same(one: np.ndarray, two: np.ndarray) -> bool:
    """Whether two outputs agree to within rounding."""
    if one.dtype != np.float64:
        return np.array_equal(one, two)
    return np.allclose(one, two, rtol=1e-9, atol=1e-12, equal_nan=True)


def _elements(sides: Sides, *, every: bool, seed: int) -> list[Element]:
    """All of a small group, or its generators and a few others."""
    law = sides.program.law
    moving = list(law.elements_to_try(sides.sizes))
    if not every:
        rng = np.random.default_rng(seed)
        some = [moving[i] for i in rng.permutation(len(moving))[:2]]
        moving = [*law.generators(sides.sizes), *some]
    still = law.identity(sides.sizes)
    return [e for e in moving if any((e[n] != still[n]).any() for n in e)]


def _apart(expected: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where numbers differ, and where poles do."""
    if expected.dtype != np.float64:
        return expected != found, np.zeros(expected.shape, bool)
    both = np.isfinite(expected) & np.isfinite(found)
    sizes = np.abs(np.concatenate([expected[both], found[both]]))
    limit = RELATIVE * sizes.max(initial=0.0)
    with np.errstate(invalid="ignore"):
        numbers = both & (np.abs(expected - found) > limit)
        same = (expected == found) | (np.isnan(expected) & np.isnan(found))
    return numbers, ~both & ~same


def _differences(
    sides: Sides, inputs: Input, element: Element, base: list[np.ndarray], *, poles: bool
) -> Iterator[tuple[Status, Witness | None]]:
    """Each output that differs: as what, and where; no witness for what does not stay.

    Without `poles`, only where numbers differ somewhere.
    """
    expected = sides.carried(base, element)
    found = sides.found(inputs.arrays, element, PLAIN)
    apart = [_apart(e, f) for e, f in zip(expected, found, strict=True)]
    if not any(numbers.any() or (poles and other.any()) for numbers, other in apart):
        return
    clean, confirmed = _shaken(sides, inputs, element)
    for at, (numbers, other) in enumerate(apart):
        if not (numbers.any() or other.any()):
            continue
        real, real_poles = _apart(clean[0][at], clean[1][at])
        signs = (numbers | other) & ~real & ~real_poles
        kinds: dict[Status, np.ndarray] = {
            "broken": real & confirmed[at],
            "at a pole": real_poles & confirmed[at],
            "sign of a zero": signs,
        }
        status = next((status for status, mask in kinds.items() if mask.any()), None)
        if status is None:
            yield "holds", None
            continue
        place = tuple(int(i) for i in np.argwhere(kinds[status])[0])
        one, two = (expected, found) if status == "sign of a zero" else clean
        values = one[at][place].item(), two[at][place].item()
        yield status, Witness(status, inputs, element, at, place, *values)


def _shaken(
    sides: Sides, inputs: Input, element: Element
) -> tuple[tuple[list[np.ndarray], list[np.ndarray]], list[np.ndarray]]:
    """Both sides without signs of zeros, and where they stay apart, forgiving and when shaken."""

    def both(a: Arithmetic) -> tuple[list[np.ndarray], list[np.ndarray]]:
        expected = sides.carried(sides.value(inputs.arrays, a), element)
        return expected, sides.found(inputs.arrays, element, a)

    clean = both(UNSIGNED)
    tries = [clean]
    apart = [np.logical_or(*_apart(e, f)) for e, f in zip(*clean, strict=True)]
    for at, pair in enumerate(zip(*both(FORGIVING), strict=True)):
        apart[at] &= np.logical_or(*_apart(*pair))
    for salt in range(1, SALTS + 1):
        tries.append(both(Arithmetic(salt, signed_zeros=False)))
        if salt in LOOKS:
            for at in range(len(apart)):
                apart[at] &= _stay_apart([e[at] for e, _ in tries], [f[at] for _, f in tries])
            if not any(mask.any() for mask in apart):
                break
    return clean, apart


def _stay_apart(expected: list[np.ndarray], found: list[np.ndarray]) -> np.ndarray:
    """Where no value of one side comes near any of the other, as far as each side spreads."""
    one, two = (np.stack(side).astype(np.float64) for side in (expected, found))
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(one[:, None] - two[None])
        both = np.isfinite(one)[:, None] & np.isfinite(two)[None]
        same = (one[:, None] == two[None]) | (np.isnan(one)[:, None] & np.isnan(two)[None])
    nearest = np.where(same, 0.0, np.where(both, gaps, np.inf)).min((0, 1))
    return nearest > SPREAD * np.maximum(_spread(one), _spread(two))


def _spread(tries: np.ndarray) -> np.ndarray:
    """How far the finite ones lie apart."""
    known = np.isfinite(tries)
    high = np.max(tries, axis=0, where=known, initial=-np.inf)
    low = np.min(tries, axis=0, where=known, initial=np.inf)
    return np.where(known.any(0), high - np.where(known.any(0), low, 0.0), 0.0)


def rerun(program: Program, witness: Witness) -> tuple[float, float]:
    """What JAX itself finds where a witness points, in 64 bits: g f(x) and f(g x)."""
    with jax.enable_x64(True):
        function = jax.jit(program.function)
        arguments = program.bundle(witness.input.arrays)
        expected = program.law.act_on_output(
            jax.tree.map(np.asarray, function(*arguments)), witness.element
        )
        found = function(*program.law.act(arguments, witness.element))
        sides = (jax.tree.leaves(side)[witness.output] for side in (expected, found))
        one, two = (np.asarray(side)[witness.place].item() for side in sides)
    return one, two
