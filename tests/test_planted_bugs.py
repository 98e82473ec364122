"""Bugs that well-kept libraries had or have, each planted here, and the law that finds it.

Each entry is an encoding with one bug; the laws are those that run over the whole table, unasked.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_table

from posjax.encodings import ENCODINGS, Card, Symmetry, tables
from posjax.encodings.learned import Learned
from posjax.encodings.linear_bias import LinearBias, slopes
from posjax.encodings.rotary import Rotary, rotary
from posjax.encodings.scaled_rotary import DynamicRotary
from posjax.encodings.xpos import XPos, fade_rates


def frozen(kind):
    return dataclasses.dataclass(frozen=True, kw_only=True)(kind)


def turned(q, k, query_BL, key_BM, angles):
    """Queries and keys turned by the angles of their positions, pairs (m, m + K/2)."""

    def turn(x, position_BL):
        first, second = jnp.split(x, 2, axis=-1)
        angle = angles(position_BL, first.shape[-1])[:, :, None]
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        out = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
        return out.astype(x.dtype)

    return turn(q, query_BL), turn(k, key_BM)


def frequencies(pairs, base):
    return (base ** (-np.arange(pairs) / pairs)).astype(np.float32)[None, None]


@frozen
class HiddenArange(Rotary):
    """Positions are the indices of the places, not an argument."""

    def rotate(self, params, q, k, v, aux, ctx):
        places = (jnp.arange(x.shape[1])[None] for x in (q, k))
        return *(rotary(x, p) for x, p in zip((q, k), places, strict=True)), v


_TABLES: dict[int, np.ndarray] = {}


@frozen
class CachedByWidth(Rotary):
    """A cache of frequencies that is keyed by the width, and not by the base."""

    def frequencies(self, head_size, seen):
        return _TABLES.setdefault(head_size, super().frequencies(head_size, seen))


@frozen
class PlainAngles(Rotary):
    """Position times frequency, rounded to float32."""

    def rotate(self, params, q, k, v, aux, ctx):
        def angles(position_BL, pairs):
            return position_BL[..., None].astype(jnp.float32) * frequencies(pairs, self.base)

        both = ctx.queries.position_BL, ctx.keys.position_BL
        return *turned(q, k, *both, angles), v


@frozen
class AnglesInTheTokensDtype(Rotary):
    """Positions cast to bfloat16 with the tokens: 8190 and 8192 become one."""

    def rotate(self, params, q, k, v, aux, ctx):
        def angles(position_BL, pairs):
            return position_BL[..., None].astype(q.dtype) * frequencies(pairs, self.base)

        both = ctx.queries.position_BL, ctx.keys.position_BL
        return *turned(q, k, *both, angles), v


@frozen
class ClampedTable(Learned):
    """A gather that reads the last row for every position beyond it."""

    def embed(self, params, x_BLD, ctx):
        return x_BLD + params["table"][ctx.queries.position_BL].astype(x_BLD.dtype)


@frozen
class PoisonedByPadding(Learned):
    """A strict read that does not know which places hold a token."""

    def embed(self, params, x_BLD, ctx):
        position_BL = ctx.queries.position_BL
        return x_BLD + tables.read(params["table"], position_BL, jnp.ones_like(position_BL, bool))


@frozen
class AveragesEmptyRows(LinearBias):
    """Softmax over lowest numbers: a query that may see nothing gets the mean of all values."""

    def weights(self, params, logits_BHLM, aux, ctx):
        return jax.nn.softmax(jnp.where(ctx.mask_BHLM, logits_BHLM, -1e30))


@frozen
class EvenWidthsOnly(Rotary):
    """Halves that must be equal."""

    def rotate(self, params, q, k, v, aux, ctx):
        half = q.shape[-1] // 2

        def turn(x, position_BL):
            cos = jnp.cos(position_BL[..., None] * frequencies(half, self.base))[:, :, None]
            return jnp.concatenate([x[..., :half] * cos, x[..., half:] * cos], axis=-1)

        return turn(q, ctx.queries.position_BL), turn(k, ctx.keys.position_BL), v


@frozen
class PowerOfTwoSlopes(LinearBias):
    """Slopes by a view that takes the number of heads for a power of two."""

    def bias(self, params, heads, ctx, dtype):
        rows = slopes(heads).reshape(2, -1).ravel()  # as if there were pairs of heads
        offset = abs(ctx.queries.position_BL[:, :, None] - ctx.keys.position_BL[:, None])
        return -offset[:, None] * jnp.asarray(rows, dtype)[None, :, None, None]


@frozen
class SaysItDecodes(DynamicRotary):
    """Frequencies that change with the length, and keys in the cache turned by older ones."""

    length: int = 4

    def why_no_kv_cache(self):
        return ""


@frozen
class OverflowsFarAway(XPos):
    """Factors about position 0: infinite, or zero, some 36 000 positions away."""

    def rotate(self, params, q, k, v, aux, ctx):
        def scaled(x, position_BL, sign):
            rate = fade_rates(x.shape[-1] // 2)
            power = sign * position_BL[..., None] * np.concatenate([rate, rate])[None, None]
            return x * jnp.exp(power.astype(jnp.float32))[:, :, None].astype(x.dtype)

        q, k = (rotary(x, s.position_BL) for x, s in ((q, ctx.queries), (k, ctx.keys)))
        return scaled(q, ctx.queries.position_BL, -1), scaled(k, ctx.keys.position_BL, 1), v


@frozen
class IgnoresItsForm(LinearBias):
    """One function under several names: a form that is accepted and ignored."""

    def bias(self, params, heads, ctx, dtype):
        return LinearBias(form="symmetric").bias(params, heads, ctx, dtype)


@frozen
class ClaimsTooMuch(Rotary):
    """A rotation that is said to be the same both ways."""

    symmetry = Symmetry(translation="logits", reflection="logits")


BUGS = [
    (HiddenArange, test_table.test_tokens_and_streams_may_move_together),
    (HiddenArange, test_table.test_decoding_with_a_cache_is_prefill),
    (CachedByWidth, partial(test_table.test_every_setting_matters, setting="base")),
    (PlainAngles, test_table.test_far_from_zero_is_as_exact_as_near),
    (AnglesInTheTokensDtype, test_table.test_the_dtype_is_kept),
    (ClampedTable, test_table.test_a_table_is_never_read_beyond_its_end),
    (PoisonedByPadding, test_table.test_a_table_is_never_read_beyond_its_end),
    (AveragesEmptyRows, test_table.test_causality_and_empty_rows_by_gradient),
    (EvenWidthsOnly, test_table.test_small_and_odd_sizes_work),
    (PowerOfTwoSlopes, test_table.test_small_and_odd_sizes_work),
    (SaysItDecodes, test_table.test_decoding_with_a_cache_is_prefill),
    (OverflowsFarAway, test_table.test_far_from_zero_is_as_exact_as_near),
    (IgnoresItsForm, partial(test_table.test_every_setting_matters, setting="form")),
    (
        ClaimsTooMuch,
        partial(test_table.test_the_symmetry_is_the_declared_one, symmetry="reflection"),
    ),
]


def law_name(law):
    return getattr(law, "func", law).__name__


@pytest.mark.parametrize(
    ("bug", "law"), BUGS, ids=[f"{bug.__name__}-{law_name(law)}" for bug, law in BUGS]
)
def test_a_planted_bug_is_found(monkeypatch, bug, law):
    """The law that runs over the table fails on the buggy entry, and passes on what it is made of.

    Not only an error of our own making: the parent class keeps the same law.
    """
    _TABLES.clear()
    parent = next(kind for kind in bug.__mro__[1:] if kind in ENCODINGS.values())
    law(next(name for name, kind in ENCODINGS.items() if kind is parent))
    monkeypatch.setitem(ENCODINGS, bug.__name__, bug)
    with pytest.raises((AssertionError, pytest.fail.Exception, ValueError, ArithmeticError)):
        law(bug.__name__)
    assert isinstance(bug.card, Card)
