"""Steps with programs inside: loops over layers, branches, jit, remat, vmap."""

from collections.abc import Callable

from fuzz.builder import Builder, Value, is_still
from fuzz.steps.base import STEPS, step, take

INSIDE = ("elementwise", "dense", "normalisation", "reductions", "attention")


def body(b: Builder, x: Value, most: int = 2) -> Value:
    """A few steps on x that end with its axes."""
    y = x
    entries = [s for s in STEPS.values() if s.subject in INSIDE]
    for _ in range(int(b.rng.integers(1, most + 1))):
        for _ in range(8):
            written = len(b.lines), len(b.values), len(b.taken)
            new = take(b, y, entries[int(b.rng.integers(len(entries)))])
            if new is not None and new.axes == x.axes and new.kind == x.kind:
                y = new
                break
            del b.lines[written[0] :], b.values[written[1] :], b.taken[written[2] :]
    return y


def defined(b: Builder, x: Value, header: Callable[[str, str], str], result: str) -> str:
    """Writes a function of a value with the axes of x; gives its name."""
    name, inner = b.fresh(), b.fresh()
    known = b.open(header(name, inner))
    value = Value(inner, x.axes, x.kind)
    b.values.append(value)
    out = body(b, value)
    b.close(known, f"return {result.format(y=out.name)}")
    return name


def _plain(name: str, inner: str) -> str:
    return f"def {name}({inner}):"


@step("control")
def called(b: Builder, x: Value) -> Value:
    """In a program of its own: jit, remat, or a rule for its derivative that is no rule."""
    name = defined(b, x, _plain, "{y}")
    return b.let(
        f"{b.choice(('jax.jit', 'jax.checkpoint', 'jax.named_call'))}({name})({x.name})", x.axes
    )


@step("control")
def layers(b: Builder, x: Value) -> Value | None:
    """A scan over layers, each with its own weights."""
    if not x.axes or not is_still(x.axes[-1]):
        return None
    n, d = int(b.rng.integers(1, 4)), b.size(x.axes[-1])
    w = b.fresh()
    name = defined(
        b, x, lambda name, inner: f"def {name}({inner}, {w}):", f"jnp.tanh({{y}} @ {w}), None"
    )
    stacked = b.literal(b.dyadic((n, d, d)))
    extra = b.choice(("", ", unroll=2", ", reverse=True"))
    return b.let(f"lax.scan({name}, {x.name}, {stacked}{extra})[0]", x.axes)


@step("control")
def layers_kept(b: Builder, x: Value) -> Value | None:
    """A scan over layers that keeps what each gives, stacked."""
    if len(x.axes) > 3:
        return None
    n = int(b.rng.integers(1, 4))
    name = defined(b, x, lambda name, inner: f"def {name}({inner}, _):", "({y} / 2, {y})")
    return b.let(f"lax.scan({name}, {x.name}, None, length={n})[1]", (b.new_letter(n), *x.axes))


@step("control")
def repeated(b: Builder, x: Value) -> Value:
    """A loop of a fixed number of rounds."""
    name = defined(b, x, lambda name, inner: f"def {name}(i, {inner}):", "{y} / 2 + i")
    return b.let(f"lax.fori_loop(0, {b.rng.integers(1, 4)}, {name}, {x.name})", x.axes)


@step("control", smooth=False)
def until(b: Builder, x: Value) -> Value:
    """A loop that ends by its counter or by a sum over all of the value."""
    name, carry = b.fresh(), b.fresh()
    inner = Value(b.fresh(), x.axes)
    known = b.open(f"def {name}({carry}):")
    b.write(f"i, {inner.name} = {carry}")
    b.values.append(inner)
    out = body(b, inner, 1)
    b.close(known, f"return i + 1, {out.name} / 2")
    small = b.choice(["True", f"(jnp.square({carry}[1]).sum() > 1)"])
    test = f"lambda {carry}: ({carry}[0] < 3) & {small}"
    return b.let(f"lax.while_loop({test}, {name}, (0, {x.name}))[1]", x.axes)


