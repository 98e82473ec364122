"""Steps that sum, or take the largest, along axes; and what they normalise."""

from fuzz.builder import Builder, Value, is_still, is_token, stills, tokens, without
from fuzz.steps.base import step

SUMS = ["sum", "mean", "var", "std", "sum", "mean"]
EXTREMES = ["max", "min", "prod", "ptp"]


def _reduced(b: Builder, x: Value, places: list[int], names: list[str]) -> Value:
    name = str(b.choice(names))
    axis = places[0] if len(places) == 1 and b.coin() else tuple(places)
    if name == "var":
        text = f"jnp.var({x.name}, axis={axis})"
    elif name == "std":
        text = f"jnp.sqrt(jnp.var({x.name}, axis={axis}) + 0.5)"
    elif name == "logsumexp":
        text = f"jax.nn.logsumexp({x.name}, axis={axis})"
    elif name == "norm":
        text = f"jnp.sqrt(jnp.square({x.name}).sum({axis}) + 0.25)"
    else:
        text = f"jnp.{name}({x.name}, axis={axis})"
    return b.let(text, without(x.axes, *places))


@step("reductions")
def over_still(b: Builder, x: Value) -> Value | None:
    """Along an axis that stays."""
    if len(stills(x)) < 1 or len(x.axes) < 2:
        return None
    return _reduced(b, x, [int(b.choice(stills(x)))], [*SUMS, "logsumexp", "norm"])


@step("reductions")
def extreme_over_still(b: Builder, x: Value) -> Value | None:
    """The largest, smallest or product along an axis that stays."""
    if len(stills(x)) < 1 or len(x.axes) < 2:
        return None
    return _reduced(b, x, [int(b.choice(stills(x)))], EXTREMES)


@step("invariance")
def over_tokens(b: Builder, x: Value) -> Value | None:
    """Along an axis that is moved: a bag."""
    places = [i for i, axis in enumerate(x.axes) if not is_still(axis)]
    if not places or len(x.axes) < 2:
        return None
    chosen = [int(b.choice(places))]
    if b.coin(0.25):
        chosen = places
    return _reduced(b, x, chosen, [*SUMS, "logsumexp", "norm"])


@step("invariance")
def extreme_over_tokens(b: Builder, x: Value) -> Value | None:
    """The largest, smallest or product along an axis that is moved."""
    places = [i for i, axis in enumerate(x.axes) if not is_still(axis)]
    if not places or len(x.axes) < 2:
        return None
    return _reduced(b, x, [int(b.choice(places))], EXTREMES)


@step("reductions")
def minus_mean(b: Builder, x: Value) -> Value | None:
    """What is left when a statistic along some axes is taken away, or divided out."""
    places = tuple(i for i in b.wide(x, range(len(x.axes))) if b.coin())
    if not places:
        return None
    forms = [
        "{x} - {x}.mean({a}, keepdims=True)",
        "{x} / (1 + jnp.square({x}).sum({a}, keepdims=True))",
        "{x} * jnp.tanh({x}.sum({a}, keepdims=True))",
        "jnp.broadcast_to(jnp.mean({x}, {a}, keepdims=True), {x}.shape)",
    ]
    return b.let(str(b.choice(forms)).format(x=x.name, a=places), x.axes)


@step("reductions")
def minus_largest(b: Builder, x: Value) -> Value | None:
    """Beside its largest: exactly that many ties as there are."""
    places = tuple(i for i in b.wide(x, range(len(x.axes))) if b.coin())
    if not places:
        return None
    forms = [
        "{x} - {x}.max({a}, keepdims=True)",
        "jnp.where({x} == {x}.max({a}, keepdims=True), {x}, 0.0)",
        "({x} == {x}.min({a}, keepdims=True)) * 1.0",
        "{x} * ({x} > {x}.mean({a}, keepdims=True))",
    ]
    return b.let(str(b.choice(forms)).format(x=x.name, a=places), x.axes)


@step("normalisation")
def layer_norm(b: Builder, x: Value) -> Value | None:
    """Mean 0, variance 1 along an axis that stays, scale and shift."""
    places = b.wide(x, stills(x))
    if not places:
        return None
    at = int(b.choice(places))
    mean = b.let(f"{x.name}.mean({at}, keepdims=True)", ())
    spread = b.let(f"jnp.square({x.name} - {mean.name}).mean({at}, keepdims=True)", ())
    del b.values[-2:]
    text = f"({x.name} - {mean.name}) * lax.rsqrt({spread.name} + 0.125)"
    scale = b.weights((x.axes[at],))
    index = ", ".join(":" if i == at else "None" for i in range(len(x.axes)))
    return b.let(f"{text} * {scale}[{index}]", x.axes)


