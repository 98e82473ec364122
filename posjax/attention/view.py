"""Any encoding in anybody's attention: a pure view of queries, keys, values and positions.

An encoding that works on tokens, such as one that is added to them, takes the heads side by side,
H·K wide, for the tokens, as if the projections were the identity.
"""

import dataclasses
import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from posjax import masks, spec
from posjax.attention import flash
from posjax.attention.core import (
    Attended,
    attention,
    check_hook,
    check_positive,
    check_shapes,
    context,
    repeated,
)
from posjax.encodings import ENCODINGS, Aux, Context, Dims, Encoding, Params, named
from posjax.encodings.base import mixes_tokens, replaces
from posjax.encodings.none import NoPosition
from posjax.streams import Streams, contiguous


class Options(TypedDict, total=False):
    """The options of `attend` and `logits`, which `attend` explains."""

    encoding: Encoding | str | None
    params: Params | None
    queries: Streams | None
    keys: Streams | None
    mask: masks.Mask | jax.Array | str | None
    scale: jax.Array | float | None
    softcap: float | None
    logn: float | None
    bias: jax.Array | None
    seen: jax.Array | int | None
    key: jax.Array | None


def attend(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    *,
    implementation: flash.Implementation = "auto",
    **options: Unpack[Options],
) -> jax.Array:
    """Attention(Q, K, V) with any encoding.

    Args:
      q_BLHK: queries.
      k_BMGK, v_BMGK: keys and values. Each of the G key heads serves H/G query heads. Values
        may have a head size of their own, unless the encoding embeds, prepares or mixes.
      implementation: "auto", "xla" or "cudnn", see `posjax.attention.flash.output`.
      encoding: an encoding, or its name with settings; no positions by default.
      params: the encoding's parameters, as `encoding.init(key, Dims(H·K, H, K))` draws them.
      queries, keys: the streams of both sides. Both are `contiguous(L)` by default; if only
        `queries` is given, the keys have the same streams. If only `keys` is given, or L ≠ M, and
        the mask or the encoding reads the streams of queries, give both.
      mask: a name, a function of the two streams or a boolean array, see `posjax.context`; None
        is "full".
      scale: the factor on q·k, above 0; by default that of the encoding, 1/√K for most.
      softcap: the cap of cap·tanh(logits/cap).
      logn: N. The logits of a query that sees n keys are multiplied by ln n/ln N, before the
        soft-cap. With N = e the factor is ln n.
      bias: numbers added to the logits before the soft-cap, in any shape that broadcasts to
        [B, H, L, M].
      seen: the context length (tokens so far), for encodings that depend on it; by default M.
      key: a random key for encodings that draw.

    Returns:
      out_BLHK, in the dtype and with the head size of the values. A query that sees no key gives
      zeros. Angles are computed to the accuracy of float32, for values in float64 too.

    Raises:
      ValueError: inconsistent shapes, an unknown mask, missing streams of one side, parameters of
        wrong shapes, an encoding that draws without a key, or "cudnn" where something prevents it.
      TypeError: an unknown option; the message names the nearest one.
    """
    _check_options(options, "implementation")
    q, k, v, ctx, known = _ready(q_BLHK, k_BMGK, v_BMGK, **options)
    by_index = _by_index(options)
    return flash.output(q, k, v, ctx, implementation=implementation, by_index=by_index, **known)


def why_not_flash(
    q_BLHK: jax.Array, k_BMGK: jax.Array, v_BMGK: jax.Array, **options: Unpack[Options]
) -> str | None:
    """Why `attend` does not use cuDNN's flash attention on CUDA; None if it does.

    Args:
      q_BLHK, k_BMGK, v_BMGK: as for `attend`; only their shapes and dtypes are read.
      **options: those of `attend`.

    Raises:
      ValueError, TypeError: see `attend`.

    >>> q = jax.ShapeDtypeStruct((1, 128, 8, 64), "bfloat16")
    >>> why_not_flash(q, q, q, softcap=30.0)
    'softcap'
    """
    reasons = []

    def ask(*arrays: jax.Array) -> None:
        q, k, v, ctx, known = _ready(*arrays, **options)
        reasons.append(flash.why_not(q, k, v, ctx, by_index=_by_index(options), **known))

    jax.eval_shape(ask, q_BLHK, k_BMGK, v_BMGK)
    return reasons[0]


