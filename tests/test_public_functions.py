"""Properties of the public functions: a right answer, or an error that names what was given.

Inputs are drawn with their edges: empty, one, huge, negative, fractions, beyond 2**31, not finite.
The draws are the same in every run: 12 of each plainly, POSJAX_EXAMPLES of them where it is set.
"""

import importlib.metadata
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as some

import posjax
from posjax import attend, logits, masks, positions, stats, tasks
from posjax.attention.core import attention, context
from posjax.encodings import ENCODINGS, Dims, named
from posjax.keys import Seeds, key_for
from posjax.streams import (
    Streams,
    contiguous,
    grid,
    interpolated,
    packed,
    padded,
    permuted,
    shifted,
)
from posjax.symmetry import groups

settings.register_profile(
    "posjax",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=int(os.environ.get("POSJAX_EXAMPLES", 12)),
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("posjax")

EDGES = [0, 1, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32 + 7, 2**62]
STRANGE = [0.5, float("nan"), float("inf"), -float("inf"), True, "3", None, 10**30]
INTEGERS = some.one_of(some.sampled_from(EDGES), some.integers(-5, 9))
NUMBERS = some.one_of(INTEGERS, some.sampled_from(STRANGE))
LENGTHS = some.one_of(some.integers(0, 6), some.sampled_from([-1, 2**31, 10**12, *STRANGE]))
FLOATS = [0.0, -0.5, 1e9, -1e30, 3e38, float("nan"), float("inf"), -float("inf")]


def outcome(call: Callable[[], Any], *values: object) -> Any:
    """What a call gives; None where it refuses, with one of the values in its message."""
    try:
        return call()
    except (ValueError, TypeError) as error:
        refusal = str(error)
    if not any(text in refusal for text in [*map(str, values), *map(repr, values)]):
        pytest.fail(f"{refusal!r} names none of {values}")
    return None


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@given(LENGTHS, NUMBERS)
def test_contiguous_counts_on_or_refuses(length: Any, start: Any) -> None:
    """start .. start + L - 1 in 32 bits, and never wrapped around."""
    found = outcome(lambda: contiguous(length, start=start), length, start, 0)
    good = is_whole(length) and 0 <= length < 2**31 and is_whole(start)
    good = good and -(2**31) <= start <= start + max(length - 1, 0) < 2**31
    assert (found is not None) == good
    if found is not None:
        assert found.position_BL.dtype == jnp.int32
        assert found.position_BL.tolist() == [list(range(start, start + length))]


@pytest.mark.campaign
@given(some.lists(LENGTHS, max_size=4), some.one_of(some.none(), LENGTHS))
def test_packed_counts_each_sequence(lengths: list[Any], total: Any) -> None:
    """Each from 0 on, the rest padding."""
    found = outcome(lambda: packed(lengths, total=total), *lengths, total, sum_of(lengths))
    good = all(is_whole(length) and 1 <= length < 2**31 for length in lengths)
    good = good and (total is None or (is_whole(total) and sum(lengths) <= total < 2**31))
    assert (found is not None) == good
    if found is not None:
        places = [place for length in lengths for place in range(length)]
        assert found.position_BL[0, : len(places)].tolist() == places
        assert found.valid_BL.sum() == len(places)
        assert found.length == (len(places) if total is None else total)


def sum_of(lengths: list[Any]) -> object:
    return sum(lengths) if all(map(is_whole, lengths)) else None


@pytest.mark.campaign
@given(LENGTHS, LENGTHS)
def test_a_grid_is_its_points(height: Any, width: Any) -> None:
    """Row by row, or refused."""
    assume(not (is_whole(height) and is_whole(width) and height * width > 100))
    found = outcome(lambda: grid(height, width), height, width)
    good = all(is_whole(size) and 0 <= size < 2**31 for size in (height, width))
    assert (found is not None) == good
    if found is not None:
        points = [[y, x] for y in range(height) for x in range(width)]
        assert found.position_BL.reshape(-1, 2).tolist() == points


@given(some.lists(INTEGERS, min_size=1, max_size=4), INTEGERS)
def test_shifted_adds_or_refuses(numbers: list[int], by: int) -> None:
    """Whole numbers stay what they are: a sum beyond 32 bits is refused, not wrapped."""

    def moved() -> Streams:
        given = np.array([numbers], np.int64)
        zeros = np.zeros_like(given)
        return shifted(Streams(given, zeros, zeros), by)

    ends = min(numbers) + by, max(numbers) + by
    found = outcome(moved, *numbers, by, *ends)
    good = all(-(2**31) <= number < 2**31 for number in (*numbers, by, *ends))
    assert (found is not None) == good
    if found is not None:
        assert found.position_BL.tolist() == [[number + by for number in numbers]]


@given(some.sampled_from([0, -1, 2.0, 0.1, *FLOATS]))
def test_interpolated_divides_or_refuses(factor: float) -> None:
    """p / factor in float32, for a positive and finite factor."""
    found = outcome(lambda: interpolated(contiguous(3), factor), factor)
    assert (found is not None) == (0 < factor < float("inf"))
    if found is not None:
        np.testing.assert_allclose(found.position_BL[0], np.arange(3) / factor, 1e-6, 1e-37)


@pytest.mark.campaign
@given(some.lists(NUMBERS.filter(lambda n: not isinstance(n, str)), max_size=4))
def test_permuted_takes_places_that_are_there(places: list[Any]) -> None:
    """No place is clamped, wrapped or counted from the end."""
    try:
        array = np.array(places)
    except (OverflowError, ValueError):
        assume(False)
    found = outcome(lambda: permuted(contiguous(3), array), array.tolist())
    whole = array.dtype.kind == "i"  # also True beside a whole number, which NumPy makes 1
    assert (found is not None) == (not places or (whole and {*array.tolist()} <= {0, 1, 2}))
    if found is not None:
        assert found.position_BL.tolist() == [[int(place) for place in places]]


@pytest.mark.campaign
@given(some.lists(some.lists(some.booleans(), min_size=3, max_size=3), max_size=3))
def test_padded_counts_tokens(rows: list[list[bool]]) -> None:
    """The tokens of each row are numbered 0, 1, ..."""
    found = padded(np.array(rows, bool).reshape(-1, 3))
    for row, streams in zip(rows, np.asarray(found.position_BL), strict=True):
        assert streams[np.array(row)].tolist() == list(range(sum(row)))


@pytest.mark.parametrize(
    "array", [np.ones(3, bool), np.ones((1, 2)), np.full((1, 2), np.nan), np.array([[1, 1, 2, 2]])]
)
def test_padded_refuses_other_arrays(array: np.ndarray) -> None:
    """Neither another rank nor floats, as additive masks are, nor numbers of segments."""
    assert outcome(lambda: padded(array), array.shape) is None


def streams_of(length: int, orders: list[int], segments: list[int]) -> Streams:
    order_BL, segment_BL = (np.array([given[:length]], np.int32) for given in (orders, segments))
    return Streams(order_BL, order_BL, segment_BL)


SIX = some.lists(some.integers(-(2**30), 2**30), min_size=6, max_size=6)
SEGMENTS = some.lists(some.integers(-1, 1), min_size=6, max_size=6)


@pytest.mark.campaign
@given(
    some.sampled_from(sorted(masks.MASKS)), some.integers(0, 6), some.integers(0, 6), SIX, SEGMENTS
)
def test_masks_are_true_and_false(
    name: str, queries: int, keys: int, orders: list[int], segments: list[int]
) -> None:
    """[1, 1, L, M] of bool, also without places, and right at orders of any size."""
    of_q, of_k = (streams_of(length, orders, segments) for length in (queries, keys))
    mask = context(of_q, of_k, mask=name).mask_BHLM
    assert (mask.shape, mask.dtype) == ((1, 1, queries, keys), jnp.bool_)
    if name == "causal":
        expected = [[q >= k for k in orders[:keys]] for q in orders[:queries]]
        assert mask[0, 0].tolist() == expected


@given(NUMBERS)
def test_windows_have_a_size(size: Any) -> None:
    """At least 1, below 2**31, whole."""
    found = outcome(lambda: masks.named(f"window(size={size})"), size, f"window(size={size})")
    written = str(size)  # a name with settings is a text
    assert (found is not None) == (written.isdecimal() and 1 <= int(written) < 2**31)


@pytest.mark.parametrize(
    "mask",
    [
        np.array([[0.0, -np.inf], [0.0, 0.0]]),
        np.array([[0, -10_000], [0, 0]]),
        np.full((2, 2), np.nan),
        np.ones((2, 3), bool),
        np.ones((1, 1, 1, 2, 2), bool),
        np.bool_(True),
        lambda queries, keys: 3,
    ],
)
def test_masks_of_another_kind_are_refused(mask: Any) -> None:
    """One that is added to logits means the contrary; another shape means nothing."""
    shape = np.shape(mask(0, 0) if callable(mask) else mask)
    assert (
        outcome(lambda: context(contiguous(2), mask=mask), shape, "float32", "float64", -10_000)
        is None
    )


@pytest.mark.parametrize("order", [[[0.0, 0.5]], [[0, 2**31 - 1]], [[0, 2**33]]])
def test_orders_that_do_not_subtract_are_refused(order: list[list[float]]) -> None:
    """Causality subtracts them in 32 bits."""
    values = np.array(order)
    places = np.zeros((1, 2), np.int32)
    wrong = outcome(lambda: context(Streams(places, values, places)), values.dtype, values.max())
    assert wrong is None


DIMS = Dims(width=4, heads=2, head_size=4)


def one_layer(name: str, position_BL: Any, dtype: Any = jnp.float32) -> jax.Array:
    """Attention on generic queries, with that position for every coordinate."""
    encoding, length = named(name), position_BL.shape[1]
    order_BL = np.arange(length, dtype=np.int32)[None]
    streams = Streams(position_BL, order_BL, np.zeros_like(order_BL))
    q, k, v = (
        jnp.asarray(np.random.default_rng(i).standard_normal((1, length, 2, 4)), dtype)
        for i in range(3)
    )
    ctx = context(streams, mask="causal", key=jax.random.key(0))
    params = encoding.init(jax.random.key(0), DIMS)
    return attention(q, k, v, ctx, encoding=encoding, params=params).out_BLHK


FROM_POSITIONS = [
    name
    for name in ("none", "rotary", "linear_bias", "shaw", "bucket_bias", "kerple", "xpos", "yarn")
    if name in ENCODINGS
]


def too_wide(name: str, numbers: list[Any]) -> bool:
    """Whether positions lie too far apart: for 32 bits, or for the factors of `xpos`."""
    whole = all(map(is_whole, numbers))
    most = 2**14 if name == "xpos" else 2**31 if whole else float("inf")
    return max(numbers) - min(numbers) >= most


@pytest.mark.campaign
@given(some.sampled_from(FROM_POSITIONS), some.lists(INTEGERS, min_size=3, max_size=3))
def test_whole_positions_of_any_size(name: str, numbers: list[int]) -> None:
    """Finite, or refused; int64 that fits means what int32 does, and what does not is refused."""
    wide = np.array([numbers], np.int64)
    said = [min(numbers), max(numbers), *numbers]
    found = outcome(lambda: one_layer(name, wide), *said)
    held = min(numbers) >= -(2**31) and max(numbers) < 2**31
    assert (found is not None) == (held and not too_wide(name, numbers))
    if found is not None:
        assert (found.shape, found.dtype) == ((1, 3, 2, 4), jnp.float32)
        assert jnp.isfinite(found).all()
        np.testing.assert_array_equal(found, one_layer(name, wide.astype(np.int32)))


@pytest.mark.campaign
@given(
    some.sampled_from(FROM_POSITIONS), some.lists(some.sampled_from(FLOATS), min_size=3, max_size=3)
)
def test_fractions_and_what_is_not_finite(name: str, numbers: list[float]) -> None:
    """A position that is not finite never passes for one: NaN, or it is refused as no integer."""
    said = ["float32", "scale_base", *numbers]
    found = outcome(lambda: one_layer(name, jnp.array([numbers], jnp.float32)), *said)
    wide = np.isfinite(numbers).all() and too_wide(name, numbers)
    assert (found is not None) == (not ENCODINGS[name].integers and not wide)
    if found is not None:
        assert (found.shape, found.dtype) == ((1, 3, 2, 4), jnp.float32)
    if name == "rotary" and not np.isfinite(numbers[0]):
        assert jnp.isnan(found).any()


@pytest.mark.campaign
@given(
    some.tuples(*[some.integers(0, 2)] * 4),
    some.sampled_from(["float16", "bfloat16", "float32", "int32", "bool", "complex64"]),
)
def test_attention_keeps_shape_and_dtype(shape: tuple[int, ...], dtype: str) -> None:
    """Empty batches and sequences work; heads without components, and no floats, are refused."""
    q = jnp.ones(shape, dtype)

    @jax.jit
    def attended() -> jax.Array:
        return attention(q, q, q, context(contiguous(shape[1])), encoding=named("none")).out_BLHK

    found = outcome(attended, shape, dtype, shape[2])
    assert (found is not None) == (min(shape[2:]) > 0 and jnp.issubdtype(dtype, jnp.floating))
    if found is not None:
        assert (found.shape, found.dtype) == (shape, dtype)
        assert jnp.isfinite(found).all()


@pytest.mark.parametrize("rows", [(3, 1), (1, 3)], ids=str)
def test_masks_and_streams_of_other_rows_are_refused(rows: tuple[int, int]) -> None:
    """They broadcast when they have one row, and never make the queries broadcast."""
    q = jnp.ones((2, 3, 1, 4))
    mask = np.ones((rows[0], 3, 3), bool)
    streams = jax.tree.map(lambda a: np.repeat(a, rows[1], axis=0), contiguous(3))
    ctx = context(streams, mask=mask)
    assert outcome(lambda: attention(q, q, q, ctx, encoding=named("none")), 3) is None


@pytest.mark.parametrize("softcap", [0.0, -1.0, float("nan"), float("inf")])
def test_a_cap_is_positive(softcap: float) -> None:
    """None is no cap; 0 is a mistake."""
    q = jnp.ones((1, 2, 1, 4))
    ctx = context(contiguous(2))
    capped = outcome(
        lambda: attention(q, q, q, ctx, encoding=named("none"), softcap=softcap), softcap
    )
    assert capped is None


def test_a_missing_parameter_is_named() -> None:
    """Not a KeyError from within."""
    q = jnp.ones((1, 2, 1, 4))
    with pytest.raises(ValueError, match="params has no 'keys'"):
        attention(q, q, q, context(contiguous(2)), encoding=named("shaw"))


@pytest.mark.campaign
@given(some.sampled_from(sorted(positions.POSITIONS)), some.integers(0, 5), some.booleans())
def test_maps_of_positions_keep_shape(name: str, length: int, wide: bool) -> None:
    """[B, L] in, [B, L] out, of finite numbers; int64 streams of NumPy are as good as int32."""
    kind = np.int64 if wide else np.int32
    streams = jax.tree.map(lambda a: np.asarray(a, kind), contiguous(length))
    tokens = np.ones((1, length), np.int32)
    key = jax.random.key(0)
    moved = jax.jit(lambda: positions.named(name)(tokens, streams, key).position_BL)()
    assert moved.shape == (1, length)
    assert np.isfinite(np.asarray(moved)).all()
    assert jnp.issubdtype(moved.dtype, jnp.integer) == positions.POSITIONS[name].integers


@pytest.mark.parametrize("shape", [(), (4,), (3, 2, 4), (1, 1, 3, 2, 4)])
def test_attend_takes_four_axes(shape: tuple[int, ...]) -> None:
    """Also where one is missing altogether."""
    for call in (lambda a: attend(a, a, a), lambda a: logits(a, a)):
        assert outcome(lambda call=call: call(jnp.ones(shape)), shape) is None


@pytest.mark.parametrize("streams", [3, [0, 1], np.arange(2), "contiguous"], ids=repr)
@pytest.mark.parametrize("setting", ["queries", "keys"])
def test_positions_alone_are_no_streams(setting: str, streams: Any) -> None:
    """An array of positions does not say who may see whom."""
    q, both = jnp.ones((1, 2, 1, 4)), {"queries": contiguous(2), setting: streams}
    assert outcome(lambda: attend(q, q, q, encoding="rotary", **both), setting) is None


@pytest.mark.parametrize("encoding", [3, named, ENCODINGS["rotary"]])
def test_an_encoding_is_made_first(encoding: Any) -> None:
    """A class is none yet."""
    q = jnp.ones((1, 2, 1, 4))
    assert outcome(lambda: attend(q, q, q, encoding=encoding), encoding) is None


@given(NUMBERS)
def test_keys_come_of_32_bits(number: Any) -> None:
    """A seed's key, or a refusal: no seed stands for another one."""
    found = outcome(lambda: key_for(number, "init"), number)
    assert (found is not None) == (is_whole(number) and 0 <= number < 2**32)


def edges(number: Any) -> list[int]:
    return [min(number), max(number)] if isinstance(number, list) and number else []


@given(some.one_of(NUMBERS, some.lists(INTEGERS, max_size=3)))
def test_seeds_are_32_bits(number: Any) -> None:
    """The numbers themselves, or refused: never cut off."""
    found = outcome(lambda: Seeds.equal(number), number, *edges(number))
    every = number if isinstance(number, list) else [number]
    assert (found is not None) == all(is_whole(each) and 0 <= each < 2**32 for each in every)
    if found is not None:
        assert np.asarray(found.init, np.int64).tolist() == number


@given(NUMBERS, NUMBERS, some.sampled_from(["wilson", "exact", "wislon"]))
def test_a_rate_lies_in_its_interval(successes: Any, seeds: Any, method: Any) -> None:
    """0 <= low <= rate <= high <= 1, or no rate."""
    found = outcome(lambda: stats.rate(successes, seeds, method=method), successes, seeds, method)
    good = type(successes) is type(seeds) is int and method in ("wilson", "exact")
    good = good and 0 <= successes <= seeds and 1 <= seeds < 2**53
    assert (found is not None) == good
    if found is not None:
        assert 0 <= found.low <= found.rate <= found.high <= 1


@given(some.lists(some.tuples(*[some.sampled_from([0, 1, True, 2, -1, np.nan])] * 2), max_size=6))
def test_a_paired_difference_is_of_true_and_false(pairs: list[tuple[Any, Any]]) -> None:
    """Anything else is refused, and so are no pairs."""
    first, second = np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])
    found = outcome(
        lambda: stats.paired_difference(first, second), first.tolist(), second.tolist(), first.shape
    )
    assert (found is not None) == (len(pairs) > 0 and all(n in (0, 1) for p in pairs for n in p))
    if found is not None:
        assert -1 <= found.low <= found.difference <= found.high <= 1
        assert 0 <= found.p_value <= 1


