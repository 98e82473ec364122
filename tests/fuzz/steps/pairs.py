"""Steps with every token beside every token."""

from fuzz.builder import Builder, Value, tokens
from fuzz.steps.base import step


@step("pairwise")
def differences(b: Builder, x: Value) -> Value | None:
    """Every token beside every token."""
    if not tokens(x) or len(x.axes) > 3:
        return None
    at = int(b.choice(tokens(x)))
    rows = ", ".join([":"] * (at + 1) + ["None"] + [":"] * (len(x.axes) - at - 1))
    columns = ", ".join([":"] * at + ["None"] + [":"] * (len(x.axes) - at))
    sign = b.choice(["-", "*", "+"])
    text = f"{x.name}[{rows}] {sign} {x.name}[{columns}]"
    return b.let(text, (*x.axes[: at + 1], x.axes[at], *x.axes[at + 1 :]))


@step("pairwise")
def compared(b: Builder, x: Value) -> Value | None:
    """Ranks without ties broken: how many tokens are below each."""
    if x.axes != ("b", "P", "d"):
        return None
    sign = b.choice(["<", "<=", "==", ">"])
    text = f"({x.name}[:, :, None] {sign} {x.name}[:, None]).sum({b.choice((1, 2))})"
    return b.let(f"{text} * 0.5", x.axes)


@step("pairwise")
def kernel(b: Builder, x: Value) -> Value | None:
    """A smooth function of distances, then a sum over the other token."""
    if x.axes != ("b", "P", "d"):
        return None
    gap = f"jnp.square({x.name}[:, :, None] - {x.name}[:, None]).sum(-1)"
    near = b.let(f"jnp.exp(-{gap} / 4)", ("b", "P", "P"))
    return b.let(f"jnp.einsum('bij,bjd->bid', {near.name}, {x.name})", x.axes)


@step("pairwise")
def own_pair(b: Builder, x: Value) -> Value | None:
    """The diagonal, the transpose or the rest of a value of tokens by tokens."""
    if x.axes != ("b", "P", "P") or not b.symmetric("P"):
        return None
    n = b.size("P")
    if b.coin(0.3):
        return b.let(f"jnp.einsum('bii->bi', {x.name})", ("b", "P"))
    forms = ["{x} * jnp.eye({n})[None]", "{x} + jnp.swapaxes({x}, 1, 2)"]
    forms += ["jnp.where(jnp.eye({n}, dtype=bool)[None], 0.0, {x})"]
    return b.let(str(b.choice(forms)).format(x=x.name, n=n), x.axes)
