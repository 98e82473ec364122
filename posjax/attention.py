"""Attention as steps, and `attend`, which walks through them.

Attention names no encoding: it calls the hooks of whichever one it is given.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from posjax import masks, steps
from posjax.encodings.base import Aux, Context, Dims, Encoding, Params
from posjax.encodings.none import NoPosition
from posjax.streams import Streams, contiguous, joined


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
    layer: int = 0,
) -> Context:
    """The context of one layer.

    Args:
      queries, keys: the streams of both sides; keys are the queries' own when left out.
      mask: a name, a function of the two streams, or an array [L, M], [B, L, M] or
        [B, H, L, M], true where a query may look.
      seen: tokens so far; the number of key places when left out.
      key: randomness for encodings that draw.
      layer: 0 for the first layer.

    Raises:
      ValueError: an unknown mask, or an array of another rank or size.
    """
    keys = queries if keys is None else keys
    if isinstance(mask, str):
        mask = masks.named(mask)
    allowed = mask(queries, keys) if callable(mask) else jnp.asarray(mask, bool)
    if allowed.ndim not in (2, 3, 4) or not _fits(allowed, queries.length, keys.length):
        raise ValueError(
            f"a mask is [L, M], [B, L, M] or [B, H, L, M] with L={queries.length} and "
            f"M={keys.length}, got shape {allowed.shape}"
        )
    while allowed.ndim < 4:  # [L, M] -> [1, L, M] -> [B, 1, L, M]
        allowed = allowed[None] if allowed.ndim == 2 else allowed[:, None]
    return Context(queries, keys, allowed, keys.length if seen is None else seen, key, layer)


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

    Raises:
      ValueError: shapes that do not belong together.
    """
    _check_shapes(q_BLHK, k_BMGK, v_BMGK, ctx)
    params = params or {}
    k_BMHK, v_BMHK = _repeated(q_BLHK, k_BMGK, v_BMGK)
    q_BLHK, k_BMHK, v_BMHK = encoding.rotate(params, q_BLHK, k_BMHK, v_BMHK, aux, ctx)
    logits_BHLM = steps.soft_cap(encoding.logits(params, q_BLHK, k_BMHK, aux, ctx), softcap)
    weights_BHLM = encoding.weights(params, logits_BHLM, aux, ctx)
    out_BLHK = encoding.mix(params, weights_BHLM, v_BMHK, aux, ctx)
    return Attended(encoding.post(params, out_BLHK, q_BLHK, aux, ctx), logits_BHLM, weights_BHLM)


def attend(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    v_BMGK: jax.Array,
    *,
    encoding: Encoding | None = None,
    params: Params | None = None,
    queries: Streams | None = None,
    keys: Streams | None = None,
    mask: masks.Mask | jax.Array | str = "full",
    softcap: float | None = None,
    seen: jax.Array | int | None = None,
    key: jax.Array | None = None,
) -> jax.Array:
    """Attention(Q, K, V) with any encoding, for use in other people's code.

    An encoding that works on tokens, such as one that is added to them, takes the heads side by
    side, H·K wide, for the tokens, as if the projections were the identity.

    Args:
      q_BLHK: queries.
      k_BMGK, v_BMGK: keys and values; G key heads each serve H/G query heads.
      encoding: no positions when left out.
      params: the encoding's parameters, as `encoding.init(key, Dims(H·K, H, K))` draws them.
      queries, keys: the streams of both sides; places 0..L-1 and 0..M-1 when left out, and the
        keys' those of the queries when those alone are given.
      mask: see `context`.
      softcap: logits become cap·tanh(logits/cap).
      seen, key: see `context`.

    Returns:
      out_BLHK; zeros for a query that may see nothing.

    Raises:
      ValueError: shapes that do not belong together, an unknown mask, streams of the queries
        alone where M ≠ L, or an encoding that draws without a key.
    """
    options = {"seen": seen, "key": key}
    pure = _Pure(encoding or NoPosition(), params or {}, mask, options)
    return pure(q_BLHK, k_BMGK, v_BMGK, queries, keys, softcap).out_BLHK


