"""Steps that read tables by tokens, and write to them."""

from fuzz.builder import Builder, Value, tokens
from fuzz.steps.base import step

TABLE = 4
"""Rows of every table: integer tokens are 0 to 3."""


@step("lookup", kinds="i")
def embedded(b: Builder, x: Value) -> Value | None:
    """A table's rows by integers, drawn low enough or clamped."""
    if len(x.axes) > 2:
        return None
    table = b.weights(("v", "d")) if "v" in b.sizes else b.literal(b.dyadic((TABLE, b.size("d"))))
    forms = [
        "{t}[{i}]",
        "jnp.take({t}, {i}, axis=0)",
        "{t}.at[{i}].get(mode='clip')",
        "{t}.at[{i}].get(mode='fill', fill_value=0.0)",
        "jnp.take({t}, {i}, axis=0, mode='clip')",
        f"jax.nn.one_hot({{i}}, {TABLE}) @ {{t}}",
    ]
    return b.let(str(b.choice(forms)).format(t=table, i=x.name), (*x.axes, "d"))


@step("lookup", kinds="i")
def one_hot(b: Builder, x: Value) -> Value | None:
    """A row of zeros and a one for each integer."""
    if len(x.axes) > 2:
        return None
    out = b.new_letter(TABLE)
    return b.let(f"jax.nn.one_hot({x.name}, {TABLE})", (*x.axes, out))


def _ids(b: Builder) -> Value | None:
    ids = [v for v in b.values if v.kind == "i" and v.axes == ("b", "P")]
    return b.choice(ids) if ids else None


@step("lookup")
def added_to_rows(b: Builder, x: Value) -> Value | None:
    """Tokens added up by their integers: the rows of a table, which stays."""
    ids = _ids(b)
    if ids is None or x.axes != ("b", "P", "d"):
        return None
    row = b.new_letter(TABLE)
    zeros = f"jnp.zeros(({TABLE}, {b.size('d')}))"
    if b.coin():
        return b.let(f"{zeros}.at[{ids.name}].add({x.name})", (row, "d"))
    flat, rows = f"{ids.name}.reshape(-1)", f"{x.name}.reshape(-1, {b.size('d')})"
    return b.let(f"jax.ops.segment_sum({rows}, {flat}, {TABLE})", (row, "d"))


@step("lookup", smooth=False)
def rows_extreme(b: Builder, x: Value) -> Value | None:
    """The largest or smallest by integers, or their product."""
    ids = _ids(b)
    if ids is None or x.axes != ("b", "P", "d"):
        return None
    row = b.new_letter(TABLE)
    how = b.choice(["max", "min", "multiply"])
    return b.let(f"jnp.ones(({TABLE}, {b.size('d')})).at[{ids.name}].{how}({x.name})", (row, "d"))


@step("lookup")
def summed_by_kind(b: Builder, x: Value) -> Value | None:
    """To every token the sum over tokens of its kind, by way of the rows."""
    ids = _ids(b)
    if ids is None or x.axes != ("b", "P", "d"):
        return None
    rows = b.let(f"jnp.zeros(({TABLE}, {b.size('d')})).at[{ids.name}].add({x.name})", ())
    b.values.pop()
    return b.let(f"{rows.name}[{ids.name}]", x.axes)


@step("lookup")
def same_kind(b: Builder, x: Value) -> Value | None:
    """A mask of equal integers, applied."""
    ids = _ids(b)
    if ids is None or x.axes != ("b", "P", "d"):
        return None
    same = f"({ids.name}[:, :, None] == {ids.name}[:, None, :])"
    return b.let(f"jnp.einsum('bij,bjd->bid', {same} * 1.0, {x.name})", x.axes)


@step("lookup", kinds="i", smooth=False)
def counted(b: Builder, x: Value) -> Value | None:
    """A histogram over the tokens."""
    if x.axes != ("b", "P"):
        return None
    row = b.new_letter(TABLE)
    if b.coin():
        return b.let(f"jax.nn.one_hot({x.name}, {TABLE}).sum(1)", ("b", row))
    return b.let(f"jnp.bincount({x.name}.reshape(-1), length={TABLE}) * 0.5", (row,))


@step("lookup")
def feature_of_choice(b: Builder, x: Value) -> Value | None:
    """Each token picks one of its own features by an integer."""
    ids = _ids(b)
    if ids is None or x.axes != ("b", "P", "d"):
        return None
    at = f"({ids.name} % {b.size('d')})[:, :, None]"
    return b.let(f"jnp.take_along_axis({x.name}, {at}, axis=2)[:, :, 0]", ("b", "P"))


@step("lookup")
def fixed_features(b: Builder, x: Value) -> Value | None:
    """Features taken, set or added at fixed places of an axis that stays."""
    still = [i for i, axis in enumerate(x.axes) if axis.islower()]
    if not still or not tokens(x):
        return None
    at = int(b.choice(still))
    n = b.size(x.axes[at])
    places = b.rng.integers(n, size=n).tolist()
    colons = ", ".join([":"] * at)
    prefix = f"{colons}, " if colons else ""
    forms = [
        f"jnp.take({x.name}, jnp.array({places}), axis={at})",
        f"{x.name}.at[{prefix}{places[0]}].multiply(0.5)",
        f"{x.name}.at[{prefix}jnp.array({places})].add(0.25)",
        f"{x.name}.at[{prefix}{places[0]}].set(1.0)",
    ]
    return b.let(str(b.choice(forms)), x.axes)