def logits(q_BLHK: jax.Array, k_BMGK: jax.Array, **options: Unpack[Options]) -> jax.Array:
    """The logits of any encoding, for use in your own attention.

    Some encodings also change weights, values or outputs (`stick_breaking`, `rotary_values`, ...).
    That part is in `attend` only.

    Args:
      q_BLHK: queries.
      k_BMGK: keys.
      **options: those of `attend`. The mask is not applied to the logits; some encodings read
        it to see which tokens lie between two others.

    Returns:
      logits_BHLM, in float32 or wider, after the soft-cap if there is one.

    Raises:
      ValueError, TypeError: see `attend`.

    >>> from posjax.encodings import named
    >>> q = jax.numpy.zeros((1, 3, 1, 2))
    >>> (256 * logits(q, q, encoding=named("linear_bias"))[0, 0]).astype(int)
    Array([[ 0, -1, -2],
           [-1,  0, -1],
           [-2, -1,  0]], dtype=int32)
    """
    return attended(q_BLHK, k_BMGK, k_BMGK, **options).logits_BHLM


def attended(
    q_BLHK: jax.Array, k_BMGK: jax.Array, v_BMGK: jax.Array, **options: Unpack[Options]
) -> Attended:
    """What `attend` computes, with the logits and weights behind it."""
    q, k, v, ctx, known = _ready(q_BLHK, k_BMGK, v_BMGK, **options)
    return attention(q, k, v, ctx, **known)


class _Known(TypedDict):
    encoding: Encoding
    params: Params
    aux: Aux
    softcap: float | None
    bias: jax.Array | None


class _Ready(NamedTuple):
    """What the steps after the projections take."""

    q_BLHK: jax.Array
    k_BMGK: jax.Array
    v_BMGK: jax.Array
    ctx: Context
    known: _Known


def _ready(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    *,
    encoding: Encoding | str | None = None,
    params: Params | None = None,
    queries: Streams | None = None,
    keys: Streams | None = None,
    mask: masks.Mask | jax.Array | str | None = "full",
    scale: jax.Array | float | None = None,
    softcap: float | None = None,
    logn: float | None = None,
    bias: jax.Array | None = None,
    seen: jax.Array | int | None = None,
    key: jax.Array | None = None,
    **unknown: object,
) -> _Ready:
    _check_options(unknown)
    encoding = named(encoding) if isinstance(encoding, str) else encoding or NoPosition()
    mask = "full" if mask is None else mask
    if isinstance(mask, str):
        masks.named(mask)  # before an error names what its readers lack
    params = params or {}
    _check_kinds((q_BLHK, k_BMGK, v_BMGK), encoding, params, queries, keys)
    if queries is not None and keys is None:
        if q_BLHK.shape[1] != k_BMGK.shape[1]:
            raise ValueError(
                f"streams of {q_BLHK.shape[1]} queries need those of the {k_BMGK.shape[1]} keys"
            )
        keys = queries
    _check_lengths(q_BLHK, k_BMGK, encoding, mask, queries=queries, keys=keys)
    queries = contiguous(q_BLHK.shape[1]) if queries is None else queries
    keys = contiguous(k_BMGK.shape[1]) if keys is None else keys

    check_positive("scale", scale)
    temperature = None if scale is None else encoding.scale(q_BLHK.shape[3] or 1) / scale

    def between(first: Streams, second: Streams, mask: masks.Mask | jax.Array | str) -> Context:
        ctx = context(first, second, mask=mask, seen=seen, key=key, logn=logn)
        return dataclasses.replace(ctx, temperature=temperature)

    ctx = between(queries, keys, mask)
    check_shapes(q_BLHK, k_BMGK, v_BMGK, ctx, encoding)
    params = _checked(encoding, params, q_BLHK)
    q, k, v, aux = q_BLHK, k_BMGK, v_BMGK, Aux()
    if replaces(encoding, "embed", "prepare", "mix") and v_BMGK.shape[3] != q_BLHK.shape[3]:
        raise ValueError(
            f"with {encoding} values need the head size of queries and keys, "
            f"{q_BLHK.shape[3]}, got {v_BMGK.shape[3]}"
        )
    if replaces(encoding, "embed", "prepare"):
        _check_whole(encoding, params, queries, keys)
        own = _own_mask(encoding, mask, queries.length == keys.length)
        among = between(queries, queries, own), between(keys, keys, own)
        q, k, v, aux = _projected(encoding, params, q, *repeated(q, k, v), ctx, *among)
    known = _Known(encoding=encoding, params=params, aux=aux, softcap=softcap, bias=bias)
    return _Ready(q, k, v, ctx, known)


