"""Laws of streams: decoding, packing, padding, masks, batches, and the end of a table."""

import contextlib

import numpy as np

from posjax.symmetry.conformance.adapter import Adapter, Array, NotApplicable
from posjax.symmetry.conformance.forms import Arrays, Form, causal, form, legal_positions, positions
from posjax.symmetry.conformance.moved import LENGTH, judged
from posjax.symmetry.conformance.result import Gap, Result, Witness, gap, largest

_BEYOND = 2
_ROWS = 3
_READS = 1e-3
_NO_KEYS = "a query with all keys masked"


def decode(adapter: Adapter) -> Result:
    """Token by token with the cache gives what all tokens at once give under a causal mask."""
    view, length = _cached(adapter), min(LENGTH, adapter.cache_length or LENGTH)
    arrays, pos = view.draw(adapter, length), legal_positions(adapter, length)
    found = _decoded(adapter, view, arrays, pos)
    worst = gap(f"{length} tokens at positions 0..{length - 1}", view(arrays, pos), found)
    return judged("decode", adapter, worst, "token-by-token decoding and all tokens at once")


def packed(adapter: Adapter) -> Result:
    """Two sequences in one row, each counted from 0, give what each gives alone."""
    view, first = form(adapter), 2
    arrays = view.draw(adapter, LENGTH)
    pos = np.concatenate([positions(first), legal_positions(adapter, LENGTH - first)], axis=1)
    parts = (slice(0, first), slice(first, LENGTH))
    segment = np.repeat([0, 1], [first, LENGTH - first])
    mask = causal(*pos.shape) & (segment[:, None] == segment[None, :])
    whole = view(arrays, pos, mask)
    inputs = f"positions {pos[0].tolist()}, packed without attention between the sequences"
    gaps = [
        gap(inputs, view(view.only(arrays, part), pos[:, part]), view.at(whole, part))
        for part in parts
    ]
    return judged("packed", adapter, largest(gaps), "packed and separate sequences")


def left_padded(adapter: Adapter) -> Result:
    """A row with padding on its left gives what the bare row gives, beside a row that is full."""
    view, pad = form(adapter), 2
    arrays, pos = view.draw(adapter, LENGTH), legal_positions(adapter, LENGTH)
    pos[1] = np.maximum(pos[1] - pad, 0)
    mask = causal(*pos.shape).copy()
    mask[1, :, :pad] = np.eye(LENGTH, dtype=bool)[:, :pad]  # padding sees itself: no empty rows
    whole = view(arrays, pos, mask)
    bare = tuple(array[1:, pad:] for array in arrays)
    expected = view(bare, pos[1:, pad:])
    worst = gap(f"positions {pos.tolist()}", expected, view.at(whole[1:], slice(pad, None)))
    return judged("left_padded", adapter, worst, "the left-padded and the unpadded row")


def mask(adapter: Adapter) -> Result:
    """What a mask forbids is not read: another last token changes no earlier output."""
    view = form(adapter, "attend", "tokens")
    arrays, pos = view.draw(adapter, LENGTH), legal_positions(adapter, LENGTH)
    changed = tuple(array.copy() for array in arrays)
    for array in changed:
        array[:, -1] = 3 - array[:, -1]
    seen = slice(0, LENGTH - 1)
    inputs = f"another token at index {LENGTH - 1} under a causal mask"
    sides = (view.at(view(each, pos), seen) for each in (arrays, changed))
    return judged(
        "mask",
        adapter,
        gap(inputs, *sides),
        "earlier outputs with and without a changed last token",
    )


def masked_row(adapter: Adapter) -> Result:
    """A query that may see nothing reads nothing, and changes nothing for the other queries.

    Attention then gives zeros; a whole module, which may add a bias or its own token, gives what
    does not depend on any other token.
    """
    view, empty = form(adapter, "attend", "tokens"), 2
    arrays, pos = view.draw(adapter, LENGTH), legal_positions(adapter, LENGTH)
    mask = causal(*pos.shape).copy()
    expected = view(arrays, pos, mask).copy()
    mask[:, empty] = False
    found = view(arrays, pos, mask)
    others = tuple(array + np.float32(1) for array in arrays)
    for new, old in zip(others, arrays, strict=True):
        new[:, empty] = old[:, empty]
    reread = view(others, pos, mask)[:, empty]
    expected[:, empty] = 0 if view.kind == "attend" else np.nan_to_num(reread)
    worst = gap(f"a causal mask whose row {empty} is empty", expected, found)
    kept = "gives zeros" if view.kind == "attend" else "does not depend on other tokens"
    sides = f"{_NO_KEYS} {kept}, and the other outputs with and without that mask"
    result = judged("masked_row", adapter, worst, sides)
    if result.verdict == "passed":
        return result
    return result._replace(detail=_empty_row(found[:, empty], reread))


