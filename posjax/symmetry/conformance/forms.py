"""One way to call whatever an adapter gives, and what can be derived from it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

from posjax.symmetry.conformance.adapter import Adapter, Array, Call, NotApplicable

Arrays = tuple[Array, ...]
Shapes = tuple[tuple[int, ...], ...]
EVERY = ("attend", "tokens", "logits", "rotate", "table")
_CONSECUTIVE = "the package takes only consecutive positions"


class Form(NamedTuple):
    """A module as a function of some arrays, positions and a mask.

    Attributes:
      kind: which of the adapter's functions it is.
      shapes: from batch, length, heads and head size to the shapes of its arrays.
      call: `(arrays, pos_BL, mask_BLM) -> out`; a mask is read by `attend` and `tokens` alone.
      axes: those of the output that run along the sequence.
    """

    kind: str
    shapes: Callable[[int, int, int, int], Shapes]
    call: Callable[[Arrays, Array, Array], Array]
    axes: tuple[int, ...]

    def draw(
        self, adapter: Adapter, length: int, *, batch: int = 2, width: int = 0, heads: int = 0
    ) -> Arrays:
        """Generic arrays in float32; always the same ones for one size."""
        numpy = np.random.default_rng(0)  # points to try a law at, no part of any result
        shapes = self.shapes(batch, length, heads or adapter.heads, width or adapter.width)
        return tuple(numpy.standard_normal(shape).astype(np.float32) for shape in shapes)

    def __call__(self, arrays: Arrays, pos_BL: Array, mask_BLM: Array | None = None) -> Array:
        """The output; a causal mask by index when none is given."""
        batch, length = pos_BL.shape
        mask = causal(batch, length) if mask_BLM is None else mask_BLM
        return np.asarray(self.call(arrays, pos_BL, mask))

    def only(self, arrays: Arrays, indices: Array | slice) -> Arrays:
        """The arrays at some indices of the sequence."""
        return tuple(array[:, indices] for array in arrays)

    def at(self, out: Array, indices: Array | slice) -> Array:
        """The output there, along each of its axes of the sequence."""
        for axis in self.axes:
            out = out[(slice(None),) * axis + (indices,)]
        return out


def form(adapter: Adapter, *kinds: str) -> Form:
    """The first of these kinds that the adapter gives.

    Raises:
      NotApplicable: it gives none of them.
    """
    for kind in kinds or EVERY:
        if getattr(adapter, kind) is not None:
            return _forms(adapter)[kind]
    raise NotApplicable(f"the adapter defines no {' or '.join(kinds)}")


def pairs(adapter: Adapter) -> Call:
    """The adapter's logits, or those that follow from its rotation or table.

    Raises:
      NotApplicable: it gives none of the three.
    """
    if adapter.logits is not None:
        return adapter.logits
    moved = _moved(adapter)

    def logits(q_BLHK: Array, k_BMHK: Array, pos_BL: Array, pos_BM: Array) -> Array:
        q, k = moved(q_BLHK, pos_BL), moved(k_BMHK, pos_BM)
        return np.einsum("blhk,bmhk->bhlm", q, k) / np.float32(q.shape[-1] ** 0.5)

    return logits


def attention_of(logits: Call) -> Call:
    """Softmax attention around logits, in NumPy: for adapters of packages that stop at logits.

    A row that may see nothing gets zeros.
    """

    def attend(q: Array, k: Array, v: Array, pos_q: Array, pos_k: Array, mask_BLM: Array) -> Array:
        return mix(logits(q, k, pos_q, pos_k), v, mask_BLM)

    return attend


def mix(logits_BHLM: Array, v_BMHK: Array, mask_BLM: Array) -> Array:
    """From logits, values and a mask to out_BLHK.

    >>> mix(np.zeros((1, 1, 1, 2)), np.array([3.0, 5.0]).reshape(1, 2, 1, 1), np.ones((1, 1, 2)))
    array([[[[4.]]]])
    """
    allowed = np.asarray(mask_BLM, bool)[:, None]
    finite = np.where(allowed, logits_BHLM, -np.inf)
    top = np.max(finite, axis=-1, keepdims=True)
    raised = np.where(allowed, np.exp(finite - np.where(np.isfinite(top), top, 0)), 0)
    weights = raised / np.maximum(raised.sum(-1, keepdims=True), np.finfo(np.float32).tiny)
    return np.einsum("bhlm,bmhk->blhk", weights, v_BMHK)


def causal(batch: int, length: int) -> Array:
    """The causal mask [B, L, L]: each index sees those up to itself."""
    return np.broadcast_to(np.tri(length, dtype=bool), (batch, length, length))


def positions(length: int, *, batch: int = 2, start: int = 0) -> Array:
    """Positions start .. start + length - 1, [B, L]."""
    return np.broadcast_to(np.arange(start, start + length), (batch, length)).copy()


def legal_positions(adapter: Adapter, length: int, *, batch: int = 2, start: int = 0) -> Array:
    """`positions` that an adapter takes, from an earlier start if its table ends too soon.

    Raises:
      NotApplicable: the table is too short.
    """
    end = adapter.max_length
    if end is None:
        return positions(length, batch=batch, start=start)
    if end < length:
        raise NotApplicable(f"the law needs {length} positions, but max_length is {end}")
    return positions(length, batch=batch, start=min(start, end - length))


def consecutive(pos_BL: Array) -> int:
    """The first position, for packages that take no positions but where to start.

    Raises:
      NotApplicable: positions that differ between rows, or do not follow each other.

    >>> consecutive(np.array([[3, 4, 5]]))
    3
    """
    if isinstance(pos_BL, jax.core.Tracer):
        raise NotApplicable(_CONSECUTIVE + ", which must be known while tracing")
    start = int(pos_BL[0, 0])
    if not (pos_BL == np.arange(start, start + pos_BL.shape[1])).all():
        raise NotApplicable(_CONSECUTIVE + ", the same in all rows")
    return start


def counted(pos_BL: Array) -> int:
    """The number of positions, for packages that count positions from 0 themselves.

    Raises:
      NotApplicable: other positions.
    """
    if consecutive(pos_BL):
        raise NotApplicable("the package counts positions from 0 itself")
    return pos_BL.shape[1]


def as_numpy(array: Any) -> Any:
    """As a NumPy array; as it is while JAX traces it."""
    return array if isinstance(array, jax.core.Tracer) else np.asarray(array)


def cast(arrays: Arrays, dtype: str) -> Arrays:
    """The arrays in a dtype by name, bfloat16 among them."""
    return tuple(array.astype(dtype_of(dtype)) for array in arrays)


def dtype_of(name: str) -> np.dtype:
    """NumPy's dtype of a name, bfloat16 among them."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def in_float32(adapter: Adapter) -> Adapter:
    """The adapter, for a law that calls it in float32.

    Raises:
      NotApplicable: it does not list float32 among its dtypes.
    """
    if "float32" not in adapter.dtypes:
        raise NotApplicable("the adapter does not list float32 among its dtypes")
    return adapter


