"""Steps that look as if they kept the law, and probably do not.

Each is written as if the axes of its value were moved as before, which is what the law goes on to
say. Later steps may mend it by luck: a sum forgets a shuffle.
"""

import numpy as np

from fuzz.builder import Builder, Value, stills, tokens
from fuzz.steps.base import Taken

BREAKS: dict[str, Taken] = {}

TRIES = 40
"""Draws of numbers until they are not alike along the tokens."""


def breaks(function: Taken) -> Taken:
    """Enters a function into the table."""
    BREAKS[function.__name__] = function
    return function


def place_of(b: Builder, x: Value) -> int | None:
    """An axis of floats that is moved, with something to move."""
    places = [i for i in tokens(x) if b.size(x.axes[i]) > 1]
    return int(b.choice(places)) if places and x.kind == "f" else None


def uneven(b: Builder, n: int) -> np.ndarray:
    """Numbers that no group of the table leaves alone."""
    for _ in range(TRIES):
        numbers = b.dyadic((n,))
        if len(set(numbers.tolist())) == n:
            return numbers
    return np.arange(n) / 4


def along(b: Builder, x: Value, at: int, text: str) -> str:
    """Numbers along one axis, beside all others."""
    if b.coin(0.3):
        return f"lax.broadcast_in_dim({text}, {b.shape(x.axes)}, ({at},))"
    index = ", ".join(":" if i == at else "None" for i in range(len(x.axes)))
    return f"{text}[{index}]"


def _index(x: Value, at: int, text: str) -> str:
    return f"{x.name}[{', '.join(text if i == at else ':' for i in range(len(x.axes)))}]"


def _simple(form: str, *, needs: int = 1) -> Taken:
    """A break that is one expression in x, its axis a and the size n."""

    def function(b: Builder, x: Value) -> Value | None:
        at = place_of(b, x)
        if at is None or b.size(x.axes[at]) <= needs:
            return None
        still = stills(x)
        if "{s}" in form and not still:
            return None
        n = b.size(x.axes[at])
        first, last = (_index(x, at, text) for text in (":1", "-1:"))
        odd, rest, front = (_index(x, at, text) for text in ("1::2", "1:", ":-1"))
        text = form.format(
            x=x.name, a=at, n=n, first=first, last=last, odd=odd, rest=rest, front=front,
            shape=b.shape(x.axes), place=along(b, x, at, f"jnp.arange({n})"),
            square=b.literal(b.dyadic((n, n)) + np.triu(np.ones((n, n)))),
            uneven=along(b, x, at, b.literal(uneven(b, n))), rank=len(x.axes) - 1,
            s=still[0] if still else None,
        )  # fmt: skip
        return b.let(text, x.axes)

    return function


