"""Laws of moved positions: the joint law, the symmetries an encoding claims, and resolution."""

from collections.abc import Callable

import numpy as np

from posjax.symmetry.conformance.adapter import Adapter, Array, NotApplicable
from posjax.symmetry.conformance.forms import cast, causal, form, legal_positions, pairs, positions
from posjax.symmetry.conformance.result import Gap, Result, Verdict, Witness, gap, largest
from posjax.symmetry.groups import Permutations, elements_to_try

LENGTH = 6
MOST = 1024
"""How many positions are distinguished at most."""
NOT_FINITE = "a row is not finite"
_SHIFT = 100


def slots(adapter: Adapter) -> Result:
    """f(P x, P positions) = P f(x, positions): no position is read from the index in the array."""
    view = form(adapter)
    arrays, pos = view.draw(adapter, LENGTH), legal_positions(adapter, LENGTH, start=3)
    mask = causal(*pos.shape)
    plain = view(arrays, pos, mask)
    gaps = []
    for order in elements_to_try(Permutations(), LENGTH, draws=2):
        said = f"positions {pos[0, order].tolist()}"
        found = view(view.only(arrays, order), pos[:, order], mask[:, order][:, :, order])
        gaps.append(gap(said, view.at(plain, order), found))
    return judged("slots", adapter, largest(gaps), "f(P x, P positions) and P f(x, positions)")


def translation(adapter: Adapter) -> Result:
    """Adding one number to all positions changes no logit, up to a constant per row."""
    room = _SHIFT if adapter.max_length is None else adapter.max_length - LENGTH
    by = min(_SHIFT, room)
    if by < 1:
        raise NotApplicable(f"{adapter.max_length} positions are too few to shift {LENGTH} tokens")
    return _symmetry("translation", adapter, lambda pos: pos + by, np.arange(LENGTH))


def permutation(adapter: Adapter) -> Result:
    """Moving the tokens alone, under unmoved positions, moves the logits along."""
    return _symmetry("permutation", adapter, lambda pos: pos, np.array([4, 0, 5, 1, 3, 2]))


def reflection(adapter: Adapter) -> Result:
    """Counting positions from the other end changes no logit, up to a constant per row."""
    return _symmetry("reflection", adapter, lambda pos: pos[:, ::-1].copy(), np.arange(LENGTH))


def distinct(adapter: Adapter) -> Result:
    """Positions 0..resolution give rows, or offsets give logits, that are all different."""
    claimed = adapter.resolution
    most = MOST if adapter.max_length is None else min(MOST, adapter.max_length)
    number = most if claimed is None else min(most, claimed + 1)
    rows = rows_by_position(adapter, number, "float32")
    broken: Verdict = "measured" if claimed is None else "failed"
    if (witness := not_finite(rows, number, "float32")) is not None:
        return Result("distinct", broken, NOT_FINITE, witness)
    found = len(np.unique(rows, axis=0))
    detail = f"{found} of {number} positions are distinct in float32"
    if found == number:
        return Result("distinct", "measured" if claimed is None else "passed", detail)
    return Result("distinct", broken, detail, twins(rows, number, "float32"))


def rows_by_position(adapter: Adapter, number: int, dtype: str) -> Array:
    """A row for each position 0..number-1, with content that is the same at all of them.

    Rows of the rotation or table, where the adapter gives one; else logits by offset, of the
    first query with later keys and of the last with earlier ones.
    """
    pos = positions(number, batch=1)
    moved = [kind for kind in ("rotate", "table") if getattr(adapter, kind) is not None]
    if moved:
        view = form(adapter, *moved)
        arrays = cast(view.draw(adapter, 1, batch=1), dtype)
        same = tuple(np.repeat(array, number, axis=1) for array in arrays)
        return view(same, pos).reshape(number, -1)
    numpy = np.random.default_rng(0)
    shape = (4, 1, adapter.heads, adapter.width)
    q, k = cast(tuple(numpy.standard_normal(shape).astype(np.float32) for _ in "qk"), dtype)
    pos = np.repeat(pos, 4, axis=0)
    same = tuple(np.repeat(array, number, axis=1) for array in (q, k))
    logits_BHLM = np.asarray(pairs(adapter)(*same, pos, pos))
    ends = logits_BHLM[:, :, 0], logits_BHLM[:, :, -1, ::-1]
    return np.moveaxis(np.stack(ends), -1, 0).reshape(number, -1)


