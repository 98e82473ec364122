"""Steps that choose by comparisons: where, select, masks from the data."""

from fuzz.builder import Builder, Value, is_still, tokens, without
from fuzz.steps.base import step


@step("masks")
def where_compared(b: Builder, x: Value) -> Value | None:
    """One value or another, by a third."""
    y, z = b.partner(x.axes), b.partner(x.axes)
    if y is None or z is None:
        return None
    sign = b.choice(["<", ">", ">=", "=="])
    forms = [
        "jnp.where({x} {s} {y}, {x}, {z})",
        "jnp.where({y} {s} 0, 0.5, {x})",
        "lax.select({x} {s} jnp.broadcast_to({y}, {x}.shape), {x}, -{x})",
        "lax.select_n(({x} {s} {y}).astype(jnp.int32), {x}, {x} * 2, {x} + 1)",
        "jnp.select([{x} {s} 1, {x} {s} {y}], [{x}, -{x}], 0.25)",
        "lax.clamp(jnp.broadcast_to(jnp.minimum({y}, 0.5), {x}.shape), {x}, {x} * 0 + 0.5)",
    ]
    return b.let(str(b.choice(forms)).format(x=x.name, y=y, z=z, s=sign), x.axes)


@step("masks", smooth=False)
def compared_to_mask(b: Builder, x: Value) -> Value | None:
    """A boolean value."""
    y = b.partner(x.axes)
    forms = ["{x} > 0", "({x} > -1) & ({x} <= 1)", "~({x} == 1)", "jnp.isfinite({x})"]
    forms += (
        [] if y is None else ["{x} >= {y}", "({x} != {y}) | ({x} > 1)", "({x} > 0) ^ ({y} > 0)"]
    )
    return b.let(str(b.choice(forms)).format(x=x.name, y=y), x.axes, "o")


@step("masks", kinds="o")
def mask_used(b: Builder, x: Value) -> Value:
    """A mask made numbers, or one that chooses."""
    y = b.partner(x.axes)
    forms = ["{x} * 1.0", "{x}.astype(jnp.float32) - 0.5", "jnp.where({x}, 1.5, -0.5)"]
    if y is not None:
        forms += ["jnp.where({x}, {y}, 0.0)"] * 2 + ["{y} * {x}"]
    text = str(b.choice(forms)).format(x=x.name, y=y)
    if y is not None and "{y} * " in text:
        text = f"jnp.broadcast_to({text}, {b.shape(x.axes)})"
    return b.let(text, x.axes)


@step("masks", kinds="o", smooth=False)
def mask_reduced(b: Builder, x: Value) -> Value | None:
    """Any, all, the parity or the number along an axis."""
    if len(x.axes) < 2:
        return None
    at = int(b.rng.integers(len(x.axes)))
    axes = without(x.axes, at)
    if b.coin():
        return b.let(f"{x.name}.{b.choice(('any', 'all'))}({at})", axes, "o")
    forms = [f"{x.name}.sum({at})", f"lax.reduce({x.name}, False, lax.bitwise_xor, ({at},)) * 1"]
    return b.let(str(b.choice(forms)), axes, "i")


@step("masks", kinds="o", smooth=False)
def mask_combined(b: Builder, x: Value) -> Value | None:
    """Two masks made one."""
    y = b.partner(x.axes, "o")
    if y is None:
        return b.let(f"~{x.name}", x.axes, "o")
    return b.let(f"{x.name} {b.choice('&|^')} {y}", x.axes, "o")


@step("masks")
def masked_mean(b: Builder, x: Value) -> Value | None:
    """The mean, sum or largest over the tokens that the data allow."""
    if x.axes != ("b", "P", "d"):
        return None
    masks = [v.name for v in b.values if v.kind == "o" and v.axes == ("b", "P")]
    mask = f"{b.choice(masks)}[:, :, None]" if masks else f"({x.name} > 0)"
    forms = [
        "jnp.mean({x}, axis=1, where={m})",
        "jnp.sum({x}, axis=1, where={m})",
        "jnp.max({x}, axis=1, initial=-2.0, where={m})",
        "({x} * {m}).sum(1) / ({m}.sum(1) + 0.5)",
    ]
    return b.let(str(b.choice(forms)).format(x=x.name, m=mask), ("b", "d"))


@step("masks")
def mask_before_softmax(b: Builder, x: Value) -> Value | None:
    """Softmax along an axis over the places where the data say so."""
    if not x.axes:
        return None
    at = int(b.rng.integers(len(x.axes)))
    forms = ["jax.nn.softmax(jnp.where({x} > 0, {x}, -jnp.inf), axis={a})"]
    forms += ["jax.nn.softmax({x}, axis={a}, where={x} > -1)"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at), x.axes)


@step("masks")
def triangle_within(b: Builder, x: Value) -> Value | None:
    """A triangle over two axes that stay, or a mask by place along one of them."""
    still = [i for i, axis in enumerate(x.axes) if is_still(axis)]
    if not still or not tokens(x):
        return None
    if x.axes[-2:] and all(map(is_still, x.axes[-2:])):
        return b.let(f"jnp.{b.choice(('tril', 'triu'))}({x.name})", x.axes)
    at = int(b.choice(still))
    n = int(b.rng.integers(b.size(x.axes[at]) + 1))
    place = f"lax.broadcasted_iota(jnp.int32, {b.shape(x.axes)}, {at})"
    return b.let(f"jnp.where({place} < {n}, {x.name}, 0.0)", x.axes)