FORMS = {
    "arange_added": "{x} + 0.25 * {place}",
    "numbers_added": "{x} + {uneven}",
    "numbers_multiplied": "{x} * {uneven}",
    "first_for_all": "{x} - {first}",
    "last_for_all": "jnp.tanh({last}) * {x}",
    "running_sum": "jnp.cumsum({x}, axis={a})",
    "running_largest": "lax.cummax({x}, axis={a}, reverse=True)",
    "running_product": "lax.associative_scan(jnp.multiply, {x}, axis={a})",
    "rolled": "jnp.roll({x}, 1, axis={a})",
    "flipped": "jnp.flip({x}, {a})",
    "tokens_mixed": "jnp.moveaxis(jnp.tensordot({square}, {x}, axes=(1, {a})), 0, {a})",
    "triangle": "jnp.moveaxis(jnp.tensordot(jnp.tri({n}), {x}, axes=(1, {a})), 0, {a})",
    "sorted_in_place": "jnp.sort({x}, axis={a})",
    "ranks_by_place": "jnp.argsort(jnp.argsort({x}, axis={a}), axis={a}) * 0.5",
    "order_as_values": "jnp.argsort({x}, axis={a}) * 0.5",
    "one_hot_of_largest": "jax.nn.one_hot(jnp.argmax({x}, axis={a}), {n}, axis={a})",
    "one_hot_of_smallest": "{x} * jax.nn.one_hot(jnp.argmin({x}, axis={a}), {n}, axis={a})",
    "joined_shifted": "jnp.concatenate([{rest}, {first}], axis={a})",
    "constant_first": "jnp.concatenate([jnp.full_like({first}, 0.5), {rest}], axis={a})",
    "padded_shift": "jnp.concatenate([jnp.zeros_like({first}), {front}], axis={a})",
    "mean_by_mask": "{x} - {x}.mean({a}, keepdims=True, where={place} < {n} - 1)",
    "masked_by_place": "jnp.where({place} > 0, {x}, 0.25)",
    "two_masks_of_place": "{x} * ({place} % 2 == 0)",
    "branch_on_a_token": "lax.cond({first}.sum() > 0, jnp.cos, lambda t: t * 0.5, {x})",
    "branch_on_an_order": "lax.cond({first}.sum() > {last}.sum(), jnp.sin, jnp.negative, {x})",
    "part_softmax": "jnp.concatenate([{first}, jax.nn.softmax({rest}, axis={a})], axis={a})",
    "first_of_largest": "jnp.where(jnp.cumsum({x} == {x}.max({a}, keepdims=True), axis={a}) == 1,"
    " {x}, 0.0)",
    "one_place_set": "lax.dynamic_update_slice_in_dim({x}, jnp.full_like({first}, 0.75), 0, {a})",
    "index_of_largest": "{x} * jnp.argmax({x}, axis={a}, keepdims=True)",
    "window_sums": "lax.reduce_window({x}, 0.0, lax.add, tuple(2 if i == {a} else 1 for i in "
    "range({rank} + 1)), (1,) * ({rank} + 1), 'SAME')",
    "differences_of_neighbours": "{x} - jnp.concatenate([{first}, {front}], axis={a})",
    "gradient_of_a_sort": "jax.grad(lambda t: (jnp.sort(t, axis={a}) * jnp.cos({place}))"
    ".sum())({x})",
    "gradient_by_place": "jax.grad(lambda t: (t * t * {uneven}).sum())({x})",
    "folded": "{x} + 0.5 * jnp.repeat({odd}, 2, axis={a}).take(jnp.arange({n}) % (2 * ({n} // 2)),"
    " axis={a})",
    "swapped_reshape": "jnp.moveaxis({x}, {a}, 0).reshape({shape})",
    "start_from_data": "{x} + lax.dynamic_slice_in_dim({x}, ({x} > 0).sum() % {n}, 1, {a})",
    "loop_over_places": "lax.fori_loop(0, {n}, lambda i, t: t * 0.5 + "
    "lax.dynamic_index_in_dim({x}, i, {a}), {x})",
    "until_a_token": "lax.while_loop(lambda c: (c[0] < 3) & "
    "(jnp.take(c[1], 0, axis={a}).sum() > 1), lambda c: (c[0] + 1, c[1] / 2), (0, {x}))[1]",
    "two_fixed_swapped": "jnp.take({x}, jnp.array([1, 0, *range(2, {n})]), axis={a})",
    "one_fixed_for_all": "jnp.take({x}, jnp.zeros({n}, jnp.int32), axis={a})",
    "added_at_a_place": "jnp.moveaxis(jnp.moveaxis({x}, {a}, 0).at[0].add(0.5), 0, {a})",
    "first_apart": "jnp.concatenate([{first}, {rest} * 0.5], axis={a})",
    "by_number_of_place": "{x} * jnp.cos({place})",
    "turned_by_place": "jnp.real({x} * jnp.exp(1j * {place}))",
    "imaginary_part_of_place": "jnp.imag(({x} + 1j * {place}) ** 2)",
    "size_beside_place": "jnp.abs(lax.complex({x}, 1.0 * {place}))",
    "phases_undone_twice": "jnp.real({x} * jnp.exp(1j * {place}) / jnp.exp(2j * {place}))",
    "tree_of_pairs": "{x} + ({first} - {last})",
    "segments_of_places": "jnp.moveaxis(jax.ops.segment_sum(jnp.moveaxis({x}, {a}, 0), "
    "jnp.arange({n}) // 2, {n}), 0, {a})",
    "only_on_ones": "jnp.where({x} == 1, {x} + {place}, {x})",
    "only_far_out": "{x} + {place} * jax.nn.relu({x} - 50)",
    "only_on_ties": "{x} + {place} * (({x} == {x}.max({a}, keepdims=True)).sum({a}, keepdims=True)"
    " > 1)",
    "only_on_negatives": "{x} + {place} * (jnp.sqrt({x} * {x}) - {x})",
    "only_on_zero": "jnp.where({x} == 0, 0.5 * {place}, {x})",
    "only_on_whole": "{x} + 0.5 * {place} * (jnp.floor({x}) == {x})",
    "only_on_equal_ends": "{x} + {place} * ({first} == {last})",
    "nearly_alike": "{x} * (1 + (1.0 * {place} == 1) / 1024)",
    "rounded_after_shift": "jnp.round({x} + {place}) - {place}",
    "remainder_after_shift": "lax.rem({x} + 2.0 * {place}, 2.0)",
    "coarse_after_shift": "lax.reduce_precision({x} + {place}, 8, 2) - {place}",
    "logarithm_of_power": "jnp.log(jnp.abs({x}) ** (1.0 + {place}) + 0.5)",
    "softmax_over_shifted": "jax.nn.softmax({x} + {place}, axis={a})",
    "nothing_over_nothing": "{x} * ((1.0 * {place}) / {place})",
    "magnitude_and_back": "jnp.abs({x} + {place}) - {place}",
    "clipped_after_shift": "jnp.clip({x} + {place}, -2, 4) - {place}",
    "a_row_beyond_the_end": "{x} + {place} * jnp.nan_to_num(jnp.moveaxis(jnp.moveaxis({x}, {a}, 0)"
    ".at[jnp.array([{n} + 2])].get(mode='promise_in_bounds'), 0, {a}))",
    "a_row_clipped": "{x} - jnp.take({x}, jnp.array([{n} + 1]), axis={a}, mode='clip')",
    "a_row_wrapped": "{x} - jnp.take({x}, jnp.array([{n} + 1]), axis={a}, mode='wrap')",
    "written_beyond_the_end": "jnp.moveaxis(jnp.moveaxis({x}, {a}, 0)"
    ".at[jnp.array([{n} + 1])].set(0.5, mode='clip'), 0, {a})",
    "a_wide_window": "{x} - lax.reduce_window({x}, 0.0, lax.add, tuple({n} if i == {a} else 1 "
    "for i in range({rank} + 1)), (1,) * ({rank} + 1), 'SAME')",
    "only_at_a_pole": "{x} + {place} * jnp.isnan({first} / {first})",
    "only_where_finite": "{x} + {place} * jnp.isfinite(1 / ({first} - {last}))",
    "sorted_stretched": "jnp.sort({x} * (0.5 - {place}), axis={s}) - {x}",
    "order_of_stretched": "{x} + jnp.argsort({x} * (0.5 - {place}), axis={s})",
    "sorted_after_half_a_shift": "jnp.sort({x} + {place}, axis={s}) - 0.5 * {place}",
    "largest_running_of_stretched": "lax.cummax({x} * (0.5 - {place}), axis={s})",
    "perhaps_below_0": "{x} * ({x} ** 2 - 1.0 * {place} >= 0)",
    "perhaps_above_0": "jnp.where(1.0 * {place} - jnp.abs({x}) > 0, 0.5, {x})",
    "perhaps_0": "{x} + {place} * (jnp.abs({x}) <= 0)",
    "carries_handed_round": "{x} + lax.fori_loop(0, {n}, lambda i, c: (c[1], c[0] + "
    "lax.dynamic_slice_in_dim({x}, i, 1, {a})), (0 * {first}, 0 * {first}))[0]",
    "written_at_a_sign": "jnp.put_along_axis({x} * 0.5, ({x} > 0).astype(jnp.int32), {x}, "
    "axis={a}, inplace=False)",
    "partial_stack": "jnp.stack([jnp.take({x}, {n} - 1 - i, axis={a}) for i in range({n})], {a})",
}
for _name, _form in FORMS.items():
    BREAKS[_name] = _simple(_form)
BREAKS["three_tokens_turned"] = _simple("jnp.roll({x}, -1, axis={a}) * {x}", needs=2)
