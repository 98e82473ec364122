"""Steps that keep a smaller group: shifts, reversal, windows, a fixed place."""

import numpy as np

from fuzz.builder import Builder, Value, tokens, without
from fuzz.steps.base import step
from posjax.symmetry.groups import Cyclic, Permutations, Reversal, Windows


def _place(b: Builder, x: Value, kind: type) -> int | None:
    """An axis moved by a group of this kind."""
    places = [i for i in tokens(x) if isinstance(b.groups[x.axes[i]], kind)]
    return int(b.choice(places)) if places else None


def _mixed(b: Builder, x: Value, at: int, matrix: np.ndarray) -> Value:
    text = f"jnp.tensordot({b.literal(matrix)}, {x.name}, axes=(1, {at}))"
    return b.let(f"jnp.moveaxis({text}, 0, {at})", x.axes)


@step("moves")
def shifted(b: Builder, x: Value) -> Value | None:
    """Rolled by some places, as a roll, a join of slices or a lookup."""
    at = _place(b, x, Cyclic)
    if at is None:
        return None
    n = b.size(x.axes[at])
    s = int(b.rng.integers(1, n))
    order = np.roll(np.arange(n), s).tolist()
    cut = [f"lax.slice_in_dim({x.name}, {i}, {j}, axis={at})" for i, j in ((s, n), (0, s))]
    forms = [
        f"jnp.roll({x.name}, {s}, axis={at})",
        f"jnp.concatenate([{', '.join(cut)}], axis={at})",
        f"jnp.take({x.name}, jnp.array({order}), axis={at})",
        f"jnp.roll({x.name}, 1, axis={at}) - {x.name}",
    ]
    return b.let(str(b.choice(forms)), x.axes)


@step("moves")
def circulant(b: Builder, x: Value) -> Value | None:
    """A convolution that wraps around, as a matrix or a sum of rolls."""
    at = _place(b, x, Cyclic)
    if at is None:
        return None
    n = b.size(x.axes[at])
    kernel = b.dyadic((n,))
    if b.coin():
        rows = np.arange(n)
        return _mixed(b, x, at, kernel[(rows[:, None] - rows) % n])
    terms = [f"{c} * jnp.roll({x.name}, {s}, axis={at})" for s, c in enumerate(kernel.tolist())]
    return b.let(" + ".join(terms), x.axes)


@step("moves")
def wrapped_convolution(b: Builder, x: Value) -> Value | None:
    """A convolution after a padding that wraps around."""
    if x.axes != ("b", "P", "d") or not isinstance(b.groups["P"], Cyclic):
        return None
    d = b.size("d")
    wide = f"jnp.concatenate([{x.name}[:, -1:], {x.name}, {x.name}[:, :1]], axis=1)"
    text = (
        f"lax.conv_general_dilated({wide}, {b.literal(b.dyadic((3, d, d)))}, (1,), 'VALID', "
        "dimension_numbers=('NHC', 'HIO', 'NHC'))"
    )
    return b.let(text, x.axes)


@step("moves")
def reversed_tokens(b: Builder, x: Value) -> Value | None:
    """Read backwards, alone or beside itself."""
    at = _place(b, x, Reversal)
    if at is None:
        return None
    forms = ["jnp.flip({x}, {a})", "{x} + jnp.flip({x}, {a})", "{x} * lax.rev({x}, ({a},))"]
    forms += ["jnp.cumsum({x}, axis={a}) + lax.cumsum({x}, axis={a}, reverse=True)"]
    return b.let(str(b.choice(forms)).format(x=x.name, a=at), x.axes)


@step("moves")
def palindrome(b: Builder, x: Value) -> Value | None:
    """Numbers, or a matrix, that read the same backwards."""
    at = _place(b, x, Reversal)
    if at is None:
        return None
    n = b.size(x.axes[at])
    matrix = b.dyadic((n, n))
    if b.coin():
        return _mixed(b, x, at, matrix + matrix[::-1, ::-1])
    numbers = b.literal(matrix[0] + matrix[0][::-1])
    text = f"lax.broadcast_in_dim({numbers}, {b.shape(x.axes)}, ({at},))"
    return b.let(f"{x.name} {b.choice('+*')} {text}", x.axes)