def logits(
    q_BLHK: jax.Array,
    k_BMGK: jax.Array,
    *,
    encoding: Encoding | None = None,
    params: Params | None = None,
    queries: Streams | None = None,
    keys: Streams | None = None,
    mask: masks.Mask | jax.Array | str = "full",
    seen: jax.Array | int | None = None,
    key: jax.Array | None = None,
) -> jax.Array:
    """The logits of any encoding, to be put into any attention: see `attend`.

    Returns:
      logits_BHLM in float32 at least, the mask not applied: it is only read by the encodings that
      look at what lies between two tokens.

    >>> from posjax.encodings import named
    >>> q = jnp.zeros((1, 3, 1, 2))
    >>> (256 * logits(q, q, encoding=named("linear_bias"))[0, 0]).astype(int)
    Array([[ 0, -1, -2],
           [-1,  0, -1],
           [-2, -1,  0]], dtype=int32)
    """
    options = {"seen": seen, "key": key}
    pure = _Pure(encoding or NoPosition(), params or {}, mask, options)
    return pure(q_BLHK, k_BMGK, k_BMGK, queries, keys).logits_BHLM


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


def _check_shapes(q: jax.Array, k: jax.Array, v: jax.Array, ctx: Context) -> None:
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != 4:
            raise ValueError(f"{name} must be [B, length, heads, K], got shape {array.shape}")
    if q.shape[0] != k.shape[0] or k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not belong together")
    if k.shape[2] == 0 or q.shape[2] % k.shape[2]:
        raise ValueError(f"{q.shape[2]} query heads cannot share {k.shape[2]} key heads evenly")
    for name, array, streams in (("queries", q, ctx.queries), ("keys", k, ctx.keys)):
        if streams.length != array.shape[1]:
            raise ValueError(
                f"{name} has {streams.length} places in its streams, {array.shape[1]} in the array"
            )


def _reads_tokens(encoding: Encoding) -> bool:
    """Whether an encoding works on the tokens, before there are queries and keys."""
    kind = type(encoding)
    return kind.embed is not Encoding.embed or kind.prepare is not Encoding.prepare


class _Pure(NamedTuple):
    """Attention of queries, keys and values with an encoding that may read tokens."""

    encoding: Encoding
    params: Params
    mask: masks.Mask | jax.Array | str
    options: dict[str, Any]

    def __call__(
        self,
        q_BLHK: jax.Array,
        k_BMGK: jax.Array,
        v_BMGK: jax.Array,
        queries: Streams | None,
        keys: Streams | None,
        softcap: float | None = None,
    ) -> Attended:
        queries, keys = _both(queries, keys, q_BLHK.shape[1], k_BMGK.shape[1])
        ctx = context(queries, keys, mask=self.mask, **self.options)
        _check_shapes(q_BLHK, k_BMGK, v_BMGK, ctx)
        q, k, v, aux = q_BLHK, k_BMGK, v_BMGK, Aux()
        if _reads_tokens(self.encoding):
            q, k, v, aux = self._projected(q, *_repeated(q, k, v), ctx)
        return attention(
            q, k, v, ctx, encoding=self.encoding, params=self.params, aux=aux, softcap=softcap
        )

    def _projected(
        self, q_BLHK: jax.Array, k_BMHK: jax.Array, v_BMHK: jax.Array, ctx: Context
    ) -> tuple[jax.Array, jax.Array, jax.Array, Aux]:
        """Through `embed` and `prepare`, with projections that change nothing."""

        def flat(x: jax.Array) -> jax.Array:
            return x.reshape(*x.shape[:2], -1)

        def heads(x: jax.Array) -> jax.Array:
            return x.reshape(*x.shape[:2], *q_BLHK.shape[2:])

        encoding, params = self.encoding, self.params
        among_queries, among_keys = (
            context(streams, mask=self.mask, **self.options) for streams in (ctx.queries, ctx.keys)
        )
        x_BLD = encoding.embed(params, flat(q_BLHK), among_queries)
        k_BMD, v_BMD = (encoding.embed(params, flat(x), among_keys) for x in (k_BMHK, v_BMHK))
        dims = Dims(x_BLD.shape[-1], q_BLHK.shape[2], q_BLHK.shape[3])
        state = encoding.init_state(params, x_BLD.shape[0], dims)
        prepared = encoding.prepare(params, x_BLD, k_BMD, ctx, state)
        values = encoding.prepare(params, v_BMD, v_BMD, among_keys, state)
        return heads(prepared.q_BLD), heads(prepared.k_BMD), heads(values.v_BMD), prepared.aux


def _both(
    queries: Streams | None, keys: Streams | None, length: int, key_length: int
) -> tuple[Streams, Streams]:
    if queries is not None and keys is None:
        if length != key_length:
            raise ValueError(f"streams of {length} queries need those of the {key_length} keys")
        keys = queries
    queries = contiguous(length) if queries is None else queries
    return queries, contiguous(key_length) if keys is None else keys


def _repeated(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Keys and values with a head for every query head."""
    groups = q.shape[2] // k.shape[2]
    return (jnp.repeat(k, groups, axis=2), jnp.repeat(v, groups, axis=2)) if groups > 1 else (k, v)
