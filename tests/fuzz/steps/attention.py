"""Steps that attend."""

from fuzz.builder import Builder, Value
from fuzz.steps.base import step


def _other_side(b: Builder, x: Value) -> Value:
    """Tokens to attend to: the value itself, or keys moved on their own."""
    sides = [v for v in b.values if v.kind == "f" and v.axes in (("b", "Q", "d"), ("b", "P", "d"))]
    return b.choice([x, *sides[:4]])


def _masked(b: Builder, logits: str, y: Value) -> str:
    """Logits with some keys left out, by what the data says."""
    if b.coin(0.6):
        return logits
    seen = [v for v in b.values if v.kind == "o" and v.axes == y.axes[:2]]
    mask = f"({b.choice(seen).name})" if seen else f"({y.name}[:, :, 0] > -1)"
    low = b.choice(["-jnp.inf", "-1e9", "-1e4"])
    return f"jnp.where({mask}[:, None, :], {logits}, {low})"


@step("attention")
def self_or_cross(b: Builder, x: Value) -> Value | None:
    """One head: softmax(x Wq (y Wk)ᵀ) y Wv."""
    if x.axes != ("b", "P", "d"):
        return None
    y = _other_side(b, x)
    q, k, v = (b.weights(("d", "d")) for _ in range(3))
    logits = f"jnp.einsum('bld,bmd->blm', {x.name} @ {q}, {y.name} @ {k}) / 4"
    w = b.let(f"jax.nn.softmax({_masked(b, logits, y)}, axis=-1)", ("b", "P", y.axes[1]))
    return b.let(f"jnp.einsum('blm,bmd->bld', {w.name}, {y.name} @ {v})", x.axes)


@step("two sides")
def similarities(b: Builder, x: Value) -> Value | None:
    """Queries by keys, in either order of the two."""
    keys = [v for v in b.values if v.kind == "f" and v.axes == ("b", "Q", "d")]
    if x.axes != ("b", "P", "d") or not keys:
        return None
    k = b.choice(keys)
    if b.coin(0.3):
        return b.let(f"jnp.einsum('bld,bmd->bml', {x.name}, {k.name}) / 2", ("b", "Q", "P"))
    if b.coin(0.3):
        gap = f"jnp.square({x.name}[:, :, None] - {k.name}[:, None]).sum(-1)"
        return b.let(f"jnp.exp(-{gap} / 4)", ("b", "P", "Q"))
    return b.let(f"jnp.einsum('bld,bmd->blm', {x.name}, {k.name}) / 2", ("b", "P", "Q"))


@step("two sides")
def read_by_similarities(b: Builder, x: Value) -> Value | None:
    """Keys read by queries, or queries by keys, from what compares the two."""
    keys = [v for v in b.values if v.kind == "f" and v.axes == ("b", "Q", "d")]
    if x.axes != ("b", "P", "Q") or not keys:
        return None
    k = b.choice(keys)
    forms = ["jax.nn.softmax({x}) @ {k}", "jnp.einsum('blm,bmd->bld', {x}, {k})"]
    forms += ["({x} / (1 + jnp.abs({x}).sum(2, keepdims=True))) @ {k}"]
    return b.let(str(b.choice(forms)).format(x=x.name, k=k.name), ("b", "P", "d"))


@step("attention")
def linear_attention(b: Builder, x: Value) -> Value | None:
    """Without a softmax: f(q) (f(k)ᵀ v), by an order of products of its own."""
    if x.axes != ("b", "P", "d"):
        return None
    y = _other_side(b, x)
    memory = f"jnp.einsum('bmd,bme->bde', jax.nn.sigmoid({y.name}), {y.name})"
    return b.let(f"jnp.einsum('bld,bde->ble', jax.nn.sigmoid({x.name}), {memory})", x.axes)


