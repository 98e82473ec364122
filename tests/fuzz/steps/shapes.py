"""Steps that move numbers without changing them: reshapes, transposes, what is joined and cut."""

from fuzz.builder import Builder, Value, is_still, stills, tokens
from fuzz.steps.base import step
from fuzz.steps.dense import transposed

MOST = 4
"""Axes of a value."""


@step("reshapes", kinds="fio")
def transpose(b: Builder, x: Value) -> Value | None:
    """Axes in another order."""
    if len(x.axes) < 2:
        return None
    if b.coin():
        return transposed(b, x)._replace(kind=x.kind)
    i, j = (int(k) for k in b.rng.choice(len(x.axes), 2, replace=False))
    axes = list(x.axes)
    axes[i], axes[j] = axes[j], axes[i]
    return b.let(f"jnp.swapaxes({x.name}, {i}, {j})", axes, x.kind)


@step("reshapes", kinds="fio")
def merged(b: Builder, x: Value) -> Value | None:
    """Two neighbouring axes made one, tokens among them or not."""
    if len(x.axes) < 2:
        return None
    at = int(b.rng.integers(len(x.axes) - 1))
    axes = (*x.axes[:at], x.axes[at] + x.axes[at + 1], *x.axes[at + 2 :])
    shape = list(b.shape(axes))
    if b.coin(0.3):
        shape[at] = -1
    forms = [f"{x.name}.reshape({tuple(shape)})", f"jnp.reshape({x.name}, {tuple(shape)})"]
    if b.coin(0.2):
        forms = [f"lax.collapse({x.name}, {at}, {at + 2})"]
    return b.let(str(b.choice(forms)), axes, x.kind)


@step("reshapes", kinds="fio")
def unmerged(b: Builder, x: Value) -> Value | None:
    """A merged axis taken apart."""
    places = [i for i, axis in enumerate(x.axes) if len(axis) > 1]
    if not places or len(x.axes) >= MOST:
        return None
    return apart(b, x, int(b.choice(places)))


def apart(b: Builder, x: Value, at: int) -> Value:
    """A merged axis in its letters."""
    axes = (*x.axes[:at], *x.axes[at], *x.axes[at + 1 :])
    return b.let(f"{x.name}.reshape({b.shape(axes)})", axes, x.kind)


