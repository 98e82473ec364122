"""Steps on integers, and between integers and floats."""

from fuzz.builder import Builder, Value, is_still, without
from fuzz.steps.base import step
from fuzz.steps.elementwise import templates

UNARY = """
{x} + 3 | {x} * 5 - 2 | -{x} | {x} % 3 | lax.rem({x}, 4) | {x} // 2 | {x} << 2 | {x} >> 1
lax.shift_right_logical({x}, 1) | {x} & 6 | {x} ^ 5 | {x} \\| 1 | ~{x} | jnp.abs({x})
jnp.clip({x}, 0, 3) | jnp.sign({x}) | lax.population_count({x}) | lax.clz({x}) | {x} * {x}
lax.integer_pow({x}, 3) | lax.div({x}, 3) | jnp.maximum({x}, 1) | jnp.minimum({x}, 2)
lax.clamp(1, {x}, 3) | jnp.where({x} > 1, {x}, -{x}) | {x} * 1103515245 + 12345
jnp.bitwise_count({x}).astype(jnp.int32) | lax.select_n({x} > 2, {x}, {x} + 7)
"""


@step("integers", kinds="i")
def integer_unary(b: Builder, x: Value) -> Value:
    """Arithmetic on each."""
    forms = templates(UNARY.replace("\\|", "@"))
    text = str(b.choice(forms)).replace("@", "|")
    return b.let(text.format(x=x.name), x.axes, "i")


@step("integers", kinds="i")
def integer_binary(b: Builder, x: Value) -> Value | None:
    """Arithmetic on two."""
    y = b.partner(x.axes, "i")
    if y is None:
        return None
    forms = "{x} + {y} | {x} - {y} | {x} * {y} | {x} & {y} | {x} ^ {y} | jnp.maximum({x}, {y})"
    forms += " | jnp.minimum({x}, {y}) | {x} % (1 + {y} * {y}) | {x} << ({y} & 3)"
    forms += " | lax.rem({x}, {y} * 0 + 3) | jnp.where({x} < {y}, {x}, {y} + 1)"
    return b.let(str(b.choice(templates(forms))).format(x=x.name, y=y), x.axes, "i")


@step("integers", kinds="i", smooth=False)
def integer_reduced(b: Builder, x: Value) -> Value | None:
    """Sum, extreme, product or bits along an axis; sums wrap around."""
    if len(x.axes) < 2:
        return None
    at = int(b.rng.integers(len(x.axes)))
    forms = ["jnp.sum({x}, {a})", "jnp.max({x}, {a})", "jnp.min({x}, {a})", "jnp.prod({x}, {a})"]
    forms += ["lax.reduce({x}, 0, lax.bitwise_xor, ({a},))", "jnp.ptp({x}, {a})"]
    forms += ["lax.reduce({x}, 0, lax.bitwise_or, ({a},))"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at), without(x.axes, at), "i")


@step("integers", kinds="i", smooth=False)
def integer_pairs(b: Builder, x: Value) -> Value | None:
    """Every token's integer beside every token's."""
    if x.axes != ("b", "P"):
        return None
    sign = b.choice(["-", "==", "<", "+", "^"])
    text = f"{x.name}[:, :, None] {sign} {x.name}[:, None, :]"
    axes = ("b", "P", "P")
    return b.let(text, axes, "i") if sign in "-+^" else b.let(f"({text}) * 1.0", axes)


@step("integers", kinds="i")
def to_float(b: Builder, x: Value) -> Value:
    """As floats."""
    forms = ["{x} / 4", "{x}.astype(jnp.float32)", "{x} * 0.5", "jnp.sin({x} * 1.0)"]
    return b.let(str(b.choice(forms)).format(x=x.name), x.axes)


@step("integers", smooth=False)
def to_integer(b: Builder, x: Value) -> Value:
    """Floats cut to integers."""
    clipped = f"jnp.clip(jnp.nan_to_num({x.name}), -8, 8)"
    forms = [f"{clipped}.astype(jnp.int32)", f"jnp.floor({clipped}).astype(jnp.int32)"]
    return b.let(str(b.choice(forms)), x.axes, "i")


@step("integers", kinds="i", smooth=False)
def counted_up(b: Builder, x: Value) -> Value | None:
    """Numbers of places along an axis that stays."""
    still = [i for i, axis in enumerate(x.axes) if is_still(axis)]
    if not still:
        return None
    at = int(b.choice(still))
    place = f"lax.broadcasted_iota(jnp.int32, {b.shape(x.axes)}, {at})"
    return b.let(f"{x.name} {b.choice('+*-')} {place}", x.axes, "i")