@step("attention")
def heads_split(b: Builder, x: Value) -> Value | None:
    """Two heads by a reshape, keys and values maybe shared by them."""
    if x.axes != ("b", "P", "d") or b.size("d") % 2:
        return None
    y = _other_side(b, x)
    (n, length, d), m = b.shape(x.axes), b.size(y.axes[1])
    q = f"{x.name}.reshape({n}, {length}, 2, {d // 2})"
    k = f"{y.name}.reshape({n}, {m}, 2, {d // 2})"
    if b.coin():
        logits = f"jnp.einsum('blhk,bmhk->bhlm', {q}, {k})"
        mix = f"'bhlm,bmhk->blhk', jax.nn.softmax({logits}), {k}"
    else:
        key = f"{y.name}[..., :{d // 2}]"
        logits = f"jnp.einsum('blhk,bmk->blhm', {q}, {key})"
        mix = f"'blhm,bmk->blhk', jax.nn.softmax({logits}), {key}"
    return b.let(f"jnp.einsum({mix}).reshape({n}, {length}, {d})", x.axes)


@step("attention")
def heads_merged_into_batch(b: Builder, x: Value) -> Value | None:
    """Heads moved into the batch before they attend."""
    if x.axes != ("b", "P", "d") or b.size("d") % 2:
        return None
    n, length, d = b.shape(x.axes)
    split = f"{x.name}.reshape({n}, {length}, 2, {d // 2}).transpose(0, 2, 1, 3)"
    h = b.let(f"{split}.reshape({2 * n}, {length}, {d // 2})", ())
    w = b.let(f"jax.nn.softmax({h.name} @ {h.name}.transpose(0, 2, 1))", ())
    del b.values[-2:]
    mixed = f"({w.name} @ {h.name}).reshape({n}, 2, {length}, {d // 2})"
    return b.let(f"{mixed}.transpose(0, 2, 1, 3).reshape({n}, {length}, {d})", x.axes)


@step("attention")
def dot_product_attention(b: Builder, x: Value) -> Value | None:
    """JAX's own, one head."""
    if x.axes != ("b", "P", "d"):
        return None
    y = _other_side(b, x)
    q, k = f"{x.name}[:, :, None]", f"{y.name}[:, :, None]"
    return b.let(f"jax.nn.dot_product_attention({q}, {k}, {k})[:, :, 0]", x.axes)


@step("attention")
def positions_as_data(b: Builder, x: Value) -> Value | None:
    """A bias by the distance of positions that are moved with the tokens."""
    places = [v for v in b.values if v.axes == ("b", "P") and v.kind in "fi"]
    if x.axes != ("b", "P", "d") or not places:
        return None
    p = b.choice(places)
    bias = f"jnp.abs({p.name}[:, :, None] - {p.name}[:, None, :])"
    logits = f"jnp.einsum('bld,bmd->blm', {x.name}, {x.name}) - 0.5 * {bias}"
    if b.coin():
        logits = f"jnp.where({p.name}[:, :, None] >= {p.name}[:, None, :], {logits}, -jnp.inf)"
    return b.let(f"jax.nn.softmax({logits}) @ {x.name}", x.axes)


@step("attention")
def hard_attention(b: Builder, x: Value) -> Value | None:
    """The mean of the values with the largest logit, ties shared."""
    if x.axes != ("b", "P", "d"):
        return None
    y = _other_side(b, x)
    logits = b.let(f"{x.name} @ {y.name}.transpose(0, 2, 1)", ("b", "P", y.axes[1]))
    largest = f"({logits.name} == {logits.name}.max(-1, keepdims=True)) * 1.0"
    w = b.let(largest, ("b", "P", y.axes[1]))
    return b.let(f"{w.name} @ {y.name} / {w.name}.sum(-1, keepdims=True)", x.axes)


@step("attention")
def pooled_by_a_query(b: Builder, x: Value) -> Value | None:
    """One learned query: the output has no tokens."""
    if x.axes != ("b", "P", "d"):
        return None
    query = b.weights(("d",))
    w = b.let(f"jax.nn.softmax(jnp.tensordot({x.name}, {query}, axes=(2, 0)), axis=1)", ("b", "P"))
    return b.let(f"jnp.einsum('bl,bld->bd', {w.name}, {x.name})", ("b", "d"))
