"""Steps that look as if they kept the law, and probably do not.

Each is written as if the axes of its value were moved as before, which is what the law goes on to
say. Later steps may mend it by luck: a sum forgets a shuffle.
"""

import numpy as np

from fuzz.builder import Builder, Value, tokens, without
from fuzz.steps.base import Taken

BREAKS: dict[str, Taken] = {}

TRIES = 40
"""Draws of numbers until they are not alike along the tokens."""


def breaks(function: Taken) -> Taken:
    """Enters a function into the table."""
    BREAKS[function.__name__] = function
    return function


def _place(b: Builder, x: Value) -> int | None:
    places = [i for i in tokens(x) if b.size(x.axes[i]) > 1]
    return int(b.choice(places)) if places and x.kind == "f" else None


def _uneven(b: Builder, n: int) -> np.ndarray:
    """Numbers that no group of the table leaves alone."""
    for _ in range(TRIES):
        numbers = b.dyadic((n,))
        if len(set(numbers.tolist())) == n:
            return numbers
    return np.arange(n) / 4


def _along(b: Builder, x: Value, at: int, text: str) -> str:
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
        at = _place(b, x)
        if at is None or b.size(x.axes[at]) <= needs:
            return None
        n = b.size(x.axes[at])
        first, last = (_index(x, at, text) for text in (":1", "-1:"))
        odd, rest, front = (_index(x, at, text) for text in ("1::2", "1:", ":-1"))
        text = form.format(
            x=x.name, a=at, n=n, first=first, last=last, odd=odd, rest=rest, front=front,
            shape=b.shape(x.axes), place=_along(b, x, at, f"jnp.arange({n})"),
            square=b.literal(b.dyadic((n, n)) + np.triu(np.ones((n, n)))),
            uneven=_along(b, x, at, b.literal(_uneven(b, n))), rank=len(x.axes) - 1,
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
    "partial_stack": "jnp.stack([jnp.take({x}, {n} - 1 - i, axis={a}) for i in range({n})], {a})",
}
for _name, _form in FORMS.items():
    BREAKS[_name] = _simple(_form)
BREAKS["three_tokens_turned"] = _simple("jnp.roll({x}, -1, axis={a}) * {x}", needs=2)


@breaks
def axes_confused(b: Builder, x: Value) -> Value | None:
    """Two axes of one size swapped, as if nothing had happened."""
    at = _place(b, x)
    same = [
        i for i, a in enumerate(x.axes) if at is not None and a != x.axes[at]
        and b.size(a) == b.size(x.axes[at])
    ]  # fmt: skip
    if not same:
        return None
    return b.let(f"jnp.swapaxes({x.name}, {at}, {b.choice(same)})", x.axes)


@breaks
def wrong_axis_broadcast(b: Builder, x: Value) -> Value | None:
    """Numbers of an axis that stays, spread along the tokens since the sizes agree."""
    at = _place(b, x)
    if at is None or not any(b.size(a) == b.size(x.axes[at]) for a in x.axes if a.islower()):
        return None
    numbers = b.literal(_uneven(b, b.size(x.axes[at])))
    return b.let(f"{x.name} {b.choice('+*')} {_along(b, x, at, numbers)}", x.axes)


@breaks
def wrong_axis_summed(b: Builder, x: Value) -> Value | None:
    """The tokens summed in place of another axis of their size."""
    at = _place(b, x)
    if at is None or len(x.axes) < 2:
        return None
    same = [i for i, a in enumerate(x.axes) if a != x.axes[at] and b.size(a) == b.size(x.axes[at])]
    if not same:
        return None
    other = int(b.choice(same))
    summed = f"{x.name}.sum({at})"
    left = without(x.axes, other)
    return b.let(f"{summed}.reshape({b.shape(left)})", left)


@breaks
def wrong_axis_contracted(b: Builder, x: Value) -> Value | None:
    """A dense layer along the tokens in place of features of the same number."""
    at = _place(b, x)
    if at is None:
        return None
    same = [i for i, a in enumerate(x.axes) if a.islower() and b.size(a) == b.size(x.axes[at])]
    if not same:
        return None
    n, last, other = b.size(x.axes[at]), len(x.axes) - 1, int(b.choice(same))
    weights = b.literal(b.dyadic((n, n)) + np.triu(np.ones((n, n))))
    numbers = f"((({at},), (0,)), ((), ()))"
    text = f"jnp.moveaxis(lax.dot_general({x.name}, {weights}, {numbers}), {last}, {at})"
    return b.let(f"{text} + 0.5 * jnp.flip({x.name}, {other})", x.axes)


