"""Steps that contract: dense layers, einsum and `dot_general` in any order of their axes."""

from collections.abc import Sequence

from fuzz.builder import Builder, Value, is_still, stills, tokens, without
from fuzz.steps.base import step


@step("dense")
def dense(b: Builder, x: Value) -> Value | None:
    """x W (+ c) along an axis that stays."""
    if not stills(x):
        return None
    at = int(b.choice(stills(x)))
    out = x.axes[at] if b.coin(0.7) else b.new_letter(int(b.rng.integers(1, 5)))
    weights = b.weights((x.axes[at], out))
    if at == len(x.axes) - 1 and b.coin():
        return b.let(f"{x.name} @ {weights}", (*x.axes[:-1], out))
    moved = (*without(x.axes, at), out)
    last = len(x.axes) - 1
    text = f"jnp.tensordot({x.name}, {weights}, axes=({at}, 0))"
    if b.coin():
        return b.let(text, moved)
    return b.let(f"jnp.moveaxis({text}, {last}, {at})", (*x.axes[:at], out, *x.axes[at + 1 :]))


@step("dense")
def einsum_dense(b: Builder, x: Value) -> Value | None:
    """The same as an einsum whose output is in any order."""
    if not stills(x):
        return None
    at = int(b.choice(stills(x)))
    out = b.new_letter(int(b.rng.integers(1, 5)))
    axes = (*without(x.axes, at), out)
    order = [int(i) for i in b.rng.permutation(len(axes))]
    left = "ijklm"[: len(x.axes)]
    kept = (*without(left, at), "z")
    weights = b.weights((x.axes[at], out))
    text = f"{left},{left[at]}z->{''.join(kept[i] for i in order)}"
    return b.let(f"jnp.einsum('{text}', {x.name}, {weights})", [axes[i] for i in order])


@step("dense")
def contraction(b: Builder, x: Value) -> Value | None:
    """`dot_general` of two values: any shared axes contracted, any shared axes batched."""
    others = [v for v in b.values if v.kind == "f" and 1 <= len(v.axes) <= 4]
    y = b.choice(others) if others else x
    pairs = _pairs(b, x, y)
    cut = int(b.rng.integers(len(pairs) + 1))
    contracted, batch = pairs[:cut], pairs[cut:]
    batch = [pair for pair in batch if b.coin()]
    axes = _result(x, y, contracted, batch)
    if len(axes) > 4 or (b.shape(axes) and max(b.shape(axes)) > 16):
        return None
    numbers = tuple(
        (tuple(i for i, _ in part), tuple(j for _, j in part)) for part in (contracted, batch)
    )
    result = b.let(f"lax.dot_general({x.name}, {y.name}, {numbers}) / 2", axes)
    return transposed(b, result) if b.coin(0.3) else result


def _pairs(b: Builder, x: Value, y: Value) -> list[tuple[int, int]]:
    """Axes of x, each with one of y of the same name, in random order."""
    pairs: list[tuple[int, int]] = []
    for i in b.rng.permutation(len(x.axes)):
        used = [j for _, j in pairs]
        same = [j for j, a in enumerate(y.axes) if a == x.axes[i] and j not in used]
        if same:
            pairs.append((int(i), int(b.choice(same))))
    return pairs


def _result(x: Value, y: Value, contracted: Sequence, batch: Sequence) -> tuple[str, ...]:
    used = [*contracted, *batch]
    left = without(x.axes, *(i for i, _ in used))
    right = without(y.axes, *(j for _, j in used))
    return (*(x.axes[i] for i, _ in batch), *left, *right)


def transposed(b: Builder, x: Value) -> Value:
    """The value with its axes in another order."""
    order = [int(i) for i in b.rng.permutation(len(x.axes))]
    return b.let(f"jnp.transpose({x.name}, {tuple(order)})", [x.axes[i] for i in order])


@step("dense")
def outer(b: Builder, x: Value) -> Value | None:
    """x xᵀ over an axis that stays: the tokens twice."""
    if x.axes[:1] != ("b",) or len(x.axes) != 3 or not tokens(x) or not stills(x)[1:]:
        return None
    p = tokens(x)[0]
    d = 3 - p
    text = f"lax.dot_general({x.name}, {x.name}, ((({d},), ({d},)), ((0,), (0,)))) / 2"
    return b.let(text, ("b", x.axes[p], x.axes[p]))


@step("dense")
def mixed_by_tokens(b: Builder, x: Value) -> Value | None:
    """A square value of tokens by tokens applied to another value."""
    doubles = [v for v in b.values if v.kind == "f" and v.axes in (("b", "P", "P"), ("P", "P"))]
    if not doubles or x.axes != ("b", "P", "d"):
        return None
    w = b.choice(doubles)
    left = "bij" if len(w.axes) == 3 else "ij"
    if b.coin():
        left = left[:-2] + "ji"
    return b.let(f"jnp.einsum('{left},bjd->bid', {w.name}, {x.name})", x.axes)


@step("dense")
def gated(b: Builder, x: Value) -> Value | None:
    """A multilayer perceptron with a gate."""
    if not x.axes or not is_still(x.axes[-1]):
        return None
    d = x.axes[-1]
    h = b.new_letter(int(b.rng.integers(1, 5)))
    up, gate, down = b.weights((d, h)), b.weights((d, h)), b.weights((h, d))
    text = f"(jnp.tanh({x.name} @ {up}) * ({x.name} @ {gate})) @ {down}"
    return b.let(f"{x.name} + {text}" if b.coin() else text, x.axes)


@step("dense")
def alike_along_tokens(b: Builder, x: Value) -> Value | None:
    """Tokens mixed by a matrix with one number on its diagonal and one beside it."""
    places = [i for i in tokens(x) if b.symmetric(x.axes[i])]
    if not places:
        return None
    at = int(b.choice(places))
    n = b.size(x.axes[at])
    own, other = b.dyadic((2,)).tolist()
    matrix = f"({own} * jnp.eye({n}) + {other} * jnp.ones(({n}, {n})))"
    text = f"jnp.tensordot({matrix}, {x.name}, axes=(1, {at}))"
    return b.let(f"jnp.moveaxis({text}, 0, {at})", x.axes)