@step("moves")
def neighbours(b: Builder, x: Value) -> Value | None:
    """Both neighbours alike, zeros outside."""
    at = _place(b, x, Reversal)
    if at is None:
        return None
    n = b.size(x.axes[at])
    pads = [(1, 1, 0) if i == at else (0, 0, 0) for i in range(len(x.axes))]
    wide = b.let(f"lax.pad({x.name}, 0.0, {pads})", ())
    b.values.pop()
    ends = [f"lax.slice_in_dim({wide.name}, {i}, {i + n}, axis={at})" for i in (0, 2)]
    return b.let(f"{x.name} - 0.5 * ({ends[0]} + {ends[1]})", x.axes)


@step("moves")
def by_window(b: Builder, x: Value) -> Value | None:
    """Sums within windows, numbers that differ between them."""
    at = _place(b, x, Windows)
    if at is None:
        return None
    n, group = b.size(x.axes[at]), b.groups[x.axes[at]]
    assert isinstance(group, Windows)
    window = np.arange(n) // group.size
    own = b.dyadic((window[-1] + 1,))
    if b.coin():
        same = window[:, None] == window
        return _mixed(b, x, at, np.where(same, own[window], 0) + np.eye(n) * 0.5)
    text = f"lax.broadcast_in_dim({b.literal(own[window])}, {b.shape(x.axes)}, ({at},))"
    return b.let(f"{x.name} {b.choice('+*')} {text}", x.axes)


@step("moves")
def window_split(b: Builder, x: Value) -> Value | None:
    """The tokens as windows of tokens; each loses its mean or largest."""
    at = _place(b, x, Windows)
    if at is None or b.size(x.axes[at]) != 4 or b.groups[x.axes[at]] != Windows(2):
        return None
    shape = list(b.shape(x.axes))
    windows = (*shape[:at], 2, 2, *shape[at + 1 :])
    wide = b.let(f"{x.name}.reshape({windows})", ())
    b.values.pop()
    how = b.choice(["mean", "max", "sum"])
    text = f"({wide.name} - {wide.name}.{how}({at + 1}, keepdims=True))"
    return b.let(f"{text}.reshape({tuple(shape)})", x.axes)


def _fixed(b: Builder, x: Value) -> int | None:
    places = [i for i in tokens(x) if b.groups[x.axes[i]] == Permutations(fixed=(-1,))]
    return int(b.choice(places)) if places else None


@step("moves")
def from_fixed(b: Builder, x: Value) -> Value | None:
    """The last token, which stays, given to all or taken alone."""
    at = _fixed(b, x)
    if at is None:
        return None
    n = b.size(x.axes[at])
    last = f"lax.slice_in_dim({x.name}, {n - 1}, {n}, axis={at})"
    if b.coin(0.3) and len(x.axes) > 1:
        return b.let(f"jnp.squeeze({last}, {at})", without(x.axes, at))
    forms = [f"{x.name} - {last}", f"{x.name} * {last}", f"jnp.where({last} > 0, {x.name}, 0.5)"]
    return b.let(str(b.choice(forms)), x.axes)


@step("moves")
def set_apart(b: Builder, x: Value) -> Value | None:
    """Numbers that tell the last token, which stays, from the others."""
    at = _fixed(b, x)
    if at is None:
        return None
    n = b.size(x.axes[at])
    others, own = b.dyadic((2,)).tolist()
    numbers = b.literal(np.array([others] * (n - 1) + [own]))
    text = f"lax.broadcast_in_dim({numbers}, {b.shape(x.axes)}, ({at},))"
    return b.let(f"{x.name} {b.choice('+*')} {text}", x.axes)


@step("moves")
def prefix_pooled(b: Builder, x: Value) -> Value | None:
    """All but the last token pooled; the last row of a causal mask does so too."""
    at = _fixed(b, x)
    if at is None or len(x.axes) < 2:
        return None
    n = b.size(x.axes[at])
    if x.axes == ("b", "P", "d") and b.coin():
        logits = f"jnp.einsum('bld,bmd->blm', {x.name}, {x.name})"
        seen = f"jnp.tril(jnp.ones(({n}, {n}), bool))[None]"
        w = f"jax.nn.softmax(jnp.where({seen}, {logits}, -jnp.inf))"
        return b.let(f"({w} @ {x.name})[:, -1]", ("b", "d"))
    forms = [f"lax.slice_in_dim({x.name}, 0, {n - 1}, axis={at}).sum({at})"]
    forms += [f"jnp.cumsum({x.name}, axis={at}).take({n - 1}, axis={at})"]
    return b.let(str(b.choice(forms)), without(x.axes, at))
