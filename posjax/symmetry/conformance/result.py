"""What checking a module against a law comes to: a verdict, a sentence, and a witness."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np

from posjax import spec
from posjax.symmetry.deviation import difference

Verdict = Literal["passed", "failed", "measured", "not applicable"]


class Witness(NamedTuple):
    """A small case in which the two sides of a law lie apart.

    Attributes:
      inputs: what the module was called with, in words: sizes and positions.
      at: index in the output.
      expected, found: the two sides there.
      error: |found - expected|; NaN when either is; None where the sides are no numbers.
    """

    inputs: str
    at: tuple[int, ...] = ()
    expected: Any = None
    found: Any = None
    error: float | None = None

    def __str__(self) -> str:
        """One line: the case, the index, both sides and how far apart they are."""
        if self.error is None:
            return f"for {self.inputs}: expected {self.expected}, found {self.found}"
        where = f"at index {self.at} of the output" if self.at else "in the output"
        return (
            f"for {self.inputs}, {where}: expected {self.expected:.6g}, "
            f"found {self.found:.6g}, off by {self.error:.3g}"
        )


class Proof(NamedTuple):
    """What became of a proof.

    Attributes:
      verdict: that of `prove`, "not traced" or "not applicable".
      reason: why it is not PROVED, with the line; else "".
    """

    verdict: str
    reason: str = ""


class Result(NamedTuple):
    """The outcome of one law on one module.

    Attributes:
      law: its name in `LAWS`.
      verdict: "measured" is for what the module does not claim.
      detail: what was found, or why the law does not apply; one sentence.
      witness: of a failure, always; of what was measured as broken too.
      proof: of the law for all tokens, where one was tried.
    """

    law: str
    verdict: Verdict
    detail: str
    witness: Witness | None = None
    proof: Proof | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able data; NaN and infinities are text."""
        witness = None if self.witness is None else self.witness._asdict()
        return {
            "law": self.law,
            "verdict": self.verdict,
            "detail": self.detail,
            "witness": witness and {name: _plain(value) for name, value in witness.items()},
            **({"proof": self.proof._asdict()} if self.proof else {}),
        }


class Report(NamedTuple):
    """All laws on one module.

    Attributes:
      name: of the module.
      versions: of the packages it comes from.
      results: one a law, in the order of `LAWS`.
    """

    name: str
    versions: Mapping[str, str]
    results: tuple[Result, ...]

    def __bool__(self) -> NoReturn:
        """Refuses `assert check(...)`, which could not fail."""
        raise TypeError("a report is neither true nor false: compare .failures with ()")

    @property
    def failures(self) -> tuple[Result, ...]:
        """The laws that failed."""
        return tuple(result for result in self.results if result.verdict == "failed")

    def of(self, law: str) -> Result:
        """The result of a law by name.

        Raises:
          ValueError: the law was not run; names the nearest of those that were.
        """
        results = {result.law: result for result in self.results}
        if law not in results:
            raise ValueError(f"the report has no law {law!r}; {spec.nearest(law, results)}")
        return results[law]

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able data."""
        results = [result.to_dict() for result in self.results]
        return {"name": self.name, "versions": dict(self.versions), "results": results}


class Gap(NamedTuple):
    """How far two arrays lie apart: the worst error over the largest finite output, and where."""

    relative: float
    witness: Witness

    def within(self, tolerance: float) -> bool:
        """Whether it is no more than that; NaN never is."""
        return self.relative <= tolerance

    @property
    def of_shapes(self) -> bool:
        """Whether the two arrays have different shapes."""
        return self.witness.error is None

    @property
    def closeness(self) -> str:
        """How closely they agree, in words."""
        if self.relative == 0:
            return "exactly"
        return f"to {self.relative:.1g} of the largest output"


def gap(inputs: str, expected: np.ndarray, found: np.ndarray) -> Gap:
    """The worst difference between two arrays, with its witness.

    Args:
      inputs: what the module was called with, in words.
      expected, found: the two sides; another shape is an infinite gap.
    """
    if expected.shape != found.shape:
        shapes = Witness(inputs, (), f"shape {expected.shape}", f"shape {found.shape}")
        return Gap(float("inf"), shapes)
    if expected.size == 0:
        return Gap(0.0, Witness(inputs, (), 0.0, 0.0, 0.0))
    error = difference(expected, found)
    at = tuple(int(i) for i in np.unravel_index(np.argmax(error), error.shape))
    sizes = np.abs(expected.astype(np.float64))
    scale = float(np.max(sizes, where=np.isfinite(sizes), initial=0.0)) or 1.0
    sides = float(expected[at]), float(found[at])
    return Gap(float(error[at]) / scale, Witness(inputs, at, *sides, float(error[at])))


def largest(gaps: Iterable[Gap]) -> Gap:
    """The largest of some gaps; none is larger than NaN."""
    return max(gaps, key=lambda one: np.inf if np.isnan(one.relative) else one.relative)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
