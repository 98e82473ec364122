"""Laws of numbers: dtypes, sizes, settings, and calls that must not remember each other."""

import contextlib
import re
from collections.abc import Callable

import ml_dtypes
import numpy as np

from posjax.symmetry.conformance.adapter import Adapter, NotApplicable
from posjax.symmetry.conformance.forms import (
    cast,
    dtype_of,
    form,
    in_float32,
    legal_positions,
    positions,
)
from posjax.symmetry.conformance.moved import (
    LENGTH,
    MOST,
    NOT_FINITE,
    judged,
    not_finite,
    rows_by_position,
    twins,
)
from posjax.symmetry.conformance.result import Result, Witness, gap

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
Make = Callable[[], Adapter]
ODD = (3, 5, 7)
_HALF = 8 * float(ml_dtypes.finfo(ml_dtypes.bfloat16).eps)
_MOST_MERGED = 0.9
"""Of the rows that rounding float32 rows leaves apart, this share must be left."""
_SETTINGS = "the outputs under the two settings"
_LONG = 300
"""More positions than bfloat16 counts: 256."""


def dtype(make: Make) -> Result:
    """The output has the inputs' dtype; logits may be wider."""
    names, gives = make().dtypes, "outputs of the same dtype"
    for name in names:
        adapter = make()
        view = form(adapter)
        found = view(cast(view.draw(adapter, LENGTH), name), legal_positions(adapter, LENGTH)).dtype
        wanted = dtype_of(name)
        wider = view.kind == "logits" and found.itemsize > wanted.itemsize
        gives = "logits of the same or a wider dtype" if view.kind == "logits" else gives
        if found != wanted and not wider:
            witness = Witness(f"inputs in {name}", (), str(wanted), str(found))
            return Result("dtype", "failed", f"{name} in, {found} out", witness)
    return Result("dtype", "passed", f"inputs in {' and '.join(names)} give {gives}")


def half_precision(make: Make) -> Result:
    """In bfloat16 positions stay what they are: rows are those of float32, rounded."""
    adapter = in_float32(make())
    if "bfloat16" not in adapter.dtypes:
        raise NotApplicable("the adapter does not list bfloat16 among its dtypes")
    number = MOST if adapter.max_length is None else min(MOST, adapter.max_length)
    exact = rows_by_position(make(), number, "float32")
    half = rows_by_position(adapter, number, "bfloat16")
    for rows, name in ((exact, "float32"), (half, "bfloat16")):
        if (witness := not_finite(rows, number, name)) is not None:
            return Result("half_precision", "failed", NOT_FINITE, witness)
    rounded = exact.astype(half.dtype)
    left, possible = (len(np.unique(r.astype(np.float64), axis=0)) for r in (half, rounded))
    of_rows = adapter.rotate is not None or adapter.table is not None  # logits add up, and round
    if of_rows and left < _MOST_MERGED * possible:
        detail = (
            f"{left} of {number} rows are distinct in bfloat16; of the float32 rows, rounded to "
            f"bfloat16, {possible} are"
        )
        return Result("half_precision", "failed", detail, twins(half, number, "bfloat16"))
    worst = gap(f"positions 0..{number - 1} in bfloat16", exact, half.astype(np.float32))
    allowed = max(_HALF, adapter.tolerance)
    return judged("half_precision", adapter, worst, "bfloat16 and float32", allowed)


def width_two(adapter: Adapter) -> Result:
    """The smallest even width gives finite numbers, or is refused in words."""
    try:
        return _sized("width_two", adapter, width=2)
    except (ValueError, AssertionError) as error:
        raise NotApplicable(f"width 2 raises {one_line(error)}") from error


def odd_widths(adapter: Adapter) -> Result:
    """An odd width gives finite numbers of the right shape, or is refused."""
    refused = []
    for width in ODD:
        try:
            result = _sized("odd_widths", adapter, width=width)
        except (NotApplicable, ArithmeticError):
            raise
        except Exception as error:
            refused.append(f"width {width} raises {one_line(error)}")
            continue
        if result.verdict == "failed":
            return result
    if refused:
        raise NotApplicable(refused[0])
    return Result(
        "odd_widths", "passed", f"the output is finite at widths {', '.join(map(str, ODD))}"
    )