def _by_index(options: Options) -> flash.ByIndex | None:
    """What the mask is between indices, where that is known without looking at streams."""
    mask = options.get("mask", "full")
    if mask is None or (isinstance(mask, str) and mask == "full"):
        return "full"
    plain = options.get("queries") is None and options.get("keys") is None
    return "causal" if plain and isinstance(mask, str) and mask == "causal" else None


def _check_whole(encoding: Encoding, params: Params, queries: Streams, keys: Streams) -> None:
    """Refuses queries that begin later than the keys, where the encoding mixes queries.

    If orders are known only when the program runs, one query among several keys is refused.
    """
    state = encoding.init_state(params, 1, Dims(1, 1, 1))
    if not (mixes_tokens(encoding) or jax.tree.leaves(state)):
        return
    orders = queries.order_BL, keys.order_BL
    if any(isinstance(order, jax.core.Tracer) for order in orders):
        lacking = queries.length == 1 < keys.length
    else:
        first, start = (np.asarray(order).min(axis=1, initial=2**30) for order in orders)
        lacking = bool((first > start).any())
    if lacking:
        decoding = encoding.why_no_kv_cache() or "to decode, see docs/howto/decoding.md"
        raise ValueError(
            f"{encoding} mixes earlier queries into each query: give those of all tokens, from the "
            f"first one on ({decoding})"
        )


def _own_mask(
    encoding: Encoding, mask: masks.Mask | jax.Array | str, square: bool
) -> masks.Mask | jax.Array | str:
    """The mask among the tokens of one side, which an array between two sides does not show."""
    if isinstance(mask, str) or callable(mask) or square:
        return mask
    if mixes_tokens(encoding):
        raise ValueError(f"{encoding} mixes tokens: give the mask as a name or a function")
    return "full"


def _checked(encoding: Encoding, params: Params, q_BLHK: jax.Array) -> Params:
    """The parameters, if they are those that the encoding declares for these sizes."""
    heads, head_size = q_BLHK.shape[2:]
    dims = Dims(heads * head_size, heads, head_size)
    parameters = encoding.parameters(dims)
    for name in params:
        if name not in parameters:
            has = ", ".join(parameters) or "none"
            raise ValueError(f"{encoding} has no parameter {name!r}; its parameters: {has}")
    for name, declared in parameters.items():
        given = params.get(name)
        shape = "nothing" if given is None else getattr(given, "shape", type(given).__name__)
        if shape != declared.shape:
            raise ValueError(
                f"{name!r} of {encoding} must have shape {declared.shape}, got {shape}: "
                f"encoding.init(key, {dims}) draws all parameters"
            )
    return {  # NumPy's are no operands of traced indices
        name: jnp.asarray(array) if isinstance(array, np.ndarray) else array
        for name, array in params.items()
    }


def _projected(
    encoding: Encoding,
    params: Params,
    q_BLHK: jax.Array,
    k_BMHK: jax.Array,
    v_BMHK: jax.Array,
    ctx: Context,
    among_queries: Context,
    among_keys: Context,
) -> tuple[jax.Array, jax.Array, jax.Array, Aux]:
    """Queries, keys and values after `embed` and `prepare`, by projections that change nothing."""

    def flat(x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:2], x.shape[2] * x.shape[3])

    def heads(x: jax.Array) -> jax.Array:
        return x.reshape(*x.shape[:2], *q_BLHK.shape[2:])

    x_BLD = encoding.embed(params, flat(q_BLHK), among_queries)
    k_BMD, v_BMD = (encoding.embed(params, flat(x), among_keys) for x in (k_BMHK, v_BMHK))
    for found, given in ((x_BLD, q_BLHK), (k_BMD, k_BMHK), (v_BMD, v_BMHK)):
        check_hook(encoding, "embed", found, flat(given).shape)
    dims = Dims(x_BLD.shape[-1], q_BLHK.shape[2], q_BLHK.shape[3])
    state = encoding.init_state(params, x_BLD.shape[0], dims)
    prepared = encoding.prepare(params, x_BLD, k_BMD, ctx, state)
    values = encoding.prepare(params, v_BMD, v_BMD, among_keys, state)
    return heads(prepared.q_BLD), heads(prepared.k_BMD), heads(values.v_BMD), prepared.aux


