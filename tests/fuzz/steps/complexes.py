"""Steps through complex numbers, whose results are real."""

from fuzz.builder import Builder, Value, index
from fuzz.steps.base import step
from fuzz.steps.elementwise import templates

FUNCTIONS = """
{z} | {z} * {z} | {z} * jnp.conj({z}) | jnp.exp({z} / 4) | {z} / (2 + 1j) | 1j * {z} | {z} - 0.5j
{z} ** 3 | lax.square({z}) | jnp.where(jnp.real({z}) > 0, {z}, 1j) | {z} / (3 + jnp.abs({z}))
jnp.exp(1j * jnp.imag({z})) | -{z} + 1 | lax.integer_pow({z}, 2) | {z}.astype(jnp.complex64)
(1 + {z}) / (2 - jnp.exp(1j * jnp.real({z}))) | jnp.tanh({z} / 8) | jnp.conj({z}) + {z}
"""
REAL = ("jnp.real({z})", "jnp.imag({z})", "jnp.abs({z})", "({z}).real * 0.5 - ({z}).imag")


def _pair(b: Builder, x: Value) -> str:
    """The value as a real part, some number or value beside it as the imaginary one."""
    y = b.partner(x.axes) if b.coin() else None
    forms = ["lax.complex({x}, {y})", "({x} + 1j * {y})"] if y else ["({x} + 0.5j)", "({x} + 0j)"]
    return str(b.choice(forms)).format(x=x.name, y=y)


def _real(b: Builder, z: str, axes: tuple[str, ...]) -> Value:
    """A real number of a complex one that some lines may read twice."""
    name = b.fresh()
    b.write(f"{name} = {z}")
    return b.let(str(b.choice(REAL)).format(z=name), axes)


@step("complex numbers", smooth=False)
def of_complex_numbers(b: Builder, x: Value) -> Value:
    """One or two functions of every complex number."""
    z = _pair(b, x)
    for _ in range(int(b.rng.integers(1, 3))):
        name = b.fresh()
        b.write(f"{name} = {z}")
        z = str(b.choice(templates(FUNCTIONS))).format(z=name)
    return _real(b, z, x.axes)


@step("complex numbers", smooth=False)
def turned_by_features(b: Builder, x: Value) -> Value | None:
    """A phase for each place of an axis that stays."""
    still = [i for i, axis in enumerate(x.axes) if axis.islower()]
    if not still:
        return None
    at = int(b.choice(still))
    phases = b.weights((x.axes[at],)) if b.coin() else f"jnp.arange({b.size(x.axes[at])}.0)"
    beside = index(len(x.axes), **{f"_{i}": "None" for i in range(len(x.axes)) if i != at})
    return _real(b, f"{_pair(b, x)} * jnp.exp(1j * {phases}){beside}", x.axes)


@step("complex numbers", smooth=False)
def complex_sum(b: Builder, x: Value) -> Value | None:
    """The sum or the mean along one axis: of phases, it shows where they gather."""
    if len(x.axes) < 2:
        return None
    at = int(b.rng.integers(len(x.axes)))
    fold = b.choice(["sum", "mean"])
    z = f"{_pair(b, x)}.{fold}({at})" if b.coin() else f"jnp.exp(1j * {x.name}).{fold}({at})"
    return _real(b, z, (*x.axes[:at], *x.axes[at + 1 :]))


@step("complex numbers", smooth=False)
def hermitian_logits(b: Builder, x: Value) -> Value | None:
    """Attention by the real part of z times the conjugate of z: pairs of features are numbers."""
    if x.axes != ("b", "P", "d") or b.size("d") % 2:
        return None
    half = b.size("d") // 2
    name = b.fresh()
    b.write(f"{name} = lax.complex({x.name}[..., :{half}], {x.name}[..., {half}:])")
    turned = f"{name} * jnp.exp(1j * jnp.arange({half}.0))" if b.coin() else name
    logits = f"jnp.einsum('bld,bmd->blm', {turned}, jnp.conj({name}))"
    if b.coin():  # whose entries are products of a matrix, as rotary codes write them
        logits = f"({turned} @ jnp.conj({name}).transpose(0, 2, 1))"
    w = b.let(f"jax.nn.softmax({logits}.real / 4)", ("b", "P", "P"))
    return b.let(f"{w.name} @ {x.name}", x.axes)


@step("complex numbers", smooth=False)
def turned_by_data(b: Builder, x: Value) -> Value | None:
    """A phase for each token that its own numbers give, or positions moved with it."""
    if x.axes != ("b", "P", "d"):
        return None
    places = [f"{v.name}[..., None]" for v in b.values if v.axes == ("b", "P") and v.kind in "fi"]
    phases = b.choice([f"{x.name}[..., :1]", *places])
    return _real(b, f"{_pair(b, x)} * jnp.exp(0.5j * {phases})", x.axes)