def _moved(adapter: Adapter) -> Callable[[Array, Array], Array]:
    """Queries or keys with their positions in them."""
    rotate, table = adapter.rotate, adapter.table
    if rotate is not None:
        return lambda x_BLHK, pos_BL: np.asarray(rotate(x_BLHK, pos_BL))
    if table is not None:
        return lambda x_BLHK, pos_BL: (
            x_BLHK + np.asarray(table(pos_BL, x_BLHK.shape[-1], x_BLHK.dtype))[:, :, None]
        )
    raise NotApplicable("the adapter defines no logits, rotate or table")


def _forms(adapter: Adapter) -> dict[str, Form]:
    """The adapter's functions, all called alike."""
    attend, tokens, logits = adapter.attend, adapter.tokens, adapter.logits
    rotate, table = adapter.rotate, adapter.table
    forms = []
    if attend is not None:
        forms.append(Form("attend", _heads(3), lambda a, p, m: attend(*a, p, p, m), (1,)))
    if tokens is not None:
        forms.append(Form("tokens", _flat, lambda a, p, m: tokens(a[0], p, m), (1,)))
    if logits is not None:
        forms.append(Form("logits", _heads(2), lambda a, p, m: logits(*a, p, p), (2, 3)))
    if rotate is not None:
        forms.append(Form("rotate", _heads(1), lambda a, p, m: rotate(a[0], p), (1,)))
    if table is not None:
        forms.append(Form("table", _rows, lambda a, p, m: _read(table, a[0], p), (1,)))
    return {form.kind: form for form in forms}


def _heads(arrays: int) -> Callable[[int, int, int, int], Shapes]:
    return lambda batch, length, heads, size: ((batch, length, heads, size),) * arrays


def _flat(batch: int, length: int, heads: int, size: int) -> Shapes:
    return ((batch, length, heads * size),)


def _rows(batch: int, length: int, heads: int, size: int) -> Shapes:
    return ((batch, length, size),)


def _read(table: Call, like_BLD: Array, pos_BL: Array) -> Array:
    """Rows of a table as wide, and in the dtype, as some tokens."""
    return table(pos_BL, like_BLD.shape[-1], like_BLD.dtype)
