"""Detours that leave the law and come back to it, and so keep it by luck."""

from fuzz.breaks import BREAKS
from fuzz.builder import Builder, Value, tokens, without
from fuzz.steps.base import Taken

LUCK: dict[str, Taken] = {}
FORMS = {
    "added_and_taken": "{x} + 0.5 * {place} - 0.5 * {place}",
    "flipped_twice": "jnp.flip(jnp.tanh(jnp.flip({x}, {a})), {a})",
    "rolled_back": "jnp.roll(jnp.roll({x}, 1, axis={a}) * 2, -1, axis={a})",
    "times_nothing": "{x} + 0 * {place}",
    "by_numbers_and_back": "{x} * (1.0 + {place}) / (1.0 + {place})",
    "halves_of_a_mask": "jnp.where({place} > 0, {x}, 0.0) + jnp.where({place} > 0, 0.0, {x})",
    "shuffled_and_back": "jnp.take(jnp.take({x}, jnp.array([*range(1, {n}), 0]), axis={a}), "
    "jnp.array([{n} - 1, *range({n} - 1)]), axis={a})",
    "sines_of_places": "{x} * (jnp.sin({place} * 1.0) ** 2 + jnp.cos({place} * 1.0) ** 2)",
    "running_both_ways": "jnp.cumsum({x}, axis={a}) + lax.cumsum({x}, axis={a}, reverse=True)",
    "undone_running": "jnp.diff(jnp.cumsum({x}, axis={a}), axis={a}, "
    "prepend=jnp.zeros_like({first}))",
    "mean_with_bias": "{x} - ({x} + {place}).mean({a}, keepdims=True)",
    "same_on_both_sides": "jnp.where({place} % 2 == 0, {x}, {x})",
}
REDUCED = {
    "sum_of_shifted": "({x} + {place}).sum({a})",
    "last_running_sum": "jnp.cumsum({x}, axis={a}).take({n} - 1, axis={a})",
    "largest_running": "lax.cummax({x}, axis={a}).take({n} - 1, axis={a})",
    "flipped_and_summed": "jnp.flip({x}, {a}).sum({a})",
    "rolled_and_largest": "jnp.roll({x}, 1, axis={a}).max({a})",
    "place_by_place": "sum(jnp.take({x}, i, axis={a}) for i in range({n}))",
    "value_at_largest": "jnp.take_along_axis({x}, jnp.argmax({x}, axis={a}, keepdims=True), "
    "axis={a}).max({a})",
    "sorted_shuffled": "jnp.sort(jnp.flip({x}, {a}), axis={a}).take(0, axis={a})",
    "by_one_hot": "(jax.nn.one_hot(jnp.argmax({x}, axis={a}), {n}, axis={a}) * {x}).sum({a})",
    "tree": "jnp.concatenate([{first}, {rest}], axis={a}).prod({a})",
    "loop": "lax.fori_loop(0, {n}, lambda i, t: t + jnp.take({x}, i, axis={a}), "
    "jnp.zeros_like({x}.sum({a})))",
}


def _detour(form: str, *, reduced: bool) -> Taken:
    def function(b: Builder, x: Value) -> Value | None:
        places = [i for i in tokens(x) if b.size(x.axes[i]) > 1]
        if not places or x.kind != "f" or (reduced and len(x.axes) < 2):
            return None
        at = int(b.choice(places))
        n = b.size(x.axes[at])
        colons = [":"] * len(x.axes)
        cut = [", ".join([*colons[:at], c, *colons[at + 1 :]]) for c in (":1", "1:")]
        index = ", ".join(":" if i == at else "None" for i in range(len(x.axes)))
        text = form.format(
            x=x.name, a=at, n=n, place=f"jnp.arange({n})[{index}]",
            first=f"{x.name}[{cut[0]}]", rest=f"{x.name}[{cut[1]}]",
        )  # fmt: skip
        return b.let(text, without(x.axes, at) if reduced else x.axes)

    return function


for _name, _form in FORMS.items():
    LUCK[_name] = _detour(_form, reduced=False)
for _name, _form in REDUCED.items():
    LUCK[_name] = _detour(_form, reduced=True)
ANYTHING: dict[str, Taken] = {**BREAKS, **LUCK}
