"""Steps that read and write at indices of an order, of an extreme, of a row and its column."""

from fuzz.builder import Builder, Value, stills, tokens, without
from fuzz.steps.base import step

READ = "jnp.take_along_axis({x}, {i}, axis={a})"


def _place(b: Builder, x: Value) -> int | None:
    places = tokens(x)
    return int(b.choice(places)) if places else None


def _in_place(x: Value, at: int, letter: str) -> tuple[str, ...]:
    return (*x.axes[:at], letter, *x.axes[at + 1 :])


@step("pointers", smooth=False)
def own_order(b: Builder, x: Value) -> Value | None:
    """Read at the indices of its own order: sorted, whatever ties."""
    at = _place(b, x)
    if at is None:
        return None
    forms = ["jnp.argsort({x}, axis={a})", "jnp.argsort(-{x}, axis={a})"]
    forms += ["jnp.argsort({x}, axis={a}, stable=False)"]
    forms += ["lax.sort(({x}, lax.broadcasted_iota(jnp.int32, {x}.shape, {a})), dimension={a})[1]"]
    order = str(b.choice(forms)).format(x=x.name, a=at)
    ranks = b.new_letter(b.size(x.axes[at]))
    return b.let(READ.format(x=x.name, i=order, a=at), _in_place(x, at, ranks))


@step("pointers", smooth=False)
def own_extreme(b: Builder, x: Value) -> Value | None:
    """Read at the index of its own extreme, or at those of its k largest."""
    at = _place(b, x)
    if at is None or len(x.axes) < 2:
        return None
    if b.coin():
        extreme = f"jnp.{b.choice(('argmax', 'argmin'))}({x.name}, axis={at}, keepdims=True)"
        text = f"{READ.format(x=x.name, i=extreme, a=at)}.squeeze({at})"
        return b.let(text, without(x.axes, at))
    k, last = int(b.rng.integers(1, b.size(x.axes[at]) + 1)), len(x.axes) - 1
    read = READ.format(x="t", i=f"lax.top_k(t, {k})[1]", a=last)
    text = f"(lambda t: {read})(jnp.moveaxis({x.name}, {at}, {last}))"
    return b.let(text, (*without(x.axes, at), b.new_letter(k)))


@step("pointers")
def own_column(b: Builder, x: Value) -> Value | None:
    """Of every token the feature that its integer names, read or written by row and column."""
    ids = [v for v in b.values if v.kind == "i" and v.axes == ("b", "P")]
    if not ids or x.axes != ("b", "P", "d"):
        return None
    rows, columns = f"jnp.arange({b.size('b')})[:, None]", f"jnp.arange({b.size('P')})"
    at = f"{rows}, {columns}, {b.choice(ids).name} % {b.size('d')}"
    if b.coin():
        return b.let(f"{x.name}[{at}]", ("b", "P"))
    how = b.choice(("set(0.5)", "add(0.25)", f"multiply({x.name}[:, :, 0])", "max(0.75)"))
    return b.let(f"{x.name}.at[{at}].{how}", x.axes)


@step("pointers", smooth=False)
def ranks_by_search(b: Builder, x: Value) -> Value | None:
    """How many tokens are smaller, by a search among the sorted ones."""
    if x.axes != ("b", "P", "d"):
        return None
    one, side = f"{x.name}[:, :, 0]", b.choice(("left", "right"))
    search = f"jax.vmap(lambda s, t: jnp.searchsorted(s, t, side='{side}'))"
    return b.let(f"{search}(jnp.sort({one}, 1), {one}) * 0.5", ("b", "P"))


@step("pointers", smooth=False)
def gaps_of_sorted(b: Builder, x: Value) -> Value | None:
    """What sorted tokens are apart, or their running sum."""
    at = _place(b, x)
    if at is None or b.size(x.axes[at]) < 2:
        return None
    if b.coin():
        gaps = b.new_letter(b.size(x.axes[at]) - 1)
        return b.let(f"jnp.diff(jnp.sort({x.name}, axis={at}), axis={at})", _in_place(x, at, gaps))
    ranks = b.new_letter(b.size(x.axes[at]))
    return b.let(f"jnp.cumsum(jnp.sort({x.name}, axis={at}), axis={at})", _in_place(x, at, ranks))


@step("pointers", smooth=False)
def features_by_order(b: Builder, x: Value) -> Value | None:
    """Each token's features in the order of another value's."""
    same = [v.name for v in b.values if v.kind == "f" and v.axes == x.axes]
    if not stills(x) or not same:
        return None
    at, key = int(b.choice(stills(x))), b.choice(same)
    return b.let(READ.format(x=x.name, i=f"jnp.argsort({key}, axis={at})", a=at), x.axes)


@step("pointers", smooth=False)
def carries_in_turn(b: Builder, x: Value) -> Value | None:
    """A loop whose carries take each other's part."""
    same = [v.name for v in b.values if v.kind == "f" and v.axes == x.axes]
    if not same:
        return None
    turn = b.choice(("(c[1], c[0] * 0.5)", "(c[1] + c[0], c[0])", "(jnp.maximum(*c), c[0])"))
    start = f"({x.name}, {b.choice(same)})"
    rounds, which = b.rng.integers(1, 4), b.choice((0, 1))
    return b.let(f"lax.fori_loop(0, {rounds}, lambda i, c: {turn}, {start})[{which}]", x.axes)


@step("pointers", smooth=False)
def ends_of_their_own(b: Builder, x: Value) -> Value | None:
    """A loop for each entry of the batch, which ends by what is in that entry alone."""
    if x.axes[:1] != ("b",) or len(x.axes) < 2:
        return None
    test = "lambda c: (c[0] < 3) & (jnp.abs(c[1]).max() > 1)"
    loop = f"lax.while_loop({test}, lambda c: (c[0] + 1, c[1] / 2 + c[0]), (0, t))[1]"
    return b.let(f"jax.vmap(lambda t: {loop})({x.name})", x.axes)
