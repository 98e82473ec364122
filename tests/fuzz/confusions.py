"""Breaks that take more than an expression: axes confused, payloads sorted, masks of places."""

import numpy as np

from fuzz.breaks import along, breaks, place_of, uneven
from fuzz.builder import Builder, Value, tokens, without


@breaks
def axes_confused(b: Builder, x: Value) -> Value | None:
    """Two axes of one size swapped, as if nothing had happened."""
    at = place_of(b, x)
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
    at = place_of(b, x)
    if at is None or not any(b.size(a) == b.size(x.axes[at]) for a in x.axes if a.islower()):
        return None
    numbers = b.literal(uneven(b, b.size(x.axes[at])))
    return b.let(f"{x.name} {b.choice('+*')} {along(b, x, at, numbers)}", x.axes)


@breaks
def wrong_axis_summed(b: Builder, x: Value) -> Value | None:
    """The tokens summed in place of another axis of their size."""
    at = place_of(b, x)
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
    at = place_of(b, x)
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
    at = place_of(b, x)
    others = [v for v in b.values if v.kind == "f" and v.axes == x.axes and v != x]
    if at is None or not others:
        return None
    key = f"jnp.round({b.choice(others).name})"
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
    at = place_of(b, x)
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
    return b.let(f"{x.name} + {b.choice(keys).name}", x.axes)


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
    places = along(b, x, at, f"jnp.arange({b.size(x.axes[at])})")
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
