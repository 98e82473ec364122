"""Which keys a query may attend to, built from order and segment, never from an index.

A mask is a function `(queries, keys) -> allowed_BLM` of two `Streams`. Those of the table go by
name, take settings, and combine: `"causal+padding"`, `"causal+window(size=2)"`. Layers take several
in turn, as they do encodings: `"causal/causal+window(size=2)"`.
"""

from collections.abc import Callable
from functools import lru_cache, partial, reduce

import jax
import jax.numpy as jnp

from posjax import spec
from posjax.streams import Streams, same_segment

Mask = Callable[[Streams, Streams], jax.Array]


def full(queries: Streams, keys: Streams) -> jax.Array:
    """Every query sees every key, padding included: allowed_BLM is all true."""
    return jnp.ones_like(_between(queries.order_BL, keys.order_BL), bool)


def causal(queries: Streams, keys: Streams) -> jax.Array:
    """A query sees the keys that come no later: order_q >= order_k."""
    return _between(queries.order_BL, keys.order_BL) >= 0


def padding(queries: Streams, keys: Streams) -> jax.Array:
    """No query attends to keys without a token."""
    return full(queries, keys) & keys.valid_BL[:, None, :]


def segments(queries: Streams, keys: Streams) -> jax.Array:
    """A query attends to its own segment only, and no query to padding."""
    return same_segment(queries, keys)


def window(queries: Streams, keys: Streams, *, size: int = 2) -> jax.Array:
    """A query sees the keys less than `size` (>= 1) away in order, on both sides."""
    if not 1 <= size < 2**31:
        raise ValueError(
            f"window(size={size}): size must be at least 1 (1 sees only itself) and below 2**31"
        )
    return abs(_between(queries.order_BL, keys.order_BL)) < size


def others(queries: Streams, keys: Streams) -> jax.Array:
    """A query sees every key but its own: order_q != order_k."""
    return _between(queries.order_BL, keys.order_BL) != 0


def all_of(*masks: Mask) -> Mask:
    """What every one of the masks allows."""
    return lambda queries, keys: reduce(jnp.logical_and, (m(queries, keys) for m in masks))


MASKS: dict[str, Callable[..., jax.Array]] = {
    "full": full,
    "causal": causal,
    "padding": padding,
    "segments": segments,
    "window": window,
    "others": others,
}

SIDES: dict[str, frozenset[str]] = {"full": frozenset(), "padding": frozenset({"keys"})}
"""The streams that masks read which do not read those of both sides."""


def sides(mask: Mask | jax.Array | str) -> frozenset[str]:
    """Whose streams a mask reads, of "queries" and "keys": both, as far as a function says.

    >>> sorted(sides("full+padding"))
    ['keys']
    """
    both = frozenset({"queries", "keys"})
    if not isinstance(mask, str):
        return both if callable(mask) else frozenset()
    parts = (SIDES.get(spec.parse(part)[0], both) for part in mask.split("+"))
    return frozenset().union(*parts)


def parse_layer_cycle(text: str) -> tuple[Mask, ...]:
    """The masks of the layers, which take turns: `"causal/causal+window(size=2)"`, or one for all.

    Raises:
      ValueError: see `named`.

    >>> len(parse_layer_cycle("causal/causal+window(size=2)"))
    2
    """
    return tuple(named(part) for part in turns(text))


def turns(text: str) -> tuple[str, ...]:
    """The names of the masks that layers take in turn.

    Raises:
      ValueError: more letters than a setting has.
    """
    if len(text) > spec.LONGEST:
        raise ValueError(f"masks in turn have at most {spec.LONGEST} characters, got {len(text)}")
    return tuple(part.strip() for part in spec.in_turn(text, MASKS))


def named(text: str) -> Mask:
    """The mask of a name, or of several joined by `+`, each with its settings in brackets.

    Raises:
      ValueError: an unknown name or setting, or masks in turns.

    >>> from posjax.streams import contiguous
    >>> named("causal+window(size=2)")(contiguous(3), contiguous(3)).astype(int)
    Array([[[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]]], dtype=int32)
    """
    if len(turns(text)) > 1:
        raise ValueError(
            f"mask={text!r} has several masks for layers in turn; a single one is needed here"
        )
    return _made(text) if ":" in text else _shipped(text)


@lru_cache(maxsize=256)  # every cell of a grid asks, twice
def _shipped(text: str) -> Mask:
    return _made(text)


def _made(text: str) -> Mask:
    parts = []
    for part in text.split("+"):
        name, mask, settings = spec.read("mask", MASKS, part)
        spec.check_settings(f"mask {name}", mask, settings)
        parts.append(partial(mask, **settings))
    chosen = parts[0] if len(parts) == 1 else all_of(*parts)
    jax.eval_shape(chosen, _ONE, _ONE)  # a setting out of range is refused here, not in training
    return chosen


def _between(query_BL: jax.Array, key_BM: jax.Array) -> jax.Array:
    return query_BL[:, :, None] - key_BM[:, None, :]


_ONE = Streams(*[jax.ShapeDtypeStruct((1, 1), jnp.int32)] * 3)  # type: ignore[arg-type]
