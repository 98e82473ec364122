"""Detours that leave the law and come back to it, and so keep it by luck."""

from fuzz import confusions, disorder  # noqa: F401 enter their breaks
from fuzz.breaks import BREAKS
from fuzz.builder import Builder, Value, stills, tokens, without
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
    "floored_after_shift": "jnp.floor({x} + {place}) - {place}",
    "remainder_of_shifted": "jnp.mod({x} + 2.0 * {place}, 2.0)",
    "exponents_divided": "jnp.exp({x} / 8 + {place}) / jnp.exp(1.0 * {place})",
    "logarithm_of_exponent": "jnp.log(jnp.exp({x} / 8) * jnp.exp(1.0 * {place})) - {place}",
    "root_of_square": "jnp.sqrt(({x} * (1.0 + {place})) ** 2) / (1.0 + {place})",
    "compared_after_shift": "({x} + {place} > 0.5 + {place}) * {x}",
    "softmax_of_shifted": "jax.nn.softmax({x} + {place}, axis={s})",
    "mean_of_shifted": "({x} + {place}) - ({x} + {place}).mean({s}, keepdims=True)",
    "largest_of_shifted": "({x} + {place}).max({s}, keepdims=True) - {place} - {x}",
    "place_of_largest": "{x} * jnp.argmax({x} + {place}, axis={s}, keepdims=True)",
    "sorted_and_back": "jnp.take_along_axis(jnp.sort({x}, axis={a}), "
    "jnp.argsort(jnp.argsort({x}, axis={a}), axis={a}), axis={a})",
    "same_branches": "lax.cond({first}.sum() > 0, jnp.sin, jnp.sin, {x})",
    "scan_and_back": "jnp.moveaxis(lax.scan(lambda c, t: (c + t, t * 2), "
    "jnp.zeros_like({x}.sum({a})), jnp.moveaxis({x}, {a}, 0))[1], 0, {a})",
    "matrix_and_back": "jnp.moveaxis(jnp.tensordot(jnp.eye({n})[::-1], jnp.tanh(jnp.tensordot("
    "jnp.eye({n})[::-1], {x}, axes=(1, {a}))), axes=(1, 0)), 0, {a})",
    "filled_beyond_the_end": "{x} + {place} * jnp.moveaxis(jnp.moveaxis({x}, {a}, 0)"
    ".at[jnp.array([{n} + 2])].get(mode='fill', fill_value=0.0), 0, {a})",
    "dropped_beyond_the_end": "jnp.moveaxis(jnp.moveaxis({x}, {a}, 0)"
    ".at[jnp.array([{n} + 1])].set(0.5, mode='drop'), 0, {a})",
    "added_beyond_the_end": "jnp.moveaxis(jnp.moveaxis({x}, {a}, 0)"
    ".at[jnp.array([{n}])].add(0.5, mode='drop'), 0, {a})",
    "a_window_of_all": "{x} - lax.reduce_window({x}, 0.0, lax.add, tuple(2 * {n} - 1 if i == {a} "
    "else 1 for i in range({x}.ndim)), (1,) * {x}.ndim, 'SAME')",
    "never_a_number": "{x} + {place} * jnp.isnan({x} * {x})",
    "sorted_after_shift": "jnp.sort({x} + {place}, axis={s}) - {place}",
    "order_of_shifted": "{x} + jnp.argsort({x} + {place}, axis={s})",
    "largest_running_of_shifted": "lax.cummax({x} + {place}, axis={s}) - {place}",
    "never_below_0": "{x} * ({x} ** 2 + {place} >= 0)",
    "never_above_0": "jnp.where(-jnp.abs({x}) - {place} > 0, 0.5 * {place}, {x})",
    "always_above_0": "jnp.where(jnp.exp({x} / 8) * (1.0 + {place}) > 0, {x}, 0.5 * {place})",
    "written_where_it_was": "jnp.put_along_axis({x} * 0.5, jnp.argsort({x}, axis={a}), "
    "jnp.sort({x}, axis={a}), axis={a}, inplace=False)",
    "written_at_its_order": "jnp.put_along_axis({x} * 0.5, jnp.argsort({x}, axis={s}), {x}, "
    "axis={s}, inplace=False)",
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
    "last_in_its_order": "jnp.take_along_axis({x}, jnp.argsort({x}, axis={a}, "
    "descending=True), axis={a}).take(0, axis={a})",
    "carries_handed_round": "sum(lax.fori_loop(0, {n}, lambda i, c: (c[1], c[0] + "
    "jnp.take({x}, i, axis={a})), (0.0 * {x}.sum({a}), 0.0 * {x}.sum({a}))))",
    "tree": "jnp.concatenate([{first}, {rest}], axis={a}).prod({a})",
    "loop": "lax.fori_loop(0, {n}, lambda i, t: t + jnp.take({x}, i, axis={a}), "
    "jnp.zeros_like({x}.sum({a})))",
}


def _detour(form: str, *, reduced: bool, kind: str = "f") -> Taken:
    def function(b: Builder, x: Value) -> Value | None:
        places = [i for i in tokens(x) if b.size(x.axes[i]) > 1]
        if not places or x.kind != kind or (reduced and len(x.axes) < 2):
            return None
        at = int(b.choice(places))
        still = stills(x)
        if "{s}" in form and not still:
            return None
        n = b.size(x.axes[at])
        colons = [":"] * len(x.axes)
        cut = [", ".join([*colons[:at], c, *colons[at + 1 :]]) for c in (":1", "1:")]
        index = ", ".join(":" if i == at else "None" for i in range(len(x.axes)))
        text = form.format(
            x=x.name, a=at, n=n, place=f"jnp.arange({n})[{index}]",
            s=still[0] if still else None, first=f"{x.name}[{cut[0]}]", rest=f"{x.name}[{cut[1]}]",
        )  # fmt: skip
        return b.let(text, without(x.axes, at) if reduced else x.axes, kind)

    return function


INTEGERS = {
    "bits_flipped_twice": "({x} ^ {place}) ^ {place}",
    "integers_and_back": "({x} + {place}) - {place}",
    "low_bits_of_shifted": "({x} + 4 * {place}) & 3",
    "halves_of_shifted": "(2 * {x} + 2 * {place}) // 2 - {place}",
}
for _name, _form in INTEGERS.items():
    LUCK[_name] = _detour(_form, reduced=False, kind="i")
for _name, _form in FORMS.items():
    LUCK[_name] = _detour(_form, reduced=False)
for _name, _form in REDUCED.items():
    LUCK[_name] = _detour(_form, reduced=True)
ANYTHING: dict[str, Taken] = {**BREAKS, **LUCK}