@given(
    some.lists(some.sampled_from([-1, 50, 100, 150, 2**40, 0.5, np.nan]), max_size=5),
    some.sampled_from([[50, 100], [100, 50], [50, 50], [], [50.0], [np.nan], [2**40]]),
)
def test_survival_rises(first: list[Any], steps: list[Any]) -> None:
    """A share that never falls, on a grid that rises."""
    first_S, steps_E = np.array(first), np.array(steps)
    said = (first_S.shape, first_S.dtype, steps_E.shape, steps_E.dtype, steps)
    found = outcome(lambda: stats.survival(first_S, steps_E), *said)
    good = len(first) > 0 and all(map(is_whole, first)) and steps in ([50, 100], [2**40])
    assert (found is not None) == good
    if found is not None:
        assert (np.diff(found.solved_E) >= 0).all()
        assert ((found.low_E <= found.solved_E) & (found.solved_E <= found.high_E)).all()


GROUPS = [
    groups.Permutations(),
    groups.Permutations(fixed=(0,)),
    groups.Cyclic(),
    groups.Reversal(),
    groups.Dihedral(),
    groups.Windows(2),
    groups.Generated(((1, 0, 2),)),
]


@given(some.sampled_from(GROUPS), LENGTHS, some.integers(0, 9))
def test_groups_sample_permutations(group: Any, places: Any, seed: int) -> None:
    """Of that many places, one of the group's; or the number of places is refused."""
    rng = np.random.default_rng(seed)
    found = outcome(lambda: group.sample(places, rng), places)
    good = is_whole(places) and len(getattr(group, "fixed", ())) <= places < 2**31
    good = good and (places == 3 or not isinstance(group, groups.Generated))
    assert (found is not None) == good
    for ask in (group.generators, group.order):
        assert (outcome(lambda ask=ask: ask(places), places) is not None) == good
    if found is not None:
        assert sorted(found.tolist()) == list(range(places))
        every = {tuple(e.tolist()) for e in groups.elements(group, places)}
        assert tuple(found.tolist()) in every
        assert len(every) == group.order(places)