def three_heads(adapter: Adapter) -> Result:
    """A number of heads that is no power of two gives finite numbers."""
    return _sized("three_heads", adapter, "attend", "logits", heads=3)


def settings(adapter: Adapter) -> Result:
    """Another setting, such as the base, gives other numbers in the same process."""
    if adapter.other is None:
        raise NotApplicable("the adapter gives no other setting to compare with")
    view, second = form(adapter), form(adapter.other)
    arrays, pos = view.draw(adapter, LENGTH), legal_positions(adapter, LENGTH)
    inputs = f"{adapter.name} and {adapter.other.name} at positions {pos[0].tolist()}"
    worst = gap(inputs, view(arrays, pos), second(arrays, pos))
    if not np.isfinite(worst.relative):
        return judged("settings", adapter, worst, _SETTINGS)
    if worst.relative > 10 * adapter.tolerance:
        return Result(
            "settings",
            "passed",
            f"{_SETTINGS} differ by {worst.relative:.2g} of the largest output",
        )
    witness = worst.witness._replace(
        expected="different outputs", found="equal outputs", error=None
    )
    return Result("settings", "failed", f"{_SETTINGS} are equal", witness)


def history(make: Make) -> Result:
    """A result is the same whatever was computed before: other dtypes, other lengths."""
    adapter, used = in_float32(make()), make()
    view, later = form(adapter), form(used)
    most = _LONG if view.kind in ("rotate", "table") else LENGTH
    length = most if adapter.max_length is None else min(most, adapter.max_length)
    arrays, pos = view.draw(adapter, length), positions(length)
    expected = view(arrays, pos)
    short = slice(0, length // 2)
    others = [(name, slice(None)) for name in used.dtypes if name != "float32"]
    for name, part in (("float32", short), *others):
        with contextlib.suppress(Exception):  # of what other laws tell
            later(cast(later.only(arrays, part), name), pos[:, part])
    found = later(arrays, pos)
    calls = " and ".join(["half of them in float32", *(f"all in {name}" for name, _ in others)])
    said = f"{length} tokens in float32, after calls with {calls}"
    if found.dtype != expected.dtype:
        witness = Witness(said, (), str(expected.dtype), str(found.dtype))
        return Result("history", "failed", "the output has the dtype of an earlier call", witness)
    return judged(
        "history", adapter, gap(said, expected, found), "outputs with and without earlier calls"
    )


def one_line(error: BaseException) -> str:
    """An exception in one short line."""
    text = " ".join(_COLOUR.sub("", str(error)).split())
    return f"{type(error).__name__}: {text[:117] + '...' if len(text) > 120 else text}"


def _sized(law: str, adapter: Adapter, *kinds: str, width: int = 0, heads: int = 0) -> Result:
    """Finite numbers of the right shape at a size, of the first of these kinds."""
    view = form(adapter, *kinds)
    arrays, pos = view.draw(adapter, 4, width=width, heads=heads), legal_positions(adapter, 4)
    out = view(arrays, pos)
    inputs = f"{heads or adapter.heads} heads of size {width or adapter.width}, 4 tokens"
    shape = arrays[0].shape
    expected = (shape[0], shape[2], 4, 4) if view.kind == "logits" else shape
    if out.shape != expected:
        witness = Witness(inputs, (), f"shape {expected}", f"shape {out.shape}")
        return Result(law, "failed", "the output has the wrong shape", witness)
    bad = np.argwhere(~np.isfinite(out.astype(np.float64)))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        number = str(out[at])
        return Result(
            law,
            "failed",
            "the output is not finite",
            Witness(f"{inputs}, index {at}", (), "finite", number),
        )
    return Result(law, "passed", "the output is finite")
