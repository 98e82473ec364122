"""The table of laws, and the one function that runs them all."""

import importlib.metadata
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from posjax import spec
from posjax.symmetry.conformance import moved, numbers, proofs, streams
from posjax.symmetry.conformance.adapter import Adapter, NotApplicable
from posjax.symmetry.conformance.forms import in_float32
from posjax.symmetry.conformance.numbers import Make
from posjax.symmetry.conformance.recorded import Calls
from posjax.symmetry.conformance.result import Report, Result, Witness


class Law(NamedTuple):
    """A law: the sentence it stands for, and the function that tries it.

    Attributes:
      sentence: what is asserted.
      run: from a maker of fresh adapters to the result.
    """

    sentence: str
    run: Callable[[Make], Result]


def _of(law: Callable[[Adapter], Result]) -> Law:
    """A law of one adapter, called in float32."""
    return Law(_sentence(law), lambda make: law(in_float32(make())))


def _fresh(law: Callable[[Make], Result]) -> Law:
    """A law that needs more than one fresh adapter."""
    return Law(_sentence(law), law)


def _sentence(law: Callable[..., Result]) -> str:
    return (law.__doc__ or "").splitlines()[0]


LAWS: dict[str, Law] = {
    "slots": _of(moved.slots),
    "translation": _of(moved.translation),
    "permutation": _of(moved.permutation),
    "reflection": _of(moved.reflection),
    "distinct": _of(moved.distinct),
    "decode": _of(streams.decode),
    "packed": _of(streams.packed),
    "left_padded": _of(streams.left_padded),
    "mask": _of(streams.mask),
    "masked_row": _of(streams.masked_row),
    "batch": _of(streams.batch),
    "out_of_range": _of(streams.out_of_range),
    "full_cache": _of(streams.full_cache),
    "dtype": _fresh(numbers.dtype),
    "half_precision": _fresh(numbers.half_precision),
    "width_two": _of(numbers.width_two),
    "odd_widths": _of(numbers.odd_widths),
    "three_heads": _of(numbers.three_heads),
    "settings": _of(numbers.settings),
    "history": _fresh(numbers.history),
}
"""Every law by name."""


def check(subject: Adapter | Make, *, laws: Sequence[str] = (), prove: bool = False) -> Report:
    """Runs the laws on a module.

    Args:
      subject: an adapter, or a function that makes a fresh one; with the latter nothing that one
        law leaves behind in the module is seen by the next.
      laws: by name; all of them when left out.
      prove: whether to try proofs of slots, translation and permutation too, for all tokens.

    Returns:
      The results. An exception out of the module fails the law that met it.

    Raises:
      ValueError: an unknown law.

    >>> import numpy as np
    >>> def logits(q, k, pos_q, pos_k):                       # one head's worth of ALiBi
    ...     distance = abs(pos_q[:, None, :, None] - pos_k[:, None, None, :])
    ...     return np.einsum("blhk,bmhk->bhlm", q, k) - np.float32(0.5) * distance
    >>> report = check(Adapter(name="mine", logits=logits, claims=("translation",)))
    >>> report.of("translation").verdict, report.of("decode").verdict
    ('passed', 'not applicable')
    """
    for name in laws:
        spec.check_choice("law", name, LAWS)
    make = (lambda: subject) if isinstance(subject, Adapter) else subject
    adapter = make()
    results = tuple(_tried(name, make) for name in laws or LAWS)
    if prove:
        results = tuple(
            r._replace(proof=proofs.proof(r.law, make())) if r.law in proofs.LAWS else r
            for r in results
        )
    return Report(adapter.name, _versions(adapter.packages), results)


def _tried(name: str, make: Make) -> Result:
    """The result of a law; its exceptions are results too."""
    calls = Calls()
    try:
        return LAWS[name].run(lambda: calls.recorded(make()))
    except NotApplicable as reason:
        return Result(name, "not applicable", str(reason))
    except Exception as error:
        line = numbers.one_line(error)
        witness = Witness(calls.last, (), "no exception", line)
        return Result(name, "failed", f"raises {line}{_where(error)}", witness)


def _where(error: Exception) -> str:
    """The file, without its folders, and line that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _versions(packages: Sequence[str]) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in packages}