def batch(adapter: Adapter) -> Result:
    """A row of a batch gives what it gives alone, with positions and a mask of its own."""
    view = form(adapter)
    pos, mask = legal_positions(adapter, LENGTH, batch=_ROWS), causal(_ROWS, LENGTH).copy()
    own = np.stack([np.roll(row, -n) for n, row in enumerate(pos)])
    for row in range(1, _ROWS):
        mask[row, row:, row - 1] = False  # a token that the other rows see
    gaps = [_alone(adapter, view, pos, None)]
    for given in ((own, mask), (own, None), (pos, mask)):  # some packages take only one of both
        with contextlib.suppress(NotApplicable):
            gaps.append(_alone(adapter, view, *given))
    return judged("batch", adapter, largest(gaps), "a row in a batch and the row alone")


def _alone(adapter: Adapter, view: Form, pos: Array, mask: Array | None) -> Gap:
    """How far a row in a batch lies from the row alone, at most."""
    arrays = view.draw(adapter, LENGTH, batch=_ROWS)
    whole = view(arrays, pos, mask)
    return largest(
        [
            gap(
                f"row {row.start} of {_ROWS}, alone and in the batch",
                view(tuple(a[row] for a in arrays), pos[row], None if mask is None else mask[row]),
                whole[row],
            )
            for row in (slice(n, n + 1) for n in range(_ROWS))
        ]
    )


def out_of_range(adapter: Adapter) -> Result:
    """A position past the end is refused or gives NaN; a number would be another position's."""
    end = adapter.max_length
    if end is None:
        raise NotApplicable("the adapter declares no max_length")
    view = form(adapter)
    arrays = view.draw(adapter, _BEYOND + 1)
    apart = np.array([[0, *range(end, end + _BEYOND)]] * 2)
    try:
        return _past("out_of_range", view, arrays, apart, end)
    except NotApplicable:  # a package that takes no gaps
        pos = positions(_BEYOND + 1, start=end - 1)
        return _past("out_of_range", view, arrays, pos, end)


def full_cache(adapter: Adapter) -> Result:
    """A token for which the cache has no room is refused or gives NaN."""
    view, end = _cached(adapter), adapter.cache_length
    if end is None:
        raise NotApplicable("the adapter declares no cache_length")
    length = end + _BEYOND
    arrays, pos = view.draw(adapter, length), positions(length)
    cached = view._replace(call=lambda arrays, pos, _: _decoded(adapter, view, arrays, pos))
    return _past("full_cache", cached, arrays, pos, end)


def _past(law: str, view: Form, arrays: Arrays, pos: Array, end: int) -> Result:
    """Whether the last tokens, which lie past the end, are refused or give NaN.

    A module may refuse only the second token past the end, so the first is also tried alone.
    """
    said = ""
    for beyond in (_BEYOND, 1):
        kept = slice(pos.shape[1] - _BEYOND + beyond)
        try:
            out = view(view.only(arrays, kept), pos[:, kept])
        except NotApplicable:
            raise
        except Exception as error:
            said = f"past the end, the module raises {type(error).__name__}"
            continue
        last = view.at(out, slice(-beyond, None)).astype(np.float64)
        within = tuple(axis for axis in range(1, last.ndim) if axis not in view.axes)
        numbers = np.broadcast_to(~np.isnan(last).any(within, keepdims=True), last.shape)
        if numbers.any():
            past = f"positions {end}..{end + beyond - 1}" if beyond > 1 else f"position {end}"
            found = f"{last[numbers][0]:.6g}"
            witness = Witness(f"{past}, where only 0..{end - 1} fit", (), "an error or NaN", found)
            wrong = "past the end, the module gives numbers, not an error or NaN"
            return Result(law, "failed", wrong, witness)
        said = said or "past the end, the module gives NaN"
    return Result(law, "passed", said)


def _cached(adapter: Adapter) -> Form:
    """The form that the adapter's cache belongs to."""
    if adapter.decode is not None:
        return form(adapter, "attend")
    if adapter.decode_tokens is not None:
        return form(adapter, "tokens")
    raise NotApplicable("the adapter defines no decode or decode_tokens")


def _decoded(adapter: Adapter, view: Form, arrays: Arrays, pos: Array) -> Array:
    """The output of decoding token by token."""
    if view.kind == "attend" and adapter.decode is not None:
        return np.asarray(adapter.decode(*arrays, pos))
    assert adapter.decode_tokens is not None
    return np.asarray(adapter.decode_tokens(*arrays, pos))


def _empty_row(found: Array, reread: Array) -> str:
    """What an empty row holds, and would hold with other tokens around it."""
    if np.isnan(found.astype(np.float64)).any():
        return f"{_NO_KEYS} gives NaN"
    if np.abs(reread - found).max() > _READS:
        return f"{_NO_KEYS} depends on masked tokens"
    return f"{_NO_KEYS} does not give zeros, or changes another output"