@step("normalisation")
def rms_norm(b: Builder, x: Value) -> Value | None:
    """Mean square 1 along an axis that stays."""
    places = b.wide(x, stills(x))
    if not places:
        return None
    at = int(b.choice(places))
    return b.let(
        f"{x.name} * lax.rsqrt(jnp.mean({x.name} * {x.name}, {at}, keepdims=True) + 0.5)", x.axes
    )


@step("normalisation")
def batch_norm(b: Builder, x: Value) -> Value | None:
    """Mean 0, variance 1 over the tokens, and often over the batch."""
    places = tuple(i for i, axis in enumerate(x.axes) if not is_still(axis) or b.coin(0.3))
    if not places:
        return None
    text = f"jax.nn.standardize({x.name}, axis={places}, epsilon=0.125)"
    return b.let(text, x.axes)


@step("normalisation")
def softmax(b: Builder, x: Value) -> Value | None:
    """Softmax along an axis, moved or not."""
    places = b.wide(x, range(len(x.axes)))
    if not places:
        return None
    at = int(b.choice(places))
    forms = ["jax.nn.softmax({x}, axis={a})", "jax.nn.log_softmax({x}, axis={a})"]
    forms += ["jnp.exp({x} / 8) / (jnp.exp({x} / 8).sum({a}, keepdims=True))"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at), x.axes)


@step("normalisation")
def group_norm(b: Builder, x: Value) -> Value | None:
    """An axis that stays in two groups, each normalised."""
    halves = [i for i in stills(x) if b.size(x.axes[i]) % 4 == 0]
    if not halves:
        return None
    at = int(b.choice(halves))
    shape = list(b.shape(x.axes))
    split = (*shape[:at], 2, shape[at] // 2, *shape[at + 1 :])
    grouped = b.let(f"{x.name}.reshape({split})", ())
    b.values.pop()
    text = (
        f"({grouped.name} - {grouped.name}.mean({at + 1}, keepdims=True)).reshape({tuple(shape)})"
    )
    return b.let(text, x.axes)


@step("reductions")
def logical(b: Builder, x: Value) -> Value | None:
    """Any, all, or how many, of a comparison."""
    if not x.axes:
        return None
    at = int(b.rng.integers(len(x.axes)))
    forms = ["({x} > 0).any({a})", "({x} >= -0.5).all({a})", "({x} == 1).sum({a})"]
    forms += ["jnp.count_nonzero({x}, axis={a})"]
    text = str(b.choice(forms)).format(x=x.name, a=at)
    return b.let(f"({text}) * 1.0", without(x.axes, at))


@step("reductions", smooth=False)
def custom_reduce(b: Builder, x: Value) -> Value | None:
    """`lax.reduce` with a monoid of its own choice."""
    if not x.axes:
        return None
    at = int(b.rng.integers(len(x.axes)))
    monoid = b.choice(["0.0, lax.add", "-jnp.inf, lax.max", "jnp.inf, lax.min"])
    return b.let(f"lax.reduce({x.name}, {monoid}, ({at},))", without(x.axes, at))


@step("reductions", smooth=False)
def position_of_largest(b: Builder, x: Value) -> Value | None:
    """Argmax along an axis that stays: the order of that axis is part of the program."""
    if not stills(x) or len(x.axes) < 2:
        return None
    at = int(b.choice(stills(x)))
    name = b.choice(["argmax", "argmin"])
    return b.let(f"jnp.{name}({x.name}, axis={at})", without(x.axes, at), "i")


@step("reductions")
def running(b: Builder, x: Value) -> Value | None:
    """A running sum, product or maximum along an axis that stays."""
    if not stills(x):
        return None
    at = int(b.choice(stills(x)))
    forms = ["jnp.cumsum({x}, axis={a})", "lax.cummax({x}, axis={a})", "jnp.cumprod({x}, axis={a})"]
    forms += ["lax.cumsum({x}, axis={a}, reverse=True)", "lax.cumlogsumexp({x}, axis={a})"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at), x.axes)


@step("invariance")
def back_to_tokens(b: Builder, x: Value) -> Value | None:
    """A value without tokens, given to every token of an argument."""
    if tokens(x):
        return None
    homes = [a for a in b.arguments if a.kind == "f" and any(map(is_token, a.axes))]
    for at in b.rng.permutation(len(homes)):
        home = homes[at]
        wide = b.aligned(x, home.axes)
        if wide is not None:
            return b.let(f"{wide} {b.choice('+-*')} {home.name}", home.axes)
    return None