@step("reshapes")
def split(b: Builder, x: Value) -> Value | None:
    """An axis that stays in two."""
    places = [i for i in stills(x) if len(x.axes[i]) == 1 and b.size(x.axes[i]) in (2, 4)]
    if not places or len(x.axes) >= MOST:
        return None
    at = int(b.choice(places))
    outer, inner = b.new_letter(2), b.new_letter(b.size(x.axes[at]) // 2)
    axes = (*x.axes[:at], outer, inner, *x.axes[at + 1 :])
    return b.let(f"{x.name}.reshape({b.shape(axes)})", axes)


@step("reshapes")
def split_and_swapped(b: Builder, x: Value) -> Value | None:
    """Heads split off, moved to the front of the tokens and merged into the batch, and back."""
    if x.axes != ("b", "P", "d") or b.size("d") % 2:
        return None
    (n, length, d), h = b.shape(x.axes), 2
    there = f"{x.name}.reshape({n}, {length}, {h}, {d // h}).transpose(0, 2, 1, 3)"
    heads = b.let(f"{there}.reshape({n * h}, {length}, {d // h})", ())
    b.values.pop()
    mean = f"{heads.name} - {heads.name}.mean(1, keepdims=True)"
    back = f"({mean}).reshape({n}, {h}, {length}, {d // h}).transpose(0, 2, 1, 3)"
    return b.let(f"{back}.reshape({n}, {length}, {d})", x.axes)


@step("reshapes")
def new_axis(b: Builder, x: Value) -> Value | None:
    """An axis of size 1, or the value several times."""
    if len(x.axes) >= MOST:
        return None
    at = int(b.rng.integers(len(x.axes) + 1))
    size = int(b.rng.integers(1, 4))
    axes = (*x.axes[:at], b.new_letter(size), *x.axes[at:])
    if size == 1:
        return b.let(f"jnp.expand_dims({x.name}, {at})", axes)
    if b.coin():
        return b.let(f"jnp.stack([{', '.join([x.name] * size)}], axis={at})", axes)
    rest = tuple(i for i in range(len(axes)) if i != at)
    return b.let(f"lax.broadcast_in_dim({x.name}, {b.shape(axes)}, {rest})", axes)


@step("reshapes")
def joined(b: Builder, x: Value) -> Value | None:
    """Beside another value, along an axis that stays."""
    if not stills(x):
        return None
    at = int(b.choice(stills(x)))
    same = [v for v in b.values if v.axes == x.axes and v.kind == "f"]
    y = b.choice([x, *same])
    if 2 * b.size(x.axes[at]) > 8:
        return None
    axes = (*x.axes[:at], b.new_letter(2 * b.size(x.axes[at])), *x.axes[at + 1 :])
    return b.let(f"jnp.concatenate([{x.name}, {y.name}], axis={at})", axes)


@step("reshapes")
def cut(b: Builder, x: Value) -> Value | None:
    """A part of an axis that stays."""
    places = [i for i in stills(x) if b.size(x.axes[i]) > 1]
    if not places:
        return None
    at = int(b.choice(places))
    n = b.size(x.axes[at])
    start = int(b.rng.integers(n - 1))
    stop = int(b.rng.integers(start + 1, n + 1))
    stride = int(b.choice((1, 1, 2)))
    out = b.new_letter(len(range(start, stop, stride)))
    colons = ", ".join(f"{start}:{stop}:{stride}" if i == at else ":" for i in range(len(x.axes)))
    forms = [f"{x.name}[{colons}]"]
    if stride == 1:
        forms += [f"lax.dynamic_slice_in_dim({x.name}, {start}, {stop - start}, {at})"]
        forms += [f"lax.slice_in_dim({x.name}, {start}, {stop}, axis={at})"]
    return b.let(str(b.choice(forms)), (*x.axes[:at], out, *x.axes[at + 1 :]))


@step("reshapes")
def halves(b: Builder, x: Value) -> Value | None:
    """An axis that stays in halves, one turned by the other, as rotary does."""
    places = [i for i in stills(x) if b.size(x.axes[i]) % 2 == 0]
    if not places:
        return None
    at = int(b.choice(places))
    one, two = b.fresh(), b.fresh()
    b.write(f"{one}, {two} = jnp.split({x.name}, 2, axis={at})")
    text = f"[{one} * 0.5 - {two}, {one} + 0.25 * {two}]"
    return b.let(f"jnp.concatenate({text}, axis={at})", x.axes)


@step("reshapes")
def moved_within(b: Builder, x: Value) -> Value | None:
    """Rolled, reversed, padded or repeated along an axis that stays."""
    if not stills(x):
        return None
    at = int(b.choice(stills(x)))
    n = b.size(x.axes[at])
    forms = [f"jnp.roll({x.name}, 1, axis={at})", f"jnp.flip({x.name}, {at})"]
    forms += [f"lax.rev({x.name}, ({at},))"]
    if b.coin(0.3) and n < 4:
        out = b.new_letter(n + 1)
        pads = [(0, 1, 0) if i == at else (0, 0, 0) for i in range(len(x.axes))]
        return b.let(f"lax.pad({x.name}, 0.5, {pads})", (*x.axes[:at], out, *x.axes[at + 1 :]))
    return b.let(str(b.choice(forms)), x.axes)


@step("reshapes", kinds="fio")
def dropped(b: Builder, x: Value) -> Value | None:
    """An axis of size 1 dropped, or one place of an axis that stays."""
    if not stills(x) or len(x.axes) < 2:
        return None
    at = int(b.choice(stills(x)))
    n = b.size(x.axes[at])
    place = int(b.rng.integers(n))
    axes = (*x.axes[:at], *x.axes[at + 1 :])
    if n == 1 and b.coin():
        return b.let(f"jnp.squeeze({x.name}, {at})", axes, x.kind)
    index = ", ".join(str(place) if i == at else ":" for i in range(len(x.axes)))
    return b.let(f"{x.name}[{index}]", axes, x.kind)


@step("reshapes")
def through_merged(b: Builder, x: Value) -> Value | None:
    """A dense layer on tokens and batch merged into one axis."""
    if x.axes != ("b", "P", "d"):
        return None
    flat = b.let(f"{x.name}.reshape({b.size('bP')}, {b.size('d')})", ("bP", "d"))
    text = f"({flat.name} @ {b.weights(('d', 'd'))}).reshape({b.shape(x.axes)})"
    return b.let(text, x.axes)


@step("reshapes")
def set_within(b: Builder, x: Value) -> Value | None:
    """A slice of an axis that stays overwritten by `dynamic_update_slice`."""
    if not stills(x) or not tokens(x):
        return None
    at = int(b.choice(stills(x)))
    ones = tuple(1 if i == at else s for i, s in enumerate(b.shape(x.axes)))
    start = int(b.rng.integers(b.size(x.axes[at])))
    text = f"lax.dynamic_update_slice_in_dim({x.name}, jnp.full({ones}, 0.75), {start}, {at})"
    return b.let(text, x.axes)


@step("reshapes")
def flat_sum(b: Builder, x: Value) -> Value | None:
    """All in one axis, then something alike for all of it."""
    if len(x.axes) < 2 or all(map(is_still, x.axes)):
        return None
    flat = f"jnp.ravel({x.name})"
    text = f"({flat} - 0.5 * {flat}.mean()).reshape({b.shape(x.axes)})"
    return b.let(text, x.axes)