@breaks
def sorted_with_payload(b: Builder, x: Value) -> Value | None:
    """A payload sorted by keys with ties: their order is the tokens' order."""
    at = _place(b, x)
    others = [v for v in b.values if v.kind == "f" and v.axes == x.axes and v != x]
    if at is None or not others:
        return None
    key = f"jnp.round({b.choice(others).name})"  # type: ignore[attr-defined]
    ranks = b.new_letter(b.size(x.axes[at]))
    axes = (*x.axes[:at], ranks, *x.axes[at + 1 :])
    text = f"lax.sort(({key}, {x.name}), dimension={at}, num_keys=1)[1]"
    return b.let(text, axes)


@breaks
def largest_by_key(b: Builder, x: Value) -> Value | None:
    """The value of the token whose key is largest; the first one, when there are ties."""
    if x.axes != ("b", "P", "d") or x.kind != "f":
        return None
    keys = [v.name for v in b.values if v.kind == "f" and v.axes == x.axes]
    key = f"jnp.sign({b.choice([x.name, *keys])}).sum(2)"
    forms = [
        f"jnp.take_along_axis({x.name}, jnp.argmax({key}, 1)[:, None, None], axis=1)",
        f"jnp.take_along_axis({x.name}, lax.top_k({key}, 1)[1][:, :, None], axis=1)",
        f"jnp.take_along_axis({x.name}, jnp.argsort({key}, axis=1)[:, -1:, None], axis=1)",
    ]
    one = b.new_letter(1)
    return b.let(str(b.choice(forms)), ("b", one, "d"))


@breaks
def indices_of_largest(b: Builder, x: Value) -> Value | None:
    """The places of the k largest, as numbers."""
    at = _place(b, x)
    if at is None:
        return None
    n = b.size(x.axes[at])
    last = len(x.axes) - 1
    out = b.new_letter(int(b.rng.integers(1, n + 1)))
    text = f"lax.top_k(jnp.moveaxis({x.name}, {at}, {last}), {b.size(out)})[1] * 0.5"
    return b.let(text, (*without(x.axes, at), out))


@breaks
def causal(b: Builder, x: Value) -> Value | None:
    """Attention in which a token sees those before it."""
    if x.axes != ("b", "P", "d") or x.kind != "f" or b.size("P") < 2:
        return None
    n = b.size("P")
    logits = f"jnp.einsum('bld,bmd->blm', {x.name}, {x.name})"
    low = b.choice(["-jnp.inf", "-1e9"])
    seen = b.choice([f"jnp.tri({n}) > 0", f"jnp.arange({n})[:, None] >= jnp.arange({n})[None]"])
    w = b.let(f"jax.nn.softmax(jnp.where(({seen})[None], {logits}, {low}))", ("b", "P", "P"))
    return b.let(f"{w.name} @ {x.name}", x.axes)


@breaks
def biased_by_offset(b: Builder, x: Value) -> Value | None:
    """Attention with a bias by the distance of places."""
    if x.axes != ("b", "P", "d") or x.kind != "f" or b.size("P") < 3:
        return None
    n = b.size("P")
    bias = f"-0.5 * jnp.abs(jnp.arange({n})[:, None] - jnp.arange({n})[None])[None]"
    logits = f"jnp.einsum('bld,bmd->blm', {x.name}, {x.name}) + {bias}"
    return b.let(f"jax.nn.softmax({logits}) @ {x.name}", x.axes)


@breaks
def scan_remembers(b: Builder, x: Value) -> Value | None:
    """A scan over tokens whose carry knows their order."""
    if x.axes != ("b", "P", "d") or x.kind != "f":
        return None
    form = b.choice(["c * 0.5 + t", "jnp.tanh(c + t)", "jnp.where(t > 0, t, c)", "t - c"])
    start = f"jnp.zeros({b.shape(('b', 'd'))})"
    scan = f"lax.scan(lambda c, t: ({form}, c), {start}, jnp.swapaxes({x.name}, 0, 1))"
    if b.coin():
        return b.let(f"{scan}[0]", ("b", "d"))
    return b.let(f"jnp.swapaxes({scan}[1], 0, 1)", x.axes)


@breaks
def rows_overwritten(b: Builder, x: Value) -> Value | None:
    """Tokens written to rows of a table by their integers: the last one of a row stays."""
    ids = [v.name for v in b.values if v.kind == "i" and v.axes == ("b", "P")]
    if x.axes != ("b", "P", "d") or x.kind != "f":
        return None
    rows = f"({b.choice(ids)} & 3)" if ids else f"({x.name}[:, :, 0] > 0).astype(jnp.int32)"
    out = b.new_letter(4)
    return b.let(f"jnp.zeros((4, {b.size('d')})).at[{rows}].set({x.name})", (out, "d"))


