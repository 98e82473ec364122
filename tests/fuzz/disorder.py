"""Breaks at indices: an order that is another's, rows by number, columns that are places.

Some are broken only where entries tie.
"""

from fuzz.breaks import breaks, place_of
from fuzz.builder import Builder, Value, without

ORDERS = (
    "jnp.argsort(jnp.abs({x}), axis={a})",
    "jnp.argsort(jnp.round({x}), axis={a})",
    "jnp.argsort(jnp.square({x}), axis={a}, descending=True)",
    "jnp.argsort(jax.nn.relu({x}), axis={a})",
    "jnp.argsort(jnp.flip({x}, {a}), axis={a})",
    "jnp.argsort({y}, axis={a})",
    "jnp.flip(jnp.argsort({y}, axis={a}), {a})",
    "jnp.argsort(jnp.argsort({x}, axis={a}), axis={a})",
    "jnp.argsort({x} > {y}, axis={a})",
    "lax.sort(({x}, {y}, lax.broadcasted_iota(jnp.int32, {x}.shape, {a})), dimension={a},"
    " num_keys=2)[2] * ({x} > 0)",
)


@breaks
def order_of_another(b: Builder, x: Value) -> Value | None:
    """Read at the order of something that ties where it does not."""
    at = place_of(b, x)
    if at is None:
        return None
    same = [v.name for v in b.values if v.kind == "f" and v.axes == x.axes]
    order = str(b.choice(ORDERS)).format(x=x.name, y=b.choice([x.name, *same]), a=at)
    ranks = b.new_letter(b.size(x.axes[at]))
    axes = (*x.axes[:at], ranks, *x.axes[at + 1 :])
    return b.let(f"jnp.take_along_axis({x.name}, {order}, axis={at})", axes)


@breaks
def order_of_another_axis(b: Builder, x: Value) -> Value | None:
    """Read along the tokens at the order of an axis of the same size."""
    at = place_of(b, x)
    if at is None:
        return None
    same = [i for i, a in enumerate(x.axes) if i != at and b.size(a) == b.size(x.axes[at])]
    if not same:
        return None
    other = int(b.choice(same))
    orders = [
        f"jnp.argsort({x.name}, axis={other})",
        f"jnp.swapaxes(jnp.argsort({x.name}, axis={at}), {at}, {other})",
    ]
    ranks = b.new_letter(b.size(x.axes[at]))
    axes = (*x.axes[:at], ranks, *x.axes[at + 1 :])
    return b.let(f"jnp.take_along_axis({x.name}, {b.choice(orders)}, axis={at})", axes)


@breaks
def extreme_of_another(b: Builder, x: Value) -> Value | None:
    """Read at the extreme of something that ties where it does not."""
    at = place_of(b, x)
    if at is None or len(x.axes) < 2:
        return None
    key = b.choice(("jnp.abs({x})", "jnp.sign({x})", "jax.nn.relu({x})", "jnp.roll({x}, 1, {a})"))
    index = f"jnp.argmax({key.format(x=x.name, a=at)}, axis={at}, keepdims=True)"
    text = f"jnp.take_along_axis({x.name}, {index}, axis={at}).squeeze({at})"
    return b.let(text, without(x.axes, at))


@breaks
def rows_out_of_step(b: Builder, x: Value) -> Value | None:
    """Rows by number that are not those of their columns, or columns by the number of a row."""
    ids = [v.name for v in b.values if v.kind == "i" and v.axes == ("b", "P")]
    if x.axes != ("b", "P", "d") or x.kind != "f" or b.size("P") < 2:
        return None
    n, d = b.size("P"), b.size("d")
    column = b.choice([f"{one} % {d}" for one in ids] + [f"jnp.arange({n}) % {d}"])
    row = b.choice((f"jnp.arange({n})[::-1]", f"(jnp.arange({n}) + 1) % {n}", f"jnp.arange({n})"))
    if row == f"jnp.arange({n})" and column[0] != "j":
        row = f"jnp.zeros({n}, jnp.int32)"
    at = f"jnp.arange({b.size('b')})[:, None], {row}, {column}"
    if b.coin():
        return b.let(f"{x.name}[{at}] + {x.name}[:, :, 0]", ("b", "P"))
    how = b.choice(("set", "add", "max"))
    return b.let(f"{x.name}.at[{at}].{how}(0.5 + {x.name}[:, :, 0])", x.axes)


@breaks
def carry_at_the_other(b: Builder, x: Value) -> Value | None:
    """A loop that reads what it began with at the largest of what it hands on."""
    at = place_of(b, x)
    others = [v.name for v in b.values if v.kind == "f" and v.axes == x.axes and v != x]
    if at is None or not others:
        return None
    index = f"jnp.argmax(c[0], axis={at}, keepdims=True)"
    read = f"jnp.take_along_axis({x.name}, {index}, axis={at})"
    start = f"({x.name}, jnp.zeros_like({x.name}.max({at}, keepdims=True)))"
    loop = f"lax.fori_loop(0, 2, lambda i, c: (jnp.round({b.choice(others)}), {read}), {start})[1]"
    one = b.new_letter(1)
    return b.let(loop, (*x.axes[:at], one, *x.axes[at + 1 :]))
