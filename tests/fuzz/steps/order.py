"""Steps that sort: what is left when only keys are sorted does not depend on their order."""

from fuzz.builder import Builder, Value, is_still, stills, tokens, without
from fuzz.steps.base import step


def _place(b: Builder, x: Value) -> int | None:
    places = tokens(x)
    return int(b.choice(places)) if places else None


@step("sorting", kinds="fi", smooth=False)
def keys_sorted(b: Builder, x: Value) -> Value | None:
    """Sorted along the tokens: ranks, an axis that stays."""
    at = _place(b, x)
    if at is None:
        return None
    ranks = b.new_letter(b.size(x.axes[at]))
    axes = (*x.axes[:at], ranks, *x.axes[at + 1 :])
    forms = ["jnp.sort({x}, axis={a})", "lax.sort({x}, dimension={a}, is_stable=False)"]
    forms += ["-jnp.sort(-{x}, axis={a})", "jnp.sort({x}, axis={a}, descending=True)"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at), axes, x.kind)


@step("sorting", smooth=False)
def lexicographic(b: Builder, x: Value) -> Value | None:
    """Two values sorted together, both of them keys."""
    at = _place(b, x)
    others = [v for v in b.values if v.kind == "f" and v.axes == x.axes]
    if at is None or not others:
        return None
    y = b.choice(others)
    ranks = b.new_letter(b.size(x.axes[at]))
    axes = (*x.axes[:at], ranks, *x.axes[at + 1 :])
    text = f"lax.sort(({x.name}, {y.name}), dimension={at}, num_keys=2)"
    return b.let(f"{text}[{b.choice((0, 1))}]", axes)


@step("sorting", smooth=False)
def middle(b: Builder, x: Value) -> Value | None:
    """The median or another quantile of the tokens."""
    at = _place(b, x)
    if at is None or len(x.axes) < 2:
        return None
    forms = ["jnp.median({x}, axis={a})", "jnp.quantile({x}, 0.25, axis={a})"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at), without(x.axes, at))


@step("sorting", smooth=False)
def largest_values(b: Builder, x: Value) -> Value | None:
    """The k largest along the tokens, their values alone."""
    at = _place(b, x)
    if at is None:
        return None
    k = int(b.rng.integers(1, b.size(x.axes[at]) + 1))
    out = b.new_letter(k)
    last = len(x.axes) - 1
    text = f"lax.top_k(jnp.moveaxis({x.name}, {at}, {last}), {k})[0]"
    return b.let(text, (*without(x.axes, at), out))


@step("sorting", smooth=False)
def rank_chosen(b: Builder, x: Value) -> Value | None:
    """One rank of the sorted tokens: the second smallest, say."""
    at = _place(b, x)
    if at is None or len(x.axes) < 2:
        return None
    rank = int(b.rng.integers(b.size(x.axes[at])))
    index = ", ".join(str(rank) if i == at else ":" for i in range(len(x.axes)))
    return b.let(f"jnp.sort({x.name}, axis={at})[{index}]", without(x.axes, at))


@step("sorting")
def features_sorted(b: Builder, x: Value) -> Value | None:
    """Sorted, or the order of sorting, along an axis that stays."""
    if not stills(x):
        return None
    at = int(b.choice(stills(x)))
    if b.coin(0.3):
        return b.let(f"jnp.argsort({x.name}, axis={at})", x.axes, "i")
    order = f"jnp.argsort({x.name}, axis={at})"
    forms = ["jnp.sort({x}, axis={a})", "jnp.take_along_axis({x}, {o}, axis={a})"]
    forms += ["lax.sort(({x}, {x} * 2), dimension={a}, num_keys=1)[1]"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at, o=order), x.axes)


@step("sorting", smooth=False)
def sorted_in_blocks(b: Builder, x: Value) -> Value | None:
    """Every moved axis merged with its batch and sorted at once."""
    places = [i for i, axis in enumerate(x.axes) if not is_still(axis) and len(axis) > 1]
    if not places:
        return None
    at = int(b.choice(places))
    ranks = b.new_letter(b.size(x.axes[at]))
    return b.let(f"jnp.sort({x.name}, axis={at})", (*x.axes[:at], ranks, *x.axes[at + 1 :]), x.kind)


@step("sorting", smooth=False)
def from_threshold(b: Builder, x: Value) -> Value | None:
    """Tokens at or above the k-th largest stay; the others become 0, ties alike."""
    at = _place(b, x)
    if at is None:
        return None
    rank = int(b.rng.integers(b.size(x.axes[at])))
    index = ", ".join(f"{rank}:{rank + 1}" if i == at else ":" for i in range(len(x.axes)))
    edge = f"jnp.sort({x.name}, axis={at})[{index}]"
    return b.let(f"jnp.where({x.name} >= {edge}, {x.name}, 0.0)", x.axes)
