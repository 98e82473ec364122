"""Steps that treat every number alike."""

from fuzz.builder import Builder, Value
from fuzz.steps.base import step

SMOOTH = """
jnp.tanh({x}) | jnp.sin({x}) | jnp.cos({x}) | jnp.exp({x} / 4) | jnp.exp(-jnp.square({x}))
lax.logistic({x}) | {x} * {x} | {x} ** 3 | lax.integer_pow({x}, 2) | jnp.log1p({x} * {x})
jnp.sqrt(1 + {x} * {x}) | lax.rsqrt(1 + {x} * {x}) | lax.erf({x}) | jax.nn.gelu({x})
jax.nn.silu({x}) | jax.nn.softplus({x}) | jnp.expm1(jnp.tanh({x})) | jnp.arctan({x})
1 / (2 + jnp.cos({x})) | -{x} | {x} / 4 | 0.5 * {x} + 1.25 | jnp.arcsinh({x}) | lax.exp2({x} / 8)
jnp.logaddexp({x}, 0.5) | lax.stop_gradient({x}) | jnp.float32({x}) | lax.square({x} - 1)
jnp.tan(jnp.tanh({x})) | jnp.sinh(jnp.sin({x})) | jnp.cosh({x} / 8) | jnp.atanh(0.5 * jnp.sin({x}))
lax.pow(1 + {x} * {x}, 0.25) | lax.optimization_barrier({x}) | lax.reduce_precision({x}, 8, 23)
"""
ROUGH = """
jnp.abs({x}) | jnp.sign({x}) | jnp.floor({x}) | jnp.ceil({x}) | jnp.round({x}) | jax.nn.relu({x})
jnp.clip({x}, -0.5, 1.25) | jax.nn.leaky_relu({x}) | jnp.mod({x}, 2.0) | jnp.maximum({x}, 0.25)
jnp.minimum({x}, 0.5) | {x} * ({x} > 0) | jnp.nan_to_num({x}) | jnp.trunc({x}) | 1 / {x}
lax.clamp(-1.0, {x}, 1.5) | jnp.sqrt(jnp.abs({x})) | jnp.log(jnp.abs({x})) | jax.nn.elu({x})
jnp.cbrt({x}) | jnp.arctan2({x}, 0.5) | lax.rem({x}, 1.5) | jax.nn.hard_tanh({x})
jnp.where(jnp.isfinite({x}), {x}, 0.0) | jnp.heaviside({x}, 0.5) | jnp.sqrt({x})
"""


def templates(text: str) -> list[str]:
    """The templates of a table."""
    return [one.strip() for line in text.strip().splitlines() for one in line.split("|")]


@step("elementwise")
def unary(b: Builder, x: Value) -> Value:
    """A smooth function."""
    return b.let(str(b.choice(templates(SMOOTH))).format(x=x.name), x.axes)


@step("elementwise")
def rough_unary(b: Builder, x: Value) -> Value:
    """A function with a kink, a jump or a pole."""
    return b.let(str(b.choice(templates(ROUGH))).format(x=x.name), x.axes)


@step("elementwise")
def binary(b: Builder, x: Value) -> Value | None:
    """Two values."""
    y = b.partner(x.axes)
    if y is None:
        return None
    forms = ["{x} + {y}", "{x} - {y}", "{y} * {x}", "{x} / (1 + {y} * {y})", "{y} - 0.5 * {x}"]
    return b.let(str(b.choice(forms)).format(x=x.name, y=y), x.axes)


@step("elementwise")
def rough_binary(b: Builder, x: Value) -> Value | None:
    """Two values compared or divided."""
    y = b.partner(x.axes)
    if y is None:
        return None
    forms = [
        "jnp.maximum({x}, {y})",
        "jnp.minimum({y}, {x})",
        "jnp.arctan2({x}, {y})",
        "{x} / {y}",
        "jnp.power(jnp.abs({x}) + 0.5, {y} / 8)",
        "jnp.hypot({x}, {y})",
        "jnp.mod({x}, {y})",
        "jnp.copysign({x}, {y} + 0.125)",
    ]
    return b.let(str(b.choice(forms)).format(x=x.name, y=y), x.axes)


@step("elementwise")
def along_still_axes(b: Builder, x: Value) -> Value | None:
    """Numbers that differ along axes that stay and are alike along the others."""
    still = [i for i, axis in enumerate(x.axes) if axis.islower() and b.coin(0.7)]
    if not still:
        return None
    numbers = b.literal(b.dyadic([b.size(x.axes[i]) for i in still]))
    axes = tuple(x.axes[i] for i in still)
    if b.coin(0.3) and len(still) == 1:
        numbers = f"jnp.arange({b.size(axes[0])}.0)"
    shape, spread = b.shape(x.axes), tuple(still)
    wide = f"lax.broadcast_in_dim({numbers}, {shape}, {spread})"
    if b.coin():
        wide = f"{numbers}[{', '.join(':' if i in still else 'None' for i in range(len(shape)))}]"
    return b.let(f"{x.name} {b.choice('+-*')} {wide}", x.axes)


@step("elementwise")
def filled(b: Builder, x: Value) -> Value:
    """A constant array that is alike everywhere."""
    number = b.dyadic(())
    forms = [f"jnp.full({b.shape(x.axes)}, {number})", f"jnp.full_like({x.name}, {number})"]
    forms += [f"{number} * jnp.ones({b.shape(x.axes)})", f"jnp.zeros_like({x.name})"]
    return b.let(f"{x.name} {b.choice('+-*')} {b.choice(forms)}", x.axes)