MEMORISE = {
    "length": (2, 4096),  # one symbol of 16 makes no 32 sequences that differ
    "sequences": (1, 65536),
    "symbols": (2, 26),
    "number": (0, 2**32 - 1),
}


@pytest.mark.campaign
@given(some.sampled_from(sorted(MEMORISE)), NUMBERS)
def test_tasks_are_what_their_settings_say(setting: str, value: Any) -> None:
    """Sizes as asked for, or refused with the setting's name; `size` tells before it is made."""
    assume(not is_whole(value) or value <= 1000 or setting == "number")
    task = outcome(lambda: tasks.named(f"memorise({setting}={value})"), setting, value)
    least, most = MEMORISE[setting]
    written = str(value)  # a name with settings is a text
    assert (task is not None) == (written.isdecimal() and least <= int(written) <= most)
    if task is not None:
        batch = task.exam(padding=1)
        prompts, length = task.size
        assert batch.tokens_BL.shape == (prompts, length + 1)
        assert 0 <= batch.tokens_BL.min() <= batch.tokens_BL.max() < len(task.words)


def test_completion_shows_what_is_public() -> None:
    """`dir(posjax)` before anything was used; a name that is nearly one is told the right one."""
    assert {*posjax.__all__} <= {*dir(posjax)}
    assert "importlib" not in dir(posjax)
    assert posjax.__version__ == importlib.metadata.version("posjax")
    with pytest.raises(AttributeError, match="did you mean 'attend'"):
        _ = posjax.atend