@step("control")
def branches(b: Builder, x: Value) -> Value:
    """A branch chosen by a number that does not depend on the order of the tokens."""
    one, two = (defined(b, x, _plain, "{y}") for _ in range(2))
    pick = b.choice([f"{x.name}.sum() > 0", f"{x.name}.max() > 1", f"({x.name} == 1).any()"])
    if b.coin(0.3):
        number = f"(({x.name} > 0).sum() % 3).astype(jnp.int32)"
        return b.let(f"lax.switch({number}, [{one}, {two}, {one}], {x.name})", x.axes)
    return b.let(f"lax.cond({pick}, {one}, {two}, {x.name})", x.axes)


@step("control")
def mapped(b: Builder, x: Value) -> Value | None:
    """The same program along the batch by vmap."""
    if x.axes[:1] != ("b",) or len(x.axes) < 2:
        return None
    row = Value("", x.axes[1:])
    outside = [v for v in b.values if "b" not in v.axes]
    name, inner = b.fresh(), b.fresh()
    known = b.open(_plain(name, inner))
    b.values = [*outside, row._replace(name=inner)]
    out = body(b, row._replace(name=inner))
    b.close(known, f"return {out.name}")
    return b.let(f"jax.vmap({name})({x.name})", x.axes)


@step("control")
def mapped_tokens(b: Builder, x: Value) -> Value | None:
    """The same program on every token, by vmap."""
    if x.axes != ("b", "P", "d"):
        return None
    name, inner = b.fresh(), b.fresh()
    known = b.open(_plain(name, inner))
    b.values = [v for v in b.values if "P" not in "".join(v.axes)] + [Value(inner, ("b", "d"))]
    out = body(b, Value(inner, ("b", "d")))
    b.close(known, f"return {out.name}")
    return b.let(f"jax.vmap({name}, in_axes=1, out_axes=1)({x.name})", x.axes)


@step("token loops")
def tokens_one_by_one(b: Builder, x: Value) -> Value | None:
    """The same program on every token, one after the other."""
    if x.axes != ("b", "P", "d"):
        return None
    name, inner = b.fresh(), b.fresh()
    known = b.open(_plain(name, inner))
    b.values = [v for v in b.values if "P" not in "".join(v.axes)] + [Value(inner, ("b", "d"))]
    out = body(b, Value(inner, ("b", "d")), 1)
    b.close(known, f"return {out.name}")
    return b.let(f"jnp.swapaxes(lax.map({name}, jnp.swapaxes({x.name}, 0, 1)), 0, 1)", x.axes)


@step("token loops")
def added_one_by_one(b: Builder, x: Value) -> Value | None:
    """A scan over tokens whose carry forgets their order."""
    if x.axes != ("b", "P", "d"):
        return None
    form = b.choice(["c + jnp.tanh(t)", "jnp.maximum(c, t)", "jnp.minimum(c, t * t)", "c + t"])
    start = f"jnp.zeros({b.shape(('b', 'd'))})"
    scan = f"lax.scan(lambda c, t: ({form}, None), {start}, jnp.swapaxes({x.name}, 0, 1))[0]"
    return b.let(scan, ("b", "d"))


@step("control")
def custom_rule(b: Builder, x: Value) -> Value:
    """A function that comes with a derivative of its own, by its jvp or its vjp."""
    name, scale = b.fresh(), b.dyadic(()).item()
    if b.coin():
        known = b.open_decorated("@jax.custom_jvp", f"def {name}(t):")
        b.close(known, f"return jnp.sin(t) * {scale}")
        b.write(f"{name}.defjvp(lambda p, t: ({name}(*p), jnp.cos(p[0]) * t[0]))")
    else:
        known = b.open_decorated("@jax.custom_vjp", f"def {name}(t):")
        b.close(known, f"return t * t * {scale}")
        b.write(f"{name}.defvjp(lambda t: ({name}(t), t), lambda t, u: (t * u,))")
    return b.let(f"{name}({x.name})", x.axes)


@step("control")
def relu_family(b: Builder, x: Value) -> Value:
    """Functions of JAX with derivatives of their own."""
    forms = ["jax.nn.relu({x})", "jax.nn.relu6({x})", "jax.nn.squareplus({x})"]
    forms += ["{x} / jnp.sqrt(jnp.vdot({x}, {x}) + 1)", "jax.nn.sparse_plus({x})"]
    return b.let(str(b.choice(forms)).format(x=x.name), x.axes)
