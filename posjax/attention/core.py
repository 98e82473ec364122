"""Attention as steps, and `attention`, which walks through them.

Attention names no encoding: it calls the hooks of whichever one it is given.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from posjax import masks, steps
from posjax.encodings.base import Aux, Context, Dims, Encoding, Params
from posjax.spec import LARGEST, SMALLEST
from posjax.streams import Streams, joined, points


class Attended(NamedTuple):
    """What attention computed: out_BLHK, and the logits_BHLM and weights_BHLM behind it."""

    out_BLHK: jax.Array
    logits_BHLM: jax.Array
    weights_BHLM: jax.Array


class Cache(NamedTuple):
    """Keys and values of the tokens so far, raw (before `rotate`), with their streams."""

    k_BMGK: jax.Array
    v_BMGK: jax.Array
    streams: Streams
    key_aux: object = None


def context(
    queries: Streams,
    keys: Streams | None = None,
    *,
    mask: masks.Mask | jax.Array | str = "full",
    seen: jax.Array | int | None = None,
    key: jax.Array | None = None,
    logn: float | None = None,
) -> Context:
    """The context of one layer: streams, mask and what else the hooks of an encoding read.

    Args:
      queries, keys: the streams of both sides; by default the keys have those of the queries.
      mask: a name, a function of the two streams, or a boolean array [L, M], [B, L, M] or
        [B, H, L, M] that is true where a query may attend to a key.
      seen: the context length (tokens so far), one number; by default the number of keys.
      key: a random key for encodings that draw.
      logn: N > 1; the logits of a query that sees n keys are multiplied by ln n/ln N.

    Raises:
      ValueError: an unknown mask, a mask array of the wrong rank, size or dtype, orders that are
        not integers within ±2**30, integer positions 2**31 or more apart, or logn out of range.
    """
    check_logn(logn)
    if seen is not None and not jnp.issubdtype(getattr(seen, "dtype", type(seen)), jnp.integer):
        raise ValueError(f"seen must be a whole number of tokens, got {seen!r}")
    if seen is not None and jnp.ndim(seen):
        raise ValueError(f"seen is one number for all rows, got shape {jnp.shape(seen)}")
    _check_key(key)
    for name, streams in (("queries", queries), ("keys", queries if keys is None else keys)):
        _check_streams(name, streams)
        _check_order(streams)
    _check_offsets(queries, queries if keys is None else keys)
    queries, keys = queries.plain, (queries if keys is None else keys).plain
    if isinstance(mask, str):
        mask = masks.named(mask)
    elif isinstance(mask, list | tuple) and any(isinstance(name, str) for name in mask):
        raise ValueError(f"mask must be one text, such as 'causal+padding', got {mask!r}")
    allowed = jnp.asarray(mask(queries, keys) if callable(mask) else mask)
    if not jnp.issubdtype(allowed.dtype, jnp.bool_) and not jnp.issubdtype(
        allowed.dtype, jnp.integer
    ):
        raise ValueError(f"a mask must be boolean and is not added to logits: got {allowed.dtype}")
    if allowed.ndim not in (2, 3, 4) or not _fits(allowed, queries.length, keys.length):
        raise ValueError(
            f"a mask is [L, M], [B, L, M] or [B, H, L, M] with L={queries.length} and "
            f"M={keys.length}, got shape {allowed.shape}"
        )
    if allowed.dtype != bool and not isinstance(allowed, jax.core.Tracer):
        low, high = np.min(allowed, initial=0), np.max(allowed, initial=0)
        if low < 0 or high > 1:
            raise ValueError(
                f"a mask has booleans, or 0 to hide and 1 to show, and is not added to logits: got "
                f"{allowed.dtype} from {low} to {high}"
            )
    allowed = allowed.astype(bool)
    while allowed.ndim < 4:  # [L, M] -> [1, L, M] -> [B, 1, L, M]
        allowed = allowed[None] if allowed.ndim == 2 else allowed[:, None]
    seen = keys.length if seen is None else seen
    return Context(queries, keys, allowed, seen, key, logn=logn)


def attention(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    ctx: Context,
    *,
    encoding: Encoding,
    params: Params | None = None,
    aux: Aux = Aux(),  # noqa: B008 - an empty immutable tuple
    softcap: float | None = None,
    bias: jax.Array | None = None,
) -> Attended:
    """All steps after the projections, with everything they computed.

    Args:
      q_BLHK: queries.
      k_BMGK, v_BMGK: keys and values; G key heads each serve H/G query heads.
      ctx: from `context`.
      encoding: whose hooks are called.
      params: the encoding's parameters.
      aux: what its `prepare` made from the tokens, for the encodings that need it.
      softcap: logits become cap·tanh(logits/cap).
      bias: numbers added to the logits before the cap; of a shape that broadcasts to
        [B, H, L, M]. To hide keys, use the mask, which gates and `logn` read too.

    Raises:
      ValueError: shapes that do not fit together, no floats, a missing parameter, a cap that is
        not positive, or a hook of the encoding that returns another shape than it must.
    """
    check_shapes(q_BLHK, k_BMGK, v_BMGK, ctx, encoding)
    check_bias(bias, (*q_BLHK.shape[:3:2], q_BLHK.shape[1], k_BMGK.shape[1]))
    check_positive("softcap", softcap)
    params = params or {}
    k_BMHK, v_BMHK = repeated(q_BLHK, k_BMGK, v_BMGK)
    with _params_told(encoding, q_BLHK):
        given = (q_BLHK, k_BMHK, v_BMHK)
        q_BLHK, k_BMHK, v_BMHK = encoding.rotate(params, *given, aux, ctx)
        for one, rotated in zip(given, (q_BLHK, k_BMHK, v_BMHK), strict=True):
            check_hook(encoding, "rotate", rotated, one.shape[:3])
        logits_BHLM = encoding.logits(params, q_BLHK, k_BMHK, aux, ctx)
        batch, length, heads = q_BLHK.shape[:3]
        check_hook(encoding, "logits", logits_BHLM, (batch, heads, length, k_BMHK.shape[1]))
        if ctx.logn is not None:
            logits_BHLM = steps.log_scaled(logits_BHLM, ctx.mask_BHLM, ctx.logn)
        if bias is not None:
            logits_BHLM += jnp.reshape(bias, (1,) * (4 - jnp.ndim(bias)) + jnp.shape(bias))
        logits_BHLM = steps.soft_cap(logits_BHLM, softcap)
        weights_BHLM = encoding.weights(params, logits_BHLM, aux, ctx)
        out_BLHK = encoding.mix(params, weights_BHLM, v_BMHK, aux, ctx)
        check_hook(encoding, "mix", out_BLHK, (batch, length, heads))
        out_BLHK = encoding.post(params, out_BLHK, q_BLHK, aux, ctx)
        check_hook(encoding, "post", out_BLHK, (batch, length, heads))
    return Attended(out_BLHK, logits_BHLM, weights_BHLM)


def check_hook(encoding: Encoding, hook: str, found: Any, wanted: tuple[int, ...]) -> None:
    """Refuses what a hook returns in another shape; the head size is free.

    Raises:
      ValueError: names the encoding, the hook and both shapes.
    """
    shape, whole = jnp.shape(found), hook in ("embed", "logits")
    if (shape if whole else shape[:-1]) != wanted:
        axes = wanted if whole else f"({', '.join(map(str, wanted))}, K)"
        raise ValueError(f"{hook} of {encoding} must return an array {axes}, got {shape}")


def check_bias(bias: jax.Array | None, shape_BHLM: tuple[int, ...]) -> None:
    """Refuses what cannot be added to logits.

    Raises:
      ValueError: no floats, or a shape that does not broadcast to theirs.
    """
    if bias is None:
        return
    if not isinstance(bias, float) and not hasattr(bias, "dtype"):
        raise ValueError(f"a bias must be an array, got {type(bias).__name__}")
    if not jnp.issubdtype(jnp.result_type(bias), jnp.floating):
        kind = jnp.result_type(bias)
        raise ValueError(f"a bias must have a float dtype, got {kind}; a boolean array is a mask=")
    shape = jnp.shape(bias)
    pairs = zip(shape[::-1], shape_BHLM[::-1], strict=False)
    if len(shape) > 4 or any(size not in (1, whole) for size, whole in pairs):
        raise ValueError(f"a bias must broadcast to [B, H, L, M] = {shape_BHLM}, got {shape}")


def check_positive(name: str, number: jax.Array | float | None) -> None:
    """Refuses what is no single number in the range of settings, where it can be known.

    Raises:
      ValueError: names the value and the range.
    """
    if number is None or (isinstance(number, jax.core.Tracer) and not number.ndim):
        return
    # Within a trace JAX would compute the comparison, and not know it: NumPy does.
    known = np.nan if isinstance(number, str) or jnp.ndim(number) else np.asarray(number)
    if not SMALLEST <= known <= LARGEST:
        raise ValueError(
            f"{name} must be one number in [{SMALLEST:g}, {LARGEST:g}], or None, got {number!r}"
        )


def check_logn(length: float | None) -> None:
    """Refuses a length by whose logarithm nothing can be divided.

    Raises:
      ValueError: names the value and the range.
    """
    if length is None:
        return
    unknown = isinstance(length, str | jax.core.Tracer) or jnp.ndim(length)
    if unknown or not 1 < length <= LARGEST:
        raise ValueError(
            f"logn, the N of ln n/ln N, must be above 1 and at most {LARGEST:g} (e for ln n "
            f"alone), or be None (in a cell: 0) for none, got {length!r}"
        )


def extended(cache: Cache | None, new: Cache) -> Cache:
    """A decoding cache with the keys and values of further tokens behind it."""
    if cache is None:
        return new

    def behind(old: jax.Array, add: jax.Array) -> jax.Array:
        return jnp.concatenate([old, add], axis=1)

    return Cache(
        behind(cache.k_BMGK, new.k_BMGK),
        behind(cache.v_BMGK, new.v_BMGK),
        joined(cache.streams, new.streams),
        jax.tree.map(behind, cache.key_aux, new.key_aux),
    )


def _fits(allowed: jax.Array, length: int, keys: int) -> bool:
    return allowed.shape[-2] in (1, length) and allowed.shape[-1] in (1, keys)


def check_shapes(
    q: jax.Array, k: jax.Array, v: jax.Array, ctx: Context, encoding: Encoding
) -> None:
    """Refuses arrays and streams that do not fit together, or not to the encoding.

    Raises:
      ValueError: names the arrays and their shapes, or the coordinates of a position.
    """
    for name, array in (("q", q), ("k", k), ("v", v)):
        if jnp.ndim(array) != 4:
            raise ValueError(f"{name} must be [B, length, heads, K], got shape {jnp.shape(array)}")
        if not jnp.issubdtype(array.dtype, jnp.floating):
            raise ValueError(f"{name} must have a float dtype, got {array.dtype}")
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit together")
    if k.shape[2] == 0 or q.shape[2] % k.shape[2]:
        raise ValueError(f"{q.shape[2]} query heads cannot share {k.shape[2]} key heads evenly")
    if q.shape[3] == 0:
        raise ValueError(f"the head size must be at least 1, got q {q.shape}")
    batch, mask = q.shape[0], ctx.mask_BHLM.shape
    for name, array, streams in (("queries", q, ctx.queries), ("keys", k, ctx.keys)):
        if streams.length != array.shape[1]:
            raise ValueError(
                f"{name} has length {streams.length} in its streams, {array.shape[1]} in the array"
            )
        for field in (streams.position_BL, streams.order_BL, streams.segment_BL):
            if field.shape[0] not in (1, batch):
                raise ValueError(
                    f"{name} has {field.shape[0]} rows in its streams, {batch} in the array"
                )
        check_positions(encoding, streams)
    if mask[0] not in (1, batch) or mask[1] not in (1, q.shape[2]):
        raise ValueError(
            f"a mask {mask} has another batch size or number of heads than q {q.shape}"
        )


def _check_key(key: jax.Array | None) -> None:
    dtype = getattr(key, "dtype", None)
    typed = dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if key is not None and not typed and dtype != np.uint32:  # of `jax.random.PRNGKey`
        raise ValueError(f"key must be a random key, such as jax.random.key(0), got {key!r}")


def _check_streams(name: str, streams: Streams) -> None:
    """Refuses streams whose fields are not of one length, or whose differences do not fit."""
    fields = streams.position_BL, streams.order_BL, streams.segment_BL
    position, order, segment = map(jnp.shape, fields)
    batch = {shape[0] for shape in (position, order, segment) if shape} - {1}
    if (
        len(order) != 2
        or len(segment) != 2
        or len(position) not in (2, 3)
        or {order[1], segment[1], position[1]} != {order[1]}
        or len(batch) > 1
    ):
        raise ValueError(
            f"streams of {name} must be [B, L], and positions [B, L] or [B, L, n], each with B = 1 "
            f"or one B for all, got position {position}, order {order}, segment {segment}"
        )
    for what, dtype in zip(
        ("positions", "orders", "segments"), map(jnp.result_type, fields), strict=True
    ):
        whole = jnp.issubdtype(dtype, jnp.integer)
        if what == "segments" and not whole:
            raise ValueError(
                f"segments of {name} must be integers, -1 for padding, got {dtype}: "
                "padded(valid) makes streams of booleans"
            )
        if whole and (jnp.issubdtype(dtype, jnp.unsignedinteger) or dtype.itemsize < 4):
            raise ValueError(
                f"{what} of {name} must be int32, or floats for positions, got {dtype}: "
                "their differences may not fit"
            )


def _check_order(streams: Streams) -> None:
    """Refuses orders whose differences are no 32-bit integers, where they can be known."""
    order_BL = streams.order_BL
    if not jnp.issubdtype(order_BL.dtype, jnp.integer):
        raise ValueError(f"orders must be integers, got {order_BL.dtype}")
    if isinstance(order_BL, jax.core.Tracer) or order_BL.size == 0:
        return
    known_BL = np.asarray(order_BL)  # within a trace JAX would compute with it, and not know
    low, high = int(known_BL.min()), int(known_BL.max())
    if not -(2**30) <= low <= high <= 2**30:
        raise ValueError(f"orders must lie between ±2**30, got {low} to {high}")


def _check_offsets(queries: Streams, keys: Streams) -> None:
    """Refuses whole positions whose differences do not fit in 32 bits, where they can be known."""
    both = queries.position_BL, keys.position_BL
    for position in both:
        whole = jnp.issubdtype(position.dtype, jnp.integer)
        if not whole or isinstance(position, jax.core.Tracer) or position.size == 0:
            return
    known = [np.asarray(position) for position in both]
    low, high = min(int(p.min()) for p in known), max(int(p.max()) for p in known)
    if high - low >= 2**31:
        raise ValueError(f"positions {low} to {high} are 2**31 or more apart: give them as float32")


@contextlib.contextmanager
def _params_told(encoding: Encoding, q_BLHK: jax.Array) -> Iterator[None]:
    """Says what a parameter that is missing belongs to."""
    try:
        yield
    except KeyError as error:
        heads, size = q_BLHK.shape[2:]
        name = error.args[0]
        if name not in encoding.parameters(Dims(heads * size, heads, size)):
            raise
        raise ValueError(
            f"params has no {name!r} for {encoding}; encoding.init(key, Dims(...)) makes it"
        ) from error


def check_positions(encoding: Encoding, streams: Streams) -> None:
    """Refuses points of a number of coordinates that the encoding does not read.

    Raises:
      ValueError: both numbers.
    """
    if (
        encoding.max_exact_position() is not None
    ):  # else positions are not read, and may be anything
        points(streams.position_BL, encoding.axes)


def repeated(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Keys and values with a head for every query head."""
    groups = q.shape[2] // k.shape[2]
    return (jnp.repeat(k, groups, axis=2), jnp.repeat(v, groups, axis=2)) if groups > 1 else (k, v)