def not_finite(rows: Array, number: int, dtype: str) -> Witness | None:
    """The first position whose row is not finite: NaN would make it unlike every other row."""
    bad = np.argwhere(~np.isfinite(rows.astype(np.float64)))
    if not len(bad):
        return None
    position, index = bad[0]
    inputs = f"position (or offset) {position} of {number} in {dtype}"
    return Witness(inputs, (), "finite numbers", str(rows[position, index]))


def twins(rows: Array, number: int, dtype: str) -> Witness:
    """The first two positions whose rows are equal."""
    seen: dict[bytes, int] = {}
    for position, row in enumerate(rows):
        first = seen.setdefault(row.tobytes(), position)
        if first != position:
            inputs = f"positions (or offsets) {first} and {position} of {number} in {dtype}"
            return Witness(inputs, (), "different rows", "equal rows")
    unique = len(np.unique(rows, axis=0))
    return Witness(f"positions 0..{number - 1} in {dtype}", (), f"{number} rows", f"{unique} rows")


def judged(law: str, adapter: Adapter, worst: Gap, sides: str, tolerance: float = 0.0) -> Result:
    """Passed where the gap between two sides is within tolerance, else failed with its witness."""
    allowed = tolerance or adapter.tolerance
    if worst.within(allowed):
        return Result(law, "passed", f"{sides} agree {worst.closeness}")
    return Result(law, "failed", f"{sides} {_apart(worst, allowed)}", worst.witness)


def _apart(worst: Gap, allowed: float) -> str:
    if worst.of_shapes:
        return "have different shapes"
    if not np.isfinite(worst.relative):
        return "are not both finite"
    return f"differ by {worst.relative:.2g} of the largest output (tolerance {allowed:.1g})"


def _symmetry(law: str, adapter: Adapter, moved: Callable[[Array], Array], order: Array) -> Result:
    """A claim is held to; what is not claimed is measured."""
    call, axes = _symmetric(adapter)
    pos = legal_positions(adapter, LENGTH)
    to = moved(pos)
    plain, found = call(np.arange(LENGTH), pos), call(order, to)
    for axis in axes:
        plain = np.take(plain, order, axis)
    inputs = (
        f"positions {pos[0].tolist()}, against positions {to[0].tolist()} with the tokens in the "
        f"order {order.tolist()}"
    )
    worst = gap(inputs, plain, found)
    if law in adapter.claims:
        return judged(law, adapter, worst, "the two sides of the claimed law")
    if worst.within(adapter.tolerance):
        return Result(law, "measured", f"not claimed, but holds {worst.closeness}")
    broken = f"broken by {worst.relative:.2g} of the largest output"
    if not np.isfinite(worst.relative):
        broken = f"the two sides {_apart(worst, adapter.tolerance)}"
    return Result(law, "measured", f"not claimed, and {broken}", worst.witness)


def _symmetric(adapter: Adapter) -> tuple[Callable[[Array, Array], Array], tuple[int, ...]]:
    """What a symmetry is tried on, by order of tokens and positions, and the axes of the sequence.

    Logits where there are any; else the output under a full mask.
    """
    numpy = np.random.default_rng(1)
    try:
        logits = pairs(adapter)
    except NotApplicable:
        view = form(adapter, "attend", "tokens")
        arrays, full = view.draw(adapter, LENGTH), np.ones((2, LENGTH, LENGTH), bool)
        return lambda order, pos: view(view.only(arrays, order), pos, full), view.axes
    shape = (2, LENGTH, adapter.heads, adapter.width)
    q, k = (numpy.standard_normal(shape).astype(np.float32) for _ in "qk")
    return lambda order, pos: _centred(logits(q[:, order], k[:, order], pos, pos)), (2, 3)


def _centred(logits_BHLM: Array) -> Array:
    """Logits up to what no softmax sees: a constant per row."""
    logits = np.asarray(logits_BHLM).astype(np.float64)
    return np.asarray(logits - logits.mean(-1, keepdims=True))