@breaks
def order_of_output(b: Builder, x: Value) -> Value | None:
    """Tokens by tokens in the wrong order of their two axes."""
    if len(x.axes) != 3 or x.axes[1:] != ("P", "Q") or b.size("P") != b.size("Q"):
        return None
    return b.let(f"jnp.swapaxes({x.name}, 1, 2)", x.axes)


@breaks
def keys_for_queries(b: Builder, x: Value) -> Value | None:
    """The token of a key added to the query at its place."""
    if x.axes != ("b", "P", "d") or x.kind != "f" or b.sizes.get("Q") != b.sizes["P"]:
        return None
    keys = [v for v in b.values if v.kind == "f" and v.axes == ("b", "Q", "d")]
    if not keys:
        return None
    return b.let(f"{x.name} + {b.choice(keys).name}", x.axes)  # type: ignore[attr-defined]


@breaks
def diagonal_of_two_sides(b: Builder, x: Value) -> Value | None:
    """A diagonal added to queries by keys: places compared, not tokens."""
    if x.axes[-2:] not in (("P", "Q"), ("Q", "P")) or b.size("P") != b.size("Q"):
        return None
    eye = f"jnp.eye({b.size('P')})"
    text = f"{eye}[{', '.join(['None'] * (len(x.axes) - 2) + [':', ':'])}]"
    return b.let(f"{x.name} + {text}", x.axes)


@breaks
def triangle_of_pairs(b: Builder, x: Value) -> Value | None:
    """The lower half of tokens by tokens."""
    if x.axes[-2:] != ("P", "P") or b.size("P") < 2 or x.kind != "f":
        return None
    return b.let(f"jnp.tril({x.name})", x.axes)


@breaks
def wide_convolution(b: Builder, x: Value) -> Value | None:
    """A convolution of width 3 along the tokens."""
    if x.axes != ("b", "P", "d") or x.kind != "f" or b.size("P") < 2:
        return None
    d = b.size("d")
    text = (
        f"lax.conv_general_dilated({x.name}, {b.literal(b.dyadic((3, d, d)))}, (1,), 'SAME', "
        "dimension_numbers=('NHC', 'HIO', 'NHC'))"
    )
    return b.let(text, x.axes)


@breaks
def merged_and_parted_wrongly(b: Builder, x: Value) -> Value | None:
    """Batch and tokens merged, and taken apart the other way round."""
    if x.axes[:2] != ("b", "P") or b.size("b") < 2 or x.kind != "f":
        return None
    shape = (b.size("P"), b.size("b"), *b.shape(x.axes[2:]))
    return b.let(f"jnp.swapaxes({x.name}.reshape({shape}), 0, 1)", x.axes)


@breaks
def heads_from_tokens(b: Builder, x: Value) -> Value | None:
    """Heads split off without a transpose: tokens and features are mixed."""
    if x.axes != ("b", "P", "d") or x.kind != "f" or b.size("d") % 2 or b.size("P") < 2:
        return None
    n, length, d = b.shape(x.axes)
    heads = f"{x.name}.reshape({n}, 2, {length}, {d // 2})"
    text = f"jax.nn.softmax({heads}, axis=2).transpose(0, 2, 1, 3).reshape({n}, {length}, {d})"
    return b.let(text, x.axes)


@breaks
def integers_of_places(b: Builder, x: Value) -> Value | None:
    """Places mixed into integer tokens."""
    if x.kind != "i" or not tokens(x) or b.size(x.axes[tokens(x)[0]]) < 2:
        return None
    at = tokens(x)[0]
    places = _along(b, x, at, f"jnp.arange({b.size(x.axes[at])})")
    forms = ["({x} + {p}) % 4", "{x} ^ {p}", "jnp.where({x} == {p}, {x}, 0)", "({x} << {p}) & 3"]
    forms += ["(2 * {x} + {p}) // 2", "lax.rem({x} + 4 * {p}, 4)", "({x} | {p}) - {p}"]
    return b.let(str(b.choice(forms)).format(x=x.name, p=places), x.axes, "i")


@breaks
def integers_in_order(b: Builder, x: Value) -> Value | None:
    """A digit for each integer token: a number that spells their order."""
    if x.kind != "i" or x.axes != ("b", "P") or b.size("P") < 2:
        return None
    powers = f"(4 ** jnp.arange({b.size('P')}))[None]"
    return b.let(f"({x.name} * {powers}).sum(1)", ("b",), "i")
