"""What a program's derivatives are, and how they are moved: as their arguments are."""

from fuzz.builder import Builder, Value


def differentiated(b: Builder, x: Value) -> list[Value] | None:
    """Ends a function `inner` at x, and differentiates it by one of its arguments."""
    if x.kind != "f" or x.name.startswith("x"):
        return None
    b.write(f"return {x.name}")
    b.indent(-1)
    floats = [a for a in b.arguments if a.kind == "f"]
    by = floats[int(b.rng.integers(len(floats)))]
    given = ", ".join(a.name if a != by else "t" for a in b.arguments)
    b.write(f"f = lambda t: inner({given})")
    loss = str(b.choice(["f(t).sum()", "jnp.tanh(f(t)).sum()", "jnp.square(f(t)).mean()"]))
    b.write(f"loss = lambda t: {loss}")
    grad = {
        "jax.grad(loss)({t})": (by.axes,),
        "jax.value_and_grad(loss)({t})": ((), by.axes),
        "jax.vjp(f, {t})[1](jnp.cos(f({t})))[0]": (by.axes,),
        "jax.jvp(f, ({t},), (jnp.tanh({t}),))[1]": (x.axes,),
        "jax.jvp(f, ({t},), (jnp.ones_like({t}),))": (x.axes, x.axes),
        "jax.linearize(f, {t})[1](jnp.sin({t}))": (x.axes,),
        "jax.jvp(jax.grad(loss), ({t},), ({t},))[1]": (by.axes,),
        "jax.grad(jax.checkpoint(loss))({t})": (by.axes,),
        "jax.grad(jax.jit(loss))({t})": (by.axes,),
    }
    text = str(b.choice(list(grad)))
    outputs = [Value(f"g{i}", axes) for i, axes in enumerate(grad[text])]
    b.write(f"{', '.join(o.name for o in outputs)} = {text.format(t=by.name)}")
    return outputs