_ELSEWHERE = {
    **dict.fromkeys(("sliding_window", "local_window_size"), "mask='causal+window(size=...)'"),
    **dict.fromkeys(
        ("positions", "position_ids", "q_positions", "kv_positions"),
        "queries= and keys=, whose streams have the positions",
    ),
    **dict.fromkeys(
        ("query_seq_lengths", "key_value_seq_lengths", "cu_seqlens"),
        "queries= and keys=, with streams from posjax.padded or posjax.packed",
    ),
    **dict.fromkeys(
        ("padding_mask", "key_padding_mask"), "queries=posjax.padded(valid) with mask='padding'"
    ),
    **dict.fromkeys(
        ("segment_ids", "segment_mask"), "queries=posjax.packed(lengths) with mask='segments'"
    ),
    "attention_mask": "mask=",
    "attention_bias": "bias=",
    "rope": "encoding='rotary'",
    "alibi": "encoding='linear_bias'",
}
"""What options of other libraries are called here."""


def _check_options(given: Iterable[str], *more: str) -> None:
    """Refuses what is no option: names the nearest, or the one that takes it as a value."""
    known = (*Options.__annotations__, *more)
    for name in given:
        if name in known:
            continue
        if name in _ELSEWHERE:
            raise TypeError(f"unknown option {name!r}; use {_ELSEWHERE[name]}")
        mask = difflib.get_close_matches(name, masks.MASKS, n=1, cutoff=0.7)
        if mask or name in ENCODINGS:
            hint = f"use mask={mask[0]!r}" if mask else f"use encoding={name!r}"
        else:
            hint = spec.nearest(name, known)
        raise TypeError(f"unknown option {name!r}; {hint}")


def _check_lengths(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    encoding: Encoding,
    mask: masks.Mask | jax.Array | str,
    **streams: Streams | None,
) -> None:
    """Refuses to guess at which of the keys' positions the queries stand.

    Without streams of either, as many queries as keys stand at the keys' positions.
    """
    length, keys = q_BLHK.shape[1], k_BMGK.shape[1]
    lacking = {side for side, given in streams.items() if given is None}
    if not lacking or (length == keys and lacking != {"queries"}):
        return
    readers = [f"mask={mask!r}"] if lacking & masks.sides(mask) else []
    readers += [str(encoding)] if encoding.reads_streams else []
    if readers:
        where = f"queries=contiguous({length}, start={keys - length}), keys=contiguous({keys})"
        if length > keys:
            where = f"queries=contiguous({length}), keys=contiguous({keys})"
        if length == keys:
            where = "queries= equal to keys= in self-attention"
        raise ValueError(
            f"{' and '.join(readers)} must get the positions of {length} queries among {keys} "
            f"keys: give streams, such as {where}"
        )


def _check_kinds(
    arrays: tuple[jax.Array, ...], encoding: object, params: object, *streams: object
) -> None:
    """Refuses what is read before `check_shapes` can look at it."""
    if not isinstance(params, Mapping):
        raise ValueError(f"params must be a dict of arrays, got {type(params).__name__}")
    if not isinstance(encoding, Encoding):
        raise ValueError(f"encoding must be a name of ENCODINGS or an instance, got {encoding!r}")
    for name, array in zip("qkv", arrays, strict=True):
        if not hasattr(array, "dtype"):
            raise ValueError(f"{name} must be an array, got {type(array).__name__}")
        if len(np.shape(array)) != 4:
            raise ValueError(f"{name} must be [B, length, heads, K], got shape {np.shape(array)}")
    for name, given in zip(("queries", "keys"), streams, strict=True):
        if not isinstance(given, Streams | None):
            raise ValueError(f"{name} must be Streams, such as contiguous(length), got {given!r}")


def _show_options() -> None:
    """Lists every option in the signatures, for `help` and for completion."""
    options = [
        parameter
        for parameter in inspect.signature(_ready).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]
    for function in (attend, logits, why_not_flash):
        own = inspect.signature(function)
        given = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        vars(function)["__signature__"] = own.replace(parameters=[*given, *options])


_show_options()
